// Recordings of calls, and weft replay: a job that is replayed has the same results; a result that was
// another one is named; files that are no whole recordings are errors.
#include <gtest/gtest.h>

#include "engine/digest/digest.h"
#include "engine/record/record.h"
#include "tests/tools/command.h"
#include "tests/tools/folder.h"

namespace weft {
namespace {

// A job of two ranks with two sums of two elements each, in which rank 1 has `second` as its second result.
class Recorded : public Folder {
 public:
  void write_both(const std::vector<float>& second) const {
    for (Rank rank = 0; rank < 2; ++rank) {
      const auto recorder = Recorder::open(file(rank), {.rank = rank, .size = 2, .fixed_bits = 1});
      ASSERT_TRUE(recorder.ok()) << recorder.status().to_string();
      write_call(**recorder, {1.5F, 2}, {3, 4});
      write_call(**recorder, {4, 5}, rank == 1 ? second : std::vector<float>{8, 10});
    }
  }
  [[nodiscard]] std::string file(Rank rank) const { return path("step." + std::to_string(rank)); }
  [[nodiscard]] std::string files() const { return file(0) + " " + file(1); }
  // Without the last bytes of rank 1's file.
  void cut(std::uintmax_t bytes) const {
    std::filesystem::resize_file(file(1), std::filesystem::file_size(file(1)) - bytes);
  }
  void change_byte(std::streamoff at) const {
    std::fstream stream(file(1), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at);
    const int byte = stream.get();
    stream.seekp(at);
    stream.put(static_cast<char>(byte ^ 1));
  }

 private:
  static void write_call(Recorder& to, const std::vector<float>& input,
                         const std::vector<float>& output) {
    RecordedCall call;
    call.collective = Collective::allreduce;
    call.type = DataType::f32;
    call.op = ReduceOp::sum;
    call.has_input = call.has_output = true;
    call.input_count = call.output_count = input.size();
    const auto number = to.call(call, input.data(), input.size() * sizeof(float));
    ASSERT_TRUE(number.has_value());
    to.result({*number, crc32c(output.data(), output.size() * sizeof(float)), Code::ok});
  }
};

TEST(Replay, AJobHasTheSameResultsAgain) {
  const Folder folder;
  for (const char* operation :
       {"allreduce", "neighbor_allreduce", "broadcast", "alltoall", "reduce"}) {
    const std::string record = folder.path(operation);
    const Ran ran = run_line("WEFT_BITS=fixed WEFT_RECORD=" + record + " {weft} perf " + operation +
                             " -n 3 --sizes 4,40K --seconds 0.01");
    ASSERT_EQ(ran.exit_status, 0) << operation;
    const Ran replayed = run_weft("replay " + record + ".2 " + record + ".0 " + record + ".1");
    EXPECT_EQ(replayed.exit_status, 0) << operation;
    EXPECT_TRUE(mentions(replayed.out, "results of 3 ranks compared, 0 differ"))
        << operation << ": " << (replayed.out.empty() ? "" : replayed.out[0]);
    EXPECT_TRUE(replayed.errors.empty()) << replayed.errors[0];
  }
}

TEST(Replay, NamesTheFirstResultThatDiffers) {
  const Recorded same;
  same.write_both({8, 10});
  EXPECT_EQ(run_weft("replay " + same.files()).exit_status, 0);
  const Recorded other;
  other.write_both({8, 10.5F});
  const Ran ran = run_weft("replay " + other.files());
  EXPECT_EQ(ran.exit_status, 1);
  EXPECT_TRUE(
      mentions(ran.out, "call 1 of rank 1: allreduce sum of 2 f32: the result has CRC-32C"));
  EXPECT_TRUE(mentions(ran.out, "4 results of 2 ranks compared, 1 differ"));
}

TEST(Replay, AFileThatIsCutOffIsAnErrorAfterWhatIsWhole) {
  const Recorded recorded;
  recorded.write_both({8, 10});
  recorded.cut(24 + 8);  // the end, and a part of the last result
  const Ran ran = run_weft("replay " + recorded.files());
  EXPECT_EQ(ran.exit_status, 1);
  EXPECT_TRUE(mentions(ran.errors, recorded.file(1) + ": the file is cut off"));
  EXPECT_TRUE(mentions(ran.errors, "after 2 calls"));
  EXPECT_TRUE(mentions(ran.out, "3 results of 2 ranks compared, 0 differ"));
}

TEST(Replay, ADamagedFileIsAnError) {
  const Recorded recorded;
  recorded.write_both({8, 10});
  recorded.change_byte(sizeof(RecordHead) + 16 + 80);  // the first input
  const Ran ran = run_weft("replay " + recorded.files());
  EXPECT_EQ(ran.exit_status, 1);
  EXPECT_TRUE(mentions(ran.errors, "the file is damaged at byte 24, after 0 calls"));
}

TEST(Replay, OtherFilesAreNamed) {
  const Recorded recorded;
  recorded.write_both({8, 10});
  recorded.write("text", "this is a text of many bytes and no recording");
  const auto complaint = [](const std::string& files, const std::string& text) {
    const Ran ran = run_weft("replay " + files);
    EXPECT_EQ(ran.exit_status, 2) << files;
    EXPECT_TRUE(mentions(ran.errors, text)) << (ran.errors.empty() ? "" : ran.errors[0]);
  };
  complaint(recorded.path("text"), "text: this is no recording, as WEFT_RECORD writes them");
  complaint("/nowhere/step.0", "/nowhere/step.0: No such file");
  complaint(recorded.file(0), "the file of rank 1 of 2 is missing");
  complaint(recorded.file(0) + " " + recorded.file(0), "it is of rank 0, as");
  recorded.change_byte(8);  // the version
  complaint(recorded.files(), "a recording of version 0; this Weft reads version 1");
}

}  // namespace
}  // namespace weft
