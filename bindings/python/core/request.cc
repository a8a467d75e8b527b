// request: reading counts, ranks and weights out of Python sequences and dictionaries.
#include "bindings/python/core/request.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <string>
#include <utility>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"

namespace weft::python {
namespace {

constexpr int kLastCollective = static_cast<int>(kCollectives);
constexpr int kLastReduceOp = static_cast<int>(ReduceOp::bit_xor);
constexpr int kLastAlgorithm = static_cast<int>(AllreduceAlgorithm::nccl);

template <typename Enum>
Enum checked(const char* what, int value, int first, int last) {
  if (value < first || value > last) {
    raise_invalid(std::string(what) + " " + std::to_string(value) + " does not exist");
  }
  return static_cast<Enum>(value);
}

template <typename T>
void read_numbers(const char* what, nb::handle from, std::vector<T>& to) {
  for (const nb::handle each : nb::borrow<nb::object>(from)) {
    T value{};
    if (!nb::try_cast(each, value)) {
      raise_invalid(std::string(what) + " must be whole numbers, not " + nb::repr(each).c_str());
    }
    to.push_back(value);
  }
}

NeighborWeight one_weight(const char* what, nb::handle rank, nb::handle weight) {
  NeighborWeight result;
  if (!nb::try_cast(rank, result.rank)) {
    raise_invalid(std::string(what) + ": a rank must be a whole number, not " +
                  nb::repr(rank).c_str());
  }
  if (weight.is_valid() && !nb::try_cast(weight, result.weight)) {
    raise_invalid(std::string(what) + ": the weight of rank " + std::to_string(result.rank) +
                  " must be a number, not " + nb::repr(weight).c_str());
  }
  return result;
}

}  // namespace

DataType type_of(int number) {
  return checked<DataType>("data type number", number, 0, static_cast<int>(kDataTypes) - 1);
}

std::vector<Rank> read_ranks(const char* what, nb::handle from) {
  std::vector<Rank> ranks;
  read_numbers(what, from, ranks);
  return ranks;
}

void read_weights(const char* what, nb::handle from, std::vector<NeighborWeight>& to) {
  if (nb::isinstance<nb::dict>(from)) {
    for (const auto& [rank, weight] : nb::borrow<nb::dict>(from)) {
      to.push_back(one_weight(what, rank, weight));
    }
  } else {
    for (const nb::handle rank : nb::borrow<nb::object>(from)) {
      to.push_back(one_weight(what, rank, nb::handle()));
    }
  }
}

Compression compression_of(int number) {
  return checked<Compression>("compression number", number, 0, static_cast<int>(kCompressions) - 1);
}

PyRequest::PyRequest(int kind, const Input& x, const Output& y, int op, int algorithm) {
  request_.collective = checked<Collective>("operation number", kind, 1, kLastCollective);
  request_.input = x;
  request_.output = y;
  request_.op = checked<ReduceOp>("reduction number", op, 0, kLastReduceOp);
  request_.algorithm =
      checked<AllreduceAlgorithm>("algorithm number", algorithm, 0, kLastAlgorithm);
}

void PyRequest::set_options(const RequestOptions& options) {
  request_.stream = stream_of(options.stream);
  request_.compression = compression_of(options.compression);
  request_.bits = checked<Bits>("number of bits", options.bits, 0, static_cast<int>(Bits::fixed));
  request_.needs_all = options.needs_all;
  if (is_given(options.low_rank)) {
    const auto [rows, rank] = nb::cast<std::pair<std::size_t, std::uint32_t>>(options.low_rank);
    request_.low_rank = {.rows = rows, .rank = rank};
  }
  if (is_given(options.feedback)) {
    feedback_ = nb::cast<ErrorFeedback>(options.feedback);
    request_.feedback = &*feedback_;
  }
  if (is_given(options.counts)) {
    read_numbers("counts", options.counts, counts_);
    request_.counts = counts_;
  }
  if (is_given(options.receive_counts)) {
    read_numbers("receive_counts", options.receive_counts, receive_counts_);
    request_.receive_counts = receive_counts_;
  }
  if (is_given(options.shape)) {
    read_numbers("shape", options.shape, shape_);
    request_.shape = shape_;
  }
  if (is_given(options.group)) {
    group_ = read_ranks("the ranks of a group", options.group);
    request_.group = group_;
  }
  const Collective kind = request_.collective;
  if (kind == Collective::pair_average) {
    request_.self_weight = options.self_weight.value_or(0.5);
    request_.pair_weight = options.pair_weight.value_or(0.5);
  } else if (kind == Collective::neighbor_allreduce ||
             kind == Collective::hierarchical_neighbor_allreduce) {
    set_weights(options);
  }
}

void PyRequest::set_weights(const RequestOptions& options) {
  weights_.self = options.self_weight;
  weights_.push_sum = options.push_sum;
  if (is_given(options.sources)) {
    read_weights("src_weights", options.sources, sources_);
    weights_.sources = sources_;
  }
  if (is_given(options.destinations)) {
    read_weights("dst_weights", options.destinations, destinations_);
    weights_.destinations = destinations_;
  }
  request_.weights = &weights_;
}

namespace {

void make(PyRequest* made, int kind, std::uintptr_t x, std::size_t nx, std::uintptr_t y,
          std::size_t ny, int dtype, int op, int algorithm, Rank root, Rank peer, bool receives,
          nb::handle counts, nb::handle receive_counts, nb::handle group,
          std::optional<double> self_weight, std::optional<double> pair_weight, nb::handle sources,
          nb::handle destinations, bool push_sum, std::optional<std::uintptr_t> stream,
          nb::handle shape, int compression, nb::handle feedback, nb::handle low_rank, int bits,
          bool needs_all, nb::object kept) {
  const DataType type = type_of(dtype);
  new (made) PyRequest(kind, {reinterpret_cast<const void*>(x), nx, type},
                       {reinterpret_cast<void*>(y), ny, type}, op, algorithm);
  made->set_peers(root, peer, receives);
  made->set_kept(std::move(kept));
  try {
    made->set_options({counts, receive_counts, group, sources, destinations, self_weight,
                       pair_weight, push_sum, stream, shape, compression, feedback, low_rank, bits,
                       needs_all});
  } catch (...) {
    made->~PyRequest();
    throw;
  }
}

}  // namespace

void bind_request(nb::module_& module) {
  nb::class_<PyRequest>(module, "Request",
                        "What an operation shall do, on memory given by address; counts in "
                        "elements. `keep` lives until the operation is done.")
      .def("__init__", &make, nb::arg("kind"), nb::arg("x"), nb::arg("nx"), nb::arg("y"),
           nb::arg("ny"), nb::arg("dtype"), nb::kw_only(), nb::arg("op") = 1,
           nb::arg("algorithm") = 0, nb::arg("root") = -1, nb::arg("peer") = -1,
           nb::arg("receives") = false, nb::arg("counts") = nb::none(),
           nb::arg("receive_counts") = nb::none(), nb::arg("group") = nb::none(),
           nb::arg("self_weight") = nb::none(), nb::arg("pair_weight") = nb::none(),
           nb::arg("sources") = nb::none(), nb::arg("destinations") = nb::none(),
           nb::arg("push_sum") = false, nb::arg("stream") = nb::none(),
           nb::arg("shape") = nb::none(), nb::arg("compression") = 0,
           nb::arg("feedback") = nb::none(), nb::arg("low_rank") = nb::none(), nb::arg("bits") = 0,
           nb::arg("needs_all") = false, nb::arg("keep") = nb::none(),
           nb::sig("def __init__(self, kind: int, x: int, nx: int, y: int, ny: int, dtype: int, *, "
                   "op: int = 1, algorithm: int = 0, root: int = -1, peer: int = -1, "
                   "receives: bool = False, "
                   "counts: collections.abc.Sequence[int] | None = None, "
                   "receive_counts: collections.abc.Sequence[int] | None = None, "
                   "group: collections.abc.Sequence[int] | None = None, "
                   "self_weight: float | None = None, pair_weight: float | None = None, "
                   "sources: collections.abc.Mapping[int, float] | None = None, "
                   "destinations: collections.abc.Mapping[int, float] | "
                   "collections.abc.Sequence[int] | None = None, "
                   "push_sum: bool = False, stream: int | None = None, "
                   "shape: collections.abc.Sequence[int] | None = None, "
                   "compression: int = 0, feedback: ErrorFeedback | None = None, "
                   "low_rank: tuple[int, int] | None = None, bits: int = 0, "
                   "needs_all: bool = False, keep: object = None) -> None"));
}

}  // namespace weft::python
