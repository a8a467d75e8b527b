// What the store tests share: jobs whose ranks are threads of the test, over either kind of store.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/bootstrap/bootstrap.h"

namespace weft::testing {

using Stores = std::vector<std::shared_ptr<Store>>;

inline constexpr const char* kKey = "the key of a job in a test";
// Bounds that are passed only when something is broken.
inline Deadline patient() {
  return Deadline::after_ms(30'000);
}

inline RendezvousOptions server_options(int size) {
  RendezvousOptions options;
  options.size = size;
  options.job_key = kKey;
  return options;
}

inline ConnectOptions rank_options(const RendezvousServer& server, Rank rank, int size) {
  return {server.address(), rank, size, kKey, 30'000};
}

inline std::shared_ptr<Store> join(const RendezvousServer& server, Rank rank, int size) {
  auto store = connect_store(rank_options(server, rank, size), patient());
  EXPECT_TRUE(store.ok()) << store.status().to_string();
  return store.ok() ? *std::move(store) : nullptr;
}

// A job over one kind of store.
struct Job {
  std::unique_ptr<RendezvousServer> server;  // tcp only
  Stores ranks;
};

inline Job local_job(int size) {
  return {nullptr, make_local_stores(size).value()};
}

inline Job tcp_job(int size) {
  Job job{RendezvousServer::start(server_options(size)).value(), {}};
  for (Rank rank = 0; rank < size; ++rank) job.ranks.push_back(join(*job.server, rank, size));
  return job;
}

// Runs one thread per rank and joins them.
template <typename Body>
void for_each_rank(const Stores& stores, Body body) {
  std::vector<std::thread> threads;
  for (const auto& store : stores) threads.emplace_back([&body, &store] { body(*store); });
  for (std::thread& thread : threads) thread.join();
}

// The next event, waited for on the descriptor as an event loop would.
inline StoreEvent wait_for_event(Store& store) {
  pollfd one{store.event_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&one, 1, patient().left_ms()), 1) << "no event came";
  auto event = store.next_event();
  EXPECT_TRUE(event.has_value());
  return event.value_or(StoreEvent{StoreEvent::Kind::lost, kNoRank, "no event came"});
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace weft::testing
