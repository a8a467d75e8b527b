// Seat: one rank's place in a measurement. Rank 0 leads: it decides how many laps come next, and it
// alone sees everybody's records. Words go through the job's store, where waiting costs no core;
// the laps themselves meet in shared memory.
//
// One per rank, used by its thread. The store belongs to the caller and outlives the seat.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/limits/limits.h"

namespace weft {

class Seat {
 public:
  // Takes the rank's place; collective. The seat's memory is in the shared heap, which the rank's
  // context makes by its settings: the context comes first.
  static Result<std::unique_ptr<Seat>> take(Store& store);
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  ~Seat();

  [[nodiscard]] Rank rank() const { return store_.rank(); }
  [[nodiscard]] int size() const { return store_.size(); }
  [[nodiscard]] bool leads() const { return rank() == 0; }
  [[nodiscard]] Meeting& meeting() { return *meeting_; }
  [[nodiscard]] const std::vector<Sight>& boards() const { return boards_.sights(); }

  // Rank 0's number, on every rank; what the others pass is ignored.
  [[nodiscard]] Result<int> announce(int number);
  // Every rank's bytes, by rank, at rank 0; empty elsewhere.
  [[nodiscard]] Result<std::vector<std::string>> gather(std::string mine);
  // Shows this rank's memory to all ranks, and the memory of all ranks to this one.
  [[nodiscard]] Result<Segments> show(const void* mine, std::size_t bytes);
  // Whether every rank can read the memory that all ranks showed. Collective; all ranks get the same
  // answer. If it is no, rank 0 gets the reason in `why`.
  [[nodiscard]] Result<bool> can_read(const Segments& shown, std::string& why);
  // Ends the waiting of the other ranks for this one.
  void give_up() { meeting_->abandon(rank()); }

 private:
  explicit Seat(Store& store) : store_(store) {}
  [[nodiscard]] std::string next_key();

  Store& store_;
  void* memory_ = nullptr;
  Segments boards_;
  Segments control_;
  std::unique_ptr<Meeting> meeting_;
  int words_ = 0;  // spoken so far; all ranks speak in the same order
};

// Memory of one tensor, from weft::allocate or, private, from the C library.
class Tensor {
 public:
  static Result<Tensor> make(std::size_t bytes, bool is_private);
  Tensor(Tensor&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), is_private_(other.is_private_) {}
  Tensor& operator=(Tensor&&) = delete;
  ~Tensor();

  [[nodiscard]] void* data() const { return data_; }

 private:
  Tensor(void* data, bool is_private) : data_(data), is_private_(is_private) {}
  void* data_;
  bool is_private_;
};

// The tensors of one size: this rank's own, and where everyone's are.
struct Tensors {
  Tensor x;
  Tensor y;
  std::size_t count = 0;  // elements of x
  Segments inputs;
  Segments outputs;

  // Collective.
  static Result<Tensors> make(Seat& seat, DataType type, std::size_t count,
                              std::size_t output_count, bool is_private);
};

}  // namespace weft
