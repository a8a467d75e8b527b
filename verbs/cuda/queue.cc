// Streams of Weft's own, marks in them, and words for which the streams of others wait.
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "verbs/cuda/chunks.h"
#include "verbs/cuda/counts.h"
#include "verbs/cuda/cuda.h"
#include "verbs/cuda/driver.h"
#include "verbs/cuda/watcher.h"

namespace weft {
namespace {

using cuda::Current;
using cuda::Driver;
using cuda::status_of;

constexpr unsigned kNonBlocking = 1;  // beside the default stream
constexpr unsigned kWaitGreaterEqual = 0;
constexpr int kNotCapturing = 0;

cuda::Pointer address(const void* pointer) {
  return reinterpret_cast<cuda::Pointer>(pointer);
}

std::string gpu_text(const GpuMemory& memory) {
  return fmt::format("GPU {}", memory.device);
}

class Mark final : public GpuMark {
 public:
  Mark(const Driver& driver, const GpuMemory& memory, std::shared_ptr<const cuda::Recorded> event,
       std::shared_ptr<cuda::Waker> waker)
      : driver_(driver), memory_(memory), event_(std::move(event)), waker_(std::move(waker)) {}

  bool is_over() override {
    if (is_over_) return true;
    const cuda::Answer answer = event_->look();
    if (answer == cuda::kNotReady) return false;
    is_over_ = true;
    status_ = status_of(driver_, answer, gpu_text(memory_));
    waker_->ring();  // others may wait for it, and what it holds is free
    return true;
  }
  [[nodiscard]] Status status() const override { return status_; }
  void wait() override {
    if (!is_over_) event_->wait();
  }

 private:
  const Driver& driver_;
  const GpuMemory memory_;
  const std::shared_ptr<const cuda::Recorded> event_;
  const std::shared_ptr<cuda::Waker> waker_;
  bool is_over_ = false;
  Status status_;
};

class Queue final : public GpuQueue {
 public:
  Queue(const Driver& driver, const GpuMemory& memory, void* stream)
      : driver_(driver), memory_(memory), stream_(stream) {}

  Status wait_for(Stream stream) override {
    const std::string what = fmt::format("{}: the stream {}", gpu_text(memory_), stream.handle);
    int capturing = kNotCapturing;
    {
      const Current current(driver_, memory_.context);
      WEFT_RETURN_IF_ERROR(status_of(driver_, current.answer(), what));
      WEFT_RETURN_IF_ERROR(
          status_of(driver_, driver_.stream_is_capturing(stream.handle, &capturing), what));
    }
    if (capturing != kNotCapturing) {
      return Status(Code::invalid_argument,
                    what +
                        " is being captured into a graph, and an operation with other ranks "
                        "cannot be a part of one");
    }
    WEFT_ASSIGN(const std::shared_ptr<cuda::Recorded> event,
                cuda::Recorded::in(driver_, memory_.context, stream.handle, what));
    const Current current(driver_, memory_.context);
    return status_of(driver_, driver_.stream_wait_event(stream_, event->event(), 0), what);
  }

  Status copy_out(void* host, const void* gpu, std::size_t bytes) override {
    cuda::counts().copies_out.fetch_add(1, std::memory_order_relaxed);
    cuda::counts().bytes_out.fetch_add(bytes, std::memory_order_relaxed);
    const Current current(driver_, memory_.context);
    return cuda::copy_in_chunks(host, bytes, [&](std::size_t at, std::size_t part) {
      return status_of(
          driver_,
          driver_.copy_out(static_cast<std::byte*>(host) + at, address(gpu) + at, part, stream_),
          fmt::format("{}: copy {} bytes from {}", gpu_text(memory_), bytes, gpu));
    });
  }

  Status copy_in(void* gpu, const void* host, std::size_t bytes) override {
    cuda::counts().copies_in.fetch_add(1, std::memory_order_relaxed);
    cuda::counts().bytes_in.fetch_add(bytes, std::memory_order_relaxed);
    const Current current(driver_, memory_.context);
    return cuda::copy_in_chunks(host, bytes, [&](std::size_t at, std::size_t part) {
      return status_of(driver_,
                       driver_.copy_in(address(gpu) + at, static_cast<const std::byte*>(host) + at,
                                       part, stream_),
                       fmt::format("{}: copy {} bytes to {}", gpu_text(memory_), bytes, gpu));
    });
  }

  Status copy_inside(void* to, const void* from, std::size_t bytes) override {
    cuda::counts().bytes_inside.fetch_add(bytes, std::memory_order_relaxed);
    const Current current(driver_, memory_.context);
    return status_of(driver_, driver_.copy_inside(address(to), address(from), bytes, stream_),
                     fmt::format("{}: copy {} bytes from {}", gpu_text(memory_), bytes, from));
  }

  Status launch(void* function, unsigned blocks, unsigned threads, void* arguments) override {
    cuda::counts().launches.fetch_add(1, std::memory_order_relaxed);
    const Current current(driver_, memory_.context);
    return status_of(
        driver_,
        driver_.launch(function, blocks, 1, 1, threads, 1, 1, 0, stream_, &arguments, nullptr),
        fmt::format("{}: run a kernel", gpu_text(memory_)));
  }

  Status call(const std::function<Status(void* stream)>& function) override {
    const Current current(driver_, memory_.context);
    WEFT_RETURN_IF_ERROR(status_of(driver_, current.answer(), gpu_text(memory_)));
    return function(stream_);
  }

  Result<std::unique_ptr<GpuMark>> mark(std::function<void()> wake) override {
    const std::string what = gpu_text(memory_);
    WEFT_ASSIGN(const std::shared_ptr<cuda::Recorded> event,
                cuda::Recorded::in(driver_, memory_.context, stream_, what));
    auto waker = std::make_shared<cuda::Waker>(std::move(wake));
    WEFT_RETURN_IF_ERROR(cuda::watch(event, waker));
    return std::unique_ptr<GpuMark>(std::make_unique<Mark>(driver_, memory_, event, waker));
  }

 private:
  const Driver& driver_;
  const GpuMemory memory_;
  void* const stream_;  // lives as long as the process
};

// A word of pinned memory. Its value only grows, so that a stream that is late is not held again.
struct Word {
  std::atomic<std::uint32_t>* host = nullptr;
  cuda::Pointer gpu = 0;
  std::uint32_t value = 0;
};
static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// Words are used again. Never destroyed, as pinned blocks.
struct Words {
  std::mutex mutex;
  std::vector<Word> free;
  std::vector<PinnedBlock> blocks;
};
Words& words() {
  static auto* const words = new Words;
  return *words;
}

Result<Word> take_word(const Driver& driver, const GpuMemory& memory) {
  constexpr std::size_t kBlockBytes = 64 << 10, kLine = 64;
  Words& all = words();
  const std::lock_guard lock(all.mutex);
  if (all.free.empty()) {
    WEFT_ASSIGN(PinnedBlock block, PinnedBlock::take(kBlockBytes, memory));
    const Current current(driver, memory.context);
    cuda::Pointer gpu = 0;
    WEFT_RETURN_IF_ERROR(
        status_of(driver, driver.host_pointer(&gpu, block.data(), 0), "map host memory for a GPU"));
    std::byte* const begin = block.data();
    for (std::size_t at = 0; at < kBlockBytes; at += kLine)
      all.free.push_back({new (begin + at) std::atomic<std::uint32_t>(0), gpu + at, 0});
    all.blocks.push_back(std::move(block));
  }
  const Word word = all.free.back();
  all.free.pop_back();
  return word;
}

// A word that is in use.
class Held {
 public:
  explicit Held(Word word) : word_(word) {
    ++word_.value;
    cuda::closed_gates().fetch_add(1);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() {
    open();
    Words& all = words();
    const std::lock_guard lock(all.mutex);
    all.free.push_back(word_);
  }
  void open() {
    if (word_.host->exchange(word_.value, std::memory_order_release) != word_.value)
      cuda::closed_gates().fetch_sub(1);
  }
  [[nodiscard]] const Word& word() const { return word_; }

 private:
  Word word_;
};

class Gate final : public GpuGate {
 public:
  Gate(const Driver& driver, const GpuMemory& memory, std::shared_ptr<Held> held)
      : driver_(driver), memory_(memory), held_(std::move(held)) {}

  Status hold(Stream stream) override {
    const std::string what = fmt::format("{}: the stream {}", gpu_text(memory_), stream.handle);
    const Word& word = held_->word();
    const Current current(driver_, memory_.context);
    WEFT_RETURN_IF_ERROR(status_of(driver_, current.answer(), what));
    return status_of(
        driver_, driver_.stream_wait_value(stream.handle, word.gpu, word.value, kWaitGreaterEqual),
        what);
  }
  void open() override { held_->open(); }

 private:
  const Driver& driver_;
  const GpuMemory memory_;
  const std::shared_ptr<Held> held_;
};

}  // namespace

std::atomic<int>& cuda::closed_gates() {
  static std::atomic<int> gates{0};
  return gates;
}

cuda::Counts& cuda::counts() {
  static Counts counts;
  return counts;
}

GpuCounts gpu_counts() {
  const cuda::Counts& counts = cuda::counts();
  return {counts.copies_out.load(),  counts.copies_in.load(),    counts.bytes_out.load(),
          counts.bytes_in.load(),    counts.bytes_inside.load(), counts.launches.load(),
          counts.pinned_bytes.load()};
}

namespace {

// Streams of ours live as long as the process, which ends them.
Result<std::shared_ptr<Queue>> make_queue(const GpuMemory& memory) {
  WEFT_ASSIGN(const Driver* driver, cuda::load_driver());
  void* stream = nullptr;
  {
    const Current current(*driver, memory.context);
    WEFT_RETURN_IF_ERROR(status_of(*driver, current.answer(), gpu_text(memory)));
    WEFT_RETURN_IF_ERROR(
        status_of(*driver, driver->stream_create(&stream, kNonBlocking), gpu_text(memory)));
  }
  return std::make_shared<Queue>(*driver, memory, stream);
}

constexpr std::size_t kQueues = 8;  // that follow streams: the numbers 1 to 8

Result<std::shared_ptr<GpuQueue>> queue_of(const GpuMemory& memory, std::size_t number) {
  using Key = std::pair<void*, std::size_t>;
  static std::mutex mutex;
  static auto* const queues = new std::map<Key, std::shared_ptr<GpuQueue>>;
  const std::lock_guard lock(mutex);
  const Key key(memory.context, number);
  if (const auto found = queues->find(key); found != queues->end()) return found->second;
  WEFT_ASSIGN(const std::shared_ptr<Queue> queue, make_queue(memory));
  queues->emplace(key, queue);
  return std::shared_ptr<GpuQueue>(queue);
}

}  // namespace

Result<std::shared_ptr<GpuQueue>> GpuQueue::free_of(const GpuMemory& memory) {
  return queue_of(memory, 1 + kQueues);
}

Result<std::shared_ptr<GpuQueue>> GpuQueue::out_of(const GpuMemory& memory, Stream stream) {
  constexpr int kUnusedBits = 6;  // handles are addresses of objects
  const std::size_t number = reinterpret_cast<std::uintptr_t>(stream.handle) >> kUnusedBits;
  return queue_of(memory, 1 + number % kQueues);
}

Status GpuQueue::prepare(const GpuMemory& memory) {
  constexpr std::size_t kMarks = 32;  // more than an operation has at once
  WEFT_RETURN_IF_ERROR(into(memory).status());
  WEFT_ASSIGN(const Driver* driver, cuda::load_driver());
  return cuda::Recorded::reserve(*driver, memory.context, kMarks, gpu_text(memory));
}

Result<std::shared_ptr<GpuQueue>> GpuQueue::own(const GpuMemory& memory) {
  WEFT_ASSIGN(std::shared_ptr<Queue> made, make_queue(memory));
  return std::shared_ptr<GpuQueue>(std::move(made));
}

Result<std::shared_ptr<GpuQueue>> GpuQueue::into(const GpuMemory& memory) {
  return queue_of(memory, 0);
}

Result<std::unique_ptr<GpuGate>> make_gpu_gate(const GpuMemory& memory, std::int64_t end_ns) {
  WEFT_ASSIGN(const Driver* driver, cuda::load_driver());
  WEFT_ASSIGN(const Word word, take_word(*driver, memory));
  auto held = std::make_shared<Held>(word);
  const std::weak_ptr<Held> later = held;
  WEFT_RETURN_IF_ERROR(cuda::watch_until(end_ns, later, [later] {
    if (const std::shared_ptr<Held> still = later.lock()) still->open();
  }));
  return std::unique_ptr<GpuGate>(std::make_unique<Gate>(*driver, memory, std::move(held)));
}

}  // namespace weft
