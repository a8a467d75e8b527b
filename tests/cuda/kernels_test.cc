// Kernels for GPUs: the same bits as on the CPU. On the fake of the driver they are the same text, made
// by the host's compiler.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "engine/gpu_kernels/gpu_kernels.h"
#include "tests/context/outcomes.h"
#include "tests/cuda/fake_library.h"

namespace weft {
namespace {

class GpuKernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    FakeDriver::get().reset();
    bytes_ = std::make_unique<GpuArray<std::uint8_t>>(1, 0);
    memory_ = *gpu_memory(bytes_->data());
    queue_ = GpuQueue::out_of(memory_, Stream{}).value();
    Result<const GpuKernels*> kernels = GpuKernels::of(memory_);
    if (!kernels.ok() && kernels.status().text().find("no nvcc") != std::string_view::npos)
      GTEST_SKIP() << kernels.status().text();
    ASSERT_TRUE(kernels.ok()) << kernels.status().to_string();
    kernels_ = *kernels;
  }
  void TearDown() override { FakeDriver::get().reset(); }

  std::unique_ptr<GpuArray<std::uint8_t>> bytes_;
  GpuMemory memory_;
  std::shared_ptr<GpuQueue> queue_;
  const GpuKernels* kernels_ = nullptr;
};

// Bits of any kind: for floating types NaN, infinities and subnormals are among them.
std::vector<std::uint8_t> any_bits(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint8_t> made(bytes);
  for (std::uint8_t& byte : made) byte = static_cast<std::uint8_t>(random());
  return made;
}

bool is_nan(DataType type, const std::uint8_t* at) {
  switch (type) {
    case DataType::f16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, at, 2);
      return (bits & 0x7FFF) > 0x7C00;
    }
    case DataType::bf16: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, at, 2);
      return (bits & 0x7FFF) > 0x7F80;
    }
    case DataType::e4m3:
      return (*at & 0x7F) == 0x7F;
    case DataType::e5m2:
      return (*at & 0x7F) > 0x7C;
    case DataType::f32: {
      float value = 0;
      std::memcpy(&value, at, 4);
      return std::isnan(value);
    }
    case DataType::f64: {
      double value = 0;
      std::memcpy(&value, at, 8);
      return std::isnan(value);
    }
    default:
      return false;
  }
}

// Equal bits; what a NaN looks like is not promised.
void expect_equal(DataType type, const std::vector<std::uint8_t>& is,
                  const std::vector<std::uint8_t>& should_be, const std::string& what) {
  const std::size_t size = size_of(type);
  for (std::size_t at = 0; at < should_be.size(); at += size) {
    if (std::memcmp(&is[at], &should_be[at], size) == 0) continue;
    if (is_nan(type, &is[at]) && is_nan(type, &should_be[at])) continue;
    FAIL() << what << ", element " << at / size;
  }
}

TEST_F(GpuKernelsTest, CombinesHaveTheBitsOfTheCpu) {
  constexpr std::size_t kMost = 6;
  for (std::size_t t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    const std::size_t size = size_of(type);
    for (std::size_t r = 0; r < kReductions; ++r) {
      const auto reduction = static_cast<Reduction>(r);
      if (!check_reduction(type, reduction).ok()) continue;
      for (const std::size_t count : {1UL, 7UL, 256UL, 1001UL}) {
        const std::size_t bytes = count * size;
        // Aligned, and not: chunks, and single elements.
        for (const std::size_t shift : {std::size_t{0}, size}) {
          std::vector<std::unique_ptr<GpuArray<std::uint8_t>>> inputs;
          std::vector<std::vector<std::uint8_t>> host;
          std::vector<Term> there, here;
          for (std::size_t k = 0; k < kMost; ++k) {
            host.push_back(any_bits(bytes, 100 * t + 10 * r + k));
            std::vector<std::uint8_t> shifted(shift);
            shifted.insert(shifted.end(), host[k].begin(), host[k].end());
            inputs.push_back(std::make_unique<GpuArray<std::uint8_t>>(shifted.size(), 0));
            inputs[k]->set(shifted);
            there.push_back({inputs[k]->data() + shift, 0.25 * static_cast<double>(k) - 0.5});
          }
          for (std::size_t k = 0; k < kMost; ++k) here.push_back({host[k].data(), there[k].weight});
          for (const std::size_t terms : {1UL, 2UL, 5UL, kMost}) {
            GpuArray<std::uint8_t> result(bytes, 0);
            std::vector<std::uint8_t> expected(bytes);
            const double divisor = terms == 5 ? 0.625 : 1.0;  // of weighted sums
            combine(type, reduction, std::span(here).first(terms), expected.data(), count,
                    StoreKind::cached, divisor);
            const Status status =
                kernels_->combine(*queue_, type, reduction, std::span(there).first(terms),
                                  result.data(), count, divisor);
            ASSERT_TRUE(status.ok()) << status.to_string();
            expect_equal(type, result.get(), expected,
                         std::string(name(type)) + " " + std::string(name(reduction)));
          }
        }
      }
    }
  }
}

// From the GPU and from pinned memory, onto one of the terms.
TEST_F(GpuKernelsTest, MemoryOfBothKindsIsCombinedInPlace) {
  run_job(1, [](Context&) {});  // the heap has the tests' settings
  GpuArray<float> own(1000, 0);
  own.set(std::vector<float>(1000, 3.0F));
  PinnedBlock block = PinnedBlock::take(4000, memory_).value();
  std::fill_n(reinterpret_cast<float*>(block.data()), 1000, 5.0F);
  const Term terms[] = {{own.data(), 0.5}, {block.data(), 0.25}};
  const std::uint64_t before = gpu_counts().launches;
  ASSERT_TRUE(
      kernels_->combine(*queue_, DataType::f32, Reduction::weighted_sum, terms, own.data(), 1000)
          .ok());
  EXPECT_EQ(own.get(), std::vector<float>(1000, 2.75F));
  EXPECT_EQ(gpu_counts().launches - before, 1U);
}

TEST_F(GpuKernelsTest, ManyCopiesAreOneLaunch) {
  GpuArray<std::uint8_t> from(10'000, 0), to(10'000, 0);
  const std::vector<std::uint8_t> bits = any_bits(10'000, 7);
  from.set(bits);
  to.set(std::vector<std::uint8_t>(10'000));
  std::vector<GpuKernels::Copy> copies;
  std::vector<std::uint8_t> expected(10'000);
  for (std::size_t c = 0; c < 100; ++c) {
    const std::size_t at = c * 97;
    const std::size_t bytes = c % 90;
    copies.push_back({from.data() + at, to.data() + at, bytes});
    std::copy_n(bits.begin() + static_cast<std::ptrdiff_t>(at), bytes,
                expected.begin() + static_cast<std::ptrdiff_t>(at));
  }
  const std::uint64_t before = gpu_counts().launches;
  ASSERT_TRUE(kernels_->copy(*queue_, copies).ok());
  EXPECT_EQ(gpu_counts().launches - before, 1U);
  EXPECT_EQ(to.get(), expected);
}

TEST_F(GpuKernelsTest, CastsRoundToNearest) {
  GpuArray<float> wide(4, 0);
  GpuArray<std::uint16_t> narrow(4, 0);
  wide.set({1.0F, 1.0F + 1.0F / 2048, -65'520.0F, std::numeric_limits<float>::quiet_NaN()});
  ASSERT_TRUE(
      kernels_->cast(*queue_, DataType::f32, wide.data(), DataType::f16, narrow.data(), 4).ok());
  const std::vector<std::uint16_t> halves = narrow.get();
  EXPECT_EQ(halves[0], 0x3C00);
  EXPECT_EQ(halves[1], 0x3C00) << "a tie goes to even";
  EXPECT_EQ(halves[2], 0xFC00) << "infinity";
  EXPECT_TRUE(is_nan(DataType::f16, reinterpret_cast<const std::uint8_t*>(&halves[3])));
  ASSERT_TRUE(
      kernels_->cast(*queue_, DataType::f16, narrow.data(), DataType::f32, wide.data(), 3).ok());
  EXPECT_EQ(wide.get()[0], 1.0F);
  expect_names(kernels_->cast(*queue_, DataType::i32, wide.data(), DataType::f32, wide.data(), 3),
               Code::invalid_argument, {"i32", "f32"});
}

TEST_F(GpuKernelsTest, ErrorsNameWhatIsWrong) {
  if (!FakeDriver::get().is_fake()) GTEST_SKIP() << "only the fake driver can do this";
  const Term term{bytes_->data(), 1.0};
  const std::vector<Term> many(GpuKernels::kMostTerms + 1, term);
  expect_names(kernels_->combine(*queue_, DataType::u8, Reduction::sum, many, bytes_->data(), 1),
               Code::invalid_argument, {"129"});
  EXPECT_EQ(
      kernels_
          ->combine(*queue_, DataType::u8, Reduction::weighted_sum, {&term, 1}, bytes_->data(), 1)
          .code(),
      Code::invalid_argument);
  FakeDriver::get().fail("cuLaunchKernel", 1, 1);
  expect_names(
      kernels_->combine(*queue_, DataType::u8, Reduction::sum, {&term, 1}, bytes_->data(), 1),
      Code::system, {"GPU 0", "CUDA_ERROR_INVALID_VALUE"});
}

}  // namespace
}  // namespace weft
