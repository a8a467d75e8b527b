// The C API: types of elements, operators, weights of neighbors, and the request, which says as one
// value what an operation shall do. The numbers are those of the C++ API and are frozen.
#pragma once

#include <weft/c/base.h>

#ifdef __cplusplus
extern "C" {
#endif

// The type of a tensor's elements.
typedef int32_t weft_data_type;
enum {
  WEFT_F16 = 0,
  WEFT_BF16 = 1,
  WEFT_F32 = 2,
  WEFT_F64 = 3,
  WEFT_I8 = 4,
  WEFT_U8 = 5,
  WEFT_I32 = 6,
  WEFT_U32 = 7,
  WEFT_I64 = 8,
  WEFT_U64 = 9,
  WEFT_I16 = 10,
  WEFT_U16 = 11,
  WEFT_BYTES = 12,  // of elements of any other type, which are moved and not computed with
  WEFT_E4M3 = 13,   // OCP FP8 without infinities: beyond 448 comes NaN (float8_e4m3fn)
  WEFT_E5M2 = 14    // OCP FP8 as IEEE types are: beyond 57,344 comes infinity (float8_e5m2)
};
// Bytes of one element; 0 for a number that is no type.
WEFT_C_API size_t weft_data_type_size(weft_data_type type);
// "f16", "bf16", "f32", …; "unknown" for a number that is no type. Static memory.
WEFT_C_API const char* weft_data_type_name(weft_data_type type);
// Finds the type of such a name.
WEFT_C_API weft_code weft_data_type_from_name(const char* name, weft_data_type* type);

// How the elements of several ranks become one; zero is the sum. An average of integers is WEFT_INVALID_ARGUMENT, and so is
// anything of WEFT_BYTES.
typedef int32_t weft_reduce_op;
enum {
  WEFT_SUM = 0,
  WEFT_AVERAGE = 1,
  WEFT_MIN = 2,
  WEFT_MAX = 3,
  WEFT_PRODUCT = 4,
  WEFT_BIT_AND = 5,
  WEFT_BIT_OR = 6,
  WEFT_BIT_XOR = 7
};

// How an allreduce is done. One that these ranks cannot do is WEFT_INVALID_ARGUMENT, and WEFT_NCCL
// where a rank cannot use NCCL is WEFT_UNAVAILABLE.
typedef int32_t weft_algorithm;
enum {
  WEFT_AUTOMATIC = 0,         // by the size of the tensor and the machines
  WEFT_DIRECT = 1,            // each rank reads all others; for small messages
  WEFT_SPLIT = 2,             // rank r reduces block r of all ranks, all ranks copy it
  WEFT_RING = 3,              // 2(n-1) phases with one neighbor each
  WEFT_HALVING_DOUBLING = 4,  // 2 log2 n phases
  WEFT_BCUBE = 5,             // n = a^b: b parts at once over the b levels
  WEFT_TORUS = 6,             // rings along each dimension
  WEFT_MULTI_RING = 7,        // one ring for each rail
  WEFT_HIERARCHICAL = 8,      // inside each machine, then between machines
  WEFT_NCCL = 9               // by NVIDIA's NCCL, on the GPUs of one machine
};
// Finds the algorithm of a name: "auto", "direct", "halving_doubling", …
WEFT_C_API weft_code weft_algorithm_from_name(const char* name, weft_algorithm* algorithm);

// Which bits a sum has (docs/bits.md).
typedef int32_t weft_bits;
enum {
  WEFT_BITS_AUTOMATIC = 0,  // as the context's setting WEFT_BITS says
  WEFT_BITS_FIXED = 1       // those of the sum in the order of the ranks
};

// How tensors travel (docs/compression.md): neighbor_allreduce and allreduce of f32 in memory of the host.
typedef int32_t weft_compression;
enum {
  WEFT_COMPRESSION_NONE = 0,
  WEFT_COMPRESSION_F16 = 1,     // 2 bytes an element
  WEFT_COMPRESSION_BF16 = 2,    // 2 bytes an element
  WEFT_COMPRESSION_SKETCH = 3,  // 1 byte an element and 1 KiB
  WEFT_COMPRESSION_E4M3 = 4,    // 1 byte an element: FP8, scaled so that the largest element fits
  WEFT_COMPRESSION_E5M2 = 5,    // 1 byte an element: the same with more range and less precision
  WEFT_COMPRESSION_LOW_RANK =
      6  // matrices by their largest singular values; other tensors as a sketch
};
// Finds the compression of a name: "none", "f16", "bf16", "sketch", "e4m3", "e5m2", "low_rank".
WEFT_C_API weft_code weft_compression_from_name(const char* name, weft_compression* compression);

// Which operation a weft_request asks for: WEFT_ALLREDUCE, …; weft/c/operations.h has them all.
typedef int32_t weft_operation;

// The other end of an edge, and the edge's weight.
typedef struct weft_peer {
  int32_t rank;
  double weight;
} weft_peer;

// The weights of one call of neighbor_allreduce. Parts that are absent follow the graph:
//  - nothing given: the graph's weights if the graph was set as weighted, else uniform weights
//    1/(in-degree+1).
//  - self + sources (pull): any subset of the graph's in-neighbors; the data of the others is not
//    used.
//  - self + destinations (push): weights for any subset of the graph's out-neighbors. The ranks
//    that push to this one need not be known here; their data counts with the weight that they
//    gave.
//  - self, sources and destinations: the edges need not be in the graph, and a rank's data counts
//    with the product of the weights at both ends.
// The arrays belong to the caller and are read during the call only.
typedef struct weft_weights {
  size_t size;              // sizeof(weft_weights)
  int32_t has_self_weight;  // 0: absent, and then self_weight is 0
  int32_t is_push_sum;      // 1: self_weight and destinations must sum to 1 within 1e-6
  double self_weight;
  const weft_peer* sources;  // NULL: absent; an empty set is not NULL and has the count 0
  size_t source_count;
  const weft_peer* destinations;  // the same
  size_t destination_count;
} weft_weights;

// What compression has taken from one tensor, which is added to the next one: weft/feedback.h has the rule.
// One for each tensor, kept from step to step. Freed by the caller, also while an operation uses it.
typedef struct weft_feedback weft_feedback;
WEFT_C_API weft_code weft_feedback_create(weft_feedback** feedback);
// Writes the residual's elements, at most `capacity`, and sets *count to how many it has; 0: none yet.
// WEFT_INVALID_ARGUMENT while an operation uses it; so is weft_feedback_clear(), which begins anew.
WEFT_C_API weft_code weft_feedback_residual(weft_feedback* feedback, float* residual,
                                            size_t capacity, size_t* count);
WEFT_C_API weft_code weft_feedback_clear(weft_feedback* feedback);
WEFT_C_API weft_code weft_feedback_free(weft_feedback* feedback);

// A CUDA stream: a CUstream or cudaStream_t. NULL is the default stream.
typedef struct weft_stream {
  void* handle;
} weft_stream;

// What an operation shall do. Members that the operation does not use are not read.
typedef struct weft_request {
  size_t size;  // sizeof(weft_request)
  weft_operation operation;
  weft_data_type type;       // of the elements of x and y
  const void* x;             // input
  size_t x_count;            // elements
  void* y;                   // output
  size_t y_count;            // elements
  weft_reduce_op op;         // allreduce, local_allreduce, reduce_scatter, reduce
  weft_algorithm algorithm;  // allreduce
  int32_t root;              // broadcast, reduce, gather, scatter
  int32_t peer;              // send, recv, pair_average: the other rank
  int32_t receives;          // WEFT_SEND: 1 receives into y, 0 sends x
  int32_t has_pair_weights;  // pair_average: 0 stands for 1/2 and 1/2, and then both are 0
  double self_weight;        // pair_average: of this rank's x
  double pair_weight;        // pair_average: of the peer's x
  const size_t* counts;  // elements of each rank's part; alltoall: to each rank; NULL: equal parts
  size_t counts_length;
  const size_t* receive_counts;  // alltoall: elements from each rank
  size_t receive_counts_length;
  const int32_t* group;  // group_average: its ranks
  size_t group_length;
  const weft_weights* weights;  // (hierarchical_)neighbor_allreduce; NULL: nothing given
  // For x and y in GPU memory: the operation begins after the work in the stream, and work that is
  // queued later waits for its end. NULL: it begins after the work in the default stream, and has
  // ended when the call returns or its handle is done.
  const weft_stream* stream;
  // Operations by name: extents of the tensor, outermost first, which ranks compare. NULL: they do not.
  const size_t* shape;
  size_t dimensions;
  weft_compression compression;  // of neighbor_allreduce and allreduce
  // Of WEFT_COMPRESSION_LOW_RANK: how many singular values travel; 0: 4. The tensor is a matrix, whose rows
  // are the first extent of `shape`.
  int32_t low_rank;
  weft_feedback* feedback;  // of compressed tensors; NULL: what is lost is lost
  weft_bits bits;           // of operations that sum
  // 1: under WEFT_ON_DEATH=skip the call ends with WEFT_PEER_DIED once a rank is gone, where others run among
  // the ranks that are left. Of operations of all ranks; the same on all ranks.
  int32_t needs_all;
} weft_request;

#ifdef __cplusplus
}
#endif
