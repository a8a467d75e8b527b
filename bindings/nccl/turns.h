// turns: a thread that takes turns for connections that NCCL does not call. The peer may need them:
// an answer that the socket did not take at once, a rail that has failed, the end of a connection.
// NCCL itself calls a connection only while it has something under way there.
//
// The thread sleeps until a link has news. It runs while there are links, and ends before the process
// does: the libraries below end at exit, too.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "bindings/nccl/link.h"
#include "verbs/base/base.h"

namespace weft::nccl {

class Turns {
 public:
  // Those of the process.
  [[nodiscard]] static Turns& get();
  // From now on, until forget(), only who has entered the link may use it.
  [[nodiscard]] Status watch(Link& link);
  // When it returns, the thread does not touch the link any more.
  void forget(Link& link);

 private:
  struct AtExit {
    ~AtExit();
  };
  struct Watched {
    std::uint64_t number = 0;  // by which its events name it
    bool sleeps = false;       // until an event, or until the next round of all
  };

  Status start();
  void stop();
  void run();
  // A turn for all links that do not sleep; whether all sleep then.
  bool take_turns();

  std::mutex thread_mutex_;  // held by who starts or ends the thread
  Thread thread_;
  Fd events_, wake_;
  bool exits_ = false;
  std::atomic<bool> stops_ = false;

  std::mutex mutex_;  // guards what follows
  std::unordered_map<Link*, Watched> links_;
  std::uint64_t last_number_ = 0;
};

}  // namespace weft::nccl
