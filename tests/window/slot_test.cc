// The two ends of a slot, with a path on which the test answers.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <vector>

#include "engine/compress/compress.h"
#include "engine/window/window.h"
#include "tests/transport/fake_endpoint.h"

namespace weft {
namespace {

using window::Control;
using window::kBuffers;
using window::SlotWriter;

constexpr std::int64_t kPatienceNs = 60'000'000'000;
const window::TensorShape kTensor{4, DataType::f64};
const window::Shape kShape{4 * sizeof(double), 1, 1};

class SlotEnds : public testing::Test {
 protected:
  // Answers what was posted: so many works go well (-1: all), and those behind them fail.
  void answer(int good = -1) {
    while (!path_.works.empty()) {
      const WorkRequest work = path_.works.front();
      path_.works.pop_front();
      const bool goes_well = good != 0;
      if (good > 0) --good;
      std::byte* const there = part_.as<std::byte>() + work.remote.word;
      const bool is_write = work.kind == WorkKind::write;
      if (goes_well) {
        std::memcpy(is_write ? there : work.local, is_write ? work.local : there, work.bytes);
      }
      WorkOwner::of(work.ticket)
          .work_ended(goes_well ? Status() : Status(Code::unavailable, "the path failed"));
    }
  }
  // Runs a message until it is over; a failed path works again at its next try.
  void run(bool accumulates, double amount, int good = -1) {
    const std::array<double, 4> x{amount, amount, amount, amount};
    const SlotWriter::Message message{.p = amount, .patience_ns = kPatienceNs};
    const Status begun =
        accumulates ? writer_.accumulate(x.data(), message) : writer_.put(x.data(), message);
    ASSERT_TRUE(begun.ok()) << begun.to_string();
    for (int turn = 0; turn < 100 && !writer_.is_over(); ++turn) {
      writer_.advance();
      answer(std::exchange(good, -1));
    }
    ASSERT_TRUE(writer_.is_over());
    ASSERT_TRUE(writer_.status().ok()) << writer_.status().to_string();
  }
  [[nodiscard]] double visit() {
    EXPECT_TRUE(reader_.visit(Deadline::after_ms(1'000)).ok());
    std::vector<Term> terms;
    reader_.add_terms(1.0, terms);
    std::array<double, 4> value{};
    window::add_up(kTensor, terms, value.data());
    EXPECT_EQ(value[0], value[3]);
    return value[0];
  }
  // The buffer of the newest message.
  [[nodiscard]] std::size_t newest() const {
    std::size_t newest = 0;
    for (std::size_t b = 1; b < kBuffers; ++b) {
      if (control(b).done > control(newest).done) newest = b;
    }
    return newest;
  }
  [[nodiscard]] const Control& control(std::size_t buffer) const {
    return *reinterpret_cast<const Control*>(part_.as<std::byte>() + kShape.control(0, buffer));
  }
  void acknowledge() {
    if (const std::uint64_t* base = reader_.base_to_tell()) ack_ = *base;
  }

  Memory part_ = Memory::allocate(kShape.total()).value();
  FakeEndpoint path_{1};
  std::uint64_t ack_ = 0;
  SlotWriter writer_{
      {1, &path_, {{PieceForm::region, 0, kShape.total(), 1}}}, kShape, 0, kTensor, &ack_};
  window::SlotReader reader_{0, part_.as<std::byte>(), kShape, 0, kTensor};
};

// A message of five works fails after each of its works; it is repeated into the same buffer.
TEST_F(SlotEnds, RepeatAMessageWhoseRailFails) {
  double sum = 0;
  for (int good = 0; good < 4; ++good) {
    run(true, good + 1, good);
    sum += good + 1;
    EXPECT_EQ(visit(), sum);
    EXPECT_EQ(control(newest()).begin, control(newest()).done);
  }
  EXPECT_EQ(writer_.repeats(), 4);
}

// Late bytes may arrive in a suspect buffer, so it holds no later message before they cannot.
TEST_F(SlotEnds, LeaveASuspectBufferAlone) {
  run(false, 1, 2);
  const std::size_t suspect = newest();
  path_.lingers = true;
  std::set<std::size_t> used;
  for (int put = 2; put <= 10; ++put) {
    run(false, put);
    EXPECT_EQ(visit(), put);
    used.insert(newest());
  }
  EXPECT_FALSE(used.contains(suspect));
  EXPECT_EQ(used.size(), kBuffers - 1);
  path_.lingers = false;
  for (int put = 11; put <= 15; ++put) {
    run(false, put);
    used.insert(newest());
  }
  EXPECT_TRUE(used.contains(suspect));
}

// A header that no writer leaves: the data would decode, but not to a tensor of this type.
TEST(SlotOfHalves, WhoseHeaderSaysThatTheyAreEncodedNamesItsWriter) {
  constexpr std::size_t kCount = 4000;
  const window::TensorShape tensor{kCount, DataType::f16};
  const window::Shape shape{tensor.bytes(), 1, 1};
  Memory part = Memory::allocate(shape.total()).value();
  const window::PeerMemory memory{{PieceForm::view, 0, shape.total(), 1}, part.as<std::byte>()};
  FakeEndpoint path{1};
  const std::uint64_t ack = 0;
  SlotWriter writer({1, &path, memory}, shape, 0, tensor, &ack);
  window::SlotReader reader(5, part.as<std::byte>(), shape, 0, tensor);
  std::vector<std::byte> x(tensor.bytes());
  const std::size_t bytes = encoded_bytes(Compression::sketch, kCount);
  Encoder().encode(Compression::sketch, std::vector<float>(kCount, 2.5F),
                   std::span(x).first(bytes));
  ASSERT_TRUE(writer.put(x.data(), {}).ok());
  for (std::size_t b = 0; b < kBuffers; ++b) {
    auto* control = reinterpret_cast<Control*>(part.as<std::byte>() + shape.control(0, b));
    control->header.compression = Compression::sketch;
  }
  const Status status = reader.visit(Deadline::after_ms(1'000));
  EXPECT_EQ(status.code(), Code::mismatch);
  EXPECT_EQ(status.rank(), 5);
}

// What a slot of another version would have.
TEST(SlotOfFloats, ThatCannotBeDecodedNamesItsWriter) {
  constexpr std::size_t kCount = 4000;
  const window::TensorShape tensor{kCount, DataType::f32};
  const window::Shape shape{tensor.bytes(), 1, 1};
  Memory part = Memory::allocate(shape.total()).value();
  const window::PeerMemory memory{{PieceForm::view, 0, shape.total(), 1}, part.as<std::byte>()};
  FakeEndpoint path{1};
  const std::uint64_t ack = 0;
  SlotWriter writer({1, &path, memory}, shape, 0, tensor, &ack);
  window::SlotReader reader(5, part.as<std::byte>(), shape, 0, tensor);
  const std::vector<float> x(kCount, 2.5F);
  ASSERT_TRUE(writer.put(x.data(), {.compression = Compression::sketch}).ok());
  ASSERT_TRUE(reader.visit(Deadline::after_ms(1'000)).ok());
  ASSERT_TRUE(writer.put(x.data(), {.compression = Compression::sketch}).ok());
  std::size_t newest = 0;
  for (std::size_t b = 1; b < kBuffers; ++b) {
    const auto done = [&](std::size_t buffer) {
      return reinterpret_cast<const Control*>(part.as<std::byte>() + shape.control(0, buffer))
          ->done;
    };
    if (done(b) > done(newest)) newest = b;
  }
  part.as<std::byte>()[shape.data(0, newest) + 4] = std::byte{9};
  const Status status = reader.visit(Deadline::after_ms(1'000));
  EXPECT_EQ(status.code(), Code::mismatch);
  EXPECT_EQ(status.rank(), 5);
  EXPECT_NE(status.text().find("rank 5: an encoded tensor has version 9"), std::string::npos)
      << status.to_string();
  ASSERT_TRUE(writer.put(x.data(), {.compression = Compression::sketch}).ok());
  EXPECT_TRUE(reader.visit(Deadline::after_ms(1'000)).ok()) << "the next one is good";
}

TEST_F(SlotEnds, SayThatTheyAreOutOfBuffers) {
  path_.lingers = true;
  const std::array<double, 4> x{};
  Status status;
  for (int put = 0; put < 8 && status.ok(); ++put) {
    status = writer_.put(x.data(), {.patience_ns = kPatienceNs});
    for (int turn = 0; turn < 100 && !writer_.is_over(); ++turn) {
      writer_.advance();
      answer(turn == 0 ? 1 : -1);  // each message is repeated
    }
  }
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_NE(status.text().find("rank 1"), std::string_view::npos) << status.to_string();
}

// A base that goes on needs the last message of the one before, which stays until the reader says.
TEST_F(SlotEnds, KeepTheLastMessageOfTheBaseBefore) {
  run(true, 1);
  EXPECT_EQ(visit(), 1);
  acknowledge();
  run(true, 2);  // goes on in a new base
  for (int each = 3; each <= 12; ++each) run(true, each);
  EXPECT_EQ(visit(), 78);  // not read for ten messages
  reader_.reset();
  acknowledge();
  run(true, 100);
  EXPECT_EQ(visit(), 100);
}

// Without the reader's word the sum grows; with it each sum is that of a few.
TEST_F(SlotEnds, BeginTheSumAnewWhenItWasRead) {
  for (int step = 1; step <= 20; ++step) {
    run(true, 1e15);
    EXPECT_EQ(visit(), 1e15);
    reader_.reset();
    acknowledge();
    // The data of the message are the last amount alone.
    const auto* data =
        reinterpret_cast<const double*>(part_.as<std::byte>() + kShape.data(0, newest()));
    EXPECT_EQ(data[0], 1e15) << "step " << step;
  }
}

TEST_F(SlotEnds, ReadBackAPutToAddToIt) {
  run(false, 5);
  run(true, 3);
  EXPECT_EQ(visit(), 8);
  EXPECT_EQ(reader_.versions(), 1U);
}

// versions() looks at a message that update() has not read.
TEST_F(SlotEnds, KeepTheVersionsOfWhatWasNotRead) {
  run(false, 1);
  EXPECT_EQ(visit(), 1);
  run(false, 2);
  EXPECT_EQ(reader_.versions(), 2U);
  reader_.clear_versions();
  EXPECT_EQ(reader_.versions(), 1U);
}

// A reader finds that its source is being overwritten.
TEST_F(SlotEnds, DoNotAcceptAMessageThatIsOverwritten) {
  run(false, 1);
  auto& torn = const_cast<Control&>(control(newest()));
  torn.begin = 77;
  EXPECT_EQ(reader_.visit(Deadline::at_ns(0)).code(), Code::timed_out);
  torn.begin = torn.done;
  EXPECT_EQ(visit(), 1);
}

}  // namespace
}  // namespace weft
