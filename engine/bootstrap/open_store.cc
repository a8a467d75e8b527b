// open_store: opens a store as a configuration asks. Only this file chooses between the kinds of
// Store.
#include <fmt/format.h>

#include <mutex>
#include <set>

#include "engine/bootstrap/kinds.h"
#include "engine/bootstrap/tcp_store.h"

namespace weft {

Result<std::shared_ptr<Store>> connect_store(const ConnectOptions& options, Deadline deadline) {
  if (options.rank < 0 || options.rank >= options.size) {
    return Status(Code::invalid_argument,
                  fmt::format("rank {} of a job of {} ranks", options.rank, options.size));
  }
  WEFT_ASSIGN(Joined joined, join_rendezvous(options, deadline));
  WEFT_ASSIGN(std::shared_ptr<TcpStore> store, TcpStore::open(options, std::move(joined)));
  return std::shared_ptr<Store>(std::move(store));
}

namespace {

Result<std::shared_ptr<Store>> open_local() {
  WEFT_ASSIGN(const auto stores, make_local_stores(1));
  return stores.front();
}

Status cannot_host(const Address& address, const Status& why) {
  const bool may_be_taken = why.code() == Code::system;
  return Status(
      why.code(),
      fmt::format("rank 0 cannot hold the rendezvous at {}: {}{}", address.to_string(), why.text(),
                  may_be_taken ? "; if another job has it, give this one another "
                                 "WEFT_RENDEZVOUS"
                               : ""),
      0);
}

// Opens the store of rank 0 if the launcher has started no server: starts the server, then joins
// it.
Result<std::shared_ptr<Store>> open_hosting(const Config& config, const ConnectOptions& options) {
  RendezvousOptions hosting;
  hosting.bind_host = options.address.host;
  hosting.port = options.address.port;
  hosting.size = config.size;
  hosting.job_key = config.job_key;
  hosting.host_rank = config.rank;
  Result<std::unique_ptr<RendezvousServer>> started = RendezvousServer::start(hosting);
  if (!started.ok()) return cannot_host(options.address, started.status());
  std::unique_ptr<RendezvousServer> server = *std::move(started);
  WEFT_ASSIGN(Joined joined, join_rendezvous(options, Deadline::after_ms(config.deadline_ms)));
  WEFT_ASSIGN(std::shared_ptr<TcpStore> store, TcpStore::open(options, std::move(joined)));
  store->host(std::move(server));
  return std::shared_ptr<Store>(std::move(store));
}

// Whether this process has not been in that job before. A program that ends Weft and starts it again begins the job
// anew with the others, and is no rank that comes back to them.
bool is_first_time(const Config& config) {
  static std::mutex mutex;
  static auto* joined = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return joined->insert(config.rendezvous + " " + config.job_key).second;
}

Result<std::shared_ptr<Store>> open_rendezvous(const Config& config) {
  WEFT_ASSIGN(const Address address, parse_address(config.rendezvous));
  const ConnectOptions options{address,
                               config.rank,
                               config.size,
                               config.job_key,
                               config.deadline_ms,
                               config.on_death == OnDeath::skip && is_first_time(config)};
  if (config.rank == 0 && config.served_by == ServedBy::rank0) return open_hosting(config, options);
  Result<std::shared_ptr<Store>> store =
      connect_store(options, Deadline::after_ms(config.deadline_ms));
  if (store.status().code() != Code::timed_out || config.served_by != ServedBy::rank0) return store;
  // If no server answers, the error names the rank that should have started it.
  return Status(Code::timed_out, fmt::format("{}; rank 0 holds it", store.status().text()), 0);
}

}  // namespace

Result<std::shared_ptr<Store>> open_store(Config& config) {
  WEFT_RETURN_IF_ERROR(config.check());
  log(LogLevel::debug, "launcher: " + config.launch());
  if (config.launcher == Launcher::pmix) return open_pmix_store(config);
  return config.rendezvous.empty() ? open_local() : open_rendezvous(config);
}

}  // namespace weft
