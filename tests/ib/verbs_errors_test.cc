// The ways in which verbs return errors, each decoded to the right Status; and what a failed
// completion tells.
#include "verbs/ib/verbs_errors.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/ib/scripted_device.h"

namespace weft::ib {
namespace {

constexpr const char* kWhat = "dev0/1: doing it";

void expect_error(const Status& status, Code code, const std::string& part) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_TRUE(status.text().starts_with(kWhat)) << status.to_string();
  EXPECT_NE(status.text().find(part), std::string_view::npos) << status.to_string();
}

const std::vector<std::pair<int, Code>> kErrors = {
    {ENOMEM, Code::exhausted},      {EPERM, Code::no_permission}, {EACCES, Code::no_permission},
    {ENODEV, Code::unavailable},    {EIO, Code::unavailable},     {EINVAL, Code::unavailable},
    {ETIMEDOUT, Code::unavailable}, {EMFILE, Code::exhausted},    {EBUSY, Code::system}};

TEST(IbVerbsErrors, APointer) {
  int object = 0;
  EXPECT_TRUE(check_pointer(&object, kWhat).ok());
  for (const auto& [number, code] : kErrors) {
    errno = number;
    expect_error(check_pointer(nullptr, kWhat), code, errno_text(number));
  }
}

TEST(IbVerbsErrors, AnErrorNumber) {
  EXPECT_TRUE(check_return(0, kWhat).ok());
  for (const auto& [number, code] : kErrors) {
    errno = EXDEV;  // says nothing here
    expect_error(check_return(number, kWhat), code, errno_text(number));
  }
}

TEST(IbVerbsErrors, MinusOneAndErrno) {
  for (const auto& [number, code] : kErrors) {
    errno = number;
    expect_error(check_return(-1, kWhat), code, errno_text(number));
    if (number == EPERM) continue;  // -EPERM is -1
    errno = EXDEV;
    expect_error(check_return(-number, kWhat), code, errno_text(number));
  }
}

TEST(IbVerbsErrors, ACount) {
  EXPECT_TRUE(check_count(0, kWhat).ok());
  EXPECT_TRUE(check_count(7, kWhat).ok());
  expect_error(check_count(-1, kWhat), Code::system, "-1");
  expect_error(check_count(-22, kWhat), Code::system, "-22");
}

TEST(IbVerbsErrors, TooLittleLockedMemorySaysWhatToSet) {
  expect_error(check_return(ENOMEM, kWhat), Code::exhausted, "ulimit -l");
}

TEST(IbVerbsErrors, EveryFailedCompletionNamesWhatFailed) {
  const FailedWork work{"ib:dev0/1 to rank 3", 3};
  for (int number = IBV_WC_LOC_LEN_ERR; number <= IBV_WC_TM_RNDV_INCOMPLETE; ++number) {
    ibv_wc completion{};
    completion.status = static_cast<ibv_wc_status>(number);
    completion.qp_num = 4711;
    completion.wr_id = 815;
    completion.vendor_err = 0x51;
    const Status status = completion_error(Fabric::library(), completion, work);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.rank(), 3);
    EXPECT_FALSE(likely_cause(completion.status).empty()) << number;
    for (const std::string& part :
         {work.path, std::string("queue pair 4711"), std::string("work request 815"),
          "status " + std::to_string(number), std::string("scripted failure"),
          std::string("vendor 0x51"), std::string(likely_cause(completion.status))})
      EXPECT_NE(status.text().find(part), std::string_view::npos) << part << ": " << status.text();
  }
}

TEST(IbVerbsErrors, CodesOfFailedCompletionsAreWhatACallerActsOn) {
  const auto code_of = [](ibv_wc_status status) {
    ibv_wc completion{};
    completion.status = status;
    return completion_error(Fabric::library(), completion, {}).code();
  };
  EXPECT_EQ(code_of(IBV_WC_RETRY_EXC_ERR), Code::timed_out);
  EXPECT_EQ(code_of(IBV_WC_RNR_RETRY_EXC_ERR), Code::timed_out);
  EXPECT_EQ(code_of(IBV_WC_REM_ACCESS_ERR), Code::no_permission);
  EXPECT_EQ(code_of(IBV_WC_LOC_PROT_ERR), Code::no_permission);
  EXPECT_EQ(code_of(IBV_WC_WR_FLUSH_ERR), Code::closed);
  EXPECT_EQ(code_of(IBV_WC_FATAL_ERR), Code::unavailable);
}

}  // namespace
}  // namespace weft::ib
