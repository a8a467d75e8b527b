// BondInterface: the members of a bond, and an endpoint for each peer. Internal to the module.
#pragma once

#include <unordered_map>

#include "verbs/bond/address.h"
#include "verbs/bond/bond.h"
#include "verbs/bond/endpoint.h"

namespace weft::bond {

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
  [[nodiscard]] std::int64_t silence_ns() const { return options_.silence_ms * 1'000'000; }
  [[nodiscard]] std::int64_t return_ns() const { return options_.return_ms * 1'000'000; }
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
