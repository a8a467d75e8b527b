// The board, and the life of a rank's process.
#include "tests/transport/ranks.h"

#include <sys/mman.h>

#include <new>

namespace weft {

void Board::put(Rank rank, const std::string& address) {
  Entry& entry = entries[rank];
  std::memcpy(entry.address, address.data(), address.size());
  entry.bytes.store(address.size(), std::memory_order_release);
}

std::string Board::get(Rank rank) {
  Entry& entry = entries[rank];
  if (!eventually([&] { return entry.bytes.load(std::memory_order_acquire) != 0; })) {
    throw std::runtime_error("rank " + std::to_string(rank) + " never gave its address");
  }
  return std::string(entry.address, entry.bytes.load(std::memory_order_relaxed));
}

void Board::meet(int ranks, std::uint32_t meetings, Interface* own) {
  arrived.fetch_add(1, std::memory_order_acq_rel);
  const std::uint32_t all = meetings * static_cast<std::uint32_t>(ranks);
  const auto here = [&] {
    if (own != nullptr) own->progress();
    return arrived.load(std::memory_order_acquire) >= all;
  };
  if (!eventually(here)) {
    throw std::runtime_error("not all ranks came to meeting " + std::to_string(meetings));
  }
}

SharedBoard::SharedBoard() {
  void* memory =
      mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for a board");
  board_ = new (memory) Board{};
}

SharedBoard::~SharedBoard() {
  munmap(board_, sizeof(Board));
}

RankProcess::RankProcess(const TransportFactory& transport, Rank self, int ranks, Board& board,
                         const InterfaceOptions& options)
    : self_(self), ranks_(ranks), board_(board) {
  interface_ = must(transport.open(
      self, options, [&board](Rank peer) -> Result<std::string> { return board.get(peer); }));
  board.put(self, interface_->address());
}

void RankProcess::meet() {
  board_.meet(ranks_, ++meetings_, interface_.get());
}

void run_ranks(const TransportFactory& transport, int ranks,
               const std::function<void(RankProcess&)>& body, const InterfaceOptions& options) {
  const SharedBoard board;
  std::vector<FreshProcess> processes;
  for (Rank self = 0; self < ranks; ++self) {
    processes.emplace_back([&, self] {
      RankProcess rank(transport, self, ranks, *board, options);
      body(rank);
      rank.meet();  // so that nobody's memory goes while others still look at it
    });
  }
  for (Rank self = 0; self < ranks; ++self) {
    report(processes[static_cast<std::size_t>(self)].join(), "rank " + std::to_string(self));
  }
}

}  // namespace weft
