// Probes: at the end of a marked step its slots are copied to fs_out, each block from its own base.
// Every block also leaves when it started and ended, and on which SM.
__device__ float* fs_out;
__device__ const long long* fs_base;
__device__ unsigned long long* fs_times;  // a block: start, end (ns), SM

#ifndef FS_REACHED
#define FS_REACHED(block, number)  // where somebody watches: the last step, to name it when the kernel crashes; -1 at the start
#endif
#ifndef FS_LEFT
#define FS_LEFT(block)
#endif

#define FS_ENTER                                                                                              \
  const long long fs_block = blockIdx.x + (long long)gridDim.x * (blockIdx.y + (long long)gridDim.y * blockIdx.z); \
  long long fs_at = fs_base[fs_block];                                                                        \
  const long long fs_end = fs_base[fs_block + 1];                                                             \
  if (threadIdx.x == 0) fs_times[fs_block * 3] = fs_now(), fs_times[fs_block * 3 + 2] = fs_sm();      \
  if (threadIdx.x == 0) FS_REACHED(fs_block, -1);
#define FS_EXIT                                                    \
  if (threadIdx.x == 0) {                                          \
    fs_times[fs_block * 3 + 1] = fs_now();                         \
    FS_LEFT(fs_block);                                             \
  }
#define FS_STEP(number)                                                           \
  if (threadIdx.x == 0 && fs_at < fs_end) fs_out[fs_at] = (float)(number);        \
  if (threadIdx.x == 0) FS_REACHED(fs_block, number);                             \
  fs_at += 1;
#define FS_PROBE(slot)                                                            \
  for (int fs_x = threadIdx.x; fs_x < (int)(sizeof(slot) / 4); fs_x += blockDim.x) \
    if (fs_at + fs_x < fs_end) fs_out[fs_at + fs_x] = ((const float*)&(slot))[fs_x]; \
  fs_at += sizeof(slot) / 4;
