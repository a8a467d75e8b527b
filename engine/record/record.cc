// record: writing.
#include "engine/record/record.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/digest/digest.h"
#include "engine/record/form.h"

namespace weft {
namespace {

using record::CallHead;
using record::EntryHead;
using record::ResultBody;
using record::WireWeight;

template <typename T>
void append(std::vector<std::byte>& to, const T* from, std::size_t count) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(from);
  to.insert(to.end(), bytes, bytes + count * sizeof(T));
}

std::vector<WireWeight> wire_weights(const std::vector<NeighborWeight>& weights) {
  std::vector<WireWeight> wire;
  for (const NeighborWeight& each : weights) wire.push_back({each.rank, 0, each.weight});
  return wire;
}

std::vector<std::byte> body_of(const RecordedCall& call) {
  CallHead head;
  head.number = call.number;
  head.collective = static_cast<std::uint8_t>(call.collective);
  head.type = static_cast<std::uint8_t>(call.type);
  head.op = static_cast<std::uint8_t>(call.op);
  head.algorithm = static_cast<std::uint8_t>(call.algorithm);
  head.receives = call.receives ? 1 : 0;
  head.in_place = call.in_place ? 1 : 0;
  head.has_input = call.has_input ? 1 : 0;
  head.has_output = call.has_output ? 1 : 0;
  head.root = call.root;
  head.peer = call.peer;
  head.input_count = call.input_count;
  head.output_count = call.output_count;
  head.self_weight = call.self_weight;
  head.pair_weight = call.pair_weight;
  head.counts = static_cast<std::uint32_t>(call.counts.size());
  head.receive_counts = static_cast<std::uint32_t>(call.receive_counts.size());
  head.group = static_cast<std::uint32_t>(call.group.size());
  head.sources = static_cast<std::uint32_t>(call.sources.size());
  head.destinations = static_cast<std::uint32_t>(call.destinations.size());
  std::vector<std::byte> body;
  append(body, &head, 1);
  append(body, call.counts.data(), call.counts.size());
  append(body, call.receive_counts.data(), call.receive_counts.size());
  append(body, call.group.data(), call.group.size());
  const std::vector<WireWeight> sources = wire_weights(call.sources);
  append(body, sources.data(), sources.size());
  const std::vector<WireWeight> destinations = wire_weights(call.destinations);
  append(body, destinations.data(), destinations.size());
  return body;
}

}  // namespace

Result<std::shared_ptr<Recorder>> Recorder::open(const std::string& path, const RecordHead& head) {
  const std::string what = "record " + path;
  const int descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return system_error(what, errno);
  std::FILE* const file = ::fdopen(descriptor, "wb");
  if (file == nullptr) {
    const int error = errno;
    ::close(descriptor);
    return system_error(what, error);
  }
  std::shared_ptr<Recorder> recorder(new Recorder(path, file));
  if (std::fwrite(&head, sizeof head, 1, file) != 1) return system_error(what, errno);
  return recorder;
}

Recorder::~Recorder() {
  close();
}

void Recorder::close() {
  const std::lock_guard lock(mutex_);
  if (file_ == nullptr) return;
  std::vector<std::byte> body;
  append(body, &left_out_, 1);
  write(record::kEnd, body, nullptr, 0);
  if (file_ != nullptr && std::fclose(std::exchange(file_, nullptr)) != 0)
    log(LogLevel::error, system_error("record " + path_, errno).to_string());
}

std::optional<std::uint64_t> Recorder::call(RecordedCall& call, const void* input,
                                            std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  call.number = numbers_;
  if (file_ == nullptr || is_full_) {
    ++left_out_;
    return std::nullopt;
  }
  std::vector<std::byte> body = body_of(call);
  constexpr std::uint64_t kReserve = 4096;  // for results of calls that are under way
  if (written_ + body.size() + bytes + kReserve > kMostRecordBytes) {
    log(LogLevel::warning,
        fmt::format("record {}: it has {} calls and {} bytes; what comes now is not recorded",
                    path_, call.number, written_));
    is_full_ = true;
    ++left_out_;
    return std::nullopt;
  }
  ++numbers_;
  write(record::kCall, body, input, bytes);
  return call.number;
}

void Recorder::result(const RecordedResult& result) {
  const std::lock_guard lock(mutex_);
  const ResultBody wire{result.number, result.digest, static_cast<std::uint32_t>(result.code)};
  std::vector<std::byte> body;
  append(body, &wire, 1);
  write(record::kResult, body, nullptr, 0);
}

void Recorder::leave_out() {
  const std::lock_guard lock(mutex_);
  ++left_out_;
}

void Recorder::write(std::uint32_t kind, std::vector<std::byte>& body, const void* tail,
                     std::size_t bytes) {
  if (file_ == nullptr) return;
  const std::uint32_t checksum = crc32c(tail, bytes, crc32c(body.data(), body.size()));
  const EntryHead head{kind, checksum, body.size() + bytes};
  const bool is_written = std::fwrite(&head, sizeof head, 1, file_) == 1 &&
                          std::fwrite(body.data(), 1, body.size(), file_) == body.size() &&
                          (bytes == 0 || std::fwrite(tail, 1, bytes, file_) == bytes);
  if (!is_written) return give_up(system_error("record " + path_, errno));
  written_ += sizeof head + head.bytes;
}

void Recorder::give_up(const Status& why) {
  log(LogLevel::error, why.to_string() + "; the recording has ended");
  std::fclose(std::exchange(file_, nullptr));
}

}  // namespace weft
