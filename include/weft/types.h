// types: the values that operations take. Memory with its element type (Input, Output), operators,
// algorithms, weights of neighbors, and Request, which says as one value what a call asks for.
//
//   weft::Request sum{.collective = weft::Collective::allreduce,
//                     .input = weft::in(x, n), .output = weft::out(y, n), .op = weft::ReduceOp::sum};
//
// Values only. The memory, the counts, the weights, the feedback and the ranks that a Request names belong to
// the caller. They must stay valid until the call that takes the Request returns, and input and output
// until the operation is done.
#pragma once

#include <weft/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace WEFT_PUBLIC weft {

// The type of a tensor's elements. The values travel on the wire and are frozen.
enum class DataType : std::uint8_t {
  f16 = 0,
  bf16 = 1,
  f32 = 2,
  f64 = 3,
  i8 = 4,
  u8 = 5,
  i32 = 6,
  u32 = 7,
  i64 = 8,
  u64 = 9,
  i16 = 10,
  u16 = 11,
  bytes = 12,  // of elements of any other type, which are moved and not computed with
  e4m3 = 13,   // OCP FP8 without infinities: beyond 448 comes NaN (float8_e4m3fn)
  e5m2 = 14,   // OCP FP8 as IEEE types are: beyond 57,344 comes infinity (float8_e5m2)
};
inline constexpr std::size_t kDataTypes = 15;

// Bytes of one element; 1 for `bytes`.
[[nodiscard]] std::size_t size_of(DataType type);
// "f16", "bf16", "f32", …: the name used in messages, plans and bindings.
[[nodiscard]] std::string_view name(DataType type);
[[nodiscard]] bool is_floating(DataType type);
// The type of that name, or invalid_argument with the names there are.
[[nodiscard]] Result<DataType> data_type(std::string_view name);

// Which operation. The numbers travel on the wire and are frozen.
enum class Collective : std::uint8_t {
  neighbor_allreduce = 1,
  neighbor_allgather = 2,
  allreduce = 3,
  broadcast = 4,
  barrier = 5,
  allgather = 6,
  reduce_scatter = 7,
  reduce = 8,
  gather = 9,
  scatter = 10,
  alltoall = 11,
  // Called by some ranks only.
  send = 12,  // send and its recv
  pair_average = 13,
  group_average = 14,
  // Called by all ranks again.
  hierarchical_neighbor_allreduce = 15,
  local_allreduce = 16,
};
inline constexpr std::size_t kCollectives = 16;
[[nodiscard]] std::string_view name(Collective collective);

// Typed memory that an operation reads. `count` is in elements.
struct Input {
  const void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::f32;
  friend bool operator==(const Input&, const Input&) = default;
};
// Typed memory that an operation writes. `count` is in elements.
struct Output {
  void* data = nullptr;
  std::size_t count = 0;
  DataType type = DataType::f32;
  friend bool operator==(const Output&, const Output&) = default;
};

// Elements of the 16-bit and 8-bit floating types, as bits: C++20 has no arithmetic types for them. A
// program with a half type of its own hands its memory over as Half* or BFloat16*, or names the type:
// weft::in(data, n, DataType::f16).
struct Half {
  std::uint16_t bits = 0;
};
struct BFloat16 {
  std::uint16_t bits = 0;
};
struct Float8E4M3 {
  std::uint8_t bits = 0;
};
struct Float8E5M2 {
  std::uint8_t bits = 0;
};

// The DataType of a C++ type. Integers go by size and sign, so `long long` and `long` are both i64.
// Any other type that can be copied as bytes (bool, std::complex, a struct) is moved as `bytes`.
template <typename T>
[[nodiscard]] consteval std::optional<DataType> known_data_type() {
  constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;
  if (std::is_same_v<T, float>) return DataType::f32;
  if (std::is_same_v<T, double>) return DataType::f64;
  if (std::is_same_v<T, Half>) return DataType::f16;
  if (std::is_same_v<T, BFloat16>) return DataType::bf16;
  if (std::is_same_v<T, Float8E4M3>) return DataType::e4m3;
  if (std::is_same_v<T, Float8E5M2>) return DataType::e5m2;
  if (std::is_same_v<T, std::byte>) return DataType::u8;
  if (kIsInteger && sizeof(T) == 1) return std::is_signed_v<T> ? DataType::i8 : DataType::u8;
  if (kIsInteger && sizeof(T) == 2) return std::is_signed_v<T> ? DataType::i16 : DataType::u16;
  if (kIsInteger && sizeof(T) == 4) return std::is_signed_v<T> ? DataType::i32 : DataType::u32;
  if (kIsInteger && sizeof(T) == 8) return std::is_signed_v<T> ? DataType::i64 : DataType::u64;
  if (std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>) return DataType::bytes;
  return std::nullopt;
}
// A type that has a DataType. in() and out() of any other type (a pointer, a std::string) do not
// compile.
template <typename T>
concept Element = known_data_type<T>()
.has_value();
template <Element T>
inline constexpr DataType data_type_of = *known_data_type<T>();
// Elements of that DataType in one T: sizeof(T) where T is moved as `bytes`, else 1. The counts of a
// call are in elements, too.
template <Element T>
inline constexpr std::size_t elements_of = data_type_of<T> == DataType::bytes ? sizeof(T) : 1;

template <Element T>
[[nodiscard]] Input in(const T* data, std::size_t count) {
  return {data, count * elements_of<T>, data_type_of<T>};
}
template <Element T>
[[nodiscard]] Output out(T* data, std::size_t count) {
  return {data, count * elements_of<T>, data_type_of<T>};
}
// The same for memory whose type the compiler does not know.
[[nodiscard]] inline Input in(const void* data, std::size_t count, DataType type) {
  return {data, count, type};
}
[[nodiscard]] inline Output out(void* data, std::size_t count, DataType type) {
  return {data, count, type};
}

// A weight for one neighbor.
struct NeighborWeight {
  Rank rank = kNoRank;
  double weight = 1.0;
};

// The weights of one call of neighbor_allreduce, y_i = self x_i + sum of r_ij s_ij x_j over
// in-neighbors j, where r_ij is a weight of `sources` and s_ij one of j's `destinations`. Parts that
// are absent follow the graph:
//  - nothing given: the graph's weights if the graph was set as weighted, else uniform weights
//    1/(in-degree+1).
//  - self + sources (pull): any subset of the graph's in-neighbors; the data of the others is not
//    used.
//  - self + destinations (push): s_ij for any subset of the graph's out-neighbors. The in-neighbors
//    that push to this rank in this step need not be known here; their data counts with the weight
//    that they gave.
//  - self, sources and destinations: the edges need not be in the graph.
struct NeighborWeights {
  std::optional<double> self;
  std::optional<std::span<const NeighborWeight>> sources;
  std::optional<std::span<const NeighborWeight>> destinations;
  // A step of push-sum (SGP, Algorithm 1): self and destinations must sum to 1 within 1e-6,
  // else the step would create or lose mass; any other sum is invalid_argument.
  bool push_sum = false;

  [[nodiscard]] bool names_all() const { return self && sources && destinations; }
  [[nodiscard]] bool names_none() const { return !self && !sources && !destinations; }
};

// How the elements of several ranks become one.
enum class ReduceOp : std::uint8_t { sum, average, min, max, product, bit_and, bit_or, bit_xor };
[[nodiscard]] std::string_view name(ReduceOp op);

enum class AllreduceAlgorithm : std::uint8_t {
  automatic,
  direct,  // each rank reads all others: one phase, (n-1) M bytes in; for small messages
  split,   // rank r reduces block r of all ranks, all ranks copy it: two phases, 2 M (n-1)/n bytes
  ring,    // 2(n-1) phases with one neighbor each
  halving_doubling,  // 2 log2 n phases; ranks beyond a power of two give away their input first
  bcube,         // n = a^b: b parts at once, each over the b levels in another order (Canary, 4.4)
  torus,         // rings along each dimension, with one part of the tensor for each dimension
  multi_ring,    // one ring for each rail, if possible over different orders of the ranks
  hierarchical,  // shares are reduced inside each machine, then between machines, then gathered
  // NVIDIA's NCCL does it, for ranks of one machine that each have their tensors on a GPU of their own.
  // Where it cannot, all ranks get the same error (docs/gpu.md).
  nccl,
};
[[nodiscard]] std::string_view name(AllreduceAlgorithm algorithm);
// Accepts what name() returns, "mesh" (Canary's name for split), and "auto".
[[nodiscard]] Result<AllreduceAlgorithm> allreduce_algorithm(std::string_view name);

// Which bits a sum has, of floating numbers, whose sum depends on the order (docs/bits.md).
enum class Bits : std::uint8_t {
  automatic,  // what is fastest; every run of the same job on the same network gives the same bits
  fixed,      // those of the sum in the order of the ranks, whatever carries it and however
};
[[nodiscard]] std::string_view name(Bits bits);
// Accepts what name() returns, and "auto".
[[nodiscard]] Result<Bits> bits(std::string_view name);

// How tensors travel. What arrives is not exactly what was sent (docs/compression.md). The values travel and
// are frozen.
enum class Compression : std::uint8_t {
  none = 0,
  f16 = 1,       // 2 bytes an element
  bf16 = 2,      // 2 bytes an element
  sketch = 3,    // 1 byte an element and 1 KiB: quantiles, 253 of them at most (Canary, 4.3.1)
  e4m3 = 4,      // 1 byte an element: FP8, scaled so that the largest element fits
  e5m2 = 5,      // 1 byte an element: the same with more range and less precision
  low_rank = 6,  // matrices by their largest singular values (LowRank); other tensors as a sketch
};
inline constexpr std::size_t kCompressions = 7;
[[nodiscard]] std::string_view name(Compression compression);
// Accepts what name() returns.
[[nodiscard]] Result<Compression> compression(std::string_view name);

// What Compression::low_rank makes of a tensor: a matrix of so many rows, of which the `rank` largest singular
// values travel. Without rows they are the first extent of Request::shape. The same on all ranks.
struct LowRank {
  std::size_t rows = 0;
  std::uint32_t rank = 4;
  friend bool operator==(const LowRank&, const LowRank&) = default;
};

// Who waits for whom in a gradient exchange (weft/gradient_exchange.h).
enum class ExchangeRule : std::uint8_t { bulk, bounded, asynchronous, canary };
[[nodiscard]] std::string_view name(ExchangeRule rule);
// Accepts what name() returns.
[[nodiscard]] Result<ExchangeRule> exchange_rule(std::string_view name);

class ErrorFeedback;  // weft/feedback.h

// A CUDA stream: a CUstream or cudaStream_t. nullptr is the default stream.
struct Stream {
  void* handle = nullptr;
  friend bool operator==(const Stream&, const Stream&) = default;
};

// A call. Fields that an operation does not use keep their defaults.
struct Request {
  Collective collective = Collective::barrier;
  Input input{};
  Output output{};
  ReduceOp op = ReduceOp::average;
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::automatic;
  // Of operations that sum; the same on all ranks. `automatic`: as Config::bits says.
  Bits bits = Bits::automatic;
  // Whether a result without some of the ranks is of no use. Under OnDeath::skip the call then ends with
  // peer_died where others would run among the ranks that are left (docs/reliability.md). Of operations of
  // all ranks; the same on all ranks.
  bool needs_all = false;
  // neighbor_allreduce and allreduce (sum, average) of f32 in memory of the host; the same on all ranks.
  Compression compression = Compression::none;
  LowRank low_rank{};  // of Compression::low_rank
  // Adds what compression has taken from the last tensor; nullptr: that is lost. Each rank's own choice.
  const ErrorFeedback* feedback = nullptr;
  Rank root = kNoRank;                    // broadcast, reduce, gather, scatter
  Rank peer = kNoRank;                    // send, recv, pair_average
  bool receives = false;                  // recv, where the collective is `send`
  std::span<const std::size_t> counts{};  // elements of each rank's part; alltoallv: to each
  std::span<const std::size_t> receive_counts{};  // alltoallv: elements from each rank
  std::span<const Rank> group{};                  // group_average: its members
  double self_weight = 0.5;                       // pair_average
  double pair_weight = 0.5;
  // neighbor_allreduce, and by machines hierarchical_neighbor_allreduce; nullptr: nothing given.
  const NeighborWeights* weights = nullptr;
  // For GPU memory. The operation begins after the work that is in the stream at the call, and work
  // that is queued later waits for its end. Without a stream, the operation begins after the work
  // in the default stream, and has ended when the call returns or its handle is done.
  std::optional<Stream> stream{};
  // Extents of the tensor, outermost first. Operations by name compare them, because tensors of equal
  // size may differ in shape. Where the sizes of ranks may differ, as in an allgather, the first
  // extent may, too. Empty: not compared.
  std::span<const std::size_t> shape{};

  [[nodiscard]] bool names_all_peers() const { return weights != nullptr && weights->names_all(); }
};

}  // namespace weft
