// reader: a file is somebody else's; every length and number in it is checked before it is used.
#include <fmt/core.h>

#include <cerrno>
#include <cstring>

#include "engine/digest/digest.h"
#include "engine/record/form.h"
#include "engine/record/record.h"
#include "engine/request/request.h"

namespace weft {
namespace {

using record::CallHead;
using record::EntryHead;
using record::ResultBody;
using record::WireWeight;

// What is left of a body.
class Body {
 public:
  explicit Body(const std::vector<std::byte>& bytes) : bytes_(bytes) {}

  template <typename T>
  bool take(T* to, std::size_t count) {
    const std::size_t wanted = count * sizeof(T);
    if (wanted / sizeof(T) != count || wanted > left()) return false;
    if (wanted != 0) std::memcpy(static_cast<void*>(to), bytes_.data() + at_, wanted);
    at_ += wanted;
    return true;
  }
  template <typename T>
  bool take(std::vector<T>& to, std::size_t count) {
    if (count > left() / sizeof(T)) return false;
    to.resize(count);
    return take(to.data(), count);
  }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }

 private:
  const std::vector<std::byte>& bytes_;
  std::size_t at_ = 0;
};

bool take_weights(Body& body, std::size_t count, std::vector<NeighborWeight>& to) {
  std::vector<WireWeight> wire;
  if (!body.take(wire, count)) return false;
  for (const WireWeight& each : wire) to.push_back({each.rank, each.weight});
  return true;
}

bool are_known(const CallHead& head) {
  return head.collective >= 1 && head.collective <= kCollectives && head.type < kDataTypes &&
         head.op <= static_cast<std::uint8_t>(ReduceOp::bit_xor) &&
         head.algorithm <= static_cast<std::uint8_t>(AllreduceAlgorithm::nccl) &&
         is_count_of_memory(head.input_count, static_cast<DataType>(head.type)) &&
         is_count_of_memory(head.output_count, static_cast<DataType>(head.type)) &&
         head.output_count * size_of(static_cast<DataType>(head.type)) <= kMostRecordBytes;
}

std::optional<RecordedCall> call_of(const std::vector<std::byte>& bytes) {
  Body body(bytes);
  CallHead head;
  if (!body.take(&head, 1) || !are_known(head)) return std::nullopt;
  RecordedCall call;
  call.number = head.number;
  call.collective = static_cast<Collective>(head.collective);
  call.type = static_cast<DataType>(head.type);
  call.op = static_cast<ReduceOp>(head.op);
  call.algorithm = static_cast<AllreduceAlgorithm>(head.algorithm);
  call.receives = head.receives != 0;
  call.in_place = head.in_place != 0;
  call.has_input = head.has_input != 0;
  call.has_output = head.has_output != 0;
  call.root = head.root;
  call.peer = head.peer;
  call.input_count = head.input_count;
  call.output_count = head.output_count;
  call.self_weight = head.self_weight;
  call.pair_weight = head.pair_weight;
  const std::size_t input = call.has_input ? call.input_count * size_of(call.type) : 0;
  const bool is_whole =
      body.take(call.counts, head.counts) && body.take(call.receive_counts, head.receive_counts) &&
      body.take(call.group, head.group) && take_weights(body, head.sources, call.sources) &&
      take_weights(body, head.destinations, call.destinations) && body.left() == input &&
      body.take(call.input, input);
  return is_whole ? std::optional(std::move(call)) : std::nullopt;
}

}  // namespace

Status RecordReader::wrong(std::string_view what) const {
  return {Code::invalid_argument,
          fmt::format("{}: {} at byte {}, after {} calls", path_, what, at_, calls_)};
}

bool RecordReader::read(void* to, std::size_t bytes) {
  return bytes == 0 || std::fread(to, 1, bytes, file_.get()) == bytes;
}

Result<RecordReader> RecordReader::open(const std::string& path) {
  RecordReader reader;
  reader.path_ = path;
  reader.file_.reset(std::fopen(path.c_str(), "rbe"));
  if (reader.file_ == nullptr) return system_error("read " + path, errno);
  RecordHead& head = reader.head_;
  const bool is_read = reader.read(&head, sizeof head);
  if (!is_read || std::memcmp(head.magic, RecordHead().magic, sizeof head.magic) != 0) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: this is no recording, as WEFT_RECORD writes them", path));
  }
  if (head.version != kRecordVersion) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: a recording of version {}; this Weft reads version {}", path,
                              head.version, kRecordVersion));
  }
  constexpr std::int32_t kMostRanks = 1 << 20;
  if (head.size < 1 || head.size > kMostRanks || head.rank < 0 || head.rank >= head.size) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: it claims to be of rank {} of {}", path, head.rank, head.size));
  }
  return reader;
}

Result<RecordEntry> RecordReader::next() {
  EntryHead head;
  if (!read(&head, sizeof head)) return wrong("the file is cut off");
  if (head.bytes > kMostRecordBytes) return wrong("the file is damaged");
  std::vector<std::byte> body(head.bytes);
  if (!read(body.data(), body.size())) return wrong("the file is cut off");
  if (crc32c(body.data(), body.size()) != head.checksum) return wrong("the file is damaged");
  Body rest(body);
  if (head.kind == record::kCall) {
    std::optional<RecordedCall> call = call_of(body);
    if (!call || call->number != calls_) return wrong("the file is damaged");
    ++calls_;
    at_ += sizeof head + head.bytes;
    return RecordEntry(std::move(*call));
  }
  if (ResultBody result; head.kind == record::kResult && rest.take(&result, 1)) {
    if (result.number >= calls_ || result.code > static_cast<std::uint32_t>(kLastCode))
      return wrong("the file is damaged");
    at_ += sizeof head + head.bytes;
    return RecordEntry(
        RecordedResult{result.number, result.digest, static_cast<Code>(result.code)});
  }
  if (RecordedEnd end; head.kind == record::kEnd && rest.take(&end.left_out, 1))
    return RecordEntry(end);
  return wrong("the file is damaged");
}

}  // namespace weft
