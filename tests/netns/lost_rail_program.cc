// A rank for a test of plans for what is left of the rails: on hosts with two rails, all-reduces large tensors until
// the ranks have agreed on plans without a cable that rank 0 pulls, and again until it is back. Every result is checked.
// With `times` rank 0 prints how long it took until all planned anew, and the time of a call by this plan, by what is
// chosen for whole rails, and by a ring. TCP gives a path up for good after 15 s, so the cable is out for less.
//
//   tools/netns -n 4 -r 2 --rates 400,400 --each sh -c 'lost_rail_program "$NETNS_CONTROL" [named|times]'
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <weft/metrics.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/context/context.h"
#include "verbs/base/base.h"

namespace weft {
namespace {

// A command to tools/netns, whose socket is given, done when it returns.
Status command(const char* path, const std::string& line) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  char answer[64] = {};
  const bool is_done =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::write(fd, line.data(), line.size()) == std::ssize(line) &&
      ::read(fd, answer, sizeof answer - 1) > 0 && std::string(answer).starts_with("ok");
  ::close(fd);
  return is_done ? Status() : Status(Code::unavailable, line + ": " + answer);
}

// How often this process has adopted such plans, in any context.
int adopted() {
  const std::string text = metrics();
  const std::string wanted = "\nweft_plans_for_rails_total{";
  int sum = 0;
  for (auto at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1))
    sum += std::atoi(text.c_str() + text.find("} ", at) + 2);
  return sum;
}

class Calls {
 public:
  Calls(Context& context, std::optional<Named> named, std::size_t count)
      : context_(context),
        named_(std::move(named)),
        count_(count),
        x_(count, static_cast<float>(context.rank() + 1)) {
    for (auto& y : y_) y.resize(count_);
  }

  // So many calls at a time. Gives how many changes of plans each rank has adopted at least.
  Result<int> run(std::size_t under_way) {
    const std::span<std::vector<float>> results(y_, under_way);
    std::vector<Handle> handles;
    for (auto& y : results) {
      std::ranges::fill(y, 0.0F);
      const Input x = in(x_.data(), count_);
      WEFT_ASSIGN(Handle handle, named_ ? named_->allreduce_start(std::to_string(handles.size()), x,
                                                                  out(y.data(), count_))
                                        : context_.allreduce_start(x, out(y.data(), count_)));
      handles.push_back(std::move(handle));
    }
    for (Handle& handle : handles) WEFT_RETURN_IF_ERROR(handle.wait());
    const int n = context_.size();
    for (const auto& y : results) {
      if (std::ranges::any_of(y, [n](float each) { return each != static_cast<float>(n + 1) / 2; }))
        return Status(Code::corrupted, "a sum is wrong");
    }
    is_uneven_ = context_.explain().find(": uneven") != std::string::npos;
    const int mine = adopted();
    int all = 0;
    WEFT_RETURN_IF_ERROR(context_.allreduce(in(&mine, 1), out(&all, 1), ReduceOp::min));
    return all;
  }
  // Runs calls until all ranks plan anew, and the last call's plan is as wanted, which only a context tells.
  Status run_until_plan(bool is_uneven, std::size_t under_way) {
    const Deadline deadline = Deadline::after_ms(12'000);
    while (true) {
      WEFT_ASSIGN(const int found, run(under_way));
      if (found > seen_ && (named_ || is_uneven_ == is_uneven)) {
        seen_ = found;
        return {};
      }
      if (deadline.passed()) return Status(Code::timed_out, "the plan does not change");
    }
  }
  // Of a call, the median of three.
  Result<double> time_ms(AllreduceAlgorithm algorithm) {
    std::array<double, 3> times{};
    for (double& time : times) {
      WEFT_RETURN_IF_ERROR(context_.barrier());
      const std::int64_t begin = now_ns();
      WEFT_RETURN_IF_ERROR(context_.allreduce(in(x_.data(), count_), out(y_[0].data(), count_),
                                              ReduceOp::average, algorithm));
      time = static_cast<double>(now_ns() - begin) / 1e6;
    }
    std::ranges::sort(times);
    return times[1];
  }

 private:
  Context& context_;
  std::optional<Named> named_;
  const std::size_t count_;
  const std::vector<float> x_;
  std::vector<float> y_[3];
  bool is_uneven_ = false;
  int seen_ = 0;
};

Status run(const char* control, std::string_view mode) {
  WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::from_environment());
  const bool leads = context->rank() == 0;
  std::optional<Named> named;
  if (mode == "named") {
    WEFT_ASSIGN(named, context->named());
  }
  Calls calls(*context, std::move(named), mode == "times" ? 4'000'003 : 2'000'003);
  for (int warm = 0; warm < 2; ++warm) WEFT_RETURN_IF_ERROR(calls.run(3).status());
  if (leads) WEFT_RETURN_IF_ERROR(command(control, "down 2 0\n"));
  const std::int64_t pulled = now_ns();
  WEFT_RETURN_IF_ERROR(calls.run_until_plan(true, 1));
  const double took_s = static_cast<double>(now_ns() - pulled) / 1e9;
  WEFT_RETURN_IF_ERROR(calls.run(3).status());
  if (mode == "times") {
    WEFT_ASSIGN(const double planned, calls.time_ms(AllreduceAlgorithm::automatic));
    WEFT_ASSIGN(const double usual, calls.time_ms(AllreduceAlgorithm::bcube));
    WEFT_ASSIGN(const double ring, calls.time_ms(AllreduceAlgorithm::ring));
    if (leads)
      std::printf("after=%.3f planned=%.1f usual=%.1f ring=%.1f\n", took_s, planned, usual, ring);
  }
  if (leads) WEFT_RETURN_IF_ERROR(command(control, "up 2 0\n"));
  return calls.run_until_plan(false, 1);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const weft::Status status = weft::run(argv[1], argc > 2 ? argv[2] : "");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
