// Ranks as processes: each rank of a job in its own fresh process, as in real life. They find each
// other's addresses on a Board that they share from before they were forked, and nothing else.
#pragma once

#include <atomic>
#include <functional>

#include "tests/memory/fresh_process.h"
#include "tests/transport/group.h"

namespace weft {

inline constexpr int kMostProcesses = 8;

// Lives in memory that parent and children share; zeroed at the start.
struct Board {
  struct Entry {
    std::atomic<std::size_t> bytes;  // 0 until the address is there
    char address[kAddressBytes];
  };
  Entry entries[kMostProcesses];
  std::atomic<std::uint32_t> arrived;  // counts arrivals at meetings

  void put(Rank rank, const std::string& address);
  [[nodiscard]] std::string get(Rank rank);  // waits for it
  // Returns once `ranks` have come here as often as this caller, who gives its number of meetings
  // so far, and drives the interface that it owns, if any, while it waits.
  void meet(int ranks, std::uint32_t meetings, Interface* own = nullptr);
};

// A board for one test, shared with every process forked while it lives.
class SharedBoard {
 public:
  SharedBoard();
  ~SharedBoard();
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board& operator*() const { return *board_; }
  Board* operator->() const { return board_; }

 private:
  Board* board_;
};

// What a rank's process has in hand.
class RankProcess {
 public:
  RankProcess(const TransportFactory& transport, Rank self, int ranks, Board& board,
              const InterfaceOptions& options);

  [[nodiscard]] Rank self() const { return self_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] Interface& interface() { return *interface_; }
  [[nodiscard]] Endpoint& link(Rank peer) {
    return *must(interface_->connect(peer, board_.get(peer)));
  }
  // Waits as the owner of the rank's interface.
  template <typename Predicate>
  bool eventually(Predicate done) {
    return weft::eventually(*interface_, done);
  }
  // Waits until all ranks are here.
  void meet();

 private:
  Rank self_;
  int ranks_;
  Board& board_;
  std::uint32_t meetings_ = 0;
  std::unique_ptr<Interface> interface_;
};

// Runs `body` as every rank of a job of `ranks` processes and reports their failures in the current
// test.
void run_ranks(const TransportFactory& transport, int ranks,
               const std::function<void(RankProcess&)>& body,
               const InterfaceOptions& options = small_options());

}  // namespace weft
