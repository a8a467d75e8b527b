// record: the calls of one rank as a file, with their inputs and the digests of their results, so that `weft
// replay` can run them again to the bit.
//
// A file begins with a RecordHead. Entries follow: a call with all that it was given, later its result.
// Each entry has its length and a CRC-32C, so that a file that was cut off or damaged is noticed. A file
// that was closed in good order ends with an entry that says so.
//
// Little endian, as all supported machines are. A change of the form is a new kRecordVersion.
#pragma once

#include <weft/types.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

inline constexpr std::uint32_t kRecordVersion = 1;
// The most bytes of a file. What a rank calls after that is not recorded.
inline constexpr std::uint64_t kMostRecordBytes = std::uint64_t{1} << 30;

struct RecordHead {
  char magic[8] = {'W', 'E', 'F', 'T', 'R', 'E', 'C', '\n'};
  std::uint32_t version = kRecordVersion;
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::uint32_t fixed_bits = 0;  // 1: every sum has them
};
static_assert(std::is_trivially_copyable_v<RecordHead> && sizeof(RecordHead) == 24);

// A call. Its weights, counts and ranks are its own; `request` refers to nothing.
struct RecordedCall {
  std::uint64_t number = 0;  // from 0, in the order of the calls
  Collective collective{};
  DataType type{};
  ReduceOp op{};
  AllreduceAlgorithm algorithm{};
  bool receives = false;
  bool in_place = false;
  bool has_input = false, has_output = false;
  Rank root = kNoRank, peer = kNoRank;
  std::uint64_t input_count = 0, output_count = 0;  // elements
  double self_weight = 0, pair_weight = 0;
  std::vector<std::size_t> counts, receive_counts;
  std::vector<Rank> group;
  std::vector<NeighborWeight> sources, destinations;  // of neighbor operations: all edges
  std::vector<std::byte> input;
};

struct RecordedResult {
  std::uint64_t number = 0;  // of the call
  std::uint32_t digest = 0;  // CRC-32C of the output; 0 without one
  Code code = Code::ok;
};

// The file was closed in good order.
struct RecordedEnd {
  std::uint64_t left_out = 0;  // calls that were not recorded
};

using RecordEntry = std::variant<RecordedCall, RecordedResult, RecordedEnd>;

// Writes a file. Any thread. An error of the file system ends the recording and nothing else; it is logged.
class Recorder {
 public:
  // Only its owner may read the file. A symbolic link is an error.
  [[nodiscard]] static Result<std::shared_ptr<Recorder>> open(const std::string& path,
                                                              const RecordHead& head);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Gives the call its number and writes it; the `bytes` at `input` are its input. Nothing: it is not recorded.
  std::optional<std::uint64_t> call(RecordedCall& call, const void* input, std::size_t bytes);
  void result(const RecordedResult& result);
  void leave_out();
  // Ends the file in good order. What comes then is not recorded.
  void close();

 private:
  Recorder(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  void write(std::uint32_t kind, std::vector<std::byte>& body, const void* tail, std::size_t bytes);
  void give_up(const Status& why);

  const std::string path_;
  std::mutex mutex_;
  std::FILE* file_;  // null: recording has ended
  std::uint64_t written_ = sizeof(RecordHead);
  std::uint64_t numbers_ = 0;
  std::uint64_t left_out_ = 0;
  bool is_full_ = false;
};

// Reads a file from its beginning. One thread.
class RecordReader {
 public:
  // invalid_argument: it is no such file, or one of another version; the text says so.
  [[nodiscard]] static Result<RecordReader> open(const std::string& path);

  [[nodiscard]] const RecordHead& head() const { return head_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // The next entry. After the last one: RecordedEnd, or an error that says where the file is cut off or
  // damaged.
  [[nodiscard]] Result<RecordEntry> next();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  [[nodiscard]] Status wrong(std::string_view what) const;
  [[nodiscard]] bool read(void* to, std::size_t bytes);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  RecordHead head_;
  std::uint64_t at_ = sizeof(RecordHead);  // of the next entry
  std::uint64_t calls_ = 0;                // read so far
};

}  // namespace weft
