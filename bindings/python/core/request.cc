// request: reading counts, ranks and weights out of Python sequences and dictionaries.
#include "bindings/python/core/request.h"

#include <string>

#include "bindings/python/core/errors.h"

namespace weft::python {
namespace {

constexpr int kLastCollective = static_cast<int>(Collective::local_allreduce);
constexpr int kLastReduceOp = static_cast<int>(ReduceOp::bit_xor);
constexpr int kLastAlgorithm = static_cast<int>(AllreduceAlgorithm::hierarchical);

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

CallArguments::CallArguments(int kind, std::uintptr_t x, std::size_t nx, std::uintptr_t y,
                             std::size_t ny, int dtype, int op, int algorithm)
    : CallArguments(kind, {reinterpret_cast<const void*>(x), nx, type_of(dtype)},
                    {reinterpret_cast<void*>(y), ny, type_of(dtype)}, op, algorithm) {}

CallArguments::CallArguments(int kind, const Input& x, const Output& y, int op, int algorithm) {
  request_.collective = checked<Collective>("operation number", kind, 1, kLastCollective);
  request_.input = x;
  request_.output = y;
  request_.op = checked<ReduceOp>("reduction number", op, 0, kLastReduceOp);
  request_.algorithm =
      checked<AllreduceAlgorithm>("algorithm number", algorithm, 0, kLastAlgorithm);
}

void CallArguments::set_options(const RawOptions& options) {
  set_stream(options.stream);
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

void CallArguments::set_weights(const RawOptions& options) {
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

}  // namespace weft::python
