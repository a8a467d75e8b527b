// Reserve: the paths on which nothing failed: they were slow or silent, or an end had no link. When
// the last live path fails, is silent or loses its link, the reserves are connected again at once.
// The peer is failed if none of them has come back in 10 * return_ms, or none can.
//
// Owner: a BondEndpoint, in whose lane everything here runs. Internal to the module.
#pragma once

#include <cstdint>

#include "verbs/bond/path.h"

namespace weft::bond {

class BondEndpoint;

class Reserve {
 public:
  explicit Reserve(BondEndpoint& endpoint) : endpoint_(endpoint) {}

  // The last live path is not given up for silence: its network may recover, and the operation's
  // deadline bounds the wait. But paths that wait for their return are tried now.
  void seek(std::int64_t now);
  // The last live path has failed: tries the paths that may return at once. The peer may not know
  // of it. When it hears that we connect again, it does so, too.
  void turn_to(const Status& why, std::int64_t now);
  // No path is live although nothing has failed. That may take as long as it needs; the operation's
  // deadline bounds it.
  void wait(const Status& why);
  // Fails the endpoint if no path is live and none may return.
  void look(std::int64_t now);

 private:
  [[nodiscard]] bool may_return(Path& path) const;

  BondEndpoint& endpoint_;
  // While no path is live: why the last one is not, and until when paths that may return are waited
  // for.
  Status last_;
  std::int64_t until_ns_ = 0;
};

}  // namespace weft::bond
