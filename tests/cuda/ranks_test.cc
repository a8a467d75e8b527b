// Ranks that are processes, with tensors on GPUs and in the order of streams: new tensors in each
// operation, so that each maps memory of its peers, and several operations at once. On the fake of
// the driver or on a GPU; `weft run` starts it.
#include <algorithm>
#include <memory>

#include "engine/context/context.h"
#include "engine/gpu/gpu.h"
#include "tests/cuda/fake_library.h"

namespace weft {
namespace {

float value_of(Rank rank, int lap, std::size_t i) {
  return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 32 +
                            static_cast<std::size_t>(lap));
}

class GpuRanks : public testing::Test {
 protected:
  void SetUp() override {
    (void)FakeDriver::get();
    Result<std::unique_ptr<Context>> made = Context::from_environment();
    ASSERT_TRUE(made.ok()) << made.status().to_string();
    context_ = *std::move(made);
    device_ = context_->rank() % FakeDriver::get().devices();
  }

  // A tensor on its way through an operation.
  struct Flight {
    explicit Flight(std::size_t count, int device)
        : x(count, device), y(count, device), values(count), found(count) {}
    GpuArray<float> x, y;
    std::vector<float> values, found;
    void* stream = nullptr;
    Handle handle;
  };

  // Everything is queued in the stream: the input, the operation, and a copy of its result.
  std::unique_ptr<Flight> fly(Request request, std::size_t count, int lap, bool is_in_place) {
    const FakeDriver& fake = FakeDriver::get();
    auto flight = std::make_unique<Flight>(count, device_);
    for (std::size_t i = 0; i < count; ++i) flight->values[i] = value_of(context_->rank(), lap, i);
    flight->stream = fake.stream(device_);
    fake.copy_in(device_, flight->x.data(), flight->values.data(), count * sizeof(float),
                 flight->stream);
    float* const y = is_in_place ? flight->x.data() : flight->y.data();
    request.input = in(flight->x.data(), count);
    request.output = out(y, count);
    request.stream = Stream{flight->stream};
    Result<Handle> handle = context_->start(request);
    EXPECT_TRUE(handle.ok()) << handle.status().to_string();
    if (!handle.ok()) return flight;
    flight->handle = *std::move(handle);
    fake.copy_out(device_, flight->found.data(), y, count * sizeof(float), flight->stream);
    return flight;
  }

  // The stream ends by itself: nobody waits for the operation.
  void land(Flight& flight) {
    FakeDriver::get().synchronize(device_, flight.stream);
    const Status status = flight.handle.wait();
    ASSERT_TRUE(status.ok()) << status.to_string();
    if (FakeDriver::get().is_fake()) FakeDriver::get().run();
  }

  std::unique_ptr<Context> context_;
  int device_ = 0;
};

TEST_F(GpuRanks, NewTensorsInEachOperation) {
  const int size = context_->size();
  for (int lap = 0; lap < 12; ++lap) {
    SCOPED_TRACE(testing::Message() << "lap " << lap << ", rank " << context_->rank());
    const std::size_t count = 300'000 + static_cast<std::size_t>(lap) * 70'000;
    const bool is_in_place = lap % 2 == 1;
    Request sum{.collective = Collective::allreduce, .op = ReduceOp::sum};
    Request largest{.collective = Collective::allreduce, .op = ReduceOp::max};
    const std::unique_ptr<Flight> first = fly(sum, count, lap, is_in_place);
    const std::unique_ptr<Flight> second = fly(largest, count / 2, lap, !is_in_place);
    land(*first);
    land(*second);
    if (HasFatalFailure() || HasNonfatalFailure()) return;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      float sum_here = 0, most = 0;
      for (Rank rank = 0; rank < size; ++rank) {
        sum_here += value_of(rank, lap, i);
        most = std::max(most, value_of(rank, lap, i));
      }
      wrong += first->found[i] != sum_here;
      if (i < count / 2) wrong += second->found[i] != most;
    }
    EXPECT_EQ(wrong, 0U);
  }
  if (context_->explain().find("sums are the host's") != std::string::npos)
    GTEST_SKIP() << "built without nvcc";
  EXPECT_GT(gpu_usage().with_aliases, 10U) << context_->explain();
}

// A rank that ends leaves its peers an error, not a wait.
TEST_F(GpuRanks, ARankThatLeavesIsNamed) {
  GpuArray<float> x(400'000, device_), y(400'000, device_);
  x.set(std::vector<float>(400'000, 1));
  for (int lap = 0; lap < 4; ++lap)
    ASSERT_TRUE(context_->allreduce(in(x.data(), 400'000), out(y.data(), 400'000)).ok());
  if (context_->rank() == 1) return;
  const Status status = context_->allreduce(in(x.data(), 400'000), out(y.data(), 400'000));
  EXPECT_EQ(status.code(), Code::peer_left) << status.to_string();
  EXPECT_NE(status.text().find("rank 1"), std::string_view::npos) << status.to_string();
}

}  // namespace
}  // namespace weft
