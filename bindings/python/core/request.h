// request: a weft::Request made of Python arguments, together with the vectors that it refers to.
#pragma once

#include <nanobind/nanobind.h>
#include <weft/weft.h>

#include <optional>
#include <vector>

namespace weft::python {

namespace nb = nanobind;

// The arguments of run_raw and start_raw that are not plain numbers. Absent ones are None.
struct RawOptions {
  nb::handle counts, receive_counts, group;
  nb::handle sources, destinations;
  std::optional<double> self_weight, pair_weight;
  bool push_sum = false;
  std::optional<std::uintptr_t> stream{};  // of a GPU
  nb::handle shape{};                      // of the tensor
};

// Each raises InvalidArgument, with `what` in its text, for things of another kind.
[[nodiscard]] DataType type_of(int number);
[[nodiscard]] std::vector<Rank> read_ranks(const char* what, nb::handle from);
// A dictionary from ranks to weights, or ranks alone, whose weights are 1.
void read_weights(const char* what, nb::handle from, std::vector<NeighborWeight>& to);
[[nodiscard]] inline bool is_given(nb::handle value) {
  return value.is_valid() && !value.is_none();
}

// A stream by its handle; None: no stream.
inline std::optional<Stream> stream_of(std::optional<std::uintptr_t> handle) {
  return handle ? std::optional(Stream{reinterpret_cast<void*>(*handle)}) : std::nullopt;
}

class CallArguments {
 public:
  // Sets the operation and its memory. Raises InvalidArgument for a number that names no operation,
  // type, operator or algorithm.
  CallArguments(int kind, std::uintptr_t x, std::size_t nx, std::uintptr_t y, std::size_t ny,
                int dtype, int op, int algorithm);
  CallArguments(int kind, const Input& x, const Output& y, int op, int algorithm);
  CallArguments(const CallArguments&) = delete;
  CallArguments& operator=(const CallArguments&) = delete;

  void set_peers(Rank root, Rank peer, bool receives) {
    request_.root = root;
    request_.peer = peer;
    request_.receives = receives;
  }
  void set_stream(std::optional<std::uintptr_t> handle) { request_.stream = stream_of(handle); }
  // Copies counts, ranks and weights.
  void set_options(const RawOptions& options);

  [[nodiscard]] const Request& request() const { return request_; }

 private:
  void set_weights(const RawOptions& options);

  Request request_;
  std::vector<std::size_t> counts_, receive_counts_, shape_;
  std::vector<Rank> group_;
  std::vector<NeighborWeight> sources_, destinations_;
  NeighborWeights weights_;
};

}  // namespace weft::python
