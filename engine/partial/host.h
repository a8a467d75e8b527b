// host: what the groups of partial all-reduce need of the context beneath, which is one of their own.
// Internal to the module and to engine/context, which implements it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/mail_host/mail_host.h"
#include "engine/request/request.h"

namespace weft {

class GroupHost : public MailHost {
 public:
  // Runs an operation to its end.
  [[nodiscard]] virtual Status run(const Request& request) = 0;
  // The machine of each rank.
  [[nodiscard]] virtual Result<std::vector<int>> machines() = 0;
  [[nodiscard]] virtual bool has_died(Rank rank) = 0;
  // Waits until the rank has this context, too. The error timed_out: it has not yet; peer_died: some
  // rank of the context has died.
  [[nodiscard]] virtual Status await(Rank rank, std::int64_t patience_ms) = 0;
  // A host of these ranks alone, in the numbers of the first host. Each of them calls it with the same
  // ranks, of which each calls it once at most.
  [[nodiscard]] virtual Result<std::unique_ptr<GroupHost>> among(
      const std::vector<Rank>& ranks) = 0;
};

}  // namespace weft
