// The C API: windows, which are memory that neighbors write, read and add to while its owner
// computes. weft/window.h says what each call means, what a reader sees, and what failures do.
//
//   weft_window* window = NULL;
//   weft_context_win_create(context, x, n, WEFT_F32, "model", NULL, &window);  // collective
//   weft_window_put(window, x, n, WEFT_F32, NULL);  // x into this rank's slot at out-neighbors
//   weft_window_update(window, NULL);               // x := the average of x and its slots
//   weft_window_free(window);                       // the handle
//   weft_context_win_free(context, "model");        // the window; collective
//
// A weft_window is a handle of a window. It may outlive the window. Calls on a window that was
// freed are WEFT_INVALID_ARGUMENT. If its context was closed, they are WEFT_CLOSED. Arrays of
// weights, pages and ranks are read during the call only. `how` may be NULL, which stands for a
// struct of zeros.
//
// The tensor may be in any memory. If neighbors on the same machine get from it, memory of
// weft_allocate() is faster.
#pragma once

#include <weft/c/context.h>
#include <weft/c/handle.h>
#include <weft/c/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_window weft_window;

// Signals of a window are numbered from 0 to WEFT_WINDOW_SIGNALS - 1.
enum { WEFT_WINDOW_SIGNALS = 16, WEFT_NO_SIGNAL = -1 };

typedef struct weft_window_options {
  size_t size;        // sizeof(weft_window_options)
  int32_t zero_init;  // 1: slots begin with zeros; 0: with the owner's tensor
  int32_t reserved;   // 0
} weft_window_options;

// How a tensor is put or accumulated.
typedef struct weft_put_options {
  size_t size;                    // sizeof(weft_put_options)
  int32_t has_self_weight;        // 0: absent, which stands for 1, and then self_weight is 0
  int32_t require_mutex;          // 1: the mutex of each destination is held for the duration
  double self_weight;             // x is multiplied by it after it was sent
  const weft_peer* destinations;  // NULL: all out-neighbors, with weight 1
  size_t destination_count;
  int32_t has_signal;  // 0: absent, and then signal is 0
  int32_t signal;      // is raised by 1 at each destination when the data is visible there
  // For GPU memory: the call begins after the work in this stream. NULL: the default stream.
  const weft_stream* stream;
  weft_compression compression;  // of tensors of f32
  int32_t reserved;              // 0
} weft_put_options;

typedef struct weft_get_options {
  size_t size;               // sizeof(weft_get_options)
  int32_t require_mutex;     // 1: the mutex of each source is held for the duration
  int32_t reserved;          // 0
  const weft_peer* sources;  // NULL: all in-neighbors, with weight 1
  size_t source_count;
  const weft_stream* stream;
} weft_get_options;

typedef struct weft_update_options {
  size_t size;              // sizeof(weft_update_options)
  int32_t has_self_weight;  // 0: absent, and then self_weight is 0
  int32_t reset;            // 1: zeroes the slots that were read
  int32_t require_mutex;    // 1: the mutex of this rank is held for the duration
  int32_t reserved;         // 0
  double self_weight;       // both this and sources, or neither, which are the graph's weights
  const weft_peer* sources;
  size_t source_count;
  void* clone;  // not NULL: the result goes there, of the tensor's size; the tensor stays as it is
  const weft_stream* stream;
} weft_update_options;

// Some bytes of a tensor of this rank, and where they go in the tensor of a peer. In bytes.
typedef struct weft_page {
  size_t local_offset;
  size_t remote_offset;
} weft_page;

// Makes a window of the graph as it is now. Collective: all ranks give the same name, count, type
// and options. The memory of the tensor is shared with the window and must outlive it. `options`
// may be NULL.
WEFT_C_API weft_code weft_context_win_create(weft_context* context, void* tensor, size_t count,
                                             weft_data_type type, const char* name,
                                             const weft_window_options* options,
                                             weft_window** window);
// A new handle of the window of that name.
WEFT_C_API weft_code weft_context_window(const weft_context* context, const char* name,
                                         weft_window** window);
// How many windows there are, and the name of one of them, from 0 on, in ascending order. The
// caller frees *name with weft_string_free().
WEFT_C_API weft_code weft_context_window_count(const weft_context* context, size_t* count);
WEFT_C_API weft_code weft_context_window_name(const weft_context* context, size_t index,
                                              char** name);
// Ends a window, or all of them. Collective. If a rank still uses the window, it is an error on all
// ranks, and the window goes on.
WEFT_C_API weft_code weft_context_win_free(weft_context* context, const char* name);
WEFT_C_API weft_code weft_context_win_free_all(weft_context* context);
// Waits until the operations of all ranks on all windows have ended. Collective.
WEFT_C_API weft_code weft_context_win_fence(weft_context* context);

// Frees the handle. The window goes on.
WEFT_C_API weft_code weft_window_free(weft_window* window);

// What was given to weft_context_win_create(). The caller frees *name with weft_string_free().
WEFT_C_API weft_code weft_window_name(const weft_window* window, char** name);
WEFT_C_API weft_code weft_window_tensor(const weft_window* window, void** tensor, size_t* count,
                                        weft_data_type* type);
// Ranks in ascending order; *count := how many there are. NULL with the capacity 0 only counts.
WEFT_C_API weft_code weft_window_in_neighbors(const weft_window* window, int32_t* ranks,
                                              size_t capacity, size_t* count);
WEFT_C_API weft_code weft_window_out_neighbors(const weft_window* window, int32_t* ranks,
                                               size_t capacity, size_t* count);

// Slot at each destination := weight * x. Then x := self_weight * x. x has the size and type of the
// tensor, and may be the tensor.
WEFT_C_API weft_code weft_window_put(weft_window* window, void* x, size_t count,
                                     weft_data_type type, const weft_put_options* how);
WEFT_C_API weft_code weft_window_put_start(weft_window* window, void* x, size_t count,
                                           weft_data_type type, const weft_put_options* how,
                                           weft_handle** handle);
// Slot at each destination += weight * x. Then x := self_weight * x. Floating types.
WEFT_C_API weft_code weft_window_accumulate(weft_window* window, void* x, size_t count,
                                            weft_data_type type, const weft_put_options* how);
WEFT_C_API weft_code weft_window_accumulate_start(weft_window* window, void* x, size_t count,
                                                  weft_data_type type, const weft_put_options* how,
                                                  weft_handle** handle);
// Own slot of each source := weight * the source's present tensor.
WEFT_C_API weft_code weft_window_get(weft_window* window, const weft_get_options* how);
WEFT_C_API weft_code weft_window_get_start(weft_window* window, const weft_get_options* how,
                                           weft_handle** handle);
// Tensor := self_weight * tensor + the sum of weight * slot over the sources. Floating types.
WEFT_C_API weft_code weft_window_update(weft_window* window, const weft_update_options* how);
// The same with all weights 1 and reset.
WEFT_C_API weft_code weft_window_update_then_collect(weft_window* window, int require_mutex);

// For each in-neighbor, ascending: how many puts and gets have arrived in its slot since the last
// update. The memory is given as for weft_window_in_neighbors().
WEFT_C_API weft_code weft_window_versions(weft_window* window, uint64_t* versions, size_t capacity,
                                          size_t* count);
// The p of this rank's tensor; and whether p moves with tensors, which is off at first.
WEFT_C_API weft_code weft_window_associated_p(weft_window* window, double* p);
WEFT_C_API weft_code weft_window_set_associated_p(weft_window* window, int on);

// Takes the mutexes of these ranks, which are neighbors or this rank; and gives them back.
WEFT_C_API weft_code weft_window_lock(weft_window* window, const int32_t* ranks, size_t count);
WEFT_C_API weft_code weft_window_unlock(weft_window* window);
// Waits until all started operations of this rank on this window have ended.
WEFT_C_API weft_code weft_window_flush(weft_window* window);

// Writes pages of `page_bytes` each from x to the tensor of `to`. The signal, unless it is
// WEFT_NO_SIGNAL, is raised there by 1 when all bytes are visible.
WEFT_C_API weft_code weft_window_write(weft_window* window, int32_t to, const void* x, size_t count,
                                       weft_data_type type, const weft_page* pages,
                                       size_t page_count, size_t page_bytes, int32_t signal);
WEFT_C_API weft_code weft_window_write_start(weft_window* window, int32_t to, const void* x,
                                             size_t count, weft_data_type type,
                                             const weft_page* pages, size_t page_count,
                                             size_t page_bytes, int32_t signal,
                                             weft_handle** handle);
// Fills y with the bytes of the tensor of `from` that begin at this offset in bytes.
WEFT_C_API weft_code weft_window_read(weft_window* window, int32_t from, void* y, size_t count,
                                      weft_data_type type, size_t remote_offset);

// How often the signal was raised here, by all in-neighbors together.
WEFT_C_API weft_code weft_window_signal(weft_window* window, int32_t number, uint64_t* count);
// Waits until that is at least `count`. WEFT_TIMED_OUT after `timeout_ms`, at the latest after
// WEFT_DEADLINE_MS; a negative time is that. If all in-neighbors have died or left, so that nobody
// can raise it any more: WEFT_PEER_DIED or WEFT_PEER_LEFT, which names them.
WEFT_C_API weft_code weft_window_wait_signal(weft_window* window, int32_t number, uint64_t count,
                                             int64_t timeout_ms);
// The same as a handle, which may be waited for and may have a callback (weft_handle_then).
WEFT_C_API weft_code weft_window_wait_signal_start(weft_window* window, int32_t number,
                                                   uint64_t count, int64_t timeout_ms,
                                                   weft_handle** handle);

#ifdef __cplusplus
}
#endif
