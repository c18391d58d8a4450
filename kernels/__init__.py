"""What is taught: one folder a kernel, each with a NumPy twin, on shared problems, inputs and a float64 oracle."""
