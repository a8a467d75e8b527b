// What a context says on the wire when it fails, seen by a peer that is none: its note is said to
// carry a payload, so whatever keeps it aside for its turn (a bond) keeps its text.
#include <fmt/core.h>

#include <cstring>

#include "engine/job/job.h"
#include "tests/context/job.h"
#include "verbs/bond/bond.h"
#include "verbs/shm/shm.h"

namespace weft {
namespace {

std::string address_key(Rank rank) {
  return fmt::format("context/0/address/{}", rank);
}

Result<std::unique_ptr<Interface>> open_as(Rank rank, const Config& config, Store& store) {
  InterfaceOptions options = interface_options(config);
  options.machine = this_machine(config.host).identity;
  BondOptions bond;
  bond.rank = rank;
  bond.channels = options.channels;
  const BondMember memory{
      {}, {}, [&](AddressResolver find) { return open_shm(rank, options, std::move(find)); }};
  return open_bond(bond, &memory, {}, [&store](Rank peer) {
    return store.get_from(peer, address_key(peer), Deadline::after_ms(10'000));
  });
}

// It waits for data in an operation that is long over for the context.
void ask_about_an_old_operation(Endpoint& peer) {
  WireHeader header;
  header.kind = NoticeKind::query;
  header.operation = ~std::uint32_t{0};
  ASSERT_EQ(peer.post_notice(kControlChannel, header, {}), Posted::posted);
}

// Rank 0 is a context. Rank 1 is no more than an interface, by which a test says what it likes.
class FailureNote : public testing::Test {
 protected:
  void SetUp() override {
    config_.transports = {.automatic = false, .shm = true};
    context = Context::create(config_, stores_[0]).value();
    stranger = open_as(1, config_, *stores_[1]).value();
    ASSERT_TRUE(stores_[1]->put(address_key(1), stranger->address()).ok());
    const std::string address =
        stores_[1]->get_from(0, address_key(0), Deadline::after_ms(10'000)).value();
    peer = stranger->connect(0, address).value();
  }
  void TearDown() override { stranger->close(); }

 private:
  Config config_ = test_config();
  std::vector<std::shared_ptr<Store>> stores_ = make_local_stores(2).value();

 protected:
  std::unique_ptr<Context> context;
  std::unique_ptr<Interface> stranger;
  Endpoint* peer = nullptr;
};

TEST_F(FailureNote, IsSaidToCarryItsText) {
  ask_about_an_old_operation(*peer);
  EXPECT_EQ(context->barrier().code(), Code::mismatch);
  const Deadline deadline = Deadline::after_ms(10'000);
  Notice notice;
  while (!deadline.passed()) {
    stranger->progress();
    notice = peer->front(kControlChannel);
    if (notice.header != nullptr && notice.header->kind == NoticeKind::failure) break;
    if (notice.header != nullptr) peer->release(kControlChannel);
    notice = {};
  }
  ASSERT_NE(notice.header, nullptr);
  EXPECT_EQ(notice.header->form, PieceForm::payload);
  const std::string_view text(reinterpret_cast<const char*>(notice.payload), notice.header->bytes);
  EXPECT_NE(text.find("has no edge"), std::string_view::npos);
}

// In a chain of ranks each tells the next one; the first of them is near the cause.
TEST_F(FailureNote, NamesWhoToldItFirst) {
  const std::uint32_t code_and_rank[] = {static_cast<std::uint32_t>(Code::mismatch), 2};
  std::string note(reinterpret_cast<const char*>(code_and_rank), sizeof code_and_rank);
  note += "the edge is not there (told by rank 5)";
  WireHeader header;
  header.kind = NoticeKind::failure;
  header.form = PieceForm::payload;
  header.bytes = static_cast<std::uint32_t>(note.size());
  ASSERT_EQ(peer->post_notice(kControlChannel, header, std::as_bytes(std::span(note))),
            Posted::posted);
  const Status status = context->barrier();
  EXPECT_EQ(status.code(), Code::mismatch);
  EXPECT_EQ(status.rank(), 2);
  EXPECT_EQ(status.text(), "the edge is not there (told by rank 5)");
}

}  // namespace
}  // namespace weft
