// entrance: its text, and the transfer of the state.
#include "engine/context/entrance.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <utility>

#include "engine/context/operands.h"
#include "engine/digest/digest.h"
#include "engine/gpu/gpu.h"

namespace weft {
namespace {

// Numbers with a space behind each.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  template <typename Number>
  Number next() {
    Number number{};
    const char* const end = text_.data() + text_.size();
    const auto [rest, error] = std::from_chars(text_.data(), end, number);
    is_good_ = is_good_ && error == std::errc() && rest != end && *rest == ' ' && number >= 0;
    text_ = is_good_ ? std::string_view(rest + 1, end) : std::string_view();
    return is_good_ ? number : Number{};
  }
  [[nodiscard]] bool is_good() const { return is_good_; }
  [[nodiscard]] bool is_at_end() const { return is_good_ && text_.empty(); }

 private:
  std::string_view text_;
  bool is_good_ = true;
};

// What the receiver of a tensor compares.
struct Header {
  std::uint64_t bytes = 0;
  std::uint64_t type = 0;
  std::uint64_t checksum = 0;
};
static_assert(sizeof(Header) == 3 * sizeof(std::uint64_t));

std::size_t bytes_of(const Output& tensor) {
  return tensor.count * size_of(tensor.type);
}

std::uint32_t checksum_of(const Output& tensor) {
  return crc32c(tensor.data, bytes_of(tensor));
}

Status send(Context::Core& core, const Input& what, Rank to) {
  return core.run(Request{.collective = Collective::send, .input = what, .peer = to});
}

Status recv(Context::Core& core, const Output& what, Rank from) {
  return core.run(
      Request{.collective = Collective::send, .output = what, .peer = from, .receives = true});
}

// Headers, or a number, as numbers.
template <typename Value>
std::size_t count_numbers(const std::vector<Value>& all) {
  return all.size() * sizeof(Value) / sizeof(std::uint64_t);
}
template <typename Value>
Input numbers_in(const std::vector<Value>& all) {
  return {all.data(), count_numbers(all), DataType::u64};
}
template <typename Value>
Output numbers_out(std::vector<Value>& all) {
  return {all.data(), count_numbers(all), DataType::u64};
}

}  // namespace

std::string invitation_key(const Incarnation& newcomer, std::uint16_t context) {
  return fmt::format("{}/entrance of/{}/{}", context, newcomer.rank, newcomer.number);
}

std::string waiting_key(const Incarnation& outside, std::uint16_t context) {
  return fmt::format("{}/waiting/{}/{}", context, outside.rank, outside.number);
}

std::string Entrance::to_text() const {
  std::string text = fmt::format("{} {} {} ", number, resumed_at, members.size());
  for (const Incarnation& each : members) text += fmt::format("{} {} ", each.rank, each.number);
  for (const Newcomer& each : newcomers)
    text += fmt::format("{} {} {} ", each.who.rank, each.who.number, each.giver);
  return text;
}

Result<Entrance> Entrance::from_text(std::string_view text, int size) {
  Reader in(text);
  Entrance entrance;
  entrance.number = in.next<int>();
  entrance.resumed_at = in.next<std::uint64_t>();
  const auto members = in.next<std::uint32_t>();
  const auto who = [&in] {
    const Rank rank = in.next<Rank>();
    return Incarnation{rank, in.next<int>()};
  };
  while (in.is_good() && entrance.members.size() < members) entrance.members.push_back(who());
  while (in.is_good() && !in.is_at_end()) {
    const Incarnation newcomer = who();
    entrance.newcomers.push_back({newcomer, in.next<Rank>()});
  }
  std::vector<char> is_taken(static_cast<std::size_t>(size), 0);
  const auto take = [&](Rank rank) {
    return rank < size && std::exchange(is_taken[static_cast<std::size_t>(rank)], 1) == 0;
  };
  const bool are_ranks =
      in.is_good() &&
      std::ranges::all_of(entrance.members,
                          [&](const Incarnation& each) { return take(each.rank); }) &&
      std::ranges::all_of(entrance.newcomers, [&](const Newcomer& each) {
        return each.giver < size && take(each.who.rank);
      });
  if (!are_ranks)
    return Status(Code::mismatch, "admit: the store holds no entrance, but something else");
  return entrance;
}

Status give_graph(Context::Core& core, Rank to, const GivenGraph& given) {
  const std::vector<Edge> edges = given.graph.edges();
  const std::vector<std::uint64_t> sizes = {edges.size(), given.graph.name().size(),
                                            given.weighted ? 1U : 0U};
  WEFT_RETURN_IF_ERROR(send(core, numbers_in(sizes), to));
  WEFT_RETURN_IF_ERROR(
      send(core, in(given.graph.self_weights().data(), given.graph.self_weights().size()), to));
  if (!edges.empty())
    WEFT_RETURN_IF_ERROR(
        send(core, {edges.data(), edges.size() * sizeof(Edge), DataType::bytes}, to));
  if (given.graph.name().empty()) return {};
  return send(core, {given.graph.name().data(), given.graph.name().size(), DataType::bytes}, to);
}

Result<GivenGraph> take_graph(Context::Core& core, Rank from, int size) {
  constexpr std::uint64_t kLongestName = 1 << 20;
  std::vector<std::uint64_t> sizes(3);
  WEFT_RETURN_IF_ERROR(recv(core, numbers_out(sizes), from));
  if (sizes[0] > static_cast<std::uint64_t>(kMostEdges) || sizes[1] > kLongestName)
    return Status(Code::mismatch,
                  fmt::format("admit: rank {} gives no graph, but something else", from), from);
  std::vector<double> self_weights(static_cast<std::size_t>(size));
  std::vector<Edge> edges(sizes[0]);
  std::string name(sizes[1], ' ');
  WEFT_RETURN_IF_ERROR(recv(core, out(self_weights.data(), self_weights.size()), from));
  if (!edges.empty())
    WEFT_RETURN_IF_ERROR(
        recv(core, {edges.data(), edges.size() * sizeof(Edge), DataType::bytes}, from));
  if (!name.empty())
    WEFT_RETURN_IF_ERROR(recv(core, {name.data(), name.size(), DataType::bytes}, from));
  WEFT_ASSIGN(Graph graph, Graph::from_edges(size, edges, self_weights, std::move(name)));
  return GivenGraph{graph, sizes[2] != 0};
}

Status check_state(std::span<const Output> state) {
  for (const Output& tensor : state) {
    if (!is_count_of_memory(tensor.count, tensor.type))
      return invalid(fmt::format("admit: a tensor of {} elements", tensor.count));
    if (tensor.data == nullptr && tensor.count != 0)
      return invalid("admit: a tensor of the state has no memory");
    WEFT_RETURN_IF_ERROR(check_host_memory("admit", tensor.data));
  }
  return {};
}

Status give_state(Context::Core& core, Rank to, std::span<const Output> state) {
  const std::vector<std::uint64_t> count = {state.size()};
  WEFT_RETURN_IF_ERROR(send(core, numbers_in(count), to));
  std::vector<Header> headers;
  for (const Output& tensor : state)
    headers.push_back(
        {bytes_of(tensor), static_cast<std::uint64_t>(tensor.type), checksum_of(tensor)});
  if (!headers.empty()) WEFT_RETURN_IF_ERROR(send(core, numbers_in(headers), to));
  for (const Output& tensor : state) {
    if (tensor.count != 0)
      WEFT_RETURN_IF_ERROR(send(core, {tensor.data, bytes_of(tensor), DataType::bytes}, to));
  }
  return {};
}

Status take_state(Context::Core& core, Rank from, std::span<const Output> state) {
  std::vector<std::uint64_t> count(1);
  WEFT_RETURN_IF_ERROR(recv(core, numbers_out(count), from));
  if (count[0] != state.size()) {
    return Status(Code::mismatch,
                  fmt::format("admit: rank {} gives a state of {} tensors, this rank has {}", from,
                              count[0], state.size()),
                  from);
  }
  std::vector<Header> headers(state.size());
  if (!headers.empty()) WEFT_RETURN_IF_ERROR(recv(core, numbers_out(headers), from));
  for (std::size_t i = 0; i < state.size(); ++i) {
    const Output& tensor = state[i];
    const Header& header = headers[i];
    if (header.bytes != bytes_of(tensor) ||
        header.type != static_cast<std::uint64_t>(tensor.type)) {
      return Status(
          Code::mismatch,
          fmt::format("admit: tensor {} of rank {} has {} bytes of type {}, that of this "
                      "rank {} bytes of {}",
                      i, from, header.bytes,
                      header.type < kDataTypes ? name(static_cast<DataType>(header.type)) : "?",
                      bytes_of(tensor), name(tensor.type)),
          from);
    }
    if (tensor.count == 0) continue;
    WEFT_RETURN_IF_ERROR(recv(core, {tensor.data, bytes_of(tensor), DataType::bytes}, from));
    if (checksum_of(tensor) != header.checksum) {
      return Status(
          Code::corrupted,
          fmt::format("admit: tensor {} has another checksum here than on rank {}, which gave it",
                      i, from),
          from);
    }
  }
  return {};
}

}  // namespace weft
