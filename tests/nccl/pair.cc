// One end of a connection over the network plugin, on a host of its own: numbered messages, every byte of
// which the receiver looks at.
//
//   pair HOST FILE MESSAGES BYTES     host 1 receives, host 0 sends; FILE brings the handle from 1 to 0
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/nccl/net.h"

namespace weft::nccl {
namespace {

constexpr std::size_t kAtOnce = 4;
using Clock = std::chrono::steady_clock;

struct Course {
  std::string file;
  std::uint32_t messages = 0;
  std::size_t words = 0;
};

void check(abi::Result result, const char* what) {
  if (result == abi::success) return;
  std::fprintf(stderr, "%s: %d: %s\n", what, result, last_warning().c_str());
  std::exit(1);
}

template <typename Done>
void wait_for(const char* what, Done done) {
  if (eventually(done)) return;
  std::fprintf(stderr, "%s: nothing for half a minute\n", what);
  std::exit(1);
}

std::uint32_t word(std::uint32_t message, std::size_t at) {
  return message * 2654435761U + static_cast<std::uint32_t>(at);
}

void* receiver_of(void* context, const Course& course) {
  alignas(8) std::array<char, abi::kHandleBytes> handle{};
  void *listener = nullptr, *connection = nullptr, *none = nullptr;
  check(net().listen(context, 0, handle.data(), &listener), "listen");
  std::ofstream(course.file + ".new", std::ios::binary).write(handle.data(), handle.size());
  std::filesystem::rename(course.file + ".new", course.file);
  wait_for("accept", [&] {
    check(net().accept(listener, &connection, &none), "accept");
    return connection != nullptr;
  });
  check(net().calls.close_listener(listener), "closeListen");
  return connection;
}

void* sender_of(void* context, const Course& course) {
  alignas(8) std::array<char, abi::kHandleBytes> handle{};
  wait_for("the handle", [&] { return std::filesystem::exists(course.file); });
  std::ifstream(course.file, std::ios::binary).read(handle.data(), handle.size());
  void *connection = nullptr, *none = nullptr;
  wait_for("connect", [&] {
    check(net().connect(context, 0, handle.data(), &connection, &none), "connect");
    return connection != nullptr;
  });
  return connection;
}

// A message and its memory.
struct Place {
  std::vector<std::uint32_t> words;
  void* registration = nullptr;
  void* request = nullptr;
};

void run(bool receives, const Course& course) {
  void* context = nullptr;
  abi::TrafficClass traffic;
  check(net().init(&context, 1, &traffic, keep_warning, nullptr), "init");
  void* const connection = receives ? receiver_of(context, course) : sender_of(context, course);
  std::size_t bytes = course.words * sizeof(std::uint32_t);
  std::array<Place, kAtOnce> places;
  for (Place& place : places) {
    place.words.resize(course.words);
    check(net().calls.register_memory(connection, place.words.data(), bytes, abi::kHostPointers,
                                      &place.registration),
          "regMr");
  }
  const auto begin = [&](std::uint32_t message) {
    Place& place = places[message % kAtOnce];
    void* data = place.words.data();
    int tag = 0;
    if (receives) {
      check(net().calls.receive(connection, 1, &data, &bytes, &tag, &place.registration, nullptr,
                                &place.request),
            "irecv");
    } else {
      for (std::size_t at = 0; at < course.words; ++at) place.words[at] = word(message, at);
      wait_for("room", [&] {
        check(net().calls.send(connection, data, bytes, tag, place.registration, nullptr,
                               &place.request),
              "isend");
        return place.request != nullptr;
      });
    }
  };
  const auto start = Clock::now();
  auto last = start;
  std::chrono::duration<double> longest{};
  for (std::uint32_t message = 0; message < kAtOnce && message < course.messages; ++message)
    begin(message);
  for (std::uint32_t message = 0; message < course.messages; ++message) {
    Place& place = places[message % kAtOnce];
    wait_for("a message", [&] {
      int done = 0;
      int size = 0;
      check(net().calls.test(place.request, &done, &size), "test");
      return done != 0;
    });
    longest = std::max<std::chrono::duration<double>>(longest, Clock::now() - last);
    last = Clock::now();
    for (std::size_t at = 0; receives && at < course.words; ++at) {
      if (place.words[at] == word(message, at)) continue;
      std::fprintf(stderr, "message %u is wrong at word %zu\n", message, at);
      std::exit(1);
    }
    if (message + kAtOnce < course.messages) begin(message + kAtOnce);
  }
  const std::chrono::duration<double> took = Clock::now() - start;
  std::printf("%u messages of %zu bytes in %.2f s, the longest wait %.2f s\n", course.messages,
              bytes, took.count(), longest.count());
  check(receives ? net().calls.close_receive(connection) : net().calls.close_send(connection),
        "close");
}

}  // namespace
}  // namespace weft::nccl

int main(int count, char** arguments) {
  if (count != 5) return 2;
  const weft::nccl::Course course{arguments[2], static_cast<std::uint32_t>(std::atoi(arguments[3])),
                                  static_cast<std::size_t>(std::atol(arguments[4])) / 4};
  weft::nccl::run(arguments[1][0] == '1', course);
  return testing::Test::HasFailure() ? 1 : 0;
}
