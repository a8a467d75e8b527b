// What operations by name cost, beside one ordered operation on a tensor of the same total size.
//
//   weft run -n 2 -- bench_named [ROUNDS]
//
// Rank 0 prints one JSON object for each set of tensors and each way of submitting it. Times are
// medians over the rounds, of the slowest rank.
//   group     one group                       apart      each by its name
//   unfused   each by its name, never fused   neighbors  each by its name, to the graph's neighbors
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/context/context.h"

namespace {

using weft::Context;
using weft::Handle;
using weft::Named;
using weft::Request;
using weft::Result;
using weft::Status;

struct Set {
  std::string name;
  std::vector<std::size_t> counts;  // of float32
};

std::vector<std::size_t> repeated(std::size_t times, std::size_t count) {
  return std::vector<std::size_t>(times, count);
}

// The parameters of ResNet-50 (He et al., Deep Residual Learning for Image Recognition, table 1),
// 161 tensors: of each convolution its weights and those of the normalization behind it, and the
// classifier.
std::vector<std::size_t> resnet50() {
  std::vector<std::size_t> counts;
  const auto convolution = [&](std::size_t in, std::size_t out, std::size_t width) {
    counts.insert(counts.end(), {in * out * width * width, out, out});
  };
  convolution(3, 64, 7);
  std::size_t in = 64;
  const std::size_t blocks[] = {3, 4, 6, 3};
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const std::size_t planes = std::size_t{64} << stage;
    for (std::size_t block = 0; block < blocks[stage]; ++block) {
      convolution(in, planes, 1);
      convolution(planes, planes, 3);
      convolution(planes, 4 * planes, 1);
      if (block == 0) convolution(in, 4 * planes, 1);
      in = 4 * planes;
    }
  }
  counts.insert(counts.end(), {2048 * 1000, 1000});
  return counts;
}

double us_since(std::int64_t begin_ns) {
  return static_cast<double>(weft::now_ns() - begin_ns) / 1e3;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

Result<double> slowest(Context& context, double own) {
  double most = 0;
  WEFT_RETURN_IF_ERROR(
      context.allreduce(weft::in(&own, 1), weft::out(&most, 1), weft::ReduceOp::max));
  return most;
}

class Bench {
 public:
  Bench(Context& context, Set set, int rounds)
      : context_(context), set_(std::move(set)), rounds_(rounds) {}

  Status run() {
    std::size_t all = 0;
    for (const std::size_t count : set_.counts) all += count;
    WEFT_ASSIGN(void* x, weft::allocate(all * sizeof(float)));
    WEFT_ASSIGN(void* y, weft::allocate(all * sizeof(float)));
    x_ = static_cast<float*>(x);
    y_ = static_cast<float*>(y);
    std::fill(x_, x_ + all, 1.0F);
    std::fill(y_, y_ + all, 0.0F);
    all_ = all;
    WEFT_ASSIGN(one_us_,
                time([&](double&) { return one(weft::Collective::allreduce); }, submit_us_));
    WEFT_ASSIGN(
        const double neighbor_us,
        time([&](double&) { return one(weft::Collective::neighbor_allreduce); }, submit_us_));
    WEFT_ASSIGN(Named fused, context_.named({.cache_capacity = 20'000}));
    WEFT_RETURN_IF_ERROR(measure(
        "group", fused, [&](double& us) { return group(fused, us); }, one_us_));
    WEFT_RETURN_IF_ERROR(measure(
        "apart", fused, [&](double& us) { return apart(fused, weft::Collective::allreduce, us); },
        one_us_));
    WEFT_RETURN_IF_ERROR(measure(
        "neighbors", fused,
        [&](double& us) { return apart(fused, weft::Collective::neighbor_allreduce, us); },
        neighbor_us));
    WEFT_RETURN_IF_ERROR(fused.end());
    WEFT_ASSIGN(Named unfused, context_.named({.cache_capacity = 20'000, .fusion_bytes = 0}));
    WEFT_RETURN_IF_ERROR(measure(
        "unfused", unfused,
        [&](double& us) { return apart(unfused, weft::Collective::allreduce, us); }, one_us_));
    WEFT_RETURN_IF_ERROR(measure(
        "unfused_neighbors", unfused,
        [&](double& us) { return apart(unfused, weft::Collective::neighbor_allreduce, us); },
        neighbor_us));
    WEFT_RETURN_IF_ERROR(unfused.end());
    weft::deallocate(x);
    weft::deallocate(y);
    return {};
  }

 private:
  template <typename Round>
  Result<double> time(Round&& round, double& submit_us) {
    std::vector<double> took, submitted;
    for (int r = 0; r < rounds_ + 2; ++r) {
      double submit = 0;
      WEFT_RETURN_IF_ERROR(context_.barrier());
      const std::int64_t begin = weft::now_ns();
      WEFT_RETURN_IF_ERROR(round(submit));
      WEFT_ASSIGN(const double us, slowest(context_, us_since(begin)));
      if (r < 2) continue;  // the names are new, or memory is
      took.push_back(us);
      submitted.push_back(submit);
    }
    submit_us = median(submitted);
    return median(took);
  }

  template <typename Round>
  Status measure(const char* way, Named& named, Round&& round, double one_us) {
    WEFT_ASSIGN(const Named::Usage before, named.usage());
    WEFT_ASSIGN(const double us, time(round, submit_us_));
    WEFT_ASSIGN(const Named::Usage after, named.usage());
    if (context_.rank() != 0) return {};
    const double rounds = rounds_ + 2;
    fmt::print(
        R"({{"op":"named","set":"{}","way":"{}","ranks":{},"tensors":{},"bytes":{},"us":{:.1f},)"
        R"("one_us":{:.1f},"ratio":{:.2f},"submit_us":{:.3f},"batches":{:.1f},"cycles":{:.1f},)"
        R"("control_bytes":{:.0f}}})"
        "\n",
        set_.name, way, context_.size(), set_.counts.size(), all_ * sizeof(float), us, one_us,
        us / one_us, submit_us_, static_cast<double>(after.batches - before.batches) / rounds,
        static_cast<double>(after.cycles - before.cycles) / rounds,
        static_cast<double>(after.control_bytes - before.control_bytes) / rounds);
    return {};
  }

  Request request(weft::Collective collective, std::size_t offset, std::size_t count) const {
    return {.collective = collective,
            .input = weft::in(x_ + offset, count),
            .output = weft::out(y_ + offset, count),
            .op = weft::ReduceOp::sum};
  }

  Status one(weft::Collective collective) { return context_.run(request(collective, 0, all_)); }

  Status group(Named& named, double& submit_us) {
    std::vector<Request> requests;
    std::size_t offset = 0;
    for (const std::size_t count : set_.counts) {
      requests.push_back(request(weft::Collective::allreduce, offset, count));
      offset += count;
    }
    const std::int64_t begin = weft::now_ns();
    WEFT_ASSIGN(Handle handle, named.start_group("all", requests));
    submit_us = us_since(begin) / static_cast<double>(set_.counts.size());
    return handle.wait();
  }

  Status apart(Named& named, weft::Collective collective, double& submit_us) {
    names_.resize(set_.counts.size());
    std::vector<Handle> handles;
    handles.reserve(set_.counts.size());
    std::size_t offset = 0;
    const std::int64_t begin = weft::now_ns();
    for (std::size_t t = 0; t < set_.counts.size(); ++t) {
      if (names_[t].empty()) names_[t] = fmt::format("layer{}.weight", t);
      WEFT_ASSIGN(Handle handle,
                  named.start(names_[t], request(collective, offset, set_.counts[t])));
      handles.push_back(std::move(handle));
      offset += set_.counts[t];
    }
    submit_us = us_since(begin) / static_cast<double>(set_.counts.size());
    for (Handle& handle : handles) WEFT_RETURN_IF_ERROR(handle.wait());
    return {};
  }

  Context& context_;
  const Set set_;
  const int rounds_;
  float* x_ = nullptr;
  float* y_ = nullptr;
  std::size_t all_ = 0;
  double one_us_ = 0;
  double submit_us_ = 0;
  std::vector<std::string> names_;
};

Status run(Context& context, int rounds) {
  const Set sets[] = {{"1000 of 4 KiB", repeated(1000, 1024)}, {"ResNet-50", resnet50()}};
  for (const Set& set : sets) WEFT_RETURN_IF_ERROR(Bench(context, set, rounds).run());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 21;
  const auto context = Context::from_environment();
  const Status status = context.ok() ? run(**context, rounds) : context.status();
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_named: {}\n", status.to_string());
  return 1;
}
