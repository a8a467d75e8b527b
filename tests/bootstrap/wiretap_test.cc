// Somebody between a rank and the rendezvous, who hears all that is said and
// may change it.
#include <poll.h>
#include <sys/socket.h>

#include <atomic>

#include "engine/bootstrap/wire.h"
#include "engine/net/net.h"
#include "tests/bootstrap/stores.h"

namespace weft::testing {
namespace {

// Passes on what one connection carries. Flips a bit of the byte at `place`,
// counted over what the rank says, or of none.
class Wiretap {
 public:
  static constexpr std::size_t kNowhere = ~std::size_t{0};

  Wiretap(const RendezvousServer& server, std::size_t place)
      : place_(place), thread_([this, to = server.address()] { run(to); }) {}
  ~Wiretap() { end(); }
  Wiretap(const Wiretap&) = delete;
  Wiretap& operator=(const Wiretap&) = delete;

  [[nodiscard]] ConnectOptions options() const { return {address_, 1, 2, kKey, 2'000}; }
  // What it has heard. It passes on nothing after this.
  [[nodiscard]] const std::string& heard() {
    end();
    return heard_;
  }

 private:
  void end() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void run(const Address& to) {
    const Fd rank = accept();
    if (!rank.valid()) return;
    const Fd server = net::connect_once(to, patient()).value();
    while (!is_over_) {
      std::array<pollfd, 2> both{pollfd{rank.get(), POLLIN, 0}, pollfd{server.get(), POLLIN, 0}};
      if (::poll(both.data(), both.size(), 10) <= 0) continue;
      if (!pass(rank, server, true) || !pass(server, rank, false)) return;
    }
  }
  Fd accept() const {
    while (!is_over_) {
      if (Fd rank = net::accept_one(listener_).value(); rank.valid()) return rank;
      (void)net::wait_readable(listener_, Deadline::after_ms(10));
    }
    return {};
  }
  bool pass(const Fd& from, const Fd& to, bool is_of_rank) {
    std::string bytes;
    const Result<net::Flow> flow = net::receive(from, bytes);
    if (!flow.ok() || *flow == net::Flow::ended) return false;
    heard_ += bytes;
    if (is_of_rank) {
      if (place_ >= said_ && place_ < said_ + bytes.size())
        bytes[place_ - said_] = static_cast<char>(bytes[place_ - said_] ^ 1);
      said_ += bytes.size();
    }
    while (!bytes.empty())
      if (!net::send(to, bytes).ok()) return false;
    return true;
  }

  const std::size_t place_;
  const Fd listener_ = net::listen_on({"127.0.0.1", 0}, 4).value();
  const Address address_{"127.0.0.1", net::port_of(listener_).value()};
  std::atomic<bool> is_over_ = false;
  std::string heard_;
  std::size_t said_ = 0;
  std::thread thread_;
};

TEST(Wiretap, HearsNothingOfWhatRanksPutAndGet) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  const auto other = join(*server, 0, 2);
  ASSERT_TRUE(other->put("a key of rank 0", "a secret of rank 0").ok());
  std::string heard;
  {
    Wiretap tap(*server, Wiretap::kNowhere);
    const auto store = connect_store(tap.options(), patient()).value();
    ASSERT_TRUE(store->put("a key of rank 1", "a secret of rank 1").ok());
    EXPECT_EQ(store->get("a key of rank 0", patient()).value(), "a secret of rank 0");
    EXPECT_TRUE(store->goodbye(patient()).ok());
    heard = tap.heard();
  }
  EXPECT_GT(heard.size(), 200U);
  for (const char* word : {"secret", "a key", "rank 0", "said goodbye"})
    EXPECT_EQ(heard.find(word), std::string::npos) << word;
}

// Of the hello, too: what no proof covers is in the keys.
TEST(Wiretap, ChangesNothingUnnoticed) {
  const std::size_t hello = wire::encode_hello({}).size();
  for (const std::size_t place :
       {std::size_t{8}, std::size_t{14}, std::size_t{18}, std::size_t{20}, hello - 1, hello,
        hello + 23, hello + 24, hello + 30, hello + 60}) {
    SCOPED_TRACE(place);
    const auto server = RendezvousServer::start(server_options(2)).value();
    const auto other = join(*server, 0, 2);
    Wiretap tap(*server, place);
    const auto store = connect_store(tap.options(), Deadline::after_ms(2'000));
    if (store.ok()) {
      EXPECT_FALSE((*store)->put("key", "value").ok());
    }
    EXPECT_EQ(other->get("key", Deadline::after_ms(0)).status().code(), Code::timed_out);
    EXPECT_TRUE(other->put("own", "x").ok());
  }
}

}  // namespace
}  // namespace weft::testing
