// CUDA's block model on the host, enough for the lesson's kernels: blocks one after another, the threads of a
// block as std::threads that meet at a std::barrier, shared memory as statics. It makes no kernel right that a
// GPU would find wrong: a missing barrier is a data race here too, and ThreadSanitizer sees it.
#pragma once
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#define __global__
#define __device__ inline
#define __shared__ static
#define __restrict__

struct dim3 { unsigned x, y, z; };
static thread_local dim3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static std::barrier<>* fs_barrier;

static inline void __syncthreads() { fs_barrier->arrive_and_wait(); }
template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }

// The file from the engine: counts, buffers (size, then bytes), launches (grid, threads, arguments).
struct Reader {
  FILE* file;
  int64_t number() {
    int64_t value;
    if (fread(&value, 8, 1, file) != 1) { fprintf(stderr, "the input is cut short\n"); exit(3); }
    return value;
  }
  void bytes(void* to, size_t count) {
    if (count && fread(to, 1, count, file) != count) { fprintf(stderr, "the input is cut short\n"); exit(3); }
  }
};

// Each buffer has its exact size under a sanitizer, so that a step past its end is reported; else NaN follows it.
struct Buffer { char* data; size_t size; };
static inline Buffer fs_buffer(Reader& in) {
  const size_t size = (size_t)in.number(), padding = FS_PADDING;
  Buffer buffer{(char*)malloc(size + padding + 1), size};
  memset(buffer.data, 0xff, size + padding);  // all ones is a NaN
  in.bytes(buffer.data, size);
  return buffer;
}

union Argument { void* pointer; int64_t integer; double number; };
template <class T> static T fs_argument(const Argument& a) {
  if constexpr (std::is_pointer_v<T>) return (T)a.pointer;
  else if constexpr (std::is_floating_point_v<T>) return (T)a.number;
  else return (T)a.integer;
}
template <class... T, size_t... I>
static void fs_call(void (*kernel)(T...), const std::vector<Argument>& a, std::index_sequence<I...>) {
  kernel(fs_argument<T>(a[I])...);
}

template <class... T>
static void fs_launch(void (*kernel)(T...), dim3 grid, unsigned threads, const std::vector<Argument>& arguments) {
  gridDim = grid;
  blockDim = {threads, 1, 1};
  std::barrier<> barrier(threads);
  fs_barrier = &barrier;
  std::vector<std::thread> team;
  for (unsigned t = 0; t < threads; t++)
    team.emplace_back([=, &arguments, &barrier] {
      threadIdx = {t, 0, 0};
      for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
          for (unsigned x = 0; x < grid.x; x++) {
            blockIdx = {x, y, z};
            fs_call(kernel, arguments, std::index_sequence_for<T...>{});
            barrier.arrive_and_wait();  // shared memory is the next block's now
          }
    });
  for (auto& thread : team) thread.join();
}

static inline unsigned long long fs_now() {
  return (unsigned long long)std::chrono::steady_clock::now().time_since_epoch().count();
}
static inline unsigned fs_sm() { return 0; }
