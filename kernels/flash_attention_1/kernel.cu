// FlashAttention 1: K and V outside. One block serves one (batch, head); O, m and l travel through HBM at every
// tile, and O is normalised at each step. The launcher fills O with 0, m with -inf and l with 0 before.
//
// Grid (heads, batch). Q and O are (batch, heads, seqlen_q, D), K and V (batch, kv_heads, seqlen_k, D),
// m and l (batch, heads, seqlen_q); key_mask is (batch, seqlen_k), nonzero where visible, or null.
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)  // NVRTC has no <math.h>
#endif

// fmaxf would drop a NaN; a visible NaN must make its row NaN.
__device__ float max_nan(float a, float b) { return (a > b || a != a) ? a : b; }

template <int Br, int Bc, int D>
__global__ void flash_attention_1(const float* Q, const float* K, const float* V, const unsigned char* key_mask,
                                  float* O, float* m, float* l, int heads, int kv_heads, int seqlen_q,
                                  int seqlen_k, float scale, int causal) {
  __shared__ float Kj[Bc][D], Vj[Bc][D], Qi[Br][D], Sij[Br][Bc], mi[Br], li[Br], Oi[Br][D];
  __shared__ unsigned char maskj[Bc];
  const int tid = threadIdx.x, threads = blockDim.x;

  // step: block appears
  const int head = blockIdx.x, batch = blockIdx.y;
  const int Tr = (seqlen_q + Br - 1) / Br, Tc = (seqlen_k + Bc - 1) / Bc;
  const size_t queries = (size_t)(batch * heads + head) * seqlen_q;
  const size_t keys = (size_t)(batch * kv_heads + head / (heads / kv_heads)) * seqlen_k;

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

    for (int i = 0; i < Tr; i++) {
      const int rows = min(Br, seqlen_q - i * Br);
      const size_t query = queries + i * Br;

      // step: load Q, m, l, O
      for (int x = tid; x < rows * D; x += threads) {
        Qi[x / D][x % D] = Q[query * D + x];
        Oi[x / D][x % D] = O[query * D + x];
      }
      for (int r = tid; r < rows; r += threads) {
        mi[r] = m[query + r];
        li[r] = l[query + r];
      }
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
        const float l_old = alpha * li[r];
        float sum = 0.0f;
        for (int d = 0; d < D; d++) Oi[r][d] *= l_old;
        for (int c = 0; c < cols; c++) {
          const bool visible = maskj[c] && (!causal || j * Bc + c <= i * Br + r + seqlen_k - seqlen_q);
          const float p = Sij[r][c] == -INFINITY ? 0.0f : expf(Sij[r][c] - m_new);
          Sij[r][c] = p;
          sum += p;
          if (visible)  // 0 times a hidden NaN would be NaN
            for (int d = 0; d < D; d++) Oi[r][d] += p * Vj[c][d];
        }
        const float l_new = l_old + sum;
        for (int d = 0; d < D; d++) Oi[r][d] = l_new == 0.0f ? 0.0f : Oi[r][d] / l_new;
        li[r] = l_new;
        mi[r] = m_new;
      }
      __syncthreads();

      // step: store O, m, l
      for (int x = tid; x < rows * D; x += threads) O[query * D + x] = Oi[x / D][x % D];
      for (int r = tid; r < rows; r += threads) {
        m[query + r] = mi[r];
        l[query + r] = li[r];
      }
      __syncthreads();
    }
  }
}
