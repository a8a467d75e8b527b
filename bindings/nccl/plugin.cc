// plugin: from NCCL's pointers and codes to objects and statuses.
#include "bindings/nccl/plugin.h"

#include <fmt/core.h>

#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <variant>

#include "bindings/nccl/meeting.h"
#include "bindings/nccl/turns.h"

namespace weft::nccl {
namespace {

constexpr int kNoDmaBuf = -1;

// What NCCL holds a pointer to.
class Connection {
 public:
  template <typename End>
  static Status make(std::unique_ptr<End> end, void*& connection) {
    std::unique_ptr<Connection> made(new Connection(std::move(end)));
    WEFT_RETURN_IF_ERROR(Turns::get().watch(made->link()));
    connection = made.release();
    return {};
  }
  ~Connection() { Turns::get().forget(link()); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] Link& link() {
    return std::visit([](auto& end) -> Link& { return end->link(); }, end_);
  }
  // Null: it is the other end.
  template <typename End>
  [[nodiscard]] End* as() {
    const auto* const end = std::get_if<std::unique_ptr<End>>(&end_);
    return end == nullptr ? nullptr : end->get();
  }
  template <typename Body>
  auto visit(Body body) {
    return std::visit([&](auto& end) { return body(*end); }, end_);
  }

 private:
  template <typename End>
  explicit Connection(std::unique_ptr<End> end) : end_(std::move(end)) {}

  std::variant<std::unique_ptr<Sender>, std::unique_ptr<Receiver>> end_;
};

struct Plugin {
  std::mutex mutex;
  std::unique_ptr<Network> network;
  std::atomic<abi::Logger> logger = nullptr;
};

// Never destroyed: NCCL's threads may outlive static objects.
Plugin& plugin() {
  static Plugin& only = *new Plugin;
  return only;
}

void tell(abi::LogLevel level, std::string_view text) {
  if (const abi::Logger logger = plugin().logger.load())
    logger(level, abi::kLogNet, "weft", 0, "%.*s", static_cast<int>(text.size()), text.data());
}

abi::Result code_of(const Status& status) {
  switch (status.code()) {
    case Code::ok:
      return abi::success;
    case Code::peer_died:
    case Code::peer_left:
    case Code::timed_out:
    case Code::mismatch:
    case Code::unavailable:
      return abi::remote_error;
    case Code::invalid_argument:
      return abi::invalid_argument;
    default:
      return abi::system_error;
  }
}

abi::Result answer(std::string_view what, const Status& status) {
  if (!status.ok()) tell(abi::log_warning, fmt::format("Weft: {}: {}", what, status.text()));
  return code_of(status);
}

// No exception leaves the plugin. A forked child has none of the plugin's threads and shares its
// connections.
template <typename Body>
abi::Result guarded(std::string_view what, Body body) {
  if (is_forked_child()) return answer(what, forked_child_error(what));
  try {
    return answer(what, body());
  } catch (const std::exception& error) {
    return answer(what, Status(Code::system, error.what()));
  }
}

Status no_network() {
  return Status(Code::invalid_argument, "init has not been called, or has failed");
}

Status check_device(int number) {
  const Network* const network = plugin().network.get();
  if (network == nullptr) return no_network();
  const auto count = static_cast<int>(network->devices().size());
  if (number >= 0 && number < count) return {};
  return Status(Code::invalid_argument,
                fmt::format("there is no device {}; there are {}", number, count));
}

Status check_kind(int type) {
  if (type == abi::kHostPointers) return {};
  const Network* const network = plugin().network.get();
  if (network == nullptr) return no_network();
  if (type == abi::kCudaPointers && network->gpu_status().ok()) return {};
  return Status(Code::invalid_argument,
                fmt::format("memory of kind {}; only host memory was offered: {}", type,
                            network->gpu_status().text()));
}

}  // namespace

abi::Result init(abi::Logger logger) {
  return guarded("init", [&]() -> Status {
    const std::lock_guard lock(plugin().mutex);
    plugin().logger = logger;
    if (plugin().network != nullptr) return {};
    set_log_sink([](const LogRecord& record) {
      const bool warns = record.level >= LogLevel::warning;
      tell(warns ? abi::log_warning : abi::log_info, fmt::format("Weft: {}", record.text));
    });
    WEFT_ASSIGN(plugin().network, Network::open());
    mark_process();
    for (const Device& device : plugin().network->devices()) {
      tell(abi::log_info,
           fmt::format("Weft: {} over {}, {} Mbit/s", device.name, device.kind, device.mbit_per_s));
    }
    const Status& gpus = plugin().network->gpu_status();
    tell(abi::log_info, gpus.ok() ? std::string("Weft: GPUDirect RDMA is offered")
                                  : fmt::format("Weft: no GPUDirect RDMA: {}", gpus.text()));
    return {};
  });
}

abi::Result count_devices(int* count) {
  return guarded("devices", [&]() -> Status {
    if (plugin().network == nullptr) return no_network();
    *count = static_cast<int>(plugin().network->devices().size());
    return {};
  });
}

const Device* device_of(int number) {
  const Status status = check_device(number);
  if (answer("getProperties", status) != abi::success) return nullptr;
  return &plugin().network->devices()[static_cast<std::size_t>(number)];
}

abi::Result listen(int device, void* handle, void** listener) {
  return guarded("listen", [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_device(device));
    Handle made;
    WEFT_ASSIGN(std::unique_ptr<Listener> opened, Listener::open(*plugin().network, device, made));
    std::memcpy(handle, &made, sizeof made);
    *listener = opened.release();
    return {};
  });
}

abi::Result connect(int device, void* handle, void** connection) {
  return guarded("connect", [&]() -> Status {
    *connection = nullptr;
    WEFT_RETURN_IF_ERROR(check_device(device));
    Handle known;
    std::memcpy(&known, handle, sizeof known);
    std::unique_ptr<Caller> caller(known.caller);
    if (caller == nullptr) {
      WEFT_ASSIGN(caller, Caller::open(*plugin().network, device, known));
    }
    Result<std::unique_ptr<Sender>> made = caller->advance();
    const bool goes_on = made.ok() && *made == nullptr;
    known.caller = goes_on ? caller.release() : nullptr;
    std::memcpy(handle, &known, sizeof known);
    WEFT_RETURN_IF_ERROR(made.status());
    return *made == nullptr ? Status() : Connection::make(*std::move(made), *connection);
  });
}

abi::Result accept(void* listener, void** connection) {
  return guarded("accept", [&]() -> Status {
    *connection = nullptr;
    WEFT_ASSIGN(std::unique_ptr<Receiver> made, static_cast<Listener*>(listener)->accept());
    return made == nullptr ? Status() : Connection::make(std::move(made), *connection);
  });
}

abi::Result register_memory(void* connection, void* data, std::size_t bytes, int type,
                            void** registration) {
  return register_dma_buf(connection, data, bytes, type, 0, kNoDmaBuf, registration);
}

abi::Result register_dma_buf(void* connection, void* data, std::size_t bytes, int type,
                             std::uint64_t offset, int descriptor, void** registration) {
  return guarded(descriptor == kNoDmaBuf ? "regMr" : "regMrDmaBuf", [&]() -> Status {
    WEFT_RETURN_IF_ERROR(check_kind(type));
    Registration memory{{static_cast<std::byte*>(data), bytes}};
    if (type == abi::kCudaPointers) {
      WEFT_ASSIGN(memory, export_memory(memory.memory, descriptor, offset));
    }
    auto& known = *static_cast<Connection*>(connection);
    const auto entered = known.link().enter();
    return known.visit([&](auto& end) -> Status {
      WEFT_ASSIGN(*registration, end.add(std::move(memory)));
      return {};
    });
  });
}

abi::Result deregister(void* connection, void* registration) {
  return guarded("deregMr", [&]() -> Status {
    auto& known = *static_cast<Connection*>(connection);
    const auto entered = known.link().enter();
    known.visit([&](auto& end) { end.remove(static_cast<Registration*>(registration)); });
    return {};
  });
}

abi::Result send(void* connection, void* data, std::size_t bytes, int tag, void** request) {
  return guarded("isend", [&]() -> Status {
    *request = nullptr;
    auto* const sender = static_cast<Connection*>(connection)->as<Sender>();
    if (sender == nullptr) return Status(Code::invalid_argument, "this connection receives");
    const auto entered = sender->link().enter();
    WEFT_ASSIGN(*request, sender->send(data, bytes, tag));
    return {};
  });
}

abi::Result receive(void* connection, int count, void** data, const std::size_t* bytes,
                    const int* tags, void** registrations, void** request) {
  return guarded("irecv", [&]() -> Status {
    *request = nullptr;
    auto* const receiver = static_cast<Connection*>(connection)->as<Receiver>();
    if (receiver == nullptr) return Status(Code::invalid_argument, "this connection sends");
    std::vector<Into> parts;
    for (int k = 0; k < count; ++k) {
      parts.push_back(
          {data[k], bytes[k], tags[k], static_cast<const Registration*>(registrations[k])});
    }
    const auto entered = receiver->link().enter();
    WEFT_ASSIGN(*request, receiver->receive(parts));
    return {};
  });
}

// It ends at once. Host memory needs none.
abi::Result flush(void*, int count, void**, int*, void** registrations, void** request) {
  return guarded("iflush", [&]() -> Status {
    *request = nullptr;
    for (int k = 0; k < count; ++k) {
      const auto* const each = static_cast<const Registration*>(registrations[k]);
      if (each->gpu) WEFT_RETURN_IF_ERROR(flush_rdma_writes(*each->gpu, each->gpu->device));
    }
    return {};
  });
}

abi::Result test(void* request, int* is_done, int* bytes) {
  return guarded("test", [&]() -> Status {
    *is_done = 0;
    auto& begun = *static_cast<Request*>(request);
    const auto entered = begun.link().enter();
    WEFT_ASSIGN(const bool ended, begun.test(bytes));
    *is_done = ended ? 1 : 0;
    return {};
  });
}

abi::Result close_connection(void* connection) {
  return guarded("close", [&]() -> Status {
    delete static_cast<Connection*>(connection);
    return {};
  });
}

abi::Result close_listener(void* listener) {
  return guarded("closeListen", [&]() -> Status {
    delete static_cast<Listener*>(listener);
    return {};
  });
}

}  // namespace weft::nccl
