// Owners of verbs objects: each is destroyed when its owner goes. Members that need each other are
// declared in the order of their creation. Internal to the module.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "verbs/ib/library.h"

namespace weft::ib {

// Errors are ignored, because there is nobody to tell. What cannot be destroyed stays until the
// process ends.
struct Destroy {
  const Library* library = nullptr;

  void operator()(ibv_context* object) const { (void)library->close_device(object); }
  void operator()(ibv_pd* object) const { (void)library->dealloc_pd(object); }
  void operator()(ibv_mr* object) const { (void)library->dereg_mr(object); }
  void operator()(ibv_comp_channel* object) const { (void)library->destroy_comp_channel(object); }
  void operator()(ibv_cq* object) const { (void)library->destroy_cq(object); }
  void operator()(ibv_srq* object) const { (void)library->destroy_srq(object); }
  void operator()(ibv_qp* object) const { (void)library->destroy_qp(object); }
  void operator()(ibv_ah* object) const { (void)library->destroy_ah(object); }
};

template <typename Object>
using Owned = std::unique_ptr<Object, Destroy>;

// Memory of ours that the device reads or writes: whole pages, zeroed, registered while it lives.
class Buffer {
 public:
  Buffer() = default;
  static Result<Buffer> make(const Library& library, ibv_pd* domain, std::size_t bytes, int access);

  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint32_t lkey() const { return region_->lkey; }
  [[nodiscard]] std::uint32_t rkey() const { return region_->rkey; }
  [[nodiscard]] std::uint64_t address() const {
    return reinterpret_cast<std::uintptr_t>(memory_.get());
  }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* pages) const;
  };
  std::unique_ptr<std::byte, Unmap> memory_;
  Owned<ibv_mr> region_;
  std::size_t bytes_ = 0;
};

}  // namespace weft::ib
