// Flash decoding: one query, many keys. The keys are split among blocks; each split leaves an unnormalised O
// with its m and l, and a second launch combines them.
//
// Q and O are (batch, heads, 1, D), K and V (batch, kv_heads, seqlen_k, D), O_partial (batch, heads, splits, D),
// m_partial and l_partial (batch, heads, splits); key_mask is (batch, seqlen_k), nonzero where visible, or null.
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)  // NVRTC has no <math.h>
#endif

// fmaxf would drop a NaN; a visible NaN must make its row NaN.
__device__ float max_nan(float a, float b) { return (a > b || a != a) ? a : b; }

// Launch 1: a block a split. Grid (splits, heads, batch). Split s covers keys [s C, min((s + 1) C, seqlen_k)).
// A causal mask changes nothing: the one query stands at the end and sees every key.
template <int Bc, int D>
__global__ void split(const float* Q, const float* K, const float* V, const unsigned char* key_mask,
                      float* O_partial, float* m_partial, float* l_partial, int heads, int kv_heads, int seqlen_k,
                      float scale) {
  __shared__ float Qi[D], Kj[Bc][D], Vj[Bc][D], Sij[Bc], mi[1], li[1], Oi[D];
  __shared__ unsigned char maskj[Bc];
  __shared__ float alpha;
  const int tid = threadIdx.x, threads = blockDim.x;

  // step: block appears
  const int s = blockIdx.x, splits = gridDim.x, head = blockIdx.y, batch = blockIdx.z;
  const int C = max(1, (seqlen_k + splits - 1) / splits);
  const int start = (int)min((long long)s * C, (long long)seqlen_k), end = min(start + C, seqlen_k);
  const size_t row = (size_t)batch * heads + head;
  const size_t keys = (size_t)(batch * kv_heads + head / (heads / kv_heads)) * seqlen_k;

  // step: load Q, initialise
  for (int d = tid; d < D; d += threads) {
    Qi[d] = Q[row * D + d];
    Oi[d] = 0.0f;
  }
  if (tid == 0) {
    mi[0] = -INFINITY;
    li[0] = 0.0f;
  }
  __syncthreads();

  for (int first = start; first < end; first += Bc) {
    const int cols = min(Bc, end - first);

    // step: load K, V
    for (int x = tid; x < cols * D; x += threads) {
      Kj[x / D][x % D] = K[(keys + first) * D + x];
      Vj[x / D][x % D] = V[(keys + first) * D + x];
    }
    for (int c = tid; c < cols; c += threads) maskj[c] = key_mask ? key_mask[(size_t)batch * seqlen_k + first + c] : 1;
    __syncthreads();

    // step: fill Sij
    for (int c = tid; c < cols; c += threads) {
      float score = 0.0f;
      for (int d = 0; d < D; d++) score += Qi[d] * Kj[c][d];
      Sij[c] = maskj[c] ? scale * score : -INFINITY;
    }
    __syncthreads();

    // step: update m, l, O
    if (tid == 0) {
      float m_new = mi[0], sum = 0.0f;
      for (int c = 0; c < cols; c++) m_new = max_nan(m_new, Sij[c]);
      alpha = m_new == -INFINITY ? 1.0f : expf(mi[0] - m_new);
      for (int c = 0; c < cols; c++) {
        Sij[c] = Sij[c] == -INFINITY ? 0.0f : expf(Sij[c] - m_new);
        sum += Sij[c];
      }
      li[0] = alpha * li[0] + sum;
      mi[0] = m_new;
    }
    __syncthreads();
    for (int d = tid; d < D; d += threads) {
      Oi[d] *= alpha;
      for (int c = 0; c < cols; c++)
        if (maskj[c]) Oi[d] += Sij[c] * Vj[c][d];  // 0 times a hidden NaN would be NaN
    }
    __syncthreads();
  }

  // step: write the partial
  for (int d = tid; d < D; d += threads) O_partial[(row * splits + s) * D + d] = Oi[d];
  if (tid == 0) {
    m_partial[row * splits + s] = mi[0];
    l_partial[row * splits + s] = li[0];
  }
}

// Launch 2: a block a (batch, head). Grid (heads, batch). The partials pass through registers: a thread a column.
template <int D>
__global__ void combine(const float* O_partial, const float* m_partial, const float* l_partial, float* O, int heads,
                        int splits) {
  __shared__ float m[1], l[1];
  const int tid = threadIdx.x, threads = blockDim.x;

  // step: block appears
  const size_t row = (size_t)blockIdx.y * heads + blockIdx.x, first = row * splits;

  // step: global m
  if (tid == 0) {
    m[0] = -INFINITY;
    for (int s = 0; s < splits; s++) m[0] = max_nan(m[0], m_partial[first + s]);
  }
  __syncthreads();

  // step: global l
  if (tid == 0) {
    l[0] = 0.0f;
    for (int s = 0; s < splits; s++) {
      const float ms = m_partial[first + s];
      l[0] += (ms == -INFINITY ? 0.0f : expf(ms - m[0])) * l_partial[first + s];
    }
  }
  __syncthreads();

  for (int d = tid; d < D; d += threads) {
    // step: weighted O
    float o = 0.0f;
    for (int s = 0; s < splits; s++) {
      const float ms = m_partial[first + s];
      o += (ms == -INFINITY ? 0.0f : expf(ms - m[0])) * O_partial[(first + s) * D + d];
    }
    // step: divide and write
    O[row * D + d] = l[0] == 0.0f ? 0.0f : o / l[0];
  }
}
