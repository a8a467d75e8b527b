// The order of reading: counters first and last, the clock at the end.
#include "tools/diagnosis/read.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <weft/version.h>

#include "tools/diagnosis/diagnosis.h"

namespace weft {
std::int64_t wall_clock_ns() {
  constexpr std::int64_t kSecond = 1'000'000'000;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

namespace diagnosis {

fs::path Root::self() const {
  const fs::path proc = path / "proc";
  return is_live || is_there(proc / "self") ? proc / "self" : proc / "1";
}

namespace {

// Without a change to the clock; containers may ask as well.
int is_synchronized() {
  timex query{};
  const int state = ::adjtimex(&query);
  return state < 0 ? -1 : state != TIME_ERROR;
}

void read_names(const Root& root, HostFacts& facts) {
  facts.weft = version();
  const fs::path kernel = root.path / "proc/sys/kernel";
  facts.host = text(root.path / "etc/hostname");
  if (const std::string name = text(kernel / "hostname"); !name.empty()) facts.host = name;
  facts.kernel = text(kernel / "osrelease");
  facts.boot = text(kernel / "random/boot_id");
  if (!root.is_live) return;
  facts.is_root = ::geteuid() == 0;
  utsname names{};
  if (::uname(&names) != 0) return;
  facts.host = static_cast<const char*>(names.nodename);
  facts.kernel = static_cast<const char*>(names.release);
}

}  // namespace
}  // namespace diagnosis

HostFacts read_facts(const FactSources& from) {
  using namespace diagnosis;
  const Root root{from.root, from.root == "/"};
  HostFacts facts;
  read_names(root, facts);
  read_nics(root, facts);
  const Deadline second_look = Deadline::after_ms(from.look_again_ms);
  Look first = read_counters(root, facts);
  first.at_ns = wall_clock_ns();
  read_process(root, facts);
  read_gpus(root, facts);
  if (root.is_live && from.look_again_ms > 0 && !first.counters.empty()) {
    ::poll(nullptr, 0, second_look.left_ms());
    facts.before = std::move(first);
    facts.now = read_counters(root, facts);
    facts.now.at_ns = wall_clock_ns();
  } else {
    facts.now = std::move(first);
  }
  if (root.is_live) facts.is_clock_synchronized = is_synchronized();
  facts.clock_ns = wall_clock_ns();
  return facts;
}

}  // namespace weft
