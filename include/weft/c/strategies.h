// The C API: ways to train one model together, by name. weft/strategies.h says what each does and
// who waits for whom.
//
//   weft_strategy* strategy = NULL;
//   const weft_strategy_options options = {.size = sizeof(options), .rate = 0.05};
//   weft_strategy_create(context, "qg_dmsgd", x, n, WEFT_F32, &options, &strategy);  // collective
//   for (…) {
//     weft_strategy_begin(strategy);        // what can travel beside the computation starts
//     compute_gradient(x, slope);           // at the model, which must not change meanwhile
//     weft_strategy_step(strategy, slope, n, WEFT_F32);
//   }
//   weft_strategy_end(strategy);            // collective
//   weft_strategy_free(strategy);           // the handle
//
// The model must outlive the strategy, whose handle may be freed before it has ended: what other ranks may
// still use, the context keeps. For dpsgd:awc, weft_strategy_free() in an iteration waits for the sum that
// travels. Calls on a strategy whose context was closed are WEFT_CLOSED. Calls of several
// threads on one strategy are serialized.
#pragma once

#include <weft/c/context.h>
#include <weft/c/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_strategy weft_strategy;

// What is absent is the strategy's default. An option that is set and that the strategy does not have
// is WEFT_INVALID_ARGUMENT.
typedef struct weft_strategy_options {
  size_t size;                   // sizeof(weft_strategy_options)
  const char* name;              // begins the names of windows; NULL: "strategy"
  double rate;                   // 0: 0.1
  double momentum;               // if has_momentum; else 0
  double outer_rate;             // if has_outer_rate; else 0
  double outer_momentum;         // if has_outer_momentum; else 0
  uint64_t seed;                 // of random choices; 0: absent
  int32_t section;               // steps between two exchanges; 0: absent
  int32_t peers;                 // 1 or 2; 0: absent
  int32_t colayers;              // of canary…: pieces of the model; 0: absent
  int32_t staleness;             // of canary, canary:bounded: iterations, if has_staleness; else 0
  int32_t proportion;            // of canary: colayers, if has_proportion; else 0
  weft_compression compression;  // how gradients and models travel
  int32_t has_momentum;          // 0: absent
  int32_t has_outer_rate;        // the same
  int32_t has_outer_momentum;    // the same
  int32_t has_staleness;         // the same
  int32_t has_proportion;        // the same
  const weft_stream* stream;     // of a model on a GPU; NULL: the default stream
  const char* topology;          // of canary…: all_to_all or mesh; NULL: absent
} weft_strategy_options;

typedef struct weft_strategy_counts {
  size_t size;       // sizeof(weft_strategy_counts), set by the caller
  uint64_t steps;    // that were taken
  uint64_t bytes;    // of tensors that this rank has sent, or has moved from and to a peer
  uint64_t dropped;  // gradients that are in no model
} weft_strategy_counts;

// The names of all strategies, which are static memory: at most `capacity` are written to `names`, and
// *count becomes how many there are. With names NULL and capacity 0 they are only counted.
WEFT_C_API weft_code weft_strategy_names(const char** names, size_t capacity, size_t* count);

// `options` may be NULL. Collective. The model of rank 0 becomes that of all ranks.
WEFT_C_API weft_code weft_strategy_create(weft_context* context, const char* name, void* model,
                                          size_t count, weft_data_type type,
                                          const weft_strategy_options* options,
                                          weft_strategy** strategy);
WEFT_C_API weft_code weft_strategy_free(weft_strategy* strategy);
// An iteration begins, before its gradient is computed. If it is not called, step() calls it.
WEFT_C_API weft_code weft_strategy_begin(weft_strategy* strategy);
// Ends the iteration. The gradient has the count and type of the model.
WEFT_C_API weft_code weft_strategy_step(weft_strategy* strategy, const void* gradient, size_t count,
                                        weft_data_type type);
// The rate of the steps from here on; all ranks give the same.
WEFT_C_API weft_code weft_strategy_set_rate(weft_strategy* strategy, double rate);
// *name := the strategy's name, which is static memory.
WEFT_C_API weft_code weft_strategy_name(const weft_strategy* strategy, const char** name);
// *is_free := 1 if ranks may take different numbers of steps, else 0.
WEFT_C_API weft_code weft_strategy_runs_free(const weft_strategy* strategy, int32_t* is_free);
WEFT_C_API weft_code weft_strategy_get_counts(const weft_strategy* strategy,
                                              weft_strategy_counts* counts);
// Takes what is under way, and frees what the strategy has made. The model stays. Collective.
WEFT_C_API weft_code weft_strategy_end(weft_strategy* strategy);

#ifdef __cplusplus
}
#endif
