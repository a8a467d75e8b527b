#include "tests/negotiate/network.h"

#include <fmt/format.h>

namespace weft::test {

NamedRequest sum_of(std::string name, std::size_t count) {
  NamedRequest request;
  request.name = std::move(name);
  request.op = ReduceOp::sum;
  request.tensors = {{DataType::f32, count}};
  return request;
}

Network::Network(int size, std::uint64_t seed, const NegotiateOptions& options)
    : told_(static_cast<std::size_t>(size)), cycles_(told_.size()), random_(seed) {
  for (int rank = 0; rank < size; ++rank) {
    NegotiateOptions own = options;
    own.rank = rank;
    own.size = size;
    ranks_.emplace_back(own);
  }
}

void Network::collect(int rank) {
  for (ControlMessage& message : this->rank(rank).take_messages()) {
    const std::pair<int, int> wire{rank, message.to};
    wires_[wire].push_back(std::move(message.bytes));
    under_way_.push_back(wire);
  }
  for (const auto& [told, cycle] : this->rank(rank).take_decisions()) {
    for (const Decision& decision : cycle)
      told_[static_cast<std::size_t>(rank)].push_back(text_of(decision));
    cycles_[static_cast<std::size_t>(rank)].push_back(cycle.size());
  }
}

std::string Network::text_of(const Decision& decision) {
  std::string text;
  switch (decision.kind) {
    case Decision::Kind::run:
      text = "run " + decision.request.name;
      break;
    case Decision::Kind::fail:
      text = fmt::format("fail {}: {}", decision.request.name, decision.status.text());
      break;
    case Decision::Kind::all_joined:
      text = fmt::format("joined {}", decision.rank);
      break;
    case Decision::Kind::stalled:
      text = "stalled: " + std::string(decision.status.text());
      break;
  }
  return text;
}

std::vector<std::string> Network::names_run(int rank) const {
  std::vector<std::string> names;
  for (const std::string& text : told(rank)) {
    if (text.starts_with("run ")) names.push_back(text.substr(4));
  }
  return names;
}

void Network::step(int rank) {
  this->rank(rank).step(now_);
  collect(rank);
}

bool Network::deliver_one() {
  if (under_way_.empty()) return false;
  const std::size_t which = random_() % under_way_.size();
  const std::pair<int, int> wire = under_way_[which];
  under_way_[which] = under_way_.back();
  under_way_.pop_back();
  std::deque<std::vector<std::byte>>& queue = wires_[wire];
  const std::vector<std::byte> message = std::move(queue.front());
  queue.pop_front();
  rank(wire.second).receive(wire.first, message, now_);
  step(wire.second);
  return true;
}

void Network::settle() {
  for (int rank = 0; rank < size(); ++rank) step(rank);
  while (deliver_one()) {
  }
}

void Network::corrupt(int from, int to, const std::vector<std::byte>& bytes) {
  rank(to).receive(from, bytes, now_);
  collect(to);
}

}  // namespace weft::test
