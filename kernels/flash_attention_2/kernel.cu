// FlashAttention 2: Q outside. One block keeps one query tile and its carries m, l and O, lets every tile of
// K and V stream past, and divides once at the end.
//
// Grid (Tr, heads, batch). Q and O are (batch, heads, seqlen_q, D), K and V (batch, kv_heads, seqlen_k, D),
// lse (batch, heads, seqlen_q); key_mask is (batch, seqlen_k), nonzero where visible, or null.
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)  // NVRTC has no <math.h>
#endif

// fmaxf would drop a NaN; a visible NaN must make its row NaN.
__device__ float max_nan(float a, float b) { return (a > b || a != a) ? a : b; }

template <int Br, int Bc, int D>
__global__ void flash_attention_2(const float* Q, const float* K, const float* V, const unsigned char* key_mask,
                                  float* O, float* lse, int heads, int kv_heads, int seqlen_q, int seqlen_k,
                                  float scale, int causal) {
  __shared__ float Qi[Br][D], Kj[Bc][D], Vj[Bc][D], Sij[Br][Bc], mi[Br], li[Br], Oi[Br][D];
  __shared__ unsigned char maskj[Bc];
  const int tid = threadIdx.x, threads = blockDim.x;

  // step: block appears
  const int i = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
  const int rows = min(Br, seqlen_q - i * Br), Tc = (seqlen_k + Bc - 1) / Bc;
  const size_t query = (size_t)(batch * heads + head) * seqlen_q + i * Br;
  const size_t keys = (size_t)(batch * kv_heads + head / (heads / kv_heads)) * seqlen_k;

  // step: load Q, initialise
  for (int x = tid; x < rows * D; x += threads) {
    Qi[x / D][x % D] = Q[query * D + x];
    Oi[x / D][x % D] = 0.0f;
  }
  for (int r = tid; r < rows; r += threads) {
    mi[r] = -INFINITY;
    li[r] = 0.0f;
  }
  __syncthreads();

  for (int j = 0; j < Tc; j++) {
    const int cols = min(Bc, seqlen_k - j * Bc);

    // step: load K, V
    for (int x = tid; x < cols * D; x += threads) {
      Kj[x / D][x % D] = K[(keys + j * Bc) * D + x];
      Vj[x / D][x % D] = V[(keys + j * Bc) * D + x];
    }
    for (int c = tid; c < cols; c += threads)
      maskj[c] = key_mask ? key_mask[(size_t)batch * seqlen_k + j * Bc + c] : 1;
    __syncthreads();

    // step: fill Sij
    for (int x = tid; x < rows * cols; x += threads) {
      const int r = x / cols, c = x % cols;
      const bool visible = maskj[c] && (!causal || j * Bc + c <= i * Br + r + seqlen_k - seqlen_q);
      float s = 0.0f;
      for (int d = 0; d < D; d++) s += Qi[r][d] * Kj[c][d];
      Sij[r][c] = visible ? scale * s : -INFINITY;
    }
    __syncthreads();

    // step: update m, l, O
    for (int r = tid; r < rows; r += threads) {
      float m_new = mi[r];
      for (int c = 0; c < cols; c++) m_new = max_nan(m_new, Sij[r][c]);
      const float alpha = m_new == -INFINITY ? 1.0f : expf(mi[r] - m_new);
      float sum = 0.0f;
      for (int d = 0; d < D; d++) Oi[r][d] *= alpha;
      for (int c = 0; c < cols; c++) {
        const bool visible = maskj[c] && (!causal || j * Bc + c <= i * Br + r + seqlen_k - seqlen_q);
        const float p = Sij[r][c] == -INFINITY ? 0.0f : expf(Sij[r][c] - m_new);
        Sij[r][c] = p;
        sum += p;
        if (visible)  // 0 times a hidden NaN would be NaN
          for (int d = 0; d < D; d++) Oi[r][d] += p * Vj[c][d];
      }
      li[r] = alpha * li[r] + sum;
      mi[r] = m_new;
    }
    __syncthreads();
  }

  // step: divide and store O, lse
  for (int x = tid; x < rows * D; x += threads) {
    const float l = li[x / D];
    Oi[x / D][x % D] = l == 0.0f ? 0.0f : Oi[x / D][x % D] / l;
    O[query * D + x] = Oi[x / D][x % D];
  }
  for (int r = tid; r < rows; r += threads) lse[query + r] = li[r] == 0.0f ? -INFINITY : mi[r] + logf(li[r]);
}
