// windows: the windows of a context, by name. Making and freeing them is collective: one allgather
// tells every rank what the others want and where their memory is, so all ranks come to the same
// answer. Internal to the module.
#pragma once

#include <weft/window.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/context/graph_edges.h"
#include "engine/context/peers.h"
#include "engine/lane/lane.h"
#include "engine/membership/membership.h"
#include "engine/window/window.h"

namespace weft {

// Threads: any thread may call the public functions. They take the lane's token.
class Windows {
 public:
  // `run` runs an operation of the context. `bell` wakes the lane.
  Windows(const Config& config, Trace& trace, Lane& lane, Peers& peers, GraphEdges& edges,
          const Membership& membership, std::shared_ptr<GpuBell> bell,
          std::function<Status(const Request&)> run)
      : config_(config),
        timeline_(trace),
        lane_(lane),
        peers_(peers),
        edges_(edges),
        membership_(membership),
        bell_(std::move(bell)),
        run_(std::move(run)) {}

  Result<Window> create(const Output& tensor, std::string_view name, const WindowOptions& options,
                        const std::shared_ptr<Lane>& lane);
  [[nodiscard]] Result<Window> find(std::string_view name);
  [[nodiscard]] std::vector<std::string> names();
  Status free(std::string_view name);
  Status free_all();
  Status fence();
  // null: there is none of this name.
  [[nodiscard]] std::shared_ptr<WindowObject> object_of(std::string_view name);
  // For people, a line each. token
  [[nodiscard]] std::vector<std::string> describe();
  // ok, or the error that the graph cannot be changed.
  [[nodiscard]] Status check_none(std::string_view what);
  // Ends all windows without the other ranks. Their memory and that of their owners stays, because
  // other ranks may still write to it.
  void close(const Status& why);

 private:
  struct Record;

  [[nodiscard]] Status check(const Output& tensor, std::string_view name);
  // The keys by which the others reach a rank's part and tensor.
  struct Keys {
    std::string part;
    std::string tensor;
  };
  // Our part of a window that is being made.
  struct Part {
    std::shared_ptr<Memory> memory;
    window::OwnCopies on_gpu;
    std::vector<std::uint32_t> exposed;
    Keys keys;
  };

  [[nodiscard]] Result<std::vector<Record>> exchange(std::string_view what, const Record& own);
  [[nodiscard]] Result<std::vector<Keys>> exchange_keys(const Keys& own,
                                                        const std::vector<Record>& all);
  [[nodiscard]] Status make(const Output& tensor, const std::optional<Stream>& stream,
                            std::size_t part_bytes, Part& part);
  [[nodiscard]] Result<window::OwnCopies> copy_to_host(const GpuMemory& gpu, std::byte* data,
                                                       std::size_t bytes,
                                                       const std::optional<Stream>& stream);
  [[nodiscard]] Result<Window> agree(const Output& tensor, std::string_view name,
                                     const WindowOptions& options, Record own, const Part& part,
                                     const std::shared_ptr<Lane>& lane);
  [[nodiscard]] static Status compare(std::string_view what, const std::vector<Record>& all);
  [[nodiscard]] Result<WindowSetup> set_up(const Output& tensor, std::string_view name,
                                           const WindowOptions& options,
                                           const std::vector<Keys>& keys);
  [[nodiscard]] Result<WindowNeighbor> neighbor(Rank rank, std::size_t bytes, const Keys& keys);
  [[nodiscard]] Result<window::Place> mutex_of(Rank rank, const Keys& keys);
  void withdraw(std::span<const std::uint32_t> regions);
  [[nodiscard]] Result<std::shared_ptr<WindowObject>> open(Result<WindowSetup> setup,
                                                           const std::shared_ptr<Lane>& lane);
  void end(WindowObject& object);

  const Config& config_;
  window::Timeline timeline_;
  Lane& lane_;
  Peers& peers_;
  GraphEdges& edges_;
  const Membership& membership_;
  const std::shared_ptr<GpuBell> bell_;
  const std::function<Status(const Request&)> run_;

  bool device_atomics_ = false;  // some ranks reach each other by devices with atomics of their own
  struct Made {
    std::shared_ptr<WindowObject> object;
    std::shared_ptr<const void> owner;  // of the tensor; given back without any lock
  };
  std::mutex mutex_;
  std::map<std::string, Made, std::less<>> windows_;
};

}  // namespace weft
