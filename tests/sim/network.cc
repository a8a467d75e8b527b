#include "tests/sim/network.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "tests/sim/work.h"

namespace weft {
namespace {

Status unavailable(std::string text) {
  return Status(Code::unavailable, std::move(text));
}

}  // namespace

class SimEndpoint final : public Endpoint {
 public:
  SimEndpoint(SimInterface& own, const EndpointProperties& properties, std::size_t there,
              std::uint32_t channels, Completions& completions, bool silent)
      : Endpoint(properties, true),
        own_(own),
        there_(there),
        channels_(channels),
        work_(properties.peer, completions),
        silent_(silent) {}

  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool peer_closed() const override;
  void abandon(const Status& why) override {
    if (!failure_.ok()) return;
    failure_ = why;
    work_.collect(failure_);
  }

  Posted post(std::uint32_t channel, const WireHeader& header, std::span<const std::byte> payload,
              Payload how) override;
  Status expect_pieces(std::span<const std::byte> memory, PieceMemory where) override;
  [[nodiscard]] Notice front(std::uint32_t channel) override {
    const std::deque<Arrival>& arrived = channels_[channel].arrived;
    if (arrived.empty()) return {};
    return {&arrived.front().header, arrived.front().payload.data()};
  }
  void release(std::uint32_t channel) override;
  [[nodiscard]] std::uint64_t arrived(std::uint32_t channel) override {
    return channels_[channel].taken + channels_[channel].arrived.size();
  }
  [[nodiscard]] std::uint64_t posted(std::uint32_t channel) const override {
    return channels_[channel].posted;
  }
  [[nodiscard]] std::uint64_t released(std::uint32_t channel) override {
    return channels_[channel].released;
  }
  // As on real networks what is small was copied, and completes locally when all before it is.
  [[nodiscard]] std::uint64_t locally_completed(std::uint32_t channel) override {
    Channel& state = channels_[channel];
    if (!failure_.ok()) return state.posted;
    while (state.copied < state.flying.size() && state.flying[state.copied].source.empty())
      ++state.copied;
    return state.locally_completed + state.copied;
  }
  Posted post_work(const WorkRequest& work) override;
  [[nodiscard]] WorkState work_state() const override { return work_.state(); }
  Status import_region_as(std::uint32_t number, std::string_view key) override;
  void drop_region(std::uint32_t number) override { work_.drop_region(number); }

 private:
  friend class SimInterface;
  friend class SimNetwork;

  struct Arrival {
    WireHeader header;
    std::vector<std::byte> payload;
  };
  struct Flying {
    Arrival notice;
    std::span<const std::byte> source;  // of a piece
    std::uint64_t due = 0;
  };
  struct Channel {
    std::deque<Flying> flying;         // to the peer
    std::size_t copied = 0;            // the first of them, as far as they were looked at
    std::deque<std::uint64_t> credit;  // due times of releases on their way back to the peer
    std::deque<Arrival> arrived;
    std::uint64_t posted = 0, released = 0, locally_completed = 0, taken = 0;
  };

  void look_at_connection();
  void deliver(SimEndpoint& from);
  void deliver_work(SimEndpoint& from, bool haunted);
  void stretch(double factor);

  SimInterface& own_;
  std::size_t there_;  // the peer's interface
  std::vector<Channel> channels_;
  SimWork work_;
  bool silent_;
  bool late_ = false;
  double sending_until_ = 0;  // the turn in which the network has taken all that was posted
};

class SimInterface final : public Interface {
 public:
  SimInterface(SimNetwork& network, Rank rank, const InterfaceOptions& options, std::string name)
      : Interface(std::move(name), network.options_.piece_bytes, network.options_.reconnects),
        network_(network),
        rank_(rank),
        options_(options),
        number_(network.interfaces_.size()) {
    network.interfaces_.push_back(this);
  }
  ~SimInterface() override { network_.interfaces_[number_] = nullptr; }

  [[nodiscard]] std::string address() const override { return std::to_string(number_); }
  Result<Endpoint*> connect(Rank peer, std::string_view address) override {
    return &endpoint(peer, std::stoul(std::string(address)));
  }
  Result<Endpoint*> reconnect(Rank peer, std::string_view address) override {
    if (!reconnects_) return Interface::reconnect(peer, address);
    const std::size_t there = std::stoul(std::string(address));
    SimEndpoint& newest = endpoint(peer, there);
    if (newest.failure().ok()) return &newest;
    return &endpoint(peer, there, endpoints_[there].size());
  }
  [[nodiscard]] Endpoint* heard_from(Rank, std::string_view address) override {
    const auto found = endpoints_.find(std::stoul(std::string(address)));
    if (found == endpoints_.end()) return nullptr;
    SimEndpoint& newest = *found->second.back();
    const bool speaks = newest.failure().ok() && newest.front(kControlChannel).header != nullptr;
    return speaks ? &newest : nullptr;
  }
  [[nodiscard]] Status link() const override {
    const bool sees = network_.is_pulled() ? network_.unplugged_ == rank_ : !network_.is_secret_;
    return network_.is_cut_ && sees ? unavailable("no carrier") : Status();
  }
  bool progress() override {
    ++network_.turn_;
    for (auto& [there, mine] : endpoints_) {
      for (auto& end : mine) end->look_at_connection();
      SimInterface* peer = network_.interfaces_[there];
      if (peer == nullptr) continue;
      for (std::size_t k = 0; k < mine.size(); ++k) {
        if (k == 0 || !network_.is_cut_) mine[k]->deliver(peer->endpoint(rank_, number_, k));
      }
    }
    return true;
  }
  std::size_t poll(std::span<Completion> completions) override {
    for (auto& [there, ends] : endpoints_) {
      for (auto& end : ends) end->work_.collect(end->failure_);
    }
    return completions_.poll(completions);
  }
  Result<Region> expose(std::span<std::byte> memory) override {
    RegionKey key;
    key.owner = owner();
    key.word = reinterpret_cast<std::uintptr_t>(memory.data());
    key.bytes = memory.size();
    key.number = new_region_number();
    regions_[key.number] = memory;
    return Region{key.number, encode(key)};
  }
  void withdraw(std::uint32_t number) override { regions_.erase(number); }
  Result<Endpoint*> attention() override {
    for (auto& [there, mine] : endpoints_) {
      if (mine.back()->front(kControlChannel).header != nullptr) return mine.back().get();
    }
    return nullptr;
  }
  void sleep(std::int64_t, const std::function<bool()>& ready) override { (void)ready(); }
  void wake() override {}
  [[nodiscard]] Result<int> descriptor() override { return unavailable("nothing to poll"); }
  [[nodiscard]] bool arm() override { return false; }
  void disarm() override {}
  void close() override { closed_ = true; }
  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] std::size_t endpoint_bytes() const override { return 0; }

 private:
  friend class SimEndpoint;
  friend class SimNetwork;

  [[nodiscard]] std::uint64_t owner() const { return owner_of(number_); }
  // Tells the interface of this number in our network from all others.
  [[nodiscard]] std::uint64_t owner_of(std::size_t number) const {
    return reinterpret_cast<std::uintptr_t>(&network_) + number;
  }
  SimEndpoint& endpoint(Rank peer, std::size_t there) {
    return endpoint(peer, there, std::max<std::size_t>(endpoints_[there].size(), 1) - 1);
  }
  // The k-th that connected these two. The first word of a later one ends those before.
  SimEndpoint& endpoint(Rank peer, std::size_t there, std::size_t k) {
    std::vector<std::unique_ptr<SimEndpoint>>& known = endpoints_[there];
    while (known.size() <= k) {
      if (!known.empty()) known.back()->abandon(unavailable("the peer connects anew"));
      EndpointProperties properties{
          .peer = peer,
          .keeps_order = network_.options_.keeps_order,
          .process_access = unavailable("a simulated network has no such access")};
      known.push_back(std::make_unique<SimEndpoint>(*this, properties, there, options_.channels,
                                                    completions_,
                                                    network_.is_cut_ && !network_.is_pulled()));
      known.back()->look_at_connection();
    }
    return *known[k];
  }

  SimNetwork& network_;
  Rank rank_;
  InterfaceOptions options_;
  std::size_t number_;
  bool closed_ = false;
  Completions completions_;
  SimRegions regions_;
  std::map<std::size_t, std::vector<std::unique_ptr<SimEndpoint>>> endpoints_;
};

std::uint64_t SimNetwork::delayed(std::uint64_t turn) {
  return turn + 1 + random_() % options_.longest_delay;
}

template <typename Do>
void SimNetwork::for_ends(Do&& what) const {
  for (SimInterface* interface : interfaces_) {
    if (interface == nullptr) continue;
    for (auto& [there, ends] : interface->endpoints_) {
      for (auto& end : ends) what(*end);
    }
  }
}

void SimNetwork::set_rate(double bytes_per_turn) {
  const double factor = options_.bytes_per_turn / bytes_per_turn;
  options_.bytes_per_turn = bytes_per_turn;
  if (factor != 0) for_ends([factor](SimEndpoint& end) { end.stretch(factor); });
}

void SimNetwork::set_connected(bool connected) {
  is_connected_ = connected;
  for_ends([](SimEndpoint& end) { end.look_at_connection(); });
}

std::unique_ptr<Interface> SimNetwork::open(Rank rank, const InterfaceOptions& options,
                                            std::string name) {
  return std::make_unique<SimInterface>(*this, rank, options, std::move(name));
}

void SimNetwork::cut(const Interface& a, const Interface& b, Cut how) {
  auto& first = *interfaces_[std::stoul(a.address())];
  auto& second = *interfaces_[std::stoul(b.address())];
  is_cut_ = true;
  is_secret_ = how != Cut::told;
  unplugged_ = how == Cut::pulled ? first.rank_ : kNoRank;
  if (how == Cut::pulled) return;
  for (SimEndpoint* end : {&first.endpoint(second.rank_, second.number_),
                           &second.endpoint(first.rank_, first.number_)}) {
    end->silent_ = true;
    end->late_ = how == Cut::late;
    if (end->failure_.ok()) end->work_.hold_copies();
    // What was on its way is in the network's own buffers, unless its sender had given up before.
    for (SimEndpoint::Channel& state : end->channels_) {
      for (SimEndpoint::Flying& flying : state.flying) {
        if (flying.source.empty() || !end->failure_.ok()) continue;
        flying.notice.payload = options_.read_of(flying.source);
        flying.source = {};
      }
    }
    if (how == Cut::told || (how == Cut::half && &end->own_ == &first))
      end->abandon(unavailable("the cable was cut"));
  }
}

Status SimEndpoint::expect_pieces(std::span<const std::byte> memory, PieceMemory where) {
  return own_.network_.options_.read ? Status() : Endpoint::expect_pieces(memory, where);
}

bool SimEndpoint::peer_closed() const {
  const SimInterface* peer = own_.network_.interfaces_[there_];
  return peer == nullptr || peer->closed();
}

Posted SimEndpoint::post(std::uint32_t channel, const WireHeader& header,
                         std::span<const std::byte> payload, Payload how) {
  Channel& state = channels_[channel];
  if (!failure_.ok() || state.posted - state.released == own_.options_.slots) return Posted::full;
  SimNetwork& network = own_.network_;
  sending_until_ = std::max(sending_until_, static_cast<double>(network.turn_));
  if (network.options_.bytes_per_turn != 0) {
    const std::size_t bytes = sizeof header + payload.size();
    sending_until_ += static_cast<double>(bytes) / network.options_.bytes_per_turn;
  }
  const std::uint64_t last = state.flying.empty() ? 0 : state.flying.back().due;
  const auto sent = static_cast<std::uint64_t>(sending_until_);
  Flying& flying = state.flying.emplace_back();
  flying.notice.header = header;
  if (how == Payload::copied)
    flying.notice.payload.assign(payload.begin(), payload.end());
  else
    flying.source = payload;
  flying.due = std::max(last, network.delayed(sent));
  ++state.posted;
  return Posted::posted;
}

void SimEndpoint::release(std::uint32_t channel) {
  Channel& state = channels_[channel];
  state.arrived.pop_front();
  ++state.taken;
  const std::uint64_t last = state.credit.empty() ? 0 : state.credit.back();
  state.credit.push_back(std::max(last, own_.network_.delayed(own_.network_.turn_)));
}

Status SimEndpoint::import_region_as(std::uint32_t number, std::string_view keys) {
  WEFT_ASSIGN(const RegionKey key,
              find_region_key(keys, RegionWay::test, own_.owner_of(there_), peer()));
  work_.import_region(number, key);
  return {};
}

Posted SimEndpoint::post_work(const WorkRequest& work) {
  SimNetwork& network = own_.network_;
  const Status over = own_.closed() ? Status(Code::closed, "flushed by close") : failure_;
  return work_.post(
      work, over, [&network] { return network.delayed(network.turn_); }, properties_.keeps_order);
}

// An end that was abandoned is closed: no work lands there any more.
void SimEndpoint::deliver_work(SimEndpoint& from, bool haunted) {
  SimNetwork& network = own_.network_;
  const auto delay = [&network] { return network.delayed(network.turn_); };
  if (!failure_.ok()) from.work_.drop_flying();
  from.work_.land(network.turn_, own_.regions_, from.failure_.ok(), delay);
  if (!haunted && failure_.ok()) work_.take_answers(network.turn_);
}

// What is not there yet takes `factor` times as long from now on.
void SimEndpoint::stretch(double factor) {
  const auto now = static_cast<double>(own_.network_.turn_);
  const auto later = [&](double turn) { return turn <= now ? turn : now + (turn - now) * factor; };
  sending_until_ = later(sending_until_);
  for (Channel& state : channels_) {
    for (Flying& flying : state.flying)
      flying.due = static_cast<std::uint64_t>(later(static_cast<double>(flying.due)));
  }
}

void SimEndpoint::look_at_connection() {
  connected_ = own_.network_.is_connected_ && own_.network_.reaches_(own_.number_, there_);
}

std::string SimEndpoint::describe() const {
  return std::string(own_.name());
}

// Lets in what `from` sent to us and is due, and what it released of ours.
void SimEndpoint::deliver(SimEndpoint& from) {
  const std::uint64_t now = own_.network_.turn_;
  const bool haunted = late_ && (!failure_.ok() || !from.failure_.ok());
  if ((silent_ && !haunted) || own_.network_.is_pulled()) return;
  if (!own_.network_.reaches_(there_, own_.number_)) return;
  deliver_work(from, haunted);
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    Channel& theirs = from.channels_[c];
    while (!theirs.flying.empty() && theirs.flying.front().due <= now) {
      SimEndpoint::Flying& flying = theirs.flying.front();
      if (!flying.source.empty()) {
        if (!from.failure_.ok()) break;  // its sender let no more be read
        flying.notice.payload = own_.network_.options_.read_of(flying.source);
      }
      if (const auto& change = own_.network_.options_.change) {
        const WireHeader before = flying.notice.header;
        WireHeader& header = flying.notice.header;
        change(std::as_writable_bytes(std::span(&header, 1)), flying.notice.payload);
        header.form = before.form;
        header.bytes = before.bytes;
      }
      channels_[c].arrived.push_back(std::move(flying.notice));
      theirs.flying.pop_front();
      if (theirs.copied != 0) --theirs.copied;
      ++theirs.locally_completed;
      ++own_.network_.delivered_;
    }
    while (!theirs.credit.empty() && theirs.credit.front() <= now && !haunted) {
      theirs.credit.pop_front();
      ++channels_[c].released;
    }
  }
}

}  // namespace weft
