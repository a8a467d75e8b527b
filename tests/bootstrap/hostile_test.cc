// Strangers, broken peers and other versions at the rendezvous: each is turned away with a reason
// where it can read one, the job inside notices nothing, and the server stays up.
#include <fmt/format.h>
#include <sys/socket.h>

#include <random>

#include "engine/bootstrap/proof.h"
#include "engine/bootstrap/tcp_store.h"
#include "engine/net/net.h"
#include "tests/bootstrap/stores.h"

namespace weft::testing {
namespace {

Fd knock(const RendezvousServer& server) {
  return net::connect_once(server.address(), patient()).value();
}

void say(const Fd& socket, std::string bytes) {
  while (!bytes.empty()) {
    const auto flow = net::send(socket, bytes);
    if (!flow.ok()) return;  // the server has had enough
    if (*flow != net::Flow::blocked) continue;
    pollfd one{socket.get(), POLLOUT, 0};
    ASSERT_EQ(::poll(&one, 1, patient().left_ms()), 1);
  }
}

// All that the server says until it closes.
std::string hear_all(const Fd& socket) {
  std::string bytes;
  for (;;) {
    const auto flow = net::receive(socket, bytes);
    if (!flow.ok() || *flow == net::Flow::ended) return bytes;
    if (*flow == net::Flow::more) continue;
    const auto readable = net::wait_readable(socket, patient());
    EXPECT_TRUE(readable.ok() && *readable) << "the server neither answered nor closed";
    if (!readable.ok() || !*readable) return bytes;
  }
}

// The refusal that follows the challenge.
Status refusal_in(const std::string& bytes) {
  wire::FrameReader reader(wire::kMaxBody);
  reader.append(bytes);
  EXPECT_EQ(reader.next().value().value().type, wire::Type::challenge);
  const auto frame = reader.next();
  if (!frame.ok() || !frame->has_value()) return Status(Code::closed, "no refusal");
  return wire::decode_refused(**frame);
}

Status told(const RendezvousServer& server, const std::string& bytes) {
  const Fd socket = knock(server);
  say(socket, bytes);
  return refusal_in(hear_all(socket));
}

class Hostile : public ::testing::Test {
 protected:
  Hostile()
      : server_(RendezvousServer::start(server_options(2)).value()),
        inside_(join(*server_, 0, 2)) {}
  ~Hostile() override {
    // Whatever came, the job goes on.
    const auto other = join(*server_, 1, 2);
    std::thread fence([&] { EXPECT_TRUE(other->fence(patient()).ok()); });
    EXPECT_TRUE(inside_->fence(patient()).ok());
    fence.join();
  }
  std::unique_ptr<RendezvousServer> server_;
  std::shared_ptr<Store> inside_;
};

// RFC 4231, test case 2: ranks of other versions compute the same.
TEST(Proof, IsTheHmacOfTheStandard) {
  std::string digits;
  for (const char each : key_proof("Jefe", "what do ya want for nothing?"))
    digits += fmt::format("{:02x}", static_cast<unsigned char>(each));
  EXPECT_EQ(digits, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_F(Hostile, AnotherProtocolIsRefused) {
  const Status status = told(*server_, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(status.code(), Code::mismatch);
  EXPECT_TRUE(contains(status.text(), "does not speak")) << status.to_string();
}

TEST_F(Hostile, AnotherVersionIsRefused) {
  std::string hello = wire::encode_hello({1, 2, false, {}, {}});
  hello[4] = 1;
  const Status status = told(*server_, hello);
  EXPECT_EQ(status.code(), Code::mismatch);
  EXPECT_TRUE(contains(status.text(), "version 1")) << status.to_string();
}

TEST_F(Hostile, AnOversizedLengthIsRefusedUnread) {
  std::string header = wire::encode_hello({1, 2, false, {}, {}}).substr(0, wire::kHeaderBytes);
  header[10] = 1;  // 64 KiB more than a stranger may send
  EXPECT_EQ(told(*server_, header).code(), Code::invalid_argument);
}

TEST_F(Hostile, ARequestBeforeTheHelloIsRefused) {
  EXPECT_EQ(told(*server_, wire::encode_request({BoardRequest::Kind::leave, 1, 0, {}, {}})).code(),
            Code::invalid_argument);
}

TEST_F(Hostile, AProofOfNothingIsRefused) {
  EXPECT_EQ(told(*server_, wire::encode_hello({1, 2, false, {}, {}})).code(), Code::no_permission);
}

TEST_F(Hostile, RandomStreamsAreRefused) {
  std::mt19937 random(7);
  for (int i = 0; i < 100; ++i) {
    std::string bytes =
        i % 2 == 0 ? "" : wire::encode_hello({1, 2, false, {}, {}}).substr(0, 12 + random() % 60);
    const std::size_t more = 1 + random() % 2000;
    for (std::size_t k = 0; k < more; ++k) bytes.push_back(static_cast<char>(random()));
    const Fd socket = knock(*server_);
    say(socket, bytes);
    ::shutdown(socket.get(), SHUT_WR);
    EXPECT_FALSE(refusal_in(hear_all(socket)).ok()) << "stream " << i << " was let in";
  }
}

TEST_F(Hostile, SilentStrangersCannotKeepRanksOut) {
  std::vector<Fd> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(knock(*server_));
}  // and the job still comes together: see the destructor

TEST(Reception, AStrangersPatienceIsBounded) {
  RendezvousOptions options = server_options(1);
  options.handshake_ms = 1;
  const auto server = RendezvousServer::start(options).value();
  const Fd silent = knock(*server);
  EXPECT_EQ(refusal_in(hear_all(silent)).code(), Code::closed);  // closed, with nothing more to say
}

// A client that has joined, and then does what it likes.
Joined join_raw(const RendezvousServer& server, Rank rank, int size) {
  return join_rendezvous(rank_options(server, rank, size), patient()).value();
}

// Waits for a whole frame; a refusal without text when the connection ends before it.
wire::Frame hear_frame(const Fd& socket) {
  wire::FrameReader reader(wire::kMaxBody);
  for (;;) {
    const auto frame = reader.next().value();
    if (frame) return *frame;
    EXPECT_TRUE(net::wait_readable(socket, patient()).value());
    std::string bytes;
    const auto flow = net::receive(socket, bytes);
    if (!flow.ok() || *flow == net::Flow::ended) return {wire::Type::refused, {}};
    reader.append(bytes);
  }
}

// A good handshake of rank 1 and all that was said in it.
struct Handshake {
  Fd socket;
  std::string challenge;
  std::string hello;
  std::string welcome;
};

Handshake record_handshake(const RendezvousServer& server) {
  Handshake good{knock(server), {}, {}, {}};
  const wire::Nonce asked = wire::decode_challenge(hear_frame(good.socket)).value();
  const proof::Claim claim{1, 2, asked, proof::fresh_nonce().value()};
  const wire::Proof proof = proof::make(kKey, proof::Side::rank, claim);
  good.challenge = wire::encode_challenge(asked);
  good.hello = wire::encode_hello({claim.rank, claim.size, false, claim.rank_nonce, proof});
  say(good.socket, good.hello);
  good.welcome = wire::encode_welcome(wire::decode_welcome(hear_frame(good.socket)).value());
  return good;
}

// Not because the rank is there already, but because every connection is asked something else: the
// refusal is that of a wrong key, here and by another server of the same job.
TEST(Reception, ARecordedHelloIsRefused) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  const auto same_key = RendezvousServer::start(server_options(2)).value();
  const Handshake good = record_handshake(*server);
  EXPECT_EQ(told(*server, good.hello).code(), Code::no_permission);
  EXPECT_EQ(told(*same_key, good.hello).code(), Code::no_permission);
}

TEST(Reception, ARankThatSpeaksNonsenseDiesAloneAndIsNamed) {
  const auto server = RendezvousServer::start(server_options(3)).value();
  const auto good = join(*server, 0, 3);
  // Sealed, and as somebody says it who has taken over the connection.
  for (const bool is_sealed : {true, false}) {
    Joined bad = join_raw(*server, is_sealed ? 2 : 1, 3);
    const std::string words = "this is not a frame, and no record of a sealed stream";
    say(bad.socket, is_sealed ? bad.sealer.seal(words) : words);
    const StoreEvent event = wait_for_event(*good);
    EXPECT_EQ(event.kind, StoreEvent::Kind::died);
    EXPECT_EQ(event.rank, is_sealed ? 2 : 1);
    EXPECT_TRUE(contains(event.reason, is_sealed ? "does not speak" : "has not sealed"));
    EXPECT_TRUE(good->put(is_sealed ? "still" : "and still", "here").ok());
  }
}

TEST(Reception, NoSequenceOfRequestsHarmsTheOthers) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    const auto server = RendezvousServer::start(server_options(2)).value();
    const auto good = join(*server, 0, 2);
    Joined odd = join_raw(*server, 1, 2);
    std::string bytes;
    for (int i = 0; i < 300; ++i) {
      const auto kind = static_cast<BoardRequest::Kind>(random() % (i < 299 ? 4 : 5));
      const Rank from = static_cast<Rank>(random() % 5) - 2;
      const std::string key(random() % 3 == 0 ? random() % 300 : random() % 2, 'k');
      const auto id = static_cast<RequestId>(random() % 8);
      bytes += odd.sealer.seal(wire::encode_request({kind, id, from, key, "v"}));
    }
    say(odd.socket, bytes);
    ::shutdown(odd.socket.get(), SHUT_WR);
    (void)hear_all(odd.socket);
    EXPECT_EQ(wait_for_event(*good).rank, 1);
    EXPECT_TRUE(good->put("own", "x").ok());
    EXPECT_EQ(good->get("own", patient()).value(), "x");
  }
}

TEST(Reception, ARankThatNeverReadsIsCutOff) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  const auto good = join(*server, 0, 2);
  EXPECT_TRUE(good->put("big", std::string(kMaxStoreValue, 'x')).ok());
  Joined deaf = join_raw(*server, 1, 2);
  for (RequestId id = 1; id <= 400; ++id) {
    const BoardRequest get{BoardRequest::Kind::get, id, kNoRank, "big", {}};
    say(deaf.socket, deaf.sealer.seal(wire::encode_request(get)));
  }
  const StoreEvent event = wait_for_event(*good);
  EXPECT_EQ(event.rank, 1);
  EXPECT_TRUE(contains(event.reason, "does not read")) << event.reason;
}

TEST(Reception, WaitsOfOneRankAreBounded) {
  const auto server = RendezvousServer::start(server_options(1)).value();
  Joined greedy = join_raw(*server, 0, 1);
  for (RequestId id = 0; id <= kMaxStoreWaits; ++id) {
    const BoardRequest get{BoardRequest::Kind::get, id, kNoRank, "never", {}};
    say(greedy.socket, greedy.sealer.seal(wire::encode_request(get)));
  }
  std::string bytes;
  ASSERT_TRUE(net::wait_readable(greedy.socket, patient()).value());
  ASSERT_TRUE(net::receive(greedy.socket, bytes).ok());
  greedy.reader.append(bytes);
  const Reply reply = wire::decode_reply(greedy.reader.next().value().value()).value();
  EXPECT_EQ(reply.id, kMaxStoreWaits);
  EXPECT_EQ(reply.status.code(), Code::exhausted);
}

// What a rank says to a server that only ever says `lines`, whatever it is told.
Status meet_impostor(const std::string& lines) {
  const Fd listener = net::listen_on({"127.0.0.1", 0}, 1).value();
  const Address address{"127.0.0.1", net::port_of(listener).value()};
  std::thread impostor([&] {
    ASSERT_TRUE(net::wait_readable(listener, patient()).value());
    const Fd socket = net::accept_one(listener).value();
    say(socket, lines);
    (void)hear_all(socket);
  });
  const Status status = connect_store({address, 1, 2, kKey, 1000}, patient()).status();
  impostor.join();
  return status;
}

TEST(Client, RefusesAServerThatIsNone) {
  EXPECT_EQ(meet_impostor("SSH-2.0-OpenSSH_9.2\r\n").code(), Code::mismatch);
}

TEST(Client, RefusesAServerThatDoesNotKnowTheKey) {
  const Status status =
      meet_impostor(wire::encode_challenge({}) + wire::encode_welcome({kNoRank, 0, {}}));
  EXPECT_EQ(status.code(), Code::no_permission) << status.to_string();
}

TEST(Client, RefusesARecordedWelcome) {
  const auto server = RendezvousServer::start(server_options(2)).value();
  const Handshake good = record_handshake(*server);
  const Status status = meet_impostor(good.challenge + good.welcome);
  EXPECT_EQ(status.code(), Code::no_permission) << status.to_string();
}

TEST(Client, RefusesAServerOfAnotherVersion) {
  std::string challenge = wire::encode_challenge({});
  challenge[4] = wire::kVersion + 1;
  const Status status = meet_impostor(challenge);
  EXPECT_EQ(status.code(), Code::mismatch);
  EXPECT_TRUE(contains(status.text(), "version 3")) << status.to_string();
  EXPECT_TRUE(contains(status.text(), "this side version 2")) << status.to_string();
}

}  // namespace
}  // namespace weft::testing
