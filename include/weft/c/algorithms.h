// The C API: methods of decentralized learning on top of windows. weft/algorithms.h says what each
// does, who waits for whom, and what memory it needs.
//
//   weft_push_sum* push_sum = NULL;
//   weft_push_sum_create(context, schedule, x, n, WEFT_F32, NULL, &push_sum);   // collective
//   weft_push_sum_begin_step(push_sum);    // shares of x leave
//   …                                      // a gradient at z, meanwhile
//   weft_push_sum_end_step(push_sum, -1);  // what has arrived is in x
//   weft_push_sum_debias(push_sum, z, n, WEFT_F32);
//   weft_push_sum_end(push_sum);           // collective
//   weft_push_sum_free(push_sum);          // the handle
//
// A method of its own header: weft/c/gradient_exchange.h.
//
// The tensor given to `…_create` must outlive the object; memory of weft_allocate() saves copies. It may be on a
// GPU: calls then begin after the work in the stream of the options (NULL: the default stream), and what they
// write is there when they return.
// Calls on an object whose context was closed are WEFT_CLOSED. Calls of several threads on one
// object are serialized. `patience_ns` negative: the deadline of the context. An `options` struct
// may be NULL, and zeros and NULL in it are the defaults.
#pragma once

#include <weft/c/context.h>
#include <weft/c/schedule.h>
#include <weft/c/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Push-sum over a schedule whose columns sum to 1: SGP.
typedef struct weft_push_sum weft_push_sum;

typedef struct weft_push_sum_options {
  size_t size;                // sizeof(weft_push_sum_options)
  const char* name;           // of the windows; NULL: "push_sum"
  uint64_t lag;               // how many steps messages may be late; UINT64_MAX: waits for nobody
  const weft_stream* stream;  // of a GPU; NULL: the default stream
} weft_push_sum_options;

WEFT_C_API weft_code weft_push_sum_create(weft_context* context, const weft_schedule* schedule,
                                          void* x, size_t count, weft_data_type type,
                                          const weft_push_sum_options* options,
                                          weft_push_sum** push_sum);
WEFT_C_API weft_code weft_push_sum_free(weft_push_sum* push_sum);
WEFT_C_API weft_code weft_push_sum_begin_step(weft_push_sum* push_sum);
// WEFT_TIMED_OUT after the patience: the step has not ended, and the call may be repeated.
WEFT_C_API weft_code weft_push_sum_end_step(weft_push_sum* push_sum, int64_t patience_ns);
WEFT_C_API weft_code weft_push_sum_step(weft_push_sum* push_sum);  // both
// z := x / w.
WEFT_C_API weft_code weft_push_sum_debias(weft_push_sum* push_sum, void* z, size_t count,
                                          weft_data_type type);
WEFT_C_API weft_code weft_push_sum_weight(weft_push_sum* push_sum, double* weight);
WEFT_C_API weft_code weft_push_sum_steps(weft_push_sum* push_sum, uint64_t* steps);
// Takes all messages that are under way. Collective.
WEFT_C_API weft_code weft_push_sum_settle(weft_push_sum* push_sum);
WEFT_C_API weft_code weft_push_sum_end(weft_push_sum* push_sum);  // collective

// D-PSGD with one peer a step.
typedef struct weft_dpsgd weft_dpsgd;

WEFT_C_API weft_code weft_dpsgd_create(weft_context* context, const weft_schedule* schedule,
                                       weft_dpsgd** dpsgd);
WEFT_C_API weft_code weft_dpsgd_free(weft_dpsgd* dpsgd);
// y := the average with this step's peer; may be the same memory as x.
WEFT_C_API weft_code weft_dpsgd_step(weft_dpsgd* dpsgd, const void* x, void* y, size_t count,
                                     weft_data_type type);
WEFT_C_API weft_code weft_dpsgd_steps(weft_dpsgd* dpsgd, uint64_t* steps);

// AD-PSGD on the context's graph. Several threads may average at once.
typedef struct weft_ad_psgd weft_ad_psgd;

typedef struct weft_ad_psgd_options {
  size_t size;                // sizeof(weft_ad_psgd_options)
  const char* name;           // of the window; NULL: "ad_psgd"
  uint64_t seed;              // of the choice of peers; 0: 1
  const weft_stream* stream;  // of a GPU; NULL: the default stream
} weft_ad_psgd_options;

WEFT_C_API weft_code weft_ad_psgd_create(weft_context* context, void* model, size_t count,
                                         weft_data_type type, const weft_ad_psgd_options* options,
                                         weft_ad_psgd** ad_psgd);
WEFT_C_API weft_code weft_ad_psgd_free(weft_ad_psgd* ad_psgd);
// Averages with this out-neighbor, or with a random one, which *peer names (-1: there is none; peer
// may be NULL).
WEFT_C_API weft_code weft_ad_psgd_average_with(weft_ad_psgd* ad_psgd, int32_t peer);
WEFT_C_API weft_code weft_ad_psgd_average(weft_ad_psgd* ad_psgd, int32_t* peer);
// Calls change(argument) while nobody else reads or writes the model. It must not use the object.
WEFT_C_API weft_code weft_ad_psgd_update(weft_ad_psgd* ad_psgd, void (*change)(void* argument),
                                         void* argument);
// y := the model.
WEFT_C_API weft_code weft_ad_psgd_read(weft_ad_psgd* ad_psgd, void* y, size_t count,
                                       weft_data_type type);
WEFT_C_API weft_code weft_ad_psgd_end(weft_ad_psgd* ad_psgd);  // collective

// Partial all-reduce in groups that a generator makes: Prague. A rank that frees the handle before `…_end`
// has left the others, as if it had died.
typedef struct weft_partial_allreduce weft_partial_allreduce;

typedef struct weft_partial_allreduce_options {
  size_t size;        // sizeof(weft_partial_allreduce_options)
  const char* name;   // begins what errors say; NULL: "partial_allreduce"
  const char* law;    // smart, smart:SIZE, random, random:SIZE, pairs or static; NULL: "smart"
  uint64_t seed;      // of the groups; 0: 1
  int32_t threshold;  // of smart: iterations of others while a slow worker computes one; 0: 2
  int32_t section;    // averages only in every so many calls of average(); 0: 1
  const weft_stream* stream;  // of a GPU; NULL: the default stream
} weft_partial_allreduce_options;

typedef struct weft_partial_allreduce_usage {
  size_t size;                 // sizeof(weft_partial_allreduce_usage), set by the caller
  uint64_t messages_sent;      // of this rank to the generator
  uint64_t messages_received;  // of the generator to this rank
  uint64_t groups;             // in which this rank averaged with others
  uint64_t successions;        // new generators, or old ones that lost workers
} weft_partial_allreduce_usage;

WEFT_C_API weft_code weft_partial_allreduce_create(weft_context* context, void* model, size_t count,
                                                   weft_data_type type,
                                                   const weft_partial_allreduce_options* options,
                                                   weft_partial_allreduce** partial);
WEFT_C_API weft_code weft_partial_allreduce_free(weft_partial_allreduce* partial);
// Asks for a group, unless this rank has asked.
WEFT_C_API weft_code weft_partial_allreduce_begin(weft_partial_allreduce* partial);
// The model becomes the mean of the models of a group. The group's ranks, ascending, are written to group[0] …,
// of which there is room for `room`, at least for all ranks of the context. *count becomes how many there are;
// 0: nothing was averaged, between two sections. With group NULL and room 0 they are only counted; then count may
// be NULL as well.
WEFT_C_API weft_code weft_partial_allreduce_average(weft_partial_allreduce* partial, int32_t* group,
                                                    size_t room, size_t* count);
WEFT_C_API weft_code weft_partial_allreduce_get_usage(const weft_partial_allreduce* partial,
                                                      weft_partial_allreduce_usage* usage);
WEFT_C_API weft_code weft_partial_allreduce_end(weft_partial_allreduce* partial);  // collective

// Neighbor averages of the newest versions, of which none may be too old.
typedef struct weft_bounded_staleness weft_bounded_staleness;

typedef struct weft_bounded_staleness_options {
  size_t size;        // sizeof(weft_bounded_staleness_options)
  const char* name;   // of the windows; NULL: "bounded_staleness"
  int32_t has_bound;  // 0: absent, which stands for 1, and then bound is 0
  int32_t reserved;   // 0
  uint64_t bound;     // versions that a rank may be ahead
} weft_bounded_staleness_options;

WEFT_C_API weft_code weft_bounded_staleness_create(weft_context* context, void* x, size_t count,
                                                   weft_data_type type,
                                                   const weft_bounded_staleness_options* options,
                                                   weft_bounded_staleness** staleness);
WEFT_C_API weft_code weft_bounded_staleness_free(weft_bounded_staleness* staleness);
WEFT_C_API weft_code weft_bounded_staleness_publish(weft_bounded_staleness* staleness);
WEFT_C_API weft_code weft_bounded_staleness_wait(weft_bounded_staleness* staleness,
                                                 int64_t patience_ns);
WEFT_C_API weft_code weft_bounded_staleness_average(weft_bounded_staleness* staleness);
// publish, wait, average.
WEFT_C_API weft_code weft_bounded_staleness_step(weft_bounded_staleness* staleness);
WEFT_C_API weft_code weft_bounded_staleness_version(weft_bounded_staleness* staleness,
                                                    uint64_t* version);
// The newest version of each in-neighbor, ascending by rank, into versions[0] … of which there is
// room for `room`. *count becomes the number of in-neighbors.
WEFT_C_API weft_code weft_bounded_staleness_delivered(weft_bounded_staleness* staleness,
                                                      uint64_t* versions, size_t room,
                                                      size_t* count);
WEFT_C_API weft_code weft_bounded_staleness_end(weft_bounded_staleness* staleness);  // collective

#ifdef __cplusplus
}
#endif
