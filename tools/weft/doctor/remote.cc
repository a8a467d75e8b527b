// Facts of hosts behind ssh.
#include "tools/weft/common/progress.h"
#include "tools/weft/doctor/collect.h"

namespace weft {
namespace {

// A shell may greet before the facts.
Result<HostFacts> facts_of(const HostAnswer& answer) {
  if (!answer.text.ok()) return answer.text.status();
  const std::string& text = *answer.text;
  const std::size_t begin = text.find('{');
  if (begin == std::string::npos)
    return Status(Code::unavailable, "the command there gives no facts");
  WEFT_ASSIGN(HostFacts facts, facts_from_json(text.substr(begin)));
  constexpr double kNanosecond = 1e-9;
  const double told = static_cast<double>(facts.clock_ns) * kNanosecond;
  facts.clock_least_s = told - answer.answered_s;
  facts.clock_most_s = told - answer.asked_s;
  return facts;
}

}  // namespace

Collected collect_remote(const std::vector<std::string>& hosts, const HostArguments& by) {
  Collected found;
  Progress progress("weft doctor");
  for (const HostAnswer& answer : ask_hosts(hosts, by, {"doctor", "--facts"}, progress)) {
    Result<HostFacts> facts = facts_of(answer);
    if (facts.ok()) {
      found.hosts.push_back(*std::move(facts));
    } else {
      found.missing.push_back({answer.host, std::string(facts.status().text())});
    }
  }
  return found;
}

}  // namespace weft
