// Weft lives in another process: in children that the host forks, beside callbacks that throw or
// destroy their context, and with the host's own types.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <future>
#include <memory>
#include <stdexcept>

#include "tests/context/outcomes.h"

namespace weft {
namespace {

// Types go by what they are, and a type that has no DataType does not compile.
struct Sample {
  float value;
};
static_assert(data_type_of<long long> == DataType::i64 && data_type_of<long> == DataType::i64);
static_assert(data_type_of<unsigned long long> == DataType::u64);
static_assert(data_type_of<std::int32_t> == DataType::i32);
static_assert(data_type_of<signed char> == DataType::i8);
static_assert(data_type_of<unsigned char> == DataType::u8);
static_assert(data_type_of<std::byte> == DataType::u8);
static_assert(data_type_of<Half> == DataType::f16 && data_type_of<BFloat16> == DataType::bf16);
static_assert(data_type_of<Float8E4M3> == DataType::e4m3);
static_assert(data_type_of<Float8E5M2> == DataType::e5m2);
static_assert(data_type_of<short> == DataType::i16);
static_assert(data_type_of<unsigned short> == DataType::u16);
static_assert(data_type_of<bool> == DataType::bytes && data_type_of<Sample> == DataType::bytes);
static_assert(!Element<void*> && !Element<std::string>);
template <typename T>
concept CanBeInput = requires(const T* data) {
  in(data, 1);
};
static_assert(CanBeInput<double> && CanBeInput<bool> && !CanBeInput<void*>);
static_assert(!CanBeInput<std::string>);

TEST(Types, MoveWholeElements) {
  run_job(2, [](Context& context) {
    const std::array<long long, 3> x{1, -(1LL << 40), context.rank()};
    std::array<long long, 3> y{};
    ASSERT_TRUE(context.allreduce(in(x.data(), 3), out(y.data(), 3), ReduceOp::sum).ok());
    EXPECT_EQ(y, (std::array<long long, 3>{2, -(1LL << 41), 1}));
  });
}

TEST(Types, ShortIntegersAreSummed) {
  run_job(3, [](Context& context) {
    const std::array<std::int16_t, 2> x{-3, static_cast<std::int16_t>(20'000 + context.rank())};
    std::array<std::int16_t, 2> y{};
    ASSERT_TRUE(context.allreduce(in(x.data(), 2), out(y.data(), 2), ReduceOp::sum).ok());
    EXPECT_EQ(y, (std::array<std::int16_t, 2>{-9, 60'003 - 65'536}));
    ASSERT_TRUE(context.allreduce(in(x.data(), 2), out(y.data(), 2), ReduceOp::min).ok());
    EXPECT_EQ(y, (std::array<std::int16_t, 2>{-3, 20'000}));
  });
}

// 448 is the largest number of e4m3, and 57,344 that of e5m2; 1 is 0x38 and 0x3C.
TEST(Types, BytesThatAreFloatingAreSummedAndAveraged) {
  run_job(3, [](Context& context) {
    const std::array<Float8E4M3, 3> x{
        {{0x38}, {0x7E}, {static_cast<std::uint8_t>(context.rank())}}};
    std::array<Float8E4M3, 3> y{};
    ASSERT_TRUE(context.allreduce(in(x.data(), 3), out(y.data(), 3), ReduceOp::sum).ok());
    EXPECT_EQ(y[0].bits, 0x44) << "3";
    EXPECT_EQ(y[1].bits, 0x7F) << "NaN";
    EXPECT_EQ(y[2].bits, 0x03) << "subnormal";
    ASSERT_TRUE(context.set_graph(*make_graph("fully_connected", 3)).ok());
    ASSERT_TRUE(context.neighbor_allreduce(in(x.data(), 2), out(y.data(), 2)).ok());
    EXPECT_TRUE(y[0].bits == 0x38 && y[1].bits == 0x7E);
    const std::array<Float8E5M2, 2> wide{{{0x3C}, {0x7B}}};
    std::array<Float8E5M2, 2> z{};
    ASSERT_TRUE(context.allreduce(in(wide.data(), 2), out(z.data(), 2), ReduceOp::sum).ok());
    EXPECT_TRUE(z[0].bits == 0x42 && z[1].bits == 0x7C) << "3 and infinity";
  });
}

// By every operation that only moves data.
TEST(Types, AnyOtherTypeIsMovedAsBytes) {
  run_job(2, [](Context& context) {
    struct Odd {
      char name[3];
      bool operator==(const Odd&) const = default;
    };
    static_assert(sizeof(Odd) == 3);
    const auto r = static_cast<std::size_t>(context.rank());
    const std::array<Odd, 2> both{Odd{'a', 'b', 'c'}, Odd{'d', 'e', 'f'}};
    const Odd own = both[r];
    std::array<Odd, 2> y{};
    ASSERT_TRUE(context.allgather(in(&own, 1), out(y.data(), 2)).ok());
    EXPECT_EQ(y, both);
    Odd one{};
    ASSERT_TRUE(context.broadcast(in(&own, 1), out(&one, 1), 1).ok());
    EXPECT_EQ(one, both[1]);
    ASSERT_TRUE(context.neighbor_allgather(in(&own, 1), out(&one, 1)).ok());
    EXPECT_EQ(one, both[1 - r]);
    ASSERT_TRUE(context.alltoall(in(both.data(), 2), out(y.data(), 2)).ok());
    EXPECT_EQ(y, (std::array{own, own}));
    ASSERT_TRUE(context.scatter(in(both.data(), 2), out(&one, 1), 0).ok());
    EXPECT_EQ(one, own);
    y = {};
    ASSERT_TRUE(context.gather(in(&own, 1), out(y.data(), r == 0 ? 2 : 0), 0).ok());
    EXPECT_TRUE(r != 0 || y == both);
    ASSERT_TRUE((r == 0 ? context.send(in(&own, 1), 1) : context.recv(out(&one, 1), 0)).ok());
    EXPECT_EQ(one, both[0]);
    expect_names(context.allreduce(in(&own, 1), out(&one, 1), ReduceOp::sum),
                 Code::invalid_argument, {"sum", "bytes"});
    expect_names(context.neighbor_allreduce(in(&own, 1), out(&one, 1)), Code::invalid_argument,
                 {"bytes"});
  });
}

// What a child that was forked beside a living job does, in one number: 0, or the line that failed.
int use_context(Context& context, Handle& handle) {
  const auto is_refused = [](const Status& status) {
    return status.code() == Code::unavailable &&
           status.text().find("forked") != std::string_view::npos;
  };
  float x = 1, y = 0;
  if (!is_refused(context.allreduce(in(&x, 1), out(&y, 1)))) return __LINE__;
  if (!is_refused(context.send_start(in(&x, 1), 1 - context.rank()).status())) return __LINE__;
  if (!is_refused(context.set_graph(*ring_graph(2)))) return __LINE__;
  if (!is_refused(context.placement().status())) return __LINE__;
  if (!is_refused(context.split(0).status())) return __LINE__;
  if (!handle.test() || !is_refused(handle.wait())) return __LINE__;
  if (!is_refused(handle.then([](const Status&) {}))) return __LINE__;
  if (!is_refused(allocate(64).status())) return __LINE__;
  if (!is_refused(Context::from_environment().status())) return __LINE__;
  return 0;
}

// How the child ended; killed by SIGALRM if it hung.
int status_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Fork, AChildIsRefusedAndDestroysInPeace) {
  auto stores = *make_local_stores(2);
  std::array<std::unique_ptr<Context>, 2> contexts;
  const auto on_both = [&](const std::function<void(std::size_t)>& body) {
    std::thread other([&] { body(1); });
    body(0);
    other.join();
  };
  on_both(
      [&](std::size_t rank) { contexts[rank] = *Context::create(test_config(), stores[rank]); });
  const auto exchange = [&](std::size_t rank) {
    const float x = static_cast<float>(rank);
    float y = -1;
    const Status status = contexts[rank]->allreduce(in(&x, 1), out(&y, 1));
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(y, 0.5F);
  };
  on_both(exchange);

  // The lane's thread runs while the process forks: a receive waits for its sender.
  float y = 0;
  Result<Handle> handle = contexts[0]->recv_start(out(&y, 1), 1);
  ASSERT_TRUE(handle.ok());
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    const int refused = use_context(*contexts[0], *handle);
    for (auto& context : contexts) context.reset();
    _exit(refused);
  }
  EXPECT_EQ(status_of(child), 0);
  const float x = 7;
  ASSERT_TRUE(contexts[1]->send(in(&x, 1), 0).ok());
  ASSERT_TRUE(handle->wait().ok());
  EXPECT_EQ(y, 7);
  on_both(exchange);
  on_both([&](std::size_t rank) { contexts[rank].reset(); });
  on_both([&](std::size_t rank) { (void)stores[rank]->goodbye(Deadline::after_ms(10'000)); });
}

TEST(Callback, ThatThrowsIsCaughtAndTheNextOnesRun) {
  run_job(2, [](Context& context) {
    std::promise<Code> after;
    Result<Handle> first = context.barrier_start();
    ASSERT_TRUE(first.ok());
    ASSERT_TRUE(first->then([](const Status&) { throw std::runtime_error("of the user"); }).ok());
    ASSERT_TRUE(first->then([](const Status&) { throw 7; }).ok());
    ASSERT_TRUE(first->then([&](const Status& status) { after.set_value(status.code()); }).ok());
    EXPECT_EQ(after.get_future().get(), Code::ok);
    EXPECT_TRUE(context.barrier().ok());
  });
}

TEST(Callback, MayDestroyItsContext) {
  auto stores = *make_local_stores(1);
  std::promise<void> gone;
  {
    std::unique_ptr<Context> context = *Context::create(test_config(), stores[0]);
    Result<Handle> barrier = context->barrier_start();
    ASSERT_TRUE(barrier.ok());
    auto owner = std::make_shared<std::unique_ptr<Context>>(std::move(context));
    ASSERT_TRUE(barrier
                    ->then([owner, &gone](const Status&) {
                      owner->reset();
                      gone.set_value();
                    })
                    .ok());
  }
  gone.get_future().wait();
  (void)stores[0]->goodbye(Deadline::after_ms(10'000));
}

}  // namespace
}  // namespace weft
