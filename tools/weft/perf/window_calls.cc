// The calls of windows, their limit, and the two ping-pongs.
#include "tools/weft/perf/window_calls.h"

#include <cstring>

#include "tools/weft/perf/one_sided.h"
#include "tools/weft/perf/values.h"

namespace weft {
namespace {

// Every second page of the window, so that no two can go as one.
constexpr std::size_t kPageStride = 2;

bool reads_target(WindowOp op) {
  return op == WindowOp::get;
}

}  // namespace

Result<WindowMemory> WindowMemory::make(Seat& seat, const PerfOptions& options, std::size_t bytes) {
  const bool has_pages = options.window == WindowOp::pages;
  const std::size_t count = std::max<std::size_t>(options.count(bytes), 1);
  const std::size_t inside = has_pages ? count * kPerfPages * kPageStride : count;
  const std::size_t given = has_pages ? count * kPerfPages : count;
  WEFT_ASSIGN(Tensors tensors,
              Tensors::make(seat, options.type, given, inside, options.is_private()));
  WEFT_ASSIGN(Tensor landing, Tensor::make(bytes, false));
  WEFT_ASSIGN(Segments landings, seat.show(landing.data(), std::max<std::size_t>(bytes, 1)));
  return WindowMemory{std::move(tensors), std::move(landing), std::move(landings), inside};
}

Status WindowMemory::make_gpu(const PerfOptions& options, Rank local_rank) {
  if (!options.on_gpu()) return {};
  WEFT_ASSIGN(GpuTensors made,
              GpuTensors::make(tensors, options.type, window_count, true, local_rank));
  gpu.emplace(std::move(made));
  return {};
}

WindowCalls::WindowCalls(const PerfOptions& options, Context& context, Seat& seat, Window window,
                         WindowMemory& memory)
    : context_(context),
      seat_(seat),
      window_(std::move(window)),
      memory_(memory),
      op_(*options.window),
      compression_(options.compression),
      x_{memory.tensors.x.data(), memory.tensors.count, options.type},
      given_(memory.gpu ? window_.tensor() : x_),
      y_(memory.gpu ? x_ : window_.tensor()) {
  lines_ = line(seat_.rank()).load();
  if (op_ != WindowOp::pages) return;
  page_bytes_ = x_.count * size_of(x_.type) / kPerfPages;
  for (std::size_t page = 0; page < kPerfPages; ++page)
    pages_.push_back({page * page_bytes_, page * page_bytes_ * kPageStride});
}

Subject WindowCalls::repeated(Status (WindowCalls::*call)()) {
  Subject subject;
  subject.rewrite = [this](std::uint64_t lap) {
    if (const Status status = rewrite(lap); !status.ok()) log(LogLevel::error, status.to_string());
  };
  subject.run = [this, call](int times) -> Status {
    for (int i = 0; i < times; ++i) WEFT_RETURN_IF_ERROR((this->*call)());
    return {};
  };
  return subject;
}

Subject WindowCalls::operation() {
  return repeated(&WindowCalls::call);
}
Subject WindowCalls::single_pages() {
  return repeated(&WindowCalls::write_each_page);
}
Subject WindowCalls::copy() {
  return repeated(&WindowCalls::copy_once);
}
Subject WindowCalls::gpu_copies() {
  return memory_.gpu->copies();
}
Subject WindowCalls::puts_in_turn() {
  return repeated(&WindowCalls::put_and_answer);
}
Subject WindowCalls::lines_in_turn() {
  return repeated(&WindowCalls::answer_line);
}

Status WindowCalls::rewrite(std::uint64_t lap) {
  fill(x_.type, x_.data, x_.count, seat_.rank(), lap);
  return memory_.gpu ? memory_.gpu->copy_in() : Status();
}

Status WindowCalls::call() {
  const Rank target = other();
  switch (op_) {
    case WindowOp::put:
      return window_.put(given_, {.compression = compression_});
    case WindowOp::accumulate:
      return window_.accumulate(given_, {.compression = compression_});
    case WindowOp::get:
      return window_.get();
    case WindowOp::pages:
      return window_.write(target, {x_.data, x_.count, x_.type}, pages_, page_bytes_, kPagesSignal);
    case WindowOp::mutex:
      WEFT_RETURN_IF_ERROR(window_.lock(std::span(&target, 1)));
      return window_.unlock();
  }
  return {};
}

Status WindowCalls::write_each_page() {
  for (const WindowPage& page : pages_) {
    WEFT_RETURN_IF_ERROR(
        window_.write(other(), {x_.data, x_.count, x_.type}, std::span(&page, 1), page_bytes_));
  }
  return {};
}

// A get of private memory has to ask the kernel; everything else is mapped.
Status WindowCalls::copy_once() {
  const std::size_t bytes = x_.count * size_of(x_.type);
  auto* const own = static_cast<std::byte*>(x_.data);
  const auto target = static_cast<std::size_t>(other());
  std::byte* const landing = memory_.landings.sights()[target].mapped;
  if (!reads_target(op_)) {
    std::memcpy(landing, own, bytes);
    return {};
  }
  const Sight& tensor = memory_.tensors.outputs.sights()[target];
  if (tensor.mapped == nullptr) return read_from(tensor, 0, own, bytes);
  std::memcpy(own, tensor.mapped, bytes);
  return {};
}

Status WindowCalls::put_and_answer() {
  const WindowPut how{.signal = kVisibleSignal, .compression = compression_};
  ++puts_;
  if (seat_.leads()) WEFT_RETURN_IF_ERROR(window_.put(given_, how));
  WEFT_RETURN_IF_ERROR(window_.wait_signal(kVisibleSignal, puts_));
  return seat_.leads() ? Status() : window_.put(given_, how);
}

// Each rank writes only its own line. No other word of the boards is used here.
std::atomic<std::uint64_t>& WindowCalls::line(Rank rank) const {
  const Sight& board = seat_.boards()[static_cast<std::size_t>(rank)];
  return reinterpret_cast<FloorBoard*>(board.mapped)->slots[0].number;
}

Status WindowCalls::answer_line() {
  ++lines_;
  if (seat_.leads()) line(0).store(lines_, std::memory_order_release);
  WEFT_RETURN_IF_ERROR(seat_.meeting().wait_until(
      [this] { return line(other()).load(std::memory_order_acquire) >= lines_; }));
  if (!seat_.leads()) line(1).store(lines_, std::memory_order_release);
  return {};
}

Status WindowCalls::check(std::uint64_t lap) {
  if (reads_target(op_) && !memory_.gpu) {
    fill(y_.type, y_.data, y_.count, seat_.rank(), lap);
  } else {
    WEFT_RETURN_IF_ERROR(rewrite(lap));
  }
  WEFT_RETURN_IF_ERROR(window_.flush());  // neighbors see a tensor on a GPU as it is now
  WEFT_RETURN_IF_ERROR(context_.barrier());
  if (seat_.leads()) WEFT_RETURN_IF_ERROR(call());
  WEFT_RETURN_IF_ERROR(context_.barrier());
  if (seat_.leads() == reads_target(op_)) WEFT_RETURN_IF_ERROR(compare_here(lap));
  return context_.barrier();
}

// What came is in the slot of the other rank, or for pages in the tensor.
Status WindowCalls::compare_here(std::uint64_t lap) {
  if (op_ == WindowOp::pages) return compare_pages(lap);
  WEFT_ASSIGN(const Tensor found, Tensor::make(y_.count * size_of(y_.type), true));
  const NeighborWeight from{other(), 1.0};
  WindowUpdate how;
  how.self_weight = 0.0;
  how.sources = std::span(&from, 1);
  how.reset = true;  // the next accumulate begins at zero
  how.clone = {found.data(), y_.count, y_.type};
  WEFT_RETURN_IF_ERROR(window_.update(how));
  Recipe wanted;
  wanted.sources.push_back({other(), 1});
  return compare(y_.type, found.data(), y_.count, wanted, seat_.rank(), lap);
}

Status WindowCalls::compare_pages(std::uint64_t lap) {
  WEFT_RETURN_IF_ERROR(window_.wait_signal(kPagesSignal, lap + 1));
  WEFT_ASSIGN(const Tensor packed, Tensor::make(x_.count * size_of(x_.type), true));
  for (const WindowPage& page : pages_) {
    std::memcpy(static_cast<std::byte*>(packed.data()) + page.local_offset,
                static_cast<const std::byte*>(y_.data) + page.remote_offset, page_bytes_);
  }
  Recipe wanted;
  wanted.sources.push_back({other(), 1});
  return compare(x_.type, packed.data(), x_.count, wanted, seat_.rank(), lap);
}

}  // namespace weft
