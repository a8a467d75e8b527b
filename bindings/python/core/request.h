// request: a weft::Request made of Python arguments, together with what it refers to.
#pragma once

#include <nanobind/nanobind.h>
#include <weft/weft.h>

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bindings/python/core/keep.h"

namespace weft::python {

namespace nb = nanobind;

// Each raises InvalidArgument, with `what` in its text, for things of another kind.
[[nodiscard]] DataType type_of(int number);
[[nodiscard]] std::vector<Rank> read_ranks(const char* what, nb::handle from);
// A dictionary from ranks to weights, or ranks alone, whose weights are 1.
void read_weights(const char* what, nb::handle from, std::vector<NeighborWeight>& to);
[[nodiscard]] inline bool is_given(nb::handle value) {
  return value.is_valid() && !value.is_none();
}

[[nodiscard]] Compression compression_of(int number);

// A stream by its handle; None: no stream.
inline std::optional<Stream> stream_of(std::optional<std::uintptr_t> handle) {
  return handle ? std::optional(Stream{reinterpret_cast<void*>(*handle)}) : std::nullopt;
}

// The arguments of a request that are not plain numbers. Absent ones are None.
struct RequestOptions {
  nb::handle counts, receive_counts, group;
  nb::handle sources, destinations;
  std::optional<double> self_weight, pair_weight;
  bool push_sum = false;
  std::optional<std::uintptr_t> stream{};  // of a GPU
  nb::handle shape{};                      // of the tensor
  int compression = 0;
  nb::handle feedback{};  // an ErrorFeedback
  nb::handle low_rank{};  // rows, and the rank
  int bits = 0;
  bool needs_all = false;
};

// A request on memory given by address, and the objects that own the memory. The core reads it
// without the GIL, and nothing changes it.
class PyRequest {
 public:
  // Raises InvalidArgument for a number that names no operation, type, operator or algorithm; set_options() for a compression.
  PyRequest(int kind, const Input& x, const Output& y, int op, int algorithm);
  PyRequest(const PyRequest&) = delete;
  PyRequest& operator=(const PyRequest&) = delete;

  void set_peers(Rank root, Rank peer, bool receives) {
    request_.root = root;
    request_.peer = peer;
    request_.receives = receives;
  }
  // Copies counts, ranks and weights.
  void set_options(const RequestOptions& options);
  void set_shape(std::span<const std::size_t> shape) {
    shape_.assign(shape.begin(), shape.end());
    request_.shape = shape_;
  }
  // What lives until the operation is done; None: the memory is the caller's alone.
  void set_kept(nb::object kept) { kept_ = keep(std::move(kept)); }

  [[nodiscard]] const Request& get() const { return request_; }
  [[nodiscard]] const SharedKept& kept() const { return kept_; }

 private:
  void set_weights(const RequestOptions& options);

  Request request_;
  std::vector<std::size_t> counts_, receive_counts_, shape_;
  std::vector<Rank> group_;
  std::vector<NeighborWeight> sources_, destinations_;
  NeighborWeights weights_;
  std::optional<ErrorFeedback> feedback_;
  SharedKept kept_;
};

}  // namespace weft::python
