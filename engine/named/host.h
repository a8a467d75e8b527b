// host: what operations by name need of the context beneath, which is one of their own.
// Internal to the module and to engine/context, which implements it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/gpu/gpu.h"
#include "engine/mail_host/mail_host.h"
#include "engine/trace/trace.h"

namespace weft {

namespace named {
// To which state machine a message goes. It is the message's first byte.
enum class Letter : std::uint8_t {
  of_all = 1,
  of_neighbors = 2,
  lent = 3,      // the data of the next batch may be read in place
  returned = 4,  // they were read
};
}  // namespace named

class NamedHost : public MailHost {
 public:
  // Any thread.
  // The largest piece of a message to another machine.
  [[nodiscard]] virtual std::size_t piece_bytes() const = 0;
  // What a negative NamedOptions::fusion_bytes stands for; negative: by rule.
  [[nodiscard]] virtual std::int64_t fusion_bytes() const = 0;
  // Whether all ranks share memory.
  [[nodiscard]] virtual bool is_one_machine() const = 0;
  // `rank="0",context="…"`: of the metrics.
  [[nodiscard]] virtual std::string metric_labels() const = 0;
  // For operands in GPU memory.
  [[nodiscard]] virtual const std::shared_ptr<GpuBell>& bell() = 0;
  [[nodiscard]] virtual GpuOperandOptions gpu_options() const = 0;
  // What Bits::automatic of a request stands for.
  [[nodiscard]] virtual Bits bits() const = 0;
  // Where lanes are added at setup.
  [[nodiscard]] virtual Trace& trace() = 0;
  // Whether the operation could begin: its operands, root, counts and type.
  [[nodiscard]] virtual Status check(const Request& request) = 0;

  // The rest needs the lane's token.
  // Whether an allreduce of so many bytes can go by the algorithm that was asked for. All ranks find the
  // same.
  [[nodiscard]] virtual Status check_choice(AllreduceAlgorithm asked, Bits bits,
                                            std::size_t bytes) = 0;
  struct How {
    std::size_t piece_bytes =
        0;                 // of messages to other machines, at most; 0: as the interface takes them
    double share = 1.0;    // of the bytes of all operations that begin together
    bool by_nccl = false;  // if all ranks can; all say so, or none
    // Where the operands are, if they are in several runs: then in place of the request's.
    Runs input{}, output{};
  };
  // Whether the ranks agree on something before the next operation can begin.
  [[nodiscard]] virtual bool holds_back() = 0;
  // Begins an operation in the common order; send and recv begin in the order of their streams. What
  // it reads is there already.
  [[nodiscard]] virtual Result<std::shared_ptr<Operation>> begin(const Request& request,
                                                                 const How& how) = 0;
  // Sends a message. An error ends the context.
  virtual void send(Rank to, named::Letter letter, std::span<const std::byte> message) = 0;
  // The connection of a rank that reads our heap in place, and we its; else nullptr.
  [[nodiscard]] virtual PeerConnection* shared_with(Rank rank) = 0;
};

}  // namespace weft
