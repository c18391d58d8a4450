// Online softmax: the softmax of each row of X in two sweeps. The first finds the maximum m and the sum l
// together, rescaling l whenever m rises; the second writes Y.
//
// Grid (Tr, heads, batch). X and Y are (batch, heads, seqlen_q, seqlen_k).
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)  // NVRTC has no <math.h>
#endif

// fmaxf would drop a NaN; a NaN must make its row NaN.
__device__ float max_nan(float a, float b) { return (a > b || a != a) ? a : b; }

template <int Br, int Bc>
__global__ void online_softmax(const float* X, float* Y, int heads, int seqlen_q, int seqlen_k) {
  __shared__ float Xij[Br][Bc], mi[Br], li[Br];
  const int tid = threadIdx.x, threads = blockDim.x;

  // step: block appears
  const int i = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
  const int rows = min(Br, seqlen_q - i * Br), Tc = (seqlen_k + Bc - 1) / Bc;
  const size_t first = ((size_t)(batch * heads + head) * seqlen_q + i * Br) * seqlen_k;
  for (int r = tid; r < rows; r += threads) {
    mi[r] = -INFINITY;
    li[r] = 0.0f;
  }

  for (int j = 0; j < Tc; j++) {
    const int cols = min(Bc, seqlen_k - j * Bc);

    // step: load X
    for (int x = tid; x < rows * cols; x += threads)
      Xij[x / cols][x % cols] = X[first + (size_t)(x / cols) * seqlen_k + j * Bc + x % cols];
    __syncthreads();

    // step: update m, l
    for (int r = tid; r < rows; r += threads) {
      float m_new = mi[r];
      for (int c = 0; c < cols; c++) m_new = max_nan(m_new, Xij[r][c]);
      const float alpha = m_new == -INFINITY ? 1.0f : expf(mi[r] - m_new);
      float sum = 0.0f;
      for (int c = 0; c < cols; c++) sum += Xij[r][c] == -INFINITY ? 0.0f : expf(Xij[r][c] - m_new);
      li[r] = alpha * li[r] + sum;
      mi[r] = m_new;
    }
    __syncthreads();
  }

  for (int j = 0; j < Tc; j++) {
    const int cols = min(Bc, seqlen_k - j * Bc);

    // step: load X again
    for (int x = tid; x < rows * cols; x += threads)
      Xij[x / cols][x % cols] = X[first + (size_t)(x / cols) * seqlen_k + j * Bc + x % cols];
    __syncthreads();

    // step: write Y
    for (int x = tid; x < rows * cols; x += threads) {
      const int r = x / cols, c = x % cols;
      const float p = Xij[r][c] == -INFINITY ? 0.0f : expf(Xij[r][c] - mi[r]);
      Xij[r][c] = li[r] == 0.0f ? 0.0f : p / li[r];
      Y[first + (size_t)r * seqlen_k + j * Bc + c] = Xij[r][c];
    }
    __syncthreads();
  }
}
