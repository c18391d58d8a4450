// Standard attention: three launches, with S and P written to HBM and read back.
//
// Q and O are (batch, heads, seqlen_q, D), K and V (batch, kv_heads, seqlen_k, D), S and P (batch, heads,
// seqlen_q, seqlen_k); key_mask is (batch, seqlen_k), nonzero where visible, or null.
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)  // NVRTC has no <math.h>
#endif

// fmaxf would drop a NaN; a visible NaN must make its row NaN.
__device__ float max_nan(float a, float b) { return (a > b || a != a) ? a : b; }

// Launch 1: S = Q Kᵀ, a block a tile. Grid (Tc, Tr, heads * batch).
template <int Br, int Bc, int D>
__global__ void scores(const float* Q, const float* K, const unsigned char* key_mask, float* S, int heads,
                       int kv_heads, int seqlen_q, int seqlen_k, float scale, int causal) {
  __shared__ float Qi[Br][D], Kj[Bc][D], Sij[Br][Bc];
  __shared__ unsigned char maskj[Bc];
  const int tid = threadIdx.x, threads = blockDim.x;

  // step: block appears
  const int j = blockIdx.x, i = blockIdx.y, head = blockIdx.z % heads, batch = blockIdx.z / heads;
  const int rows = min(Br, seqlen_q - i * Br), cols = min(Bc, seqlen_k - j * Bc);
  const size_t query = (size_t)(batch * heads + head) * seqlen_q + i * Br;
  const size_t key = (size_t)(batch * kv_heads + head / (heads / kv_heads)) * seqlen_k + j * Bc;

  // step: load Q, K
  for (int x = tid; x < rows * D; x += threads) Qi[x / D][x % D] = Q[query * D + x];
  for (int x = tid; x < cols * D; x += threads) Kj[x / D][x % D] = K[key * D + x];
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

  // step: store S
  for (int x = tid; x < rows * cols; x += threads)
    S[(query + x / cols) * seqlen_k + j * Bc + x % cols] = Sij[x / cols][x % cols];
}

// Launch 2: P = softmax(S), a block a row tile, three sweeps. Grid (Tr, heads, batch).
template <int Br, int Bc>
__global__ void softmax(const float* S, float* P, int heads, int seqlen_q, int seqlen_k) {
  __shared__ float Sij[Br][Bc], mi[Br], li[Br];
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

    // step: load S for the maximum
    for (int x = tid; x < rows * cols; x += threads)
      Sij[x / cols][x % cols] = S[first + (size_t)(x / cols) * seqlen_k + j * Bc + x % cols];
    __syncthreads();

    // step: fold the maximum
    for (int r = tid; r < rows; r += threads)
      for (int c = 0; c < cols; c++) mi[r] = max_nan(mi[r], Sij[r][c]);
    __syncthreads();
  }

  for (int j = 0; j < Tc; j++) {
    const int cols = min(Bc, seqlen_k - j * Bc);

    // step: load S for the sum
    for (int x = tid; x < rows * cols; x += threads)
      Sij[x / cols][x % cols] = S[first + (size_t)(x / cols) * seqlen_k + j * Bc + x % cols];
    __syncthreads();

    // step: fold the sum
    for (int r = tid; r < rows; r += threads)
      for (int c = 0; c < cols; c++) li[r] += Sij[r][c] == -INFINITY ? 0.0f : expf(Sij[r][c] - mi[r]);
    __syncthreads();
  }

  for (int j = 0; j < Tc; j++) {
    const int cols = min(Bc, seqlen_k - j * Bc);

    // step: load S to divide
    for (int x = tid; x < rows * cols; x += threads)
      Sij[x / cols][x % cols] = S[first + (size_t)(x / cols) * seqlen_k + j * Bc + x % cols];
    __syncthreads();

    // step: write P
    for (int x = tid; x < rows * cols; x += threads) {
      const int r = x / cols, c = x % cols;
      const float p = Sij[r][c] == -INFINITY ? 0.0f : expf(Sij[r][c] - mi[r]);
      Sij[r][c] = li[r] == 0.0f ? 0.0f : p / li[r];
      P[first + (size_t)r * seqlen_k + j * Bc + c] = Sij[r][c];
    }
    __syncthreads();
  }
}

// Launch 3: O = P V, a block a row tile. Grid (Tr, heads, batch).
template <int Br, int Bc, int D>
__global__ void values(const float* P, const float* V, const unsigned char* key_mask, float* O, int heads,
                       int kv_heads, int seqlen_q, int seqlen_k, int causal) {
  __shared__ float Pij[Br][Bc], Vj[Bc][D], Oi[Br][D];
  __shared__ unsigned char maskj[Bc];
  const int tid = threadIdx.x, threads = blockDim.x;

  // step: block appears
  const int i = blockIdx.x, head = blockIdx.y, batch = blockIdx.z;
  const int rows = min(Br, seqlen_q - i * Br), Tc = (seqlen_k + Bc - 1) / Bc;
  const size_t query = (size_t)(batch * heads + head) * seqlen_q + i * Br;
  const size_t keys = (size_t)(batch * kv_heads + head / (heads / kv_heads)) * seqlen_k;
  for (int x = tid; x < rows * D; x += threads) Oi[x / D][x % D] = 0.0f;

  for (int j = 0; j < Tc; j++) {
    const int cols = min(Bc, seqlen_k - j * Bc);

    // step: load P, V
    for (int x = tid; x < rows * cols; x += threads)
      Pij[x / cols][x % cols] = P[(query + x / cols) * seqlen_k + j * Bc + x % cols];
    for (int x = tid; x < cols * D; x += threads) Vj[x / D][x % D] = V[(keys + j * Bc) * D + x];
    for (int c = tid; c < cols; c += threads)
      maskj[c] = key_mask ? key_mask[(size_t)batch * seqlen_k + j * Bc + c] : 1;
    __syncthreads();

    // step: accumulate O
    for (int x = tid; x < rows * D; x += threads) {
      const int r = x / D, d = x % D;
      for (int c = 0; c < cols; c++) {
        const bool visible = maskj[c] && (!causal || j * Bc + c <= i * Br + r + seqlen_k - seqlen_q);
        if (visible) Oi[r][d] += Pij[r][c] * Vj[c][d];  // 0 times a hidden NaN would be NaN
      }
    }
    __syncthreads();
  }

  // step: store O
  for (int x = tid; x < rows * D; x += threads) O[query * D + x] = Oi[x / D][x % D];
}
