// twin: a libcuda.so.1 of our own, which plays GPUs with host memory, and what a test tells it.
//
// Memory of a GPU is a mapping that this process may not touch except inside the twin: so a test fails
// at once where the engine reads memory of a GPU itself. Other processes map it by its handle. Streams are queues. What is
// queued runs when the test says so, in order, or at once after twin_run_at_once(true).
//
// It is built several times (CMakeLists.txt): how many GPUs there are, of which version the driver is,
// and which of its functions is missing.
//
// The functions are found in the library with dlsym (Twin in twin_library.h).
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
// Whether queued work runs as soon as nothing holds it. True at first.
void twin_run_at_once(int at_once);
// Runs what can run. Returns how many pieces of work did.
int twin_run();
// The same, at most so many pieces.
int twin_run_some(int most);
// The next `count` calls of the named function fail with this answer.
void twin_fail(const char* function, int answer, int count);
// From now on every call answers that the GPU is lost.
void twin_lose_device();
// Whether cuInit() was called.
int twin_initialized();
// Work that is queued and has not run.
int twin_queued();
// How often cuFlushGPUDirectRDMAWrites() was called.
int twin_flushes();
// How often for the memory of this device and readers on all devices.
int twin_flushes_for_all(int device);
// Holds a stream by a piece of work that ends with twin_release().
void twin_hold(void* stream);
void twin_release(void* stream);
// Whether what is allocated from now on is memory of a pool, which no other process can map.
void twin_give_pool_memory(int gives);
// What is allocated next lies at this address, which begins a page, in place of what the host has there.
void twin_allocate_at(void* address);
// Whether the stream is being captured.
void twin_capture(void* stream, int is_capturing);
// Queues a piece of work, for another twin. `may_run` is asked before.
int twin_queue(void* stream, int (*may_run)(void*), void (*run)(void*), void* data);
// Reads and writes memory of a GPU.
void twin_read(const void* gpu, void* to, std::size_t bytes);
void twin_write(void* gpu, const void* from, std::size_t bytes);
// Everything as at the start; memory stays.
void twin_reset();
}
