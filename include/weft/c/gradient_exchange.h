// The C API: gradients that travel in pieces while the next ones are computed (Canary).
// weft/gradient_exchange.h says what a mean is over, who waits for whom, and what memory it needs.
//
//   const size_t colayers[] = {…};            // elements of each; weft_bundle_layers() chooses layers
//   const weft_gradient_exchange_options options = {.size = sizeof(options), .rate = 0.05};
//   weft_gradient_exchange* exchange = NULL;
//   weft_gradient_exchange_create(context, x, n, WEFT_F32, colayers, 4, &options, &exchange);  // collective
//   for (…) {
//     weft_gradient_exchange_begin(exchange);
//     for (int each = 0; each < 4; ++each) {  // backward
//       compute_gradient_of(each, slope);
//       weft_gradient_exchange_push(exchange, each, slope, colayers[each], WEFT_F32);  // travels from here on
//     }
//     weft_gradient_exchange_end_iteration(exchange, mean, n, WEFT_F32, NULL);  // x := x - rate mean
//   }
//   weft_gradient_exchange_end(exchange);     // collective
//   weft_gradient_exchange_free(exchange);    // the handle
//
// The model must outlive the object, whose handle may be freed before it has ended: what other ranks may
// still use, the context keeps. Calls on an object whose context was closed are WEFT_CLOSED. Calls of
// several threads on one object are serialized.
#pragma once

#include <weft/c/context.h>
#include <weft/c/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// colayer_of[i] := the colayer of layer i, for `layers` layers in the order in which backward reaches them. counts
// has the elements of each, and kinds what it is, for example 0 for a convolution and 1 for a fully
// connected layer; NULL: all are alike.
WEFT_C_API weft_code weft_bundle_layers(const size_t* counts, const int32_t* kinds, size_t layers,
                                        int32_t colayers, int32_t* colayer_of);

typedef struct weft_gradient_exchange weft_gradient_exchange;

typedef struct weft_gradient_exchange_options {
  size_t size;                   // sizeof(weft_gradient_exchange_options)
  const char* name;              // begins the names of windows; NULL: "gradient_exchange"
  const char* rule;              // bulk, bounded, asynchronous or canary; NULL: "canary"
  double rate;                   // x := x - rate mean; 0: the caller changes x, by update()
  int32_t staleness;             // of bounded and canary: iterations, if has_staleness; else 0
  int32_t proportion;            // of canary: colayers, if has_proportion; else 0
  int32_t has_staleness;         // 0: absent, which stands for 18
  int32_t has_proportion;        // 0: absent, which stands for six of ten
  weft_compression compression;  // how pieces and means travel
  const char* topology;          // all_to_all or mesh; NULL: "all_to_all"
  const weft_stream* stream;     // of memory of a GPU; NULL: the default stream
} weft_gradient_exchange_options;

// How an iteration ended.
typedef struct weft_ended_iteration {
  size_t size;          // sizeof(weft_ended_iteration), set by the caller
  int64_t number;       // of the iteration
  int32_t is_dropped;   // 1: its gradients were dropped, but those that were out
  int32_t pulled_from;  // the rank whose model x is now, or WEFT_NO_RANK
} weft_ended_iteration;

typedef struct weft_gradient_exchange_counts {
  size_t size;          // sizeof(weft_gradient_exchange_counts), set by the caller
  uint64_t iterations;  // that have ended
  uint64_t dropped;     // iterations whose gradients were dropped
  uint64_t pulls;       // of the model of the fastest
  uint64_t bytes;       // of pieces and means that were sent, and of models that were pulled
} weft_gradient_exchange_counts;

// `colayers`: the elements of each of `colayer_count` colayers; their sum is `count`. `options` may be NULL.
// Collective. Sets the context's graph to the fully connected one.
WEFT_C_API weft_code weft_gradient_exchange_create(weft_context* context, void* model, size_t count,
                                                   weft_data_type type, const size_t* colayers,
                                                   size_t colayer_count,
                                                   const weft_gradient_exchange_options* options,
                                                   weft_gradient_exchange** exchange);
WEFT_C_API weft_code weft_gradient_exchange_free(weft_gradient_exchange* exchange);
// An iteration begins, before its gradients are computed.
WEFT_C_API weft_code weft_gradient_exchange_begin(weft_gradient_exchange* exchange);
// The gradient of a colayer, once in an iteration. It is copied.
WEFT_C_API weft_code weft_gradient_exchange_push(weft_gradient_exchange* exchange, int32_t colayer,
                                                 const void* gradient, size_t count,
                                                 weft_data_type type);
// mean := the means of all colayers, one after the other. `ended` may be NULL.
WEFT_C_API weft_code weft_gradient_exchange_end_iteration(weft_gradient_exchange* exchange,
                                                          void* mean, size_t count,
                                                          weft_data_type type,
                                                          weft_ended_iteration* ended);
// The ranks that contributed to the mean of each colayer in the iteration that has ended last (in a mesh: the owners
// whose means came), into contributors[0] …, of which there is room for `room`. *count becomes the number of colayers; 0: no iteration has
// ended. With contributors NULL and room 0 they are only counted.
WEFT_C_API weft_code weft_gradient_exchange_contributors(const weft_gradient_exchange* exchange,
                                                         int32_t* contributors, size_t room,
                                                         size_t* count);
// Calls change(argument) while nobody reads the model. It must not use the object.
WEFT_C_API weft_code weft_gradient_exchange_update(weft_gradient_exchange* exchange,
                                                   void (*change)(void* argument), void* argument);
// The iteration that has begun last; -1: none.
WEFT_C_API weft_code weft_gradient_exchange_iteration(const weft_gradient_exchange* exchange,
                                                      int64_t* iteration);
// How many iterations the fastest rank is ahead, as far as is known here.
WEFT_C_API weft_code weft_gradient_exchange_staleness(weft_gradient_exchange* exchange,
                                                      int64_t* staleness);
// What is known here of all ranks, in words, of which there is room for `room`. *count becomes their number. With
// words NULL and room 0 they are only counted.
WEFT_C_API weft_code weft_gradient_exchange_index(weft_gradient_exchange* exchange, uint64_t* words,
                                                  size_t room, size_t* count);
WEFT_C_API weft_code weft_gradient_exchange_get_counts(const weft_gradient_exchange* exchange,
                                                       weft_gradient_exchange_counts* counts);
WEFT_C_API weft_code weft_gradient_exchange_end(weft_gradient_exchange* exchange);  // collective

#ifdef __cplusplus
}
#endif
