// ways: how receivers on this machine get private memory, which Weft did not allocate. Either each of
// them reads it by process_vm_readv, or the sender stages it: copies it once into the shared heap,
// where all read it. Which is quicker depends on the machine and on how many ranks read at once, and on
// a virtual machine it changes while the program runs: reading takes from 0.2 to 3 times as long.
//
// So it is measured by the operations that the program runs anyway. A use is a collective with
// messages of one size, within a factor of two; all messages of an operation go the same way. The
// first operations of a use go the way that is quicker on most machines, or the one that was found for
// another size. Then a trial of a few operations goes the other way, and the quicker way stays. Trials
// are repeated, less often each time that they change nothing, and at once if operations become slower
// or quicker. A way that is not at least a twentieth quicker does not replace the other one.
//
// The time of an operation tells something only if all its ranks go the same way. Therefore one
// rank decides and the others imitate: a rank goes the way in which its lowest in-neighbor sent,
// if that has a lower number than the rank itself. Ranks are numbered from the operation's root on,
// so that those who pass its messages on imitate it. Only ranks without such a neighbor measure.
//
// Where several ranks send to a root (gather, reduce) nothing is measured: the messages are staged.
//
// The object belongs to the holder of the lane's token, as the executions do, and outlives them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>

#include "engine/request/request.h"

namespace weft {

class PrivateWays {
 public:
  enum class Way : std::uint8_t { staged, read };

  class Use {
   public:
    Use(Collective collective, unsigned magnitude, Way first)
        : collective_(collective), magnitude_(magnitude), way_(first) {}
    // A use that begins with what was found for messages of another size.
    Use(unsigned magnitude, const Use& like)
        : collective_(like.collective_),
          magnitude_(magnitude),
          way_(like.way_),
          wait_(kFirstPause) {}

    // The way of the next operation.
    [[nodiscard]] Way way() const { return way_; }
    // This rank's lowest in-neighbor sent in this way.
    void imitate(Way way);
    // An operation of this way() has ended, after so many ns.
    void measure(std::int64_t ns);
    [[nodiscard]] std::string describe() const;

   private:
    friend class PrivateWays;
    // Operations of a trial. In the first half of them, other ranks may not have heard of it.
    static constexpr int kTrial = 6;
    // A way's time is the shortest of its latest operations: the others waited for somebody.
    static constexpr int kRecent = 8;
    static constexpr int kFirstPause = 32, kLongestPause = 1024;

    void try_other();
    void end_trial();
    [[nodiscard]] bool is_settled() const { return trial_ == 0 && ns_[0] != 0 && ns_[1] != 0; }
    [[nodiscard]] std::int64_t& time_of(Way way) { return ns_[static_cast<std::size_t>(way)]; }

    Collective collective_;
    unsigned magnitude_;  // of messages: 2^magnitude_ bytes at least, and less than twice as many
    Way way_;
    bool imitates_ = false;
    int trial_ = 0;                     // operations that are left of a trial
    int pause_ = kFirstPause;           // operations from a trial to the next one
    int wait_ = 0;                      // operations until the next trial
    std::array<std::int64_t, 2> ns_{};  // of each way, when last compared; 0: not known
    std::array<std::int64_t, kRecent> recent_{};
    int filled_ = 0;  // of recent_, as far as the operations went this way
    int next_ = 0;    // in recent_
    std::int64_t trial_ns_ = 0;
  };

  // The use of messages of so many bytes. If no other size of this collective has been tried, it
  // begins with the way `first`. It stays where it is.
  [[nodiscard]] Use& of(Collective collective, std::uint64_t bytes, Way first);
  // A line for each use.
  [[nodiscard]] std::string describe() const;

 private:
  std::deque<Use> uses_;  // at most one for each collective and size
};

}  // namespace weft
