"""The engines that run the same `kernel.cu`: on a GPU through CuPy, on the host behind a shim, or from a capture."""
