// The changes are made where messages are handed to UCX. So they cross a real socket, and reach whatever
// state the two ends have got each other into.
#include "tests/fuzz/ucx_wires.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "engine/context/context.h"
#include "verbs/base/base.h"
#include "verbs/ucx/library.h"
#include "verbs/ucx/ucx.h"

namespace weft::fuzz {
namespace {

constexpr std::int64_t kDeadlineMs = 300;  // of a job: a message that was dropped is waited for
constexpr std::int64_t kSlackMs = 10'000;  // for a machine that has other things to do

// Which messages are changed.
struct Changes {
  std::mutex mutex;  // guards what follows
  std::mt19937_64 random;
  unsigned one_in = 0;  // 0: none
  // What UCX was given in the place of a message; it may read it until the connection is closed.
  std::deque<std::string> given;
};

Changes& changes() {
  static auto& all = *new Changes();
  return all;
}

decltype(ucx::Library::am_send) real_send = nullptr;

std::string changed(const void* bytes, std::size_t count, std::mt19937_64& random) {
  std::string text(static_cast<const char*>(bytes), count);
  if (text.empty()) return text;
  for (std::uint64_t left = 1 + random() % 3; left > 0; --left) {
    char& at = text[random() % text.size()];
    switch (random() % 4) {
      case 0:
        at = static_cast<char>(at ^ (1 << random() % 8));
        break;
      case 1:
        at = static_cast<char>(random());
        break;
      case 2:
        at = '\0';
        break;
      default:
        at = '\xff';
    }
  }
  return text;
}

ucs_status_ptr_t send_changed(ucp_ep_h endpoint, unsigned id, const void* header,
                              std::size_t header_bytes, const void* data, std::size_t bytes,
                              const ucp_request_param_t* how) {
  Changes& all = changes();
  {
    const std::lock_guard lock(all.mutex);
    if (all.one_in != 0 && all.random() % all.one_in == 0) {
      // The first bytes of large data are lists, keys and headers; the rest is numbers.
      const bool is_header = header_bytes != 0 && (bytes == 0 || all.random() % 2 == 0);
      all.given.push_back(is_header ? changed(header, header_bytes, all.random)
                                    : changed(data, bytes, all.random));
      (is_header ? header : data) = all.given.back().data();
    }
  }
  return real_send(endpoint, id, header, header_bytes, data, bytes, how);
}

// The table of UCX's functions with send_changed() in it.
void intercept() {
  static const bool once = [] {
    auto* table = const_cast<ucx::Library*>(ucx::library().value());
    set_log(LogLevel::off, kNoRank);
    real_send = table->am_send;
    table->am_send = send_changed;
    return true;
  }();
  (void)once;
}

// Changes messages while it lives.
class Changing {
 public:
  explicit Changing(std::string_view seed) {
    intercept();
    Changes& all = changes();
    const std::lock_guard lock(all.mutex);
    all.random.seed(std::hash<std::string_view>()(seed));
    constexpr std::array<unsigned, 4> kOneIn{2, 8, 32, 128};
    all.one_in = kOneIn[all.random() % kOneIn.size()];
  }
  ~Changing() {
    Changes& all = changes();
    const std::lock_guard lock(all.mutex);
    all.one_in = 0;
    all.given.clear();
  }
  Changing(const Changing&) = delete;
  Changing& operator=(const Changing&) = delete;
};

UcxOptions over_loopback() {
  UcxOptions options;
  options.device = "lo";
  options.piece_bytes = 16'384;
  return options;
}

// Two interfaces, and what both do in a turn.
class Pair {
 public:
  Pair() {
    InterfaceOptions options;
    options.channels = 3;
    options.payload_bytes = 1000;
    for (Rank rank = 0; rank < 2; ++rank) {
      interfaces_[at(rank)] =
          open_ucx(rank, options, over_loopback(), [this](Rank peer) -> Result<std::string> {
            if (peer < 0 || peer > 1) return Status(Code::unavailable, "no such rank", peer);
            return interfaces_[at(peer)]->address();
          }).value();
    }
    for (Rank rank = 0; rank < 2; ++rank) {
      memory_[at(rank)].resize(65'536);
      own_[at(rank)].resize(65'536);
      region_[at(rank)] = interfaces_[at(rank)]->expose(memory_[at(rank)]).value();
      links_[at(rank)] = interfaces_[at(rank)]->connect(1 - rank, other(rank).address()).value();
    }
    for (Rank rank = 0; rank < 2; ++rank)
      numbers_[at(rank)] = links_[at(rank)]->import_region(region_[at(1 - rank)].key).value();
  }
  ~Pair() {
    std::thread other([this] { interfaces_[1]->close(); });  // each waits for the other
    interfaces_[0]->close();
    other.join();
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void turn(Rank rank, std::mt19937& random) {
    Interface& interface = *interfaces_[at(rank)];
    interface.progress();
    (void)interface.attention();
    Endpoint& link = *links_[at(rank)];
    for (std::uint32_t channel = 0; channel < 3; ++channel) {
      if (link.front(channel).header != nullptr && random() % 4 != 0) link.release(channel);
    }
    std::array<Completion, 8> completions;
    (void)interface.poll(completions);
    post(link, rank, random);
  }

 private:
  static std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }
  Interface& other(Rank rank) { return *interfaces_[at(1 - rank)]; }

  void post(Endpoint& link, Rank rank, std::mt19937& random) {
    const std::span<std::byte> own(own_[at(rank)]);
    const std::uint64_t bytes = 8 * (1 + random() % 1000);
    const RemoteBuffer remote{PieceForm::region, 8 * (random() % 7000), bytes, numbers_[at(rank)]};
    const auto channel = static_cast<std::uint32_t>(random() % 3);
    WireHeader header;
    header.form = PieceForm::payload;
    switch (random() % 6) {
      case 0:
        header.bytes = static_cast<std::uint32_t>(random() % 1000);
        if (channel != kControlChannel)
          (void)link.post_notice(channel, header, own.first(header.bytes));
        return;
      case 1:
        (void)link.post_notice(channel, header, {});
        return;
      case 2:
        (void)link.post_write(own.first(bytes), remote, 1);
        return;
      case 3:
        (void)link.post_read(own.first(bytes), remote, 2);
        return;
      case 4:
        (void)link.post_compare_swap({PieceForm::region, remote.word, 8, remote.region}, 0, 1,
                                     &found_, 3);
        return;
      default:
        return;
    }
  }

  std::array<std::unique_ptr<Interface>, 2> interfaces_;
  std::array<std::vector<std::byte>, 2> memory_, own_;
  std::array<Region, 2> region_;
  std::array<std::uint32_t, 2> numbers_{};
  std::array<Endpoint*, 2> links_{};
  std::uint64_t found_ = 0;
};

// What a rank of the job does; an error is as good as a result.
void take_part(Context& context) {
  std::vector<float> x(20'000, 1.0F), y(20'000);
  const auto small = [&] { return out(y.data(), 10); };
  (void)context.barrier();
  (void)context.allreduce(in(x.data(), 10), small());
  (void)context.allreduce(in(x.data(), x.size()), out(y.data(), y.size()));
  (void)context.neighbor_allreduce(in(x.data(), x.size()), out(y.data(), y.size()));
  (void)context.broadcast(in(x.data(), 10), small(), 0);
  if (Result<Named> named = context.named(); named.ok()) {
    (void)named->allreduce("a", in(x.data(), 10), small());
    (void)named->neighbor_allreduce("b", in(x.data(), 10), small());
    (void)named->end();
  }
  if (Result<Window> window = context.win_create(out(x.data(), 100), "w"); window.ok()) {
    (void)window->put(out(x.data(), 100));
    (void)window->accumulate(out(x.data(), 100));
    (void)window->update();
    (void)context.win_free("w");
  }
}

}  // namespace

// Several pairs, one after the other. They close together, because an end waits for what was lost.
std::string feed_messages(std::string_view bytes, const std::string&) {
  std::array<std::unique_ptr<Pair>, 6> pairs;
  const Changing changing(bytes);
  std::mt19937 random(static_cast<unsigned>(std::hash<std::string_view>()(bytes)));
  std::vector<std::thread> ends;
  for (std::unique_ptr<Pair>& pair : pairs) {
    pair = std::make_unique<Pair>();
    for (int turn = 0; turn < 1000; ++turn) pair->turn(turn % 2, random);
    ends.emplace_back([&pair] { pair.reset(); });
  }
  for (std::thread& end : ends) end.join();
  return "";
}

std::string feed_job(std::string_view bytes, const std::string&) {
  Config config;
  config.transports = {.automatic = false, .shm = false, .ib = false, .ucx = true};
  config.interfaces = "lo";
  config.deadline_ms = kDeadlineMs;
  config.log = LogLevel::off;
  config.heap_mib = 256;
  const auto stores = make_local_stores(2).value();
  const std::int64_t begin = now_ns();
  {
    const Changing changing(bytes);
    std::vector<std::thread> ranks;
    for (const std::shared_ptr<Store>& store : stores) {
      ranks.emplace_back([&config, &store] {
        if (Result<std::unique_ptr<Context>> context = Context::create(config, store); context.ok())
          take_part(**context);
        (void)store->goodbye(Deadline::after_ms(kDeadlineMs));
      });
    }
    for (std::thread& rank : ranks) rank.join();
  }
  constexpr int kCalls = 16;  // that may each wait for their deadline
  const std::int64_t took_ms = (now_ns() - begin) / 1'000'000;
  return took_ms < kCalls * kDeadlineMs + kSlackMs ? "" : "a call that waited beyond its deadline";
}

std::vector<std::string> seeds() {
  return {"a seed", "another seed", std::string(16, '\0')};
}

}  // namespace weft::fuzz
