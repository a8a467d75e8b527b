// Each version's table moves a message, called with that version's arguments.
#include <gtest/gtest.h>

#include "tests/nccl/net.h"

namespace weft::nccl {
namespace {

template <typename Table>
class Caller {
 public:
  explicit Caller(int version) : table_(table<Table>(version)) {}

  abi::Result init() {
    abi::TrafficClass traffic;
    if constexpr (requires { table_.init(keep_warning); })
      return table_.init(keep_warning);
    else if constexpr (requires { table_.init(keep_warning, nullptr); })
      return table_.init(keep_warning, nullptr);
    else
      return table_.init(&context_, 7, &traffic, keep_warning, nullptr);
  }
  abi::Result listen(void* handle, void** listener) {
    if constexpr (requires { table_.listen(0, handle, listener); })
      return table_.listen(0, handle, listener);
    else
      return table_.listen(context_, 0, handle, listener);
  }
  abi::Result connect(void* handle, void** connection) {
    void* none = this;
    abi::TrafficClass traffic;
    if constexpr (requires { table_.connect(0, handle, connection); })
      return table_.connect(0, handle, connection);
    else if constexpr (requires { table_.connect(0, handle, connection, &none); })
      return table_.connect(0, handle, connection, &none);
    else if constexpr (requires { table_.connect(0, &traffic, handle, connection, &none); })
      return table_.connect(0, &traffic, handle, connection, &none);
    else
      return table_.connect(context_, 0, handle, connection, &none);
  }
  abi::Result accept(void* listener, void** connection) {
    void* none = this;
    if constexpr (requires { table_.accept(listener, connection); })
      return table_.accept(listener, connection);
    else
      return table_.accept(listener, connection, &none);
  }
  abi::Result send(void* connection, void* data, int bytes, void* registration, void** request) {
    if constexpr (requires {
                    table_.calls.send(connection, data, bytes, 3, registration, request);
                  })
      return table_.calls.send(connection, data, bytes, 3, registration, request);
    else
      return table_.calls.send(connection, data, static_cast<std::size_t>(bytes), 3, registration,
                               nullptr, request);
  }
  abi::Result receive(void* connection, void* data, int bytes, void* registration, void** request) {
    int tag = 3;
    auto size = static_cast<std::size_t>(bytes);
    if constexpr (requires {
                    table_.calls.receive(connection, 1, &data, &bytes, &tag, &registration,
                                         request);
                  })
      return table_.calls.receive(connection, 1, &data, &bytes, &tag, &registration, request);
    else if constexpr (requires {
                         table_.calls.receive(connection, 1, &data, &size, &tag, &registration,
                                              request);
                       })
      return table_.calls.receive(connection, 1, &data, &size, &tag, &registration, request);
    else
      return table_.calls.receive(connection, 1, &data, &size, &tag, &registration, nullptr,
                                  request);
  }
  [[nodiscard]] const Table& table_of() const { return table_; }

 private:
  const Table& table_;
  void* context_ = nullptr;
};

template <typename Table, typename Properties>
void move_a_message(int version) {
  SCOPED_TRACE(version);
  Caller<Table> caller(version);
  const Table& table = caller.table_of();
  EXPECT_STREQ(table.name, "Weft");
  ASSERT_EQ(caller.init(), abi::success) << last_warning();
  int count = 0;
  ASSERT_EQ(table.devices(&count), abi::success);
  Properties properties;
  ASSERT_EQ(table.properties(count - 1, &properties), abi::success);
  EXPECT_EQ(properties.most_receives, 8);
  EXPECT_GT(properties.mbit_per_s, 0);

  alignas(8) std::array<char, abi::kHandleBytes> handle{};
  void *listener = nullptr, *send = nullptr, *receive = nullptr;
  ASSERT_EQ(caller.listen(handle.data(), &listener), abi::success) << last_warning();
  ASSERT_TRUE(eventually([&] {
    if (send == nullptr) {
      EXPECT_EQ(caller.connect(handle.data(), &send), abi::success);
    }
    if (receive == nullptr) {
      EXPECT_EQ(caller.accept(listener, &receive), abi::success);
    }
    return testing::Test::HasFailure() || (send != nullptr && receive != nullptr);
  })) << last_warning();
  std::string from(777, 'x'), into(777, ' ');
  void *of_from = nullptr, *of_into = nullptr, *sent = nullptr, *received = nullptr;
  ASSERT_EQ(table.calls.register_memory(send, from.data(), 777, abi::kHostPointers, &of_from), 0);
  ASSERT_EQ(table.calls.register_memory(receive, into.data(), 777, abi::kHostPointers, &of_into),
            0);
  ASSERT_EQ(caller.receive(receive, into.data(), 777, of_into, &received), abi::success);
  int sent_done = 0, received_done = 0, size = 0;
  ASSERT_TRUE(eventually([&] {
    EXPECT_EQ(table.calls.test(received, &received_done, &size), abi::success);
    EXPECT_EQ(caller.send(send, from.data(), 777, of_from, &sent), abi::success);
    return sent != nullptr || testing::Test::HasFailure();
  }));
  EXPECT_TRUE(eventually([&] {
    if (sent_done == 0) {
      EXPECT_EQ(table.calls.test(sent, &sent_done, nullptr), abi::success);
    }
    if (received_done == 0) {
      EXPECT_EQ(table.calls.test(received, &received_done, &size), abi::success);
    }
    return testing::Test::HasFailure() || (sent_done != 0 && received_done != 0);
  }));
  EXPECT_EQ(size, 777);
  EXPECT_EQ(into, from);
  void* flushed = &size;
  void* data = into.data();
  EXPECT_EQ(table.calls.flush(receive, 1, &data, &size, &of_into, &flushed), abi::success);
  EXPECT_EQ(flushed, nullptr);
  EXPECT_EQ(table.calls.deregister(send, of_from), abi::success);
  EXPECT_EQ(table.calls.deregister(receive, of_into), abi::success);
  std::thread other([&] { EXPECT_EQ(table.calls.close_send(send), abi::success); });
  EXPECT_EQ(table.calls.close_receive(receive), abi::success);
  other.join();
  EXPECT_EQ(table.calls.close_listener(listener), abi::success);
  if (version >= 11) {
    EXPECT_EQ(table.calls.finalize(nullptr), abi::success);
  }
}

TEST(NcclNetVersions, EachMovesAMessage) {
  move_a_message<abi::TableV6, abi::PropertiesV6>(6);
  move_a_message<abi::TableV7, abi::PropertiesV7>(7);
  move_a_message<abi::TableV8, abi::PropertiesV8>(8);
  move_a_message<abi::TableV9, abi::PropertiesV9>(9);
  move_a_message<abi::TableV10, abi::PropertiesV10>(10);
  move_a_message<abi::TableV11, abi::PropertiesV11>(11);
  move_a_message<abi::TableV12, abi::PropertiesV12>(12);
}

}  // namespace
}  // namespace weft::nccl
