// What the tests of the network plugin share: the plugin as NCCL loads it, and both ends of a connection
// in this process, each called in turn.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "bindings/nccl/abi.h"

namespace weft::nccl {

inline std::string& last_warning() {
  static std::string& text = *new std::string;
  return text;
}

inline void keep_warning(int level, unsigned long, const char*, int, const char* format, ...) {
  if (level != abi::log_warning) return;
  std::array<char, 1024> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  last_warning() = text.data();
}

// The library that NCCL_NET_PLUGIN=weft would find.
inline void* library() {
  static void* const handle = ::dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle, nullptr) << ::dlerror();
  return handle;
}

template <typename Table>
const Table& table(int version) {
  const std::string symbol = "ncclNetPlugin_v" + std::to_string(version);
  auto* const found = static_cast<const Table*>(::dlsym(library(), symbol.c_str()));
  EXPECT_NE(found, nullptr) << symbol;
  return *found;
}

inline const abi::TableV12& net() {
  return table<abi::TableV12>(12);
}

// Until `done` or half a minute has passed; whether it was done.
template <typename Done>
bool eventually(Done done) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (std::chrono::steady_clock::now() < end) {
    if (done()) return true;
  }
  return false;
}

class Ends {
 public:
  Ends() {
    void* context = nullptr;
    abi::TrafficClass traffic;
    EXPECT_EQ(net().init(&context, 1, &traffic, keep_warning, nullptr), abi::success)
        << last_warning();
    EXPECT_EQ(net().listen(context, 0, handle.data(), &listener), abi::success) << last_warning();
    EXPECT_TRUE(eventually([&] {
      void* none = nullptr;
      if (send == nullptr) {
        EXPECT_EQ(net().connect(context, 0, handle.data(), &send, &none), abi::success)
            << last_warning();
      }
      if (receive == nullptr) {
        EXPECT_EQ(net().accept(listener, &receive, &none), abi::success) << last_warning();
      }
      return testing::Test::HasFailure() || (send != nullptr && receive != nullptr);
    }));
  }
  ~Ends() {
    close_send();
    close_receive();
    EXPECT_EQ(net().calls.close_listener(listener), abi::success);
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  void close_send() {
    if (send != nullptr) {
      EXPECT_EQ(net().calls.close_send(std::exchange(send, nullptr)), abi::success);
    }
  }
  void close_receive() {
    if (receive != nullptr) {
      EXPECT_EQ(net().calls.close_receive(std::exchange(receive, nullptr)), abi::success);
    }
  }

  alignas(8) std::array<char, abi::kHandleBytes> handle{};
  void* listener = nullptr;
  void* send = nullptr;
  void* receive = nullptr;
};

// Memory that is registered with one end.
class Buffer {
 public:
  Buffer(void* connection, std::size_t bytes) : connection_(connection), bytes_(bytes) {
    EXPECT_EQ(
        net().calls.register_memory(connection, data(), bytes, abi::kHostPointers, &registration_),
        abi::success)
        << last_warning();
  }
  ~Buffer() { EXPECT_EQ(net().calls.deregister(connection_, registration_), abi::success); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  [[nodiscard]] char* data() { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] void* registration() const { return registration_; }
  void fill(char seed) {
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      bytes_[i] = static_cast<char>(seed + static_cast<char>(i % 101));
  }

 private:
  void* connection_;
  std::vector<char> bytes_;
  void* registration_ = nullptr;
};

struct Asked {
  void* request = nullptr;
  bool is_done = false;
  std::array<int, 8> sizes{};
};

// One message to be received; null if there is no room for it.
inline Asked ask(Ends& ends, Buffer& into, std::size_t offset, std::size_t bytes, int tag = 0) {
  Asked asked;
  void* data = into.data() + offset;
  void* registration = into.registration();
  EXPECT_EQ(net().calls.receive(ends.receive, 1, &data, &bytes, &tag, &registration, nullptr,
                                &asked.request),
            abi::success)
      << last_warning();
  return asked;
}

inline Asked offer(Ends& ends, Buffer& from, std::size_t offset, std::size_t bytes, int tag = 0) {
  Asked asked;
  EXPECT_EQ(net().calls.send(ends.send, from.data() + offset, bytes, tag, from.registration(),
                             nullptr, &asked.request),
            abi::success)
      << last_warning();
  return asked;
}
inline bool test(Asked& asked) {
  if (asked.is_done) return true;
  int done = 0;
  EXPECT_EQ(net().calls.test(asked.request, &done, asked.sizes.data()), abi::success)
      << last_warning();
  asked.is_done = done != 0;
  return asked.is_done;
}

// The same as offer(), once the receiver's room has come. NCCL asks after what was begun all the time.
inline Asked send_soon(Ends& ends, Asked& received, Buffer& from, std::size_t offset,
                       std::size_t bytes, int tag = 0) {
  Asked asked;
  EXPECT_TRUE(eventually([&] {
    test(received);
    asked = offer(ends, from, offset, bytes, tag);
    return asked.request != nullptr || testing::Test::HasFailure();
  }));
  return asked;
}

inline void finish(std::vector<Asked*> all) {
  EXPECT_TRUE(eventually([&] {
    bool done = true;
    for (Asked* each : all) done &= test(*each);
    return done || testing::Test::HasFailure();
  }));
}

}  // namespace weft::nccl
