// Streams of Weft's own, marks in them, and words for which the streams of others wait.
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "verbs/cuda/counts.h"
#include "verbs/cuda/cuda.h"
#include "verbs/cuda/driver.h"

namespace weft {
namespace {

using cuda::Current;
using cuda::Driver;
using cuda::status_of;

constexpr unsigned kNonBlocking = 1;    // beside the default stream
constexpr unsigned kWithoutTiming = 2;  // of an event
constexpr unsigned kWaitGreaterEqual = 0;
constexpr int kNotCapturing = 0;

cuda::Pointer address(const void* pointer) {
  return reinterpret_cast<cuda::Pointer>(pointer);
}

std::string gpu_text(const GpuMemory& memory) {
  return fmt::format("GPU {}", memory.device);
}

// An event that ends with this object.
class GpuEvent {
 public:
  static Result<GpuEvent> record(const Driver& driver, const GpuMemory& memory, void* stream,
                                 const std::string& what) {
    GpuEvent event(driver, memory);
    const Current current(driver, memory.context);
    WEFT_RETURN_IF_ERROR(status_of(driver, current.answer(), what));
    WEFT_RETURN_IF_ERROR(
        status_of(driver, driver.event_create(&event.handle_, kWithoutTiming), what));
    WEFT_RETURN_IF_ERROR(status_of(driver, driver.event_record(event.handle_, stream), what));
    return event;
  }
  GpuEvent(GpuEvent&& other) noexcept
      : driver_(other.driver_),
        memory_(other.memory_),
        handle_(std::exchange(other.handle_, nullptr)) {}
  GpuEvent& operator=(GpuEvent&&) = delete;
  ~GpuEvent() {
    if (handle_ == nullptr) return;
    const Current current(*driver_, memory_.context);
    (void)driver_->event_destroy(handle_);
  }
  [[nodiscard]] void* handle() const { return handle_; }

 private:
  GpuEvent(const Driver& driver, const GpuMemory& memory) : driver_(&driver), memory_(memory) {}
  const Driver* driver_;
  GpuMemory memory_;
  void* handle_ = nullptr;
};

class Mark final : public GpuMark {
 public:
  Mark(const Driver& driver, const GpuMemory& memory, GpuEvent event)
      : driver_(driver), memory_(memory), event_(std::move(event)) {}

  bool is_over() override {
    if (is_over_) return true;
    const Current current(driver_, memory_.context);
    const cuda::Answer answer = current.answer() == cuda::kSuccess
                                    ? driver_.event_query(event_.handle())
                                    : current.answer();
    if (answer == cuda::kNotReady) return false;
    is_over_ = true;
    status_ = status_of(driver_, answer, gpu_text(memory_));
    return true;
  }
  [[nodiscard]] Status status() const override { return status_; }
  void wait() override {
    const Current current(driver_, memory_.context);
    if (!is_over_) (void)driver_.event_wait(event_.handle());
  }

 private:
  const Driver& driver_;
  const GpuMemory memory_;
  GpuEvent event_;
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
    WEFT_ASSIGN(const GpuEvent event, GpuEvent::record(driver_, memory_, stream.handle, what));
    const Current current(driver_, memory_.context);
    return status_of(driver_, driver_.stream_wait_event(stream_, event.handle(), 0), what);
  }

  Status copy_out(void* host, const void* gpu, std::size_t bytes) override {
    cuda::counts().copies_out.fetch_add(1, std::memory_order_relaxed);
    cuda::counts().bytes_out.fetch_add(bytes, std::memory_order_relaxed);
    const Current current(driver_, memory_.context);
    return status_of(driver_, driver_.copy_out(host, address(gpu), bytes, stream_),
                     fmt::format("{}: copy {} bytes from {}", gpu_text(memory_), bytes, gpu));
  }

  Status copy_in(void* gpu, const void* host, std::size_t bytes) override {
    cuda::counts().copies_in.fetch_add(1, std::memory_order_relaxed);
    cuda::counts().bytes_in.fetch_add(bytes, std::memory_order_relaxed);
    const Current current(driver_, memory_.context);
    return status_of(driver_, driver_.copy_in(address(gpu), host, bytes, stream_),
                     fmt::format("{}: copy {} bytes to {}", gpu_text(memory_), bytes, gpu));
  }

  Status copy_inside(void* to, const void* from, std::size_t bytes) override {
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

  Result<std::unique_ptr<GpuMark>> mark(std::function<void()> wake) override {
    const std::string what = gpu_text(memory_);
    WEFT_ASSIGN(GpuEvent event, GpuEvent::record(driver_, memory_, stream_, what));
    auto call = std::make_unique<std::function<void()>>(std::move(wake));
    const Current current(driver_, memory_.context);
    WEFT_RETURN_IF_ERROR(
        status_of(driver_, driver_.launch_host(stream_, &Queue::call, call.get()), what));
    (void)call.release();  // call() has it
    return std::unique_ptr<GpuMark>(std::make_unique<Mark>(driver_, memory_, std::move(event)));
  }

 private:
  static void call(void* argument) {
    const std::unique_ptr<std::function<void()>> wake(
        static_cast<std::function<void()>*>(argument));
    (*wake)();
  }

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

class Gate final : public GpuGate {
 public:
  Gate(const Driver& driver, const GpuMemory& memory, const Word& word)
      : driver_(driver), memory_(memory), word_(word) {
    ++word_.value;
  }
  ~Gate() override {
    open();
    Words& all = words();
    const std::lock_guard lock(all.mutex);
    all.free.push_back(word_);
  }
  Status hold(Stream stream) override {
    const std::string what = fmt::format("{}: the stream {}", gpu_text(memory_), stream.handle);
    const Current current(driver_, memory_.context);
    WEFT_RETURN_IF_ERROR(status_of(driver_, current.answer(), what));
    return status_of(
        driver_,
        driver_.stream_wait_value(stream.handle, word_.gpu, word_.value, kWaitGreaterEqual), what);
  }
  void open() override { word_.host->store(word_.value, std::memory_order_release); }

 private:
  const Driver& driver_;
  const GpuMemory memory_;
  Word word_;
};

}  // namespace

cuda::Counts& cuda::counts() {
  static Counts counts;
  return counts;
}

GpuCounts gpu_counts() {
  const cuda::Counts& counts = cuda::counts();
  return {counts.copies_out.load(), counts.copies_in.load(), counts.bytes_out.load(),
          counts.bytes_in.load(),   counts.launches.load(),  counts.pinned_bytes.load()};
}

namespace {

// Streams of ours live as long as the process, which ends them.
Result<std::shared_ptr<GpuQueue>> queue_of(const GpuMemory& memory, std::size_t number) {
  using Key = std::pair<void*, std::size_t>;
  static std::mutex mutex;
  static auto* const queues = new std::map<Key, std::shared_ptr<GpuQueue>>;
  const std::lock_guard lock(mutex);
  const Key key(memory.context, number);
  if (const auto found = queues->find(key); found != queues->end()) return found->second;
  WEFT_ASSIGN(const Driver* driver, cuda::load_driver());
  void* stream = nullptr;
  {
    const Current current(*driver, memory.context);
    WEFT_RETURN_IF_ERROR(status_of(*driver, current.answer(), gpu_text(memory)));
    WEFT_RETURN_IF_ERROR(
        status_of(*driver, driver->stream_create(&stream, kNonBlocking), gpu_text(memory)));
  }
  auto queue = std::make_shared<Queue>(*driver, memory, stream);
  queues->emplace(key, queue);
  return std::shared_ptr<GpuQueue>(queue);
}

}  // namespace

Result<std::shared_ptr<GpuQueue>> GpuQueue::out_of(const GpuMemory& memory, Stream stream) {
  constexpr std::size_t kQueues = 8;
  constexpr int kUnusedBits = 6;  // handles are addresses of objects
  const std::size_t number = reinterpret_cast<std::uintptr_t>(stream.handle) >> kUnusedBits;
  return queue_of(memory, 1 + number % kQueues);
}

Result<std::shared_ptr<GpuQueue>> GpuQueue::into(const GpuMemory& memory) {
  return queue_of(memory, 0);
}

Result<std::unique_ptr<GpuGate>> make_gpu_gate(const GpuMemory& memory) {
  WEFT_ASSIGN(const Driver* driver, cuda::load_driver());
  WEFT_ASSIGN(const Word word, take_word(*driver, memory));
  return std::unique_ptr<GpuGate>(std::make_unique<Gate>(*driver, memory, word));
}

}  // namespace weft
