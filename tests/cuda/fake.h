// fake: a libcuda.so.1 of our own, which plays GPUs with host memory, and what a test tells it.
//
// GPU memory is a mapping that this process may not touch except inside the fake: so a test fails
// at once where the engine reads GPU memory itself. Other processes map it by its handle. Streams are queues. What is
// queued runs when the test says so, in order, or at once after fake_run_at_once(true).
//
// It is built several times (CMakeLists.txt): how many GPUs there are, of which version the driver is,
// and which of its functions is missing.
//
// The functions are found in the library with dlsym (FakeDriver in fake_library.h).
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
// Whether queued work runs as soon as nothing holds it. True at first.
void fake_run_at_once(int at_once);
// Runs what can run. Returns how many pieces of work did.
int fake_run();
// The same, at most so many pieces.
int fake_run_some(int most);
// The next `count` calls of the named function fail with this answer.
void fake_fail(const char* function, int answer, int count);
// From now on every call answers that the GPU is lost.
void fake_lose_device();
// Whether cuInit() was called.
int fake_initialized();
// Work that is queued and has not run.
int fake_queued();
// How often cuFlushGPUDirectRDMAWrites() was called.
int fake_flushes();
// How often for the memory of this device and readers on all devices.
int fake_flushes_for_all(int device);
// Holds a stream by a piece of work that ends with fake_release().
void fake_hold(void* stream);
void fake_release(void* stream);
// Whether what is allocated from now on is memory of a pool, which no other process can map.
void fake_give_pool_memory(int gives);
// What is allocated next lies at this address, which begins a page, in place of what the host has there.
void fake_allocate_at(void* address);
// Whether the stream is being captured.
void fake_capture(void* stream, int is_capturing);
// Queues a piece of work, for another fake. `may_run` is asked before.
int fake_queue(void* stream, int (*may_run)(void*), void (*run)(void*), void* data);
// Reads and writes GPU memory.
void fake_read(const void* gpu, void* to, std::size_t bytes);
void fake_write(void* gpu, const void* from, std::size_t bytes);
// Everything as at the start; memory stays.
void fake_reset();
}
