// weft replay: runs the calls that ranks have recorded (WEFT_RECORD) once more, all ranks in this process, and
// compares the digests of the results.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "engine/context/context.h"
#include "engine/digest/digest.h"
#include "engine/record/record.h"
#include "tools/weft/commands.h"
#include "tools/weft/common/save.h"
#include "tools/weft/perf/perf.h"

namespace weft {
namespace {

constexpr const char* kExamples = R"(
Each rank of a job writes a file if WEFT_RECORD names one. With WEFT_BITS=fixed the results here are those of the
job, to the bit, on whatever machines it ran. Results that differ had damaged inputs or sums there, or have them
here: the first such call is named. Calls that depend on the machines or the graph of the job
(hierarchical_neighbor_allreduce, local_allreduce, neighbor_allgather) are left out.

Examples:
  WEFT_BITS=fixed WEFT_RECORD=/tmp/step weft run -n 4 -- train
  weft replay /tmp/step.0 /tmp/step.1 /tmp/step.2 /tmp/step.3)";

bool is_replayed(Collective collective) {
  return collective != Collective::hierarchical_neighbor_allreduce &&
         collective != Collective::local_allreduce && collective != Collective::neighbor_allgather;
}

std::string text_of(const RecordedCall& call) {
  const std::string op =
      has<kHasOperator>(call.collective) ? fmt::format(" {}", name(call.op)) : std::string();
  return fmt::format("{}{} of {} {}", name(call.collective), op,
                     std::max(call.input_count, call.output_count), name(call.type));
}

// What went otherwise than in the job.
struct Finding {
  std::uint64_t call = 0;
  Rank rank = kNoRank;
  std::string text;
};

// What the ranks have told; any thread.
class Findings {
 public:
  void add(Finding finding) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(finding));
  }
  void add_error(const Status& status) {
    const std::lock_guard lock(mutex_);
    errors_.push_back(status);
  }
  void count(std::uint64_t compared, std::uint64_t left_out) {
    const std::lock_guard lock(mutex_);
    compared_ += compared;
    left_out_ += left_out;
  }
  // After all ranks have ended. Returns the exit status.
  int tell(std::size_t ranks) {
    for (const Status& error : errors_) fmt::print(stderr, "weft replay: {}\n", error.to_string());
    const auto place = [](const Finding& finding) { return std::pair(finding.call, finding.rank); };
    const auto first = std::ranges::min_element(all_, {}, place);
    if (first != all_.end()) {
      fmt::print("call {} of rank {}: {}\n", first->call, first->rank, first->text);
    }
    fmt::print("{} results of {} ranks compared, {} differ{}\n", compared_, ranks, all_.size(),
               left_out_ == 0 ? "" : fmt::format("; {} calls were left out", left_out_));
    return all_.empty() && errors_.empty() ? 0 : 1;
  }

 private:
  std::mutex mutex_;
  std::vector<Finding> all_;
  std::vector<Status> errors_;
  std::uint64_t compared_ = 0;
  std::uint64_t left_out_ = 0;
};

// A call that runs, with the memory that it works on.
class Running {
 public:
  static Result<std::unique_ptr<Running>> start(Context& context, RecordedCall call) {
    std::unique_ptr<Running> running(new Running(std::move(call)));
    WEFT_ASSIGN(running->handle_, context.start(running->request()));
    return running;
  }

  Status wait() { return handle_->wait(); }
  [[nodiscard]] std::uint32_t digest() const {
    return call_.has_output ? crc32c(output().data(), output_bytes()) : std::uint32_t{0};
  }
  [[nodiscard]] const RecordedCall& call() const { return call_; }

 private:
  explicit Running(RecordedCall call) : call_(std::move(call)) {
    if (!call_.in_place) output_.resize(output_bytes());
  }
  [[nodiscard]] std::size_t output_bytes() const {
    return call_.output_count * size_of(call_.type);
  }
  [[nodiscard]] const std::vector<std::byte>& output() const {
    return call_.in_place ? call_.input : output_;
  }

  // Another one cannot sum in rank order, as all calls do here.
  [[nodiscard]] AllreduceAlgorithm algorithm() const {
    return check_bits(call_.algorithm, Bits::fixed).ok() ? call_.algorithm
                                                         : AllreduceAlgorithm::automatic;
  }

  Request request() {
    Request request{.collective = call_.collective,
                    .op = call_.op,
                    .algorithm = algorithm(),
                    .bits = Bits::fixed,
                    .root = call_.root,
                    .peer = call_.peer,
                    .receives = call_.receives,
                    .counts = call_.counts,
                    .receive_counts = call_.receive_counts,
                    .group = call_.group,
                    .self_weight = call_.self_weight,
                    .pair_weight = call_.pair_weight};
    request.input = {call_.has_input ? call_.input.data() : nullptr, call_.input_count, call_.type};
    request.output = {call_.in_place     ? call_.input.data()
                      : call_.has_output ? output_.data()
                                         : nullptr,
                      call_.output_count, call_.type};
    if (call_.collective != Collective::neighbor_allreduce) return request;
    weights_ = {call_.self_weight, call_.sources, call_.destinations};
    request.weights = &weights_;
    return request;
  }

  RecordedCall call_;
  std::vector<std::byte> output_;
  NeighborWeights weights_;
  std::optional<Handle> handle_;
};

// One rank's file.
class RankReplay {
 public:
  RankReplay(RecordReader& reader, Findings& findings) : reader_(reader), findings_(findings) {}

  // An error is one of this rank's file; what the calls give is among the findings.
  Status run(const Config& config, const std::shared_ptr<Store>& store) {
    WEFT_ASSIGN(const std::unique_ptr<Context> context, Context::create(config, store));
    const Status read = run_calls(*context);
    for (auto& [number, running] : running_) (void)running->wait();  // nobody knows their results
    findings_.count(compared_, left_out_ + running_.size());
    return read;
  }

 private:
  Status run_calls(Context& context) {
    while (true) {
      WEFT_ASSIGN(RecordEntry entry, reader_.next());
      if (auto* const call = std::get_if<RecordedCall>(&entry)) {
        if (!begin(context, std::move(*call))) return {};
      } else if (const auto* const result = std::get_if<RecordedResult>(&entry)) {
        if (!compare(*result)) return {};
      } else {
        left_out_ += std::get<RecordedEnd>(entry).left_out;
        return {};
      }
    }
  }

  bool begin(Context& context, RecordedCall call) {
    if (!is_replayed(call.collective)) {
      ++left_out_;
      return true;
    }
    const std::uint64_t number = call.number;
    const std::string what = text_of(call);
    Result<std::unique_ptr<Running>> running = Running::start(context, std::move(call));
    if (!running.ok())
      return found(number, fmt::format("{}: {}", what, running.status().to_string()));
    running_.emplace(number, *std::move(running));
    return true;
  }

  bool compare(const RecordedResult& recorded) {
    const auto at = running_.find(recorded.number);
    if (at == running_.end()) return true;  // it was left out
    const std::unique_ptr<Running> running = std::move(at->second);
    running_.erase(at);
    const Status status = running->wait();
    const std::string what = text_of(running->call());
    if (!status.ok()) {
      if (recorded.code == Code::ok)
        found(recorded.number, fmt::format("{}: {}", what, status.to_string()));
      return false;  // the context has failed
    }
    if (recorded.code != Code::ok)
      return found(recorded.number, fmt::format("{}: it ended well here, and with {} in the job",
                                                what, name(recorded.code)));
    ++compared_;
    const std::uint32_t digest = running->digest();
    if (digest != recorded.digest) {
      found(recorded.number,
            fmt::format("{}: the result has CRC-32C {:08x}, and {:08x} was recorded", what, digest,
                        recorded.digest));
    }
    return true;
  }

  bool found(std::uint64_t number, std::string text) {
    findings_.add({number, reader_.head().rank, std::move(text)});
    return false;
  }

  RecordReader& reader_;
  Findings& findings_;
  std::map<std::uint64_t, std::unique_ptr<Running>> running_;  // by number of the call
  std::uint64_t compared_ = 0;
  std::uint64_t left_out_ = 0;
};

// The readers by rank: all ranks of one job.
Result<std::vector<RecordReader>> open_all(const std::vector<std::string>& paths) {
  std::vector<std::optional<RecordReader>> by_rank;
  for (const std::string& path : paths) {
    WEFT_ASSIGN(RecordReader reader, RecordReader::open(path));
    const RecordHead& head = reader.head();
    if (by_rank.empty()) by_rank.resize(static_cast<std::size_t>(head.size));
    const auto wrong = [&](const std::string& why) {
      return Status(Code::invalid_argument, fmt::format("{}: {}", path, why));
    };
    if (std::ssize(by_rank) != head.size) {
      return wrong(fmt::format("it is of a job of {} ranks, and the first file of one of {}",
                               head.size, by_rank.size()));
    }
    std::optional<RecordReader>& own = by_rank[static_cast<std::size_t>(head.rank)];
    if (own) return wrong(fmt::format("it is of rank {}, as {} is", head.rank, own->path()));
    own.emplace(std::move(reader));
  }
  std::vector<RecordReader> readers;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (!by_rank[rank]) {
      return Status(Code::invalid_argument,
                    fmt::format("the file of rank {} of {} is missing", rank, by_rank.size()));
    }
    readers.push_back(*std::move(by_rank[rank]));
  }
  return readers;
}

int replay(const std::vector<std::string>& paths) {
  Result<std::vector<RecordReader>> readers = open_all(paths);
  if (!readers.ok()) {
    fmt::print(stderr, "weft replay: {}\n", readers.status().to_string());
    return kUsageError;
  }
  if (readers->front().head().fixed_bits == 0)
    fmt::print(stderr,
               "weft replay: recorded without WEFT_BITS=fixed: sums may have other bits here\n");
  Config config;
  config.transports = {.automatic = false, .shm = true};
  config.bits = Bits::fixed;
  config.deadline_ms = 10'000;
  Findings findings;
  const Status ran = run_as_threads(
      static_cast<int>(readers->size()), config, [&](const std::shared_ptr<Store>& store) {
        RecordReader& reader = (*readers)[static_cast<std::size_t>(store->rank())];
        const Status read = RankReplay(reader, findings).run(config, store);
        if (!read.ok()) findings.add_error(read);
        return Status();
      });
  if (!ran.ok()) findings.add_error(ran);
  return findings.tell(readers->size());
}

}  // namespace

void add_replay(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("replay", "Run recorded calls again, and compare the results to the bit");
  const auto files = std::make_shared<std::vector<std::string>>();
  command->add_option("files", *files, "The files of all ranks, as WEFT_RECORD writes them")
      ->required();
  command->footer(kExamples);
  command->callback([&action, files] { action = [files] { return replay(*files); }; });
}

}  // namespace weft
