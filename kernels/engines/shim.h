// CUDA's block model on the host, enough for the lesson's kernels: blocks one after another, the threads of a
// block as POSIX threads that meet at a barrier, shared memory as statics that begin each block undefined. A missing
// barrier is a data race here too, which ThreadSanitizer sees in a build without probes: a probe's own barriers would
// stand in for the missing one. Blocks never race here, because they run one after another.
// Plain C headers where they do: the C++ ones cost ten times the kernel to compile.
#pragma once
#include <errno.h>
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
#define __align__(bytes) __attribute__((aligned(bytes)))

struct dim3 { unsigned x, y, z; };
static thread_local dim3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;

// The threads of a block meet here. One that has left the kernel comes to every barrier that is left, as on a GPU
// since Volta; when all have left, the block has ended. Threads take two of these in turn: one that wakes late would
// else also see what the early ones did since, and hide their race from ThreadSanitizer.
struct Barrier {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
  unsigned waiting = 0, gone = 0, turn = 0;
  int line = 0;
  bool ended = false;
  bool wait(unsigned all, int at);
};
static Barrier fs_barriers[2];
static thread_local unsigned fs_turn = 0;
static inline bool fs_meet(int line) { return fs_barriers[fs_turn++ % 2].wait(blockDim.x, line); }
#define __syncthreads() fs_meet(__LINE__)

// Shared memory that a kernel declares: all ones, a NaN, before each block. The engine puts an Undefined after each
// declaration; the first thread that passes one registers what it names.
#define FS_MOST_SLOTS 256
static struct { void* data; size_t size; } fs_slots[FS_MOST_SLOTS];
static unsigned fs_slot_count = 0;
static inline void fs_undefine() {
  for (unsigned n = 0; n < fs_slot_count; n++) memset(fs_slots[n].data, 0xff, fs_slots[n].size);
}
struct Undefined {
  template <class... T> explicit Undefined(T&... slots) { (declare((void*)&slots, sizeof slots), ...); }
  static void declare(void* data, size_t size) {
    memset(data, 0xff, size);
    if (fs_slot_count < FS_MOST_SLOTS) fs_slots[fs_slot_count++] = {data, size};
  }
};

[[noreturn]] static void fs_fault(const char* words, int a, int b);

// line: where the barrier stands, 0 from a thread that has left. Returns whether the block has ended.
bool Barrier::wait(unsigned all, int at) {
  pthread_mutex_lock(&mutex);
  if (at && line && at != line) fs_fault("its threads wait at different barriers, in lines %d and %d", line, at);
  if (at) line = at;
  gone += !at;
  const unsigned now = turn;
  if (++waiting == all) {
    ended = gone == all;
    if (ended) fs_undefine();
    waiting = gone = 0, line = 0, turn++;
    pthread_cond_broadcast(&turned);
  } else {
    while (turn == now) pthread_cond_wait(&turned, &mutex);
  }
  const bool over = ended;
  pthread_mutex_unlock(&mutex);
  return over;
}

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

// Each buffer has its exact size under a sanitizer, which reports a step past its end. Else padding stands before and
// after it: a NaN to whoever reads there, and found changed when somebody wrote there.
struct Buffer {
  char* data;
  size_t size;
  int64_t launch, at;  // the first launch that wrote outside, and where, in bytes from the beginning; or -1
};
// Every word of padding is a NaN of its own, so that one which is copied to another place is not taken for its own.
static inline uint32_t fs_padding(int64_t buffer, size_t word) {
  return 0xffc00000u | (uint32_t)((buffer * (2 * FS_PADDING / 4) + word) & 0x3fffff);
}
// Calls f(word's place, what it should hold, bytes from the buffer's beginning) from the nearest to the farthest, after the end first.
template <class F> static void fs_each_padding(const Buffer& buffer, int64_t number, F f) {
  const size_t words = FS_PADDING / 4;
  for (size_t w = 0; w < words; w++) f(buffer.data + buffer.size + 4 * w, fs_padding(number, w), (int64_t)(buffer.size + 4 * w));
  for (size_t w = 1; w <= words; w++) f(buffer.data - 4 * w, fs_padding(number, words + w - 1), -(int64_t)(4 * w));
}
static inline Buffer fs_buffer(Reader& in, int64_t number) {
  const size_t size = (size_t)in.number(), all = size + 2 * FS_PADDING;
  char* whole = (char*)malloc(all ? all : 1);
  if (!whole) {
    fprintf(stderr, "error: no memory for %zu bytes\n", all);
    exit(3);
  }
  const Buffer buffer{whole + FS_PADDING, size, -1, 0};
  fs_each_padding(buffer, number, [](char* to, uint32_t mark, int64_t) { memcpy(to, &mark, 4); });
  in.bytes(buffer.data, size);
  return buffer;
}
static inline void fs_look_outside(Buffer* buffers, int64_t count, int64_t launch) {
  for (int64_t n = 0; n < count; n++)
    fs_each_padding(buffers[n], n, [&](char* place, uint32_t mark, int64_t at) {
      if (buffers[n].launch < 0 && memcmp(place, &mark, 4)) buffers[n].launch = launch, buffers[n].at = at;
    });
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
          while (!fs_meet(0)) continue;  // shared memory is the next block's when all have left
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
static inline void fs_tell_reached() {
  char text[96];  // snprintf of integers, on the way out: nothing else may be trusted
  const int length = snprintf(text, sizeof text, "\nfs reached %lld %lld %lld\n", fs_reached[0], fs_reached[1], fs_reached[2]);
  if (write(2, text, length) < 0) _exit(3);
}
[[noreturn]] static void fs_fault(const char* words, int a, int b) {
  fprintf(stderr, "\nfs fault ");
  fprintf(stderr, words, a, b);
  fs_tell_reached();
  _exit(5);
}
// Steps that are missing leave gaps among the probes; those beyond the last would leave nothing.
#define FS_LEFT(block) \
  if (fs_at > fs_end) fs_fault("it took more steps than the twin's block does", 0, 0)
#ifdef FS_SANITIZED
// A sanitizer has its own words for a fault; only the block it does not know, and the arrays in HBM not by name.
extern "C" void __sanitizer_set_death_callback(void (*)(void));
static void fs_tell_block() {
  fs_reached[1] = blockIdx.x + (long long)gridDim.x * (blockIdx.y + (long long)gridDim.y * blockIdx.z);
  fs_tell_reached();
}
static inline void fs_prepare(const Buffer* buffers, int64_t count) {
  for (int64_t n = 0; n < count; n++) fprintf(stderr, "fs array %lld %p\n", (long long)n, (void*)buffers[n].data);
  __sanitizer_set_death_callback(fs_tell_block);
}
#else
static void fs_dying(int number) {
  fs_tell_reached();
  signal(number, SIG_DFL);
  raise(number);
}
static inline void fs_prepare(const Buffer*, int64_t) {
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGXCPU}) signal(number, fs_dying);
}
#endif
