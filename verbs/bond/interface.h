// The classes behind bond.h. Internal to the module.
#pragma once

#include <deque>
#include <map>
#include <unordered_map>

#include "verbs/bond/address.h"
#include "verbs/bond/bond.h"
#include "verbs/bond/path.h"

namespace weft::bond {

class BondInterface;

// A note: what two bonds tell each other about one of their paths. It travels as a notice of kind
// `path` on the control channel of a path, outside of the numbered stream. Frozen with the wire
// version.
struct PathNote {
  enum class What : std::uint32_t {
    // I gave up path `path`: take what has come there and say how much. Two words of 64 bits
    // follow: for how many nanoseconds I do not try the path again, and 1 if nothing failed on it
    // (Comeback::stands).
    fence = 1,
    fenced = 2,  // taken: `taken` notices per channel follow
    probe = 3,   // does this path work?
    echo = 4,    // it does
  };
  What what = What::probe;
  std::uint16_t path = 0;
  std::uint16_t generation = 0;  // of the path
};
static_assert(sizeof(PathNote) == 8);

// Whether generation a comes after b; they wrap around.
[[nodiscard]] inline bool is_newer(std::uint16_t a, std::uint16_t b) {
  return static_cast<std::int16_t>(static_cast<std::uint16_t>(a - b)) > 0;
}

// A pair of ports that no path uses (ports.cc).
struct SparePorts {
  Ports ports;
  Endpoint* trial = nullptr;     // the connection over them, while they are tried
  std::int64_t answered_ns = 0;  // for how long the trial was seen connected
};

class BondEndpoint final : public Endpoint {
 public:
  BondEndpoint(BondInterface& bond, std::string address, std::vector<Path> paths);

  // The address of the peer's networks, as it was when we connected.
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] bool peer_closed() const override;

  Posted post(std::uint32_t channel, const WireHeader& header, std::span<const std::byte> payload,
              Payload how) override;
  Status expect_pieces(std::span<const std::byte> memory, PieceMemory where) override;
  void prefer_rail(std::uint32_t channel, int rail, PreferFrom from) override;
  void use_members(std::span<const int> ours, std::span<const int> theirs) override;
  [[nodiscard]] Notice front(std::uint32_t channel) override;
  void release(std::uint32_t channel) override;
  // Notices that came before their turn are counted, too.
  [[nodiscard]] std::uint64_t arrived(std::uint32_t channel) override;
  [[nodiscard]] std::uint64_t posted(std::uint32_t channel) const override {
    return channels_[channel].posted;
  }
  [[nodiscard]] std::uint64_t released(std::uint32_t channel) override;
  // What the peer has released. Until then a payload's source is needed, because its path may fail
  // and another has to carry it.
  [[nodiscard]] std::uint64_t locally_completed(std::uint32_t channel) override {
    return released(channel);
  }

  Posted post_work(const WorkRequest& work) override;
  [[nodiscard]] WorkState work_state() const override;
  void abandon(const Status& why) override;
  Status import_region_as(std::uint32_t number, std::string_view key) override;
  void drop_region(std::uint32_t number) override;
  [[nodiscard]] Endpoint* over(int member) override;

  // Called at every turn: takes notes about paths, and posts again the notices that a fence showed
  // to be missing. Returns false if none of this has changed what the endpoint shows.
  bool progress();
  [[nodiscard]] bool flushed() const {
    return notes_.empty() && missing_ == 0 && (lives() || !failure_.ok());
  }
  // Called now and then (kLookNs): looks at links, rates and silence, and tries paths again.
  void look(std::int64_t now);
  // Ends all trials of ports: no more are needed, or the endpoint was replaced.
  void end_trials();
  // Called when the peer has spoken on a connection that belongs to no path: it may have connected
  // a path anew, perhaps over other ports.
  void look_for_returns(std::int64_t now);
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] const std::vector<Path>& paths() const { return paths_; }
  // Aborts if the paths or the figures about them contradict each other. For tests, after any turn.
  void check() const;

 private:
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  static constexpr std::uint64_t kUnbound = ~std::uint64_t{0};

  // A notice that the peer has not released.
  struct Sent {
    WireHeader header;
    std::span<const std::byte> payload;
    std::vector<std::byte> copy;  // of a payload that was copied
    std::uint64_t path_number;    // posted() of its path just after it was posted there
    std::uint32_t path;
    Payload how;
    bool taken;              // the fence of its path says that the peer took it: counts as released
    bool missing;            // that fence says that the peer did not: to be posted again
    bool locally_completed;  // its path's Flow no longer counts it as under way
  };
  // A notice that came before its turn, kept after a fence.
  struct Kept {
    WireHeader header;
    std::vector<std::byte> payload;
  };
  struct Channel {
    std::vector<Sent> sent;  // ring, by number
    std::uint64_t posted = 0;
    std::uint64_t released = 0;
    std::uint64_t next = 0;            // the number that front() shows next
    std::size_t preferred = kNowhere;  // the path that its pieces prefer
    PreferFrom prefers_from = PreferFrom::start;
    std::map<std::uint32_t, Kept> kept;  // by stamp
    bool shown = false;                  // front() has returned that number from its path
    // By path. `taken`: how many notices were taken from it. `bound`: how many may be: all, or,
    // after its fence, those that had come by then. `before`: how many were taken in
    // Generations::before. `locally_completed`: the path's locally_completed() at the last
    // count_completions().
    std::vector<std::uint64_t> taken, bound, before, locally_completed;
  };

  // rate.cc
  void measure(std::int64_t now);
  [[nodiscard]] double highest_rate(const Path& path) const;
  [[nodiscard]] bool do_used_carry_well(std::int64_t now) const;
  void close_sample(Path& path, std::int64_t now);
  void count_slowness(Path& path, std::int64_t now);
  [[nodiscard]] double rate_beside(const Path& path, std::int64_t now) const;
  void look_for_slowness(std::size_t path, std::int64_t now);

  // post.cc
  void choose_used();
  [[nodiscard]] std::size_t choose(std::uint64_t bytes, std::int64_t now) const;
  [[nodiscard]] bool is_worth(const Channel& state, std::int64_t now) const;
  [[nodiscard]] Endpoint* path_of_work(std::uint64_t bytes);
  // one_sided.cc: lets the path's endpoint know all regions that were imported.
  void bring_regions(Path& path) const;
  Posted post_on(std::size_t path, std::uint32_t channel, Sent& sent);
  static void count_completed(Path& path, Sent& sent, std::int64_t now);
  void count_completions(Channel& state, std::uint32_t channel, std::int64_t now);
  // The next notice that may be taken from a path.
  [[nodiscard]] Notice front_on(std::uint32_t channel, std::size_t path);
  void release_on(std::uint32_t channel, std::size_t path);
  bool keep_early(std::uint32_t channel);
  bool keep_early_on(std::uint32_t channel, std::size_t path);
  bool keep(std::uint32_t channel, std::size_t path, const Notice& notice);
  void keep_aside(std::size_t path);

  // recover.cc
  void give_up(std::size_t path, const Status& why, Loss loss = Loss::failed);
  bool take_notes();  // whether there was one
  void handle(std::size_t from, const PathNote& note, std::span<const std::byte> counts);
  void fence(std::size_t path);
  void resolve(const PathNote& note, std::span<const std::byte> counts);
  void ask_open_fences();
  void post_missing();
  void look_for_silence(std::size_t path, std::int64_t now);
  [[nodiscard]] bool owes(std::size_t path) const;
  [[nodiscard]] bool waits_for_a_fence() const;
  void say(PathNote::What what, std::size_t path, std::size_t over);
  void send_notes();
  [[nodiscard]] bool carries_notes(std::size_t path) const {
    return paths_[path].live() || paths_[path].returning();
  }
  // Whether no more is taken from the path than had come when the peer gave it up.
  [[nodiscard]] bool is_fenced(std::size_t path) const {
    return channels_.front().bound[path] != kUnbound;
  }

  // check.cc
  void check_path(std::size_t path) const;

  // reserve.cc
  [[nodiscard]] bool lives() const;
  void wait_for_return(const Status& why);
  [[nodiscard]] bool is_last(std::size_t path) const;
  void seek_reserve(std::int64_t now);
  void turn_to_reserve(const Status& why, std::int64_t now);
  void look_for_reserve(std::int64_t now);
  [[nodiscard]] bool may_return(std::size_t path);
  void fail(const Status& why);

  // comeback.cc
  void look_for_return(std::size_t path, std::int64_t now);
  [[nodiscard]] bool is_sought(std::size_t path) const;
  void hear_of_proof(std::size_t path);
  [[nodiscard]] std::int64_t longest_wait_ns() const;
  [[nodiscard]] std::int64_t wait_before_return(const Path& path, bool judged,
                                                std::int64_t now) const;
  void wait_as_told(std::size_t path, std::span<const std::byte> told);
  [[nodiscard]] bool is_drained(std::size_t path) const;
  void begin_anew(std::size_t path, Endpoint& endpoint);
  void come_back(std::size_t path);
  void hear_of_past(std::size_t from, const PathNote& note);
  void hear_of_future(std::size_t from, const PathNote& note);

  // ports.cc
  void look_for_ports(std::int64_t now);
  [[nodiscard]] bool tries_ports() const;
  void find_spares();
  bool end_round();
  bool begin_round();
  enum class Trial : std::uint8_t { begun, no_place, impossible };
  Trial begin_trial(SparePorts& spare);
  void judge_trial(SparePorts& spare, std::int64_t passed_ns, std::int64_t now);
  Endpoint* take_trial(SparePorts& spare);
  void end_trial(SparePorts& spare);
  void follow_ports(std::int64_t now);
  [[nodiscard]] bool are_free(const Ports& ports) const;
  [[nodiscard]] std::size_t path_to_move(const Ports& ports) const;
  void move_path(std::size_t path, SparePorts& spare, Endpoint& endpoint, std::int64_t now);

  BondInterface& bond_;
  std::string address_;
  std::vector<Path> paths_;
  std::vector<SparePorts> spares_;  // while a path was never connected
  int round_ = 0;                   // of trials; it lasts until round_until_ns_
  std::int64_t round_until_ns_ = 0;
  std::int64_t looked_ns_ = 0;  // when ports were looked at last
  std::vector<Channel> channels_;
  struct Note {
    PathNote note;
    std::size_t over;  // the path that carries it; kNowhere: any that lives
  };
  std::deque<Note> notes_;  // to be sent
  std::size_t missing_ = 0;
  Endpoint* worked_on_ = nullptr;                 // the path that took one-sided work last
  std::map<std::uint32_t, std::string> regions_;  // keys of the peer's regions, by number
  std::uint32_t newest_region_ = 0;               // the last number that was imported
  std::vector<int> used_;                         // use_members(): ours, and the peer's
  std::vector<int> peer_used_;
  bool uses_all_ = true;    // every path that is live may be used
  bool recovered_ = false;  // a path was fenced once: numbers may come out of order on one path
  // While no path is live: why the last one is not, and until when paths that may return are waited
  // for.
  Status last_;
  std::int64_t reserve_until_ns_ = 0;
};

class BondInterface final : public Interface {
 public:
  static Result<std::unique_ptr<Interface>> open(const BondOptions& options,
                                                 const BondMember* memory,
                                                 std::vector<BondMember> networks,
                                                 AddressResolver resolver);
  ~BondInterface() override;

  [[nodiscard]] std::string address() const override;
  Result<Endpoint*> connect(Rank peer, std::string_view address) override;
  Result<Region> expose(std::span<std::byte> memory) override;
  void withdraw(std::uint32_t number) override;
  bool progress() override;
  [[nodiscard]] bool flushed() const override;
  std::size_t poll(std::span<Completion> completions) override;
  Result<Endpoint*> attention() override;
  void sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) override;
  void wake() override;
  [[nodiscard]] Result<int> descriptor() override;
  [[nodiscard]] bool arm() override;
  void disarm() override;
  void close() override;
  [[nodiscard]] std::size_t endpoint_bytes() const override;

  // Aborts if a path violates an invariant. For tests, after any turn.
  void check() const;

  [[nodiscard]] const BondOptions& options() const { return options_; }
  [[nodiscard]] std::int64_t now() const { return options_.clock(); }
  // Notes that the member's endpoint `path` belongs to `whole`.
  void own(const Endpoint& path, BondEndpoint& whole) { owners_[&path] = &whole; }
  void disown(const Endpoint& path) { owners_.erase(&path); }
  // The ports of ours and of the peer's that `pairs`, one of pair_members() and other_pairs(), puts
  // together.
  using Pairs = std::vector<MemberPair> (*)(const BondAddress& low, const BondAddress& high);
  [[nodiscard]] std::vector<Ports> ports_to(Rank peer, const BondAddress& theirs,
                                            Pairs pairs) const;
  // All ports that can be tried for a path, those of other_pairs() first.
  [[nodiscard]] std::vector<Ports> ports_to_try(Rank peer, const BondAddress& theirs) const;
  // Counts a trial of ports. False if the bond has no place for one more, of all peers together:
  // each trial takes queue pairs, and places in a receive queue that peers may need.
  [[nodiscard]] bool add_trial();
  void drop_trial() { --trials_; }
  // The link of a member, as the last look found it.
  [[nodiscard]] const Status& link_of(const Interface& member) const;

 private:
  // A member and how it is known to peers.
  struct Member {
    std::string kind;
    std::string rail;
    std::unique_ptr<Interface> interface;
    int node = -1;
    std::string device;
    Status link;
  };

  BondInterface(const BondOptions& options, AddressResolver resolver);
  Status open_networks(std::vector<BondMember> networks);
  Result<std::string> address_for(std::size_t member, Rank peer);
  Result<Endpoint*> connect_networks(Rank peer, const BondAddress& theirs, std::string reasons);
  [[nodiscard]] BondAddress own_address() const;

  BondOptions options_;
  AddressResolver resolver_;
  std::unique_ptr<Interface> memory_;
  int memory_node_ = -1;
  std::vector<Member> networks_;
  std::unordered_map<Rank, std::unique_ptr<BondEndpoint>> endpoints_;
  std::vector<std::unique_ptr<BondEndpoint>> replaced_;
  std::unordered_map<const Endpoint*, BondEndpoint*> owners_;  // of paths
  // The regions that are exposed: with each, its number at every member that exposes it.
  using MemberRegions = std::vector<std::pair<Interface*, std::uint32_t>>;
  std::unordered_map<std::uint32_t, MemberRegions> exposed_;
  std::size_t trials_ = 0;
  std::uint32_t turns_ = 0;
  std::int64_t looked_ns_ = 0;
  Fd all_;  // of descriptor()
};

}  // namespace weft::bond
