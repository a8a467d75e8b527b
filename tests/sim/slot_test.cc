// The slot of a window over simulated rails: a writer and a reader, rails that are cut in the middle
// of a message, and bytes that a dead rail delivers late. No value is torn, nothing is lost, and
// nothing is taken twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <vector>

#include "engine/window/window.h"
#include "tests/base/sanitized.h"
#include "tests/sim/pair.h"

namespace weft {
namespace {

using Cut = SimNetwork::Cut;

// Small messages stay on the path that has work, others take the rail that has the least to do, and large ones all rails
// at once.
struct Size {
  std::size_t count;
  int messages;
  std::uint64_t seeds;
};
constexpr Size kSmall{24, 60, 96};
constexpr Size kMedium{window::SlotWriter::kLeastForRail / sizeof(double) + 3, 30, 24};
constexpr Size kLarge{window::Spread::kLeast / sizeof(double) + 3, 12, 16};

constexpr std::int64_t kPatienceNs = 3'600'000'000'000;

// What is cut, whether the rails keep the order of one-sided work, and whether notices go over them, too.
struct Course {
  Cut how;
  bool keeps_order = true;
  bool has_notices = true;
};

PairOptions two_rails(std::uint64_t seed, bool keeps_order) {
  PairOptions options;
  for (std::size_t r = 0; r < 2; ++r) {
    options.rails.push_back({seed * 31 + r, 1 + (seed + r * 7) % 20, 512});
    options.rails.back().keeps_order = keeps_order;
  }
  options.slots = 16;
  return options;
}

// Rank 0 writes into its slot at rank 1. Each rank has a part of the window.
class SimSlot {
 public:
  SimSlot(std::uint64_t seed, std::size_t count, const Course& course)
      : tensor_{count, DataType::f64},
        shape_{count * sizeof(double), 1, 1},
        random_(seed),
        has_notices_(course.has_notices),
        pair_(two_rails(seed, course.keeps_order)) {
    for (const Rank rank : {0, 1}) {
      streams_.push_back(std::make_unique<PairStream>(
          pair_.from(rank), pair_.from(1 - rank), 1, ~std::uint32_t{0},
          [](std::uint32_t number) -> std::size_t { return 1 + number % 448; }));
      parts_[rank] = Memory::allocate(shape_.total()).value();
      regions_[rank] = pair_.at(rank).expose(part(rank)).value();
    }
    const auto* ack = reinterpret_cast<const std::uint64_t*>(part(0).data() + shape_.ack(0));
    writer_ = std::make_unique<window::SlotWriter>(place_of(1), shape_, 0, tensor_, ack);
    reader_ = std::make_unique<window::SlotReader>(0, part(1).data(), shape_, 0, tensor_);
  }

  [[nodiscard]] Pair& pair() { return pair_; }
  [[nodiscard]] std::uint64_t draw(std::uint64_t most) { return random_() % most; }
  [[nodiscard]] window::SlotWriter& writer() { return *writer_; }
  [[nodiscard]] window::SlotReader& reader() { return *reader_; }
  // One-sided works of rank 0 over this rail.
  [[nodiscard]] std::uint64_t works_over(int rail) {
    return pair_.from(0).over(rail)->work_state().posted;
  }

  void step() {
    simulated_ns() += kTurnNs;
    const Rank rank = static_cast<Rank>(draw(2));
    pair_.at(rank).progress();
    if (has_notices_) streams_[draw(2)]->turn();
    writer_->advance();
    tell_.advance();
    std::array<Completion, 16> ended;
    for (const Rank poster : {0, 1}) {
      const std::size_t count = pair_.at(poster).poll(ended);
      for (std::size_t e = 0; e < count; ++e)
        WorkOwner::of(ended[e].ticket).work_ended(ended[e].status);
    }
  }

  // The slot's value, all of whose elements must be equal.
  [[nodiscard]] double visit() {
    const std::uint64_t raised = window::load_word(part(1).data() + shape_.signal(0, 0));
    EXPECT_LE(raised, newest_done()) << "a signal came before its message";
    EXPECT_TRUE(reader_->visit(Deadline::after_ms(1'000)).ok());
    std::vector<Term> terms;
    reader_->add_terms(1.0, terms);
    std::vector<double> value(tensor_.count);
    add_up(tensor_, terms, value.data());
    for (const double each : value) {
      EXPECT_EQ(each, value[0]) << "a torn value";
      if (each != value[0]) break;
    }
    EXPECT_EQ(reader_->p(), value[0]) << "p and the tensor are of different messages";
    if (tell_.is_over()) {
      if (const std::uint64_t* base = reader_->base_to_tell()) {
        base_ = *base;
        tell_.begin(place_of(0), kPatienceNs);
        tell_.write(&base_, sizeof base_, shape_.ack(0));
      }
    }
    return value[0];
  }

 private:
  [[nodiscard]] std::span<std::byte> part(Rank rank) const {
    return {parts_[rank].as<std::byte>(), shape_.total()};
  }
  // The number of the newest message that is whole.
  [[nodiscard]] std::uint64_t newest_done() const {
    std::uint64_t newest = 0;
    for (std::size_t buffer = 0; buffer < window::kBuffers; ++buffer) {
      const std::size_t control = shape_.control(0, buffer);
      newest = std::max(
          newest, window::load_word(part(1).data() + control + offsetof(window::Control, done)));
    }
    return newest;
  }
  // The part of `rank`, as the other one sees it.
  [[nodiscard]] window::Place place_of(Rank rank) {
    Endpoint& way = pair_.from(1 - rank);
    const std::uint32_t number =
        numbers_[rank] != 0 ? numbers_[rank] : way.import_region(regions_[rank].key).value();
    numbers_[rank] = number;
    return {rank, &way, {{PieceForm::region, 0, shape_.total(), number}}};
  }

  const window::TensorShape tensor_;
  const window::Shape shape_;
  std::mt19937_64 random_;
  const bool has_notices_;
  Pair pair_;
  std::vector<std::unique_ptr<PairStream>> streams_;
  std::array<Memory, 2> parts_;
  std::array<Region, 2> regions_;
  std::array<std::uint32_t, 2> numbers_{};
  std::unique_ptr<window::SlotWriter> writer_;
  std::unique_ptr<window::SlotReader> reader_;
  window::Chain tell_;
  std::uint64_t base_ = 0;
};

// Messages of 1, 2, 3, …, each with a signal; a put now and then if `puts`. The value at the end, and what was taken.
void run(std::uint64_t seed, const Size& size, Course course, bool puts, int& repeats) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  SimSlot slot(seed, size.count, course);
  std::vector<double> x(size.count);
  int sent = 0;
  double since_put = 0;  // what was sent from the last put on
  double all = 0;
  double taken = 0;
  bool is_cut = false;
  // Cables come and go on both rails and at both ends, and often soon after one another.
  const bool flaps = course.how == Cut::pulled;
  std::size_t rail = 0;
  int next_cut = static_cast<int>(slot.draw(400));
  for (int turn = 0; turn < 200'000; ++turn) {
    if (turn == next_cut) {
      is_cut = !is_cut;
      if (is_cut) {
        if (flaps) rail = slot.draw(2);
        slot.pair().cut(rail, course.how, flaps ? static_cast<Rank>(slot.draw(2)) : 0);
      } else {
        slot.pair().rail(rail).mend();
      }
      const bool soon = flaps && slot.draw(2) == 0;
      next_cut +=
          soon ? 1 + static_cast<int>(slot.draw(60)) : 500 + static_cast<int>(slot.draw(2'000));
    }
    if (slot.writer().is_over()) {
      ASSERT_TRUE(slot.writer().status().ok()) << slot.writer().status().to_string();
      if (sent == size.messages) break;
      const double amount = ++sent;
      const bool is_put = puts && slot.draw(4) == 0;
      x.assign(size.count, amount);
      since_put = is_put ? amount : since_put + amount;
      all += amount;
      const window::SlotWriter::Message message{
          .p = amount, .signal = 0, .patience_ns = kPatienceNs};
      const Status begun = is_put ? slot.writer().put(x.data(), message)
                                  : slot.writer().accumulate(x.data(), message);
      ASSERT_TRUE(begun.ok()) << begun.to_string();
    }
    slot.step();
    if (slot.draw(16) != 0) continue;
    const double value = slot.visit();
    if (!puts && slot.draw(2) == 0) {
      taken += value;
      slot.reader().reset();
    }
    if (testing::Test::HasFailure()) return;
  }
  ASSERT_EQ(sent, size.messages) << "the writer stands still";
  repeats += slot.writer().repeats();
  // What a dead rail still delivers changes nothing.
  for (int turn = 0; turn < 1'000; ++turn) slot.step();
  EXPECT_EQ(slot.visit(), puts ? since_put : all - taken);
}

class SimSlots : public testing::TestWithParam<Course> {};
INSTANTIATE_TEST_SUITE_P(Cuts, SimSlots,
                         testing::Values(Course{Cut::told}, Course{Cut::half}, Course{Cut::silent},
                                         Course{Cut::late}));
INSTANTIATE_TEST_SUITE_P(Flaps, SimSlots,
                         testing::Values(Course{Cut::pulled}, Course{Cut::pulled, false},
                                         Course{Cut::pulled, true, false}));
INSTANTIATE_TEST_SUITE_P(WithoutOrder, SimSlots,
                         testing::Values(Course{Cut::told, false}, Course{Cut::late, false}));
INSTANTIATE_TEST_SUITE_P(WithoutNotices, SimSlots,
                         testing::Values(Course{Cut::silent, true, false},
                                         Course{Cut::late, true, false}));

void run_all(const Size& size, Course course, bool puts) {
  int repeats = 0;  // few seeds may show none
  for (std::uint64_t seed = 1; seed <= seeds(size.seeds) || (seed <= 96 && repeats == 0); ++seed)
    run(seed, size, course, puts, repeats);
  EXPECT_GT(repeats, 0) << "no message was repeated: this test shows nothing";
}

TEST_P(SimSlots, LoseNothingAndTakeNothingTwice) {
  run_all(kSmall, GetParam(), false);
}

TEST_P(SimSlots, HaveTheLastPutAndWhatCameAfterIt) {
  run_all(kSmall, GetParam(), true);
}

TEST_P(SimSlots, OnTheFreestRailLoseNothing) {
  run_all(kMedium, GetParam(), false);
}

TEST_P(SimSlots, OnTheFreestRailHaveTheLastPut) {
  run_all(kMedium, GetParam(), true);
}

TEST(SimSlotRails, TakeTurnsWhileNothingFails) {
  for (const Size& size : {kMedium, kLarge}) {
    SimSlot slot(1, size.count, {Cut::told});
    std::vector<double> x(size.count);
    for (int sent = 0; sent < 4; ++sent) {
      x.assign(size.count, sent);
      ASSERT_TRUE(slot.writer().put(x.data(), {.patience_ns = kPatienceNs}).ok());
      while (!slot.writer().is_over()) slot.step();
      ASSERT_TRUE(slot.writer().status().ok()) << slot.writer().status().to_string();
    }
    const std::uint64_t first = slot.works_over(0), second = slot.works_over(1);
    EXPECT_GE(3 * std::min(first, second), std::max(first, second)) << first << ", " << second;
  }
}

TEST_P(SimSlots, OverAllRailsLoseNothing) {
  run_all(kLarge, GetParam(), false);
}

TEST_P(SimSlots, OverAllRailsHaveTheLastPut) {
  run_all(kLarge, GetParam(), true);
}

}  // namespace
}  // namespace weft
