// One check of the conformance suite over one transport, for `weft selftest`, which starts this
// program once per check: what one leaves behind, a crash or a hang included, is no other's.
//
//   weft_selftest                                  the names of all checks, one a line
//   weft_selftest CHECK TRANSPORT [DEVICE PEER]    runs it: exit status 0, 1 (failed) or 77
//                                                  (skipped); why, on standard output
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "tests/transport/transports.h"
#include "verbs/shm/shm.h"

namespace weft {
namespace {

constexpr int kUsage = 2;
constexpr int kSkipped = 77;
constexpr const char* kBefore = "All/";  // as WEFT_FOR_ALL_TRANSPORTS has it

std::vector<TransportFactory>& chosen() {
  static std::vector<TransportFactory> one = {{"shm", open_shm}};
  return one;
}

// Whether there is such a transport in this build.
bool choose(const std::string& transport, const Devices& devices) {
  if (transport == "shm") return true;
  const auto found = transport == "ib"    ? ib_over(devices)
                     : transport == "ucx" ? ucx_over(devices)
                                          : std::nullopt;
  if (found) chosen() = {*found};
  return found.has_value();
}

// Prints why a check failed or was skipped, and nothing else.
class Reasons : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    for (int i = 0; i < test.result()->total_part_count(); ++i) {
      const testing::TestPartResult& part = test.result()->GetTestPartResult(i);
      if (part.passed()) continue;
      if (part.failed() && part.file_name() != nullptr)
        std::printf("%s:%d: ", part.file_name(), part.line_number());
      std::printf("%s\n", part.message());
    }
  }
};

void list() {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const char* test = suite.GetTestInfo(k)->name();
      std::printf("%s.%.*s\n", suite.name() + std::strlen(kBefore),
                  static_cast<int>(std::strcspn(test, "/")), test);
    }
  }
}

int run(const std::string& check) {
  testing::UnitTest& all = *testing::UnitTest::GetInstance();
  delete all.listeners().Release(all.listeners().default_result_printer());
  all.listeners().Append(new Reasons);
  GTEST_FLAG_SET(filter, kBefore + check + "/" + chosen()[0].name);
  const bool passed = RUN_ALL_TESTS() == 0;
  if (all.test_to_run_count() != 1) {
    std::printf("there is no check %s\n", check.c_str());
    return kUsage;
  }
  return !passed ? 1 : all.skipped_test_count() != 0 ? kSkipped : 0;
}

}  // namespace

const std::vector<TransportFactory>& transports() {
  return chosen();
}

}  // namespace weft

int main(int argc, char** argv) {
  if (argc == 2 || argc > 5) {
    std::fprintf(stderr, "usage: weft_selftest [CHECK TRANSPORT [DEVICE PEER_DEVICE]]\n");
    return weft::kUsage;
  }
  const std::string device = argc > 3 ? argv[3] : "";
  if (argc > 2 && !weft::choose(argv[2], {device, argc > 4 ? argv[4] : device})) {
    std::printf("built without %s\n", argv[2]);
    return weft::kUsage;
  }
  testing::InitGoogleTest();
  if (argc > 1) return weft::run(argv[1]);
  weft::list();
  return 0;
}
