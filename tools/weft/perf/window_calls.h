// WindowCalls: what is timed against each other for one size of a window's operation, each as a
// Subject. Those of rank 0 alone are for OneSided; the ping-pongs have a part for each rank.
#pragma once

#include <atomic>
#include <vector>

#include "engine/context/context.h"
#include "tools/weft/perf/gpu.h"
#include "tools/weft/perf/options.h"
#include "tools/weft/perf/seat.h"

namespace weft {

// The memory of one size. It must outlive the window.
struct WindowMemory {
  Tensors tensors;  // x: what rank 0 puts; y: the window's tensor
  Tensor landing;   // of the window's size and mapped by all ranks, for the limit
  Segments landings;
  std::size_t window_count = 0;  // elements of y
  // With --memory device: one tensor of a GPU in the place of x and of the window's.
  std::optional<GpuTensors> gpu{};

  // Collective.
  static Result<WindowMemory> make(Seat& seat, const PerfOptions& options, std::size_t bytes);
  // Once this object is where it stays.
  Status make_gpu(const PerfOptions& options, Rank local_rank);
  [[nodiscard]] Output window_tensor(DataType type) const {
    return {gpu ? gpu->y() : tensors.y.data(), window_count, type};
  }
};

class WindowCalls {
 public:
  // Keeps the references.
  WindowCalls(const PerfOptions& options, Context& context, Seat& seat, Window window,
              WindowMemory& memory);

  // Rank 0 alone.
  [[nodiscard]] Subject operation();
  [[nodiscard]] Subject single_pages();  // as many writes as pages
  [[nodiscard]] Subject copy();          // the limit: one copy of the bytes to or from rank 1
  [[nodiscard]] Subject gpu_copies();    // the limit of a GPU: one copy from it and one to it

  // Both ranks. A call is a round trip.
  [[nodiscard]] Subject puts_in_turn();   // each rank answers a put once it is visible
  [[nodiscard]] Subject lines_in_turn();  // the same with one cache line each, and no engine

  // Does the operation once and compares what it did. Collective; outside of all timing.
  Status check(std::uint64_t lap);

 private:
  [[nodiscard]] Subject repeated(Status (WindowCalls::*call)());
  Status call();
  Status rewrite(std::uint64_t lap);
  Status write_each_page();
  Status copy_once();
  Status put_and_answer();
  Status answer_line();
  Status compare_here(std::uint64_t lap);
  Status compare_pages(std::uint64_t lap);
  [[nodiscard]] Rank other() const { return 1 - seat_.rank(); }
  [[nodiscard]] std::atomic<std::uint64_t>& line(Rank rank) const;

  Context& context_;
  Seat& seat_;
  Window window_;
  WindowMemory& memory_;
  WindowOp op_;
  Compression compression_;
  Output x_;      // on the host
  Output given_;  // to puts
  Output y_;
  std::size_t page_bytes_ = 0;
  std::vector<WindowPage> pages_;
  std::uint64_t puts_ = 0;   // round trips of puts
  std::uint64_t lines_ = 0;  // round trips of lines since the seat was taken: what the lines hold
};

}  // namespace weft
