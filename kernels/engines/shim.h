// CUDA's block model on the host, enough for the lesson's kernels: blocks one after another, the threads of a
// block as POSIX threads that meet at a barrier, shared memory as statics. It makes no kernel right that a GPU
// would find wrong: a missing barrier is a data race here too, and ThreadSanitizer sees it.
// Plain C headers where they do: the C++ ones cost ten times the kernel to compile.
#pragma once
#include <math.h>
#include <signal.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <type_traits>
#include <utility>

#define __global__
#define __device__ inline
#define __shared__ static
#define __restrict__
#define __forceinline__
#define __launch_bounds__(...)

struct dim3 { unsigned x, y, z; };
static thread_local dim3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;

struct Barrier {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
  unsigned waiting = 0, turn = 0;
  void wait(unsigned all) {
    pthread_mutex_lock(&mutex);
    const unsigned now = turn;
    if (++waiting == all) {
      waiting = 0, turn++;
      pthread_cond_broadcast(&turned);
    } else {
      while (turn == now) pthread_cond_wait(&turned, &mutex);
    }
    pthread_mutex_unlock(&mutex);
  }
};
static Barrier fs_barrier;
static inline void __syncthreads() { fs_barrier.wait(blockDim.x); }

template <class T> static inline T min(T a, T b) { return b < a ? b : a; }
template <class T> static inline T max(T a, T b) { return a < b ? b : a; }

// The file from the engine: counts, buffers (size, then bytes), launches (grid, threads, arguments).
struct Reader {
  FILE* file;
  int64_t number() {
    int64_t value;
    bytes(&value, 8);
    return value;
  }
  void bytes(void* to, size_t count) {
    if (count && fread(to, 1, count, file) != count) {
      fprintf(stderr, "error: the input is cut short\n");
      exit(3);
    }
  }
};

// Each buffer has its exact size under a sanitizer, so that a step past its end is reported; else NaN follows it.
struct Buffer {
  char* data;
  size_t size;
};
static inline Buffer fs_buffer(Reader& in) {
  const size_t size = (size_t)in.number(), all = size + FS_PADDING;
  Buffer buffer{(char*)malloc(all ? all : 1), size};
  if (!buffer.data) {
    fprintf(stderr, "error: no memory for %zu bytes\n", all);
    exit(3);
  }
  memset(buffer.data, 0xff, all);  // all ones is a NaN
  in.bytes(buffer.data, size);
  return buffer;
}

union Argument {
  void* pointer;
  int64_t integer;
  double number;
};
template <class T> static T fs_argument(const Argument& a) {
  if constexpr (std::is_pointer<T>::value) return (T)a.pointer;
  else if constexpr (std::is_floating_point<T>::value) return (T)a.number;
  else return (T)a.integer;
}
template <class... T, size_t... I>
static void fs_call(void (*kernel)(T...), const Argument* a, std::index_sequence<I...>) {
  kernel(fs_argument<T>(a[I])...);
}

template <class... T> struct Thread {
  void (*kernel)(T...);
  const Argument* arguments;
  unsigned index;
  static void* run(void* self) {
    const Thread& me = *(const Thread*)self;
    threadIdx = {me.index, 0, 0};
    for (unsigned z = 0; z < gridDim.z; z++)
      for (unsigned y = 0; y < gridDim.y; y++)
        for (unsigned x = 0; x < gridDim.x; x++) {
          blockIdx = {x, y, z};
          fs_call(me.kernel, me.arguments, std::index_sequence_for<T...>{});
          __syncthreads();  // shared memory is the next block's now
        }
    return nullptr;
  }
};

#define FS_MOST_THREADS 64
template <class... T>
static void fs_launch(void (*kernel)(T...), dim3 grid, unsigned threads, const Argument* arguments) {
  gridDim = grid;
  blockDim = {threads, 1, 1};
  pthread_t team[FS_MOST_THREADS];
  Thread<T...> work[FS_MOST_THREADS];
  for (unsigned t = 0; t < threads; t++) {
    work[t] = {kernel, arguments, t};
    if (pthread_create(&team[t], nullptr, Thread<T...>::run, &work[t])) {
      fprintf(stderr, "error: no thread to be had\n");
      exit(3);
    }
  }
  for (unsigned t = 0; t < threads; t++) pthread_join(team[t], nullptr);
}

static inline unsigned long long fs_now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ull + now.tv_nsec;
}
static inline unsigned fs_sm() { return 0; }

// Where the kernel was when it crashed or was stopped: the last probed step, for the engine to name.
static volatile long long fs_reached[3] = {0, -1, -1};  // launch, block, step
#define FS_REACHED(block, number) (fs_reached[1] = (block), fs_reached[2] = (number))
static void fs_dying(int number) {
  char text[96];  // snprintf of integers, on the way out: nothing else may be trusted
  const int length = snprintf(text, sizeof text, "\nfs reached %lld %lld %lld\n", fs_reached[0], fs_reached[1], fs_reached[2]);
  if (write(2, text, length) < 0) _exit(3);
  signal(number, SIG_DFL);
  raise(number);
}
static inline void fs_tell_when_dying() {
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGXCPU}) signal(number, fs_dying);
}
