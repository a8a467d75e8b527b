// receiver: the receiving end of a connection. It says where messages may be written, and sees on its
// board that they are there.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bindings/nccl/link.h"
#include "bindings/nccl/request.h"
#include "verbs/cuda/cuda.h"
#include "verbs/transport/transport.h"

namespace weft::nccl {

// Memory that regMr has registered.
struct Registration {
  std::span<std::byte> memory;
  std::uint32_t number =
      0;  // of the region, for its owner; 0: of the host, at a sender, which needs none
  // Of a GPU: it ends behind the region.
  std::optional<GpuMemory> gpu = {};
  ExportedMemory exported = {};
};
// Of a GPU. `dma_buf`: a descriptor of it, where it is at `offset`; -1: none was given.
[[nodiscard]] Result<Registration> export_memory(std::span<std::byte> memory, int dma_buf,
                                                 std::uint64_t offset);

// A part of a multi-receive.
struct Into {
  void* data = nullptr;
  std::size_t bytes = 0;
  int tag = 0;
  const Registration* registration = nullptr;
};

class Receiver {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Receiver>> make(std::unique_ptr<Link> link);
  [[nodiscard]] const std::string& board_key() const { return board_key_; }
  [[nodiscard]] Link& link() { return *link_; }

  [[nodiscard]] Result<Registration*> add(Registration memory);
  void remove(Registration* registration);
  // Null: too many are under way.
  [[nodiscard]] Result<Request*> receive(std::span<const Into> parts);

 private:
  class Room final : public Request {
   public:
    Link& link() override { return receiver->link(); }
    Result<bool> test(int* sizes) override;

    Receiver* receiver = nullptr;
    bool is_free = true;
    std::uint64_t number = 0;
    std::size_t count = 0;
  };

  explicit Receiver(std::unique_ptr<Link> link);
  // Posts what waits; whether all of it was.
  bool tell();
  void say(std::string payload);
  [[nodiscard]] const std::byte* board() const {
    return reinterpret_cast<const std::byte*>(board_.data());
  }

  // The board is exposed by the link's interface, which ends first.
  alignas(64) std::array<std::uint64_t, kMostRooms * kMostTags> board_{};
  std::unique_ptr<Link> link_;
  std::string board_key_;
  std::map<const Registration*, std::unique_ptr<Registration>> registrations_;
  std::deque<std::string> to_say_;
  std::array<Room, kMostRooms / 2> rooms_;
  std::uint64_t made_ = 0;  // rooms so far
};

}  // namespace weft::nccl
