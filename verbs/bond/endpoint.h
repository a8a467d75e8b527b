// BondEndpoint: the connection to one peer over several paths. Its parts are the numbered notices
// (Streams), the choice of a path (PathSelector), one-sided work (OneSided), and what keeps the paths
// going: notes about them (Notes), giving them up (Recovery), connecting them again (Comeback,
// Reserve) and moving them to other ports (PortTrials).
//
// Owner: the BondInterface, in whose lane everything here runs. Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/bond/comeback.h"
#include "verbs/bond/notes.h"
#include "verbs/bond/one_sided.h"
#include "verbs/bond/path.h"
#include "verbs/bond/ports.h"
#include "verbs/bond/recovery.h"
#include "verbs/bond/reserve.h"
#include "verbs/bond/selector.h"
#include "verbs/bond/streams.h"

namespace weft::bond {

class BondInterface;

class BondEndpoint final : public Endpoint {
 public:
  BondEndpoint(BondInterface& bond, std::string address, std::vector<Path> paths);

  // The address of the peer's networks, as it was when we connected.
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] bool peer_closed() const override;
  [[nodiscard]] std::string describe() const override;
  void abandon(const Status& why) override;

  Posted post(std::uint32_t channel, const WireHeader& header, std::span<const std::byte> payload,
              Payload how) override {
    return streams_.post(channel, header, payload, how);
  }
  Status expect_pieces(std::span<const std::byte> memory, PieceMemory where) override;
  [[nodiscard]] Notice front(std::uint32_t channel) override { return streams_.front(channel); }
  void release(std::uint32_t channel) override { streams_.release(channel); }
  // Notices that came before their turn are counted, too.
  [[nodiscard]] std::uint64_t arrived(std::uint32_t channel) override {
    return streams_.arrived(channel);
  }
  [[nodiscard]] std::uint64_t posted(std::uint32_t channel) const override {
    return streams_.posted(channel);
  }
  [[nodiscard]] std::uint64_t released(std::uint32_t channel) override {
    return streams_.released(channel);
  }
  // What the peer has released. Until then a payload's source is needed, because its path may fail
  // and another has to carry it.
  [[nodiscard]] std::uint64_t locally_completed(std::uint32_t channel) override {
    return released(channel);
  }
  Posted post_work(const WorkRequest& work) override { return one_sided_.post(work); }
  [[nodiscard]] WorkState work_state() const override { return one_sided_.state(); }
  Status import_region_as(std::uint32_t number, std::string_view key) override {
    return one_sided_.import_region(number, key);
  }
  void drop_region(std::uint32_t number) override { one_sided_.drop_region(number); }
  [[nodiscard]] Endpoint* over(int member) override { return one_sided_.over(member); }
  void prefer_rail(std::uint32_t channel, int rail, PreferFrom from) override {
    selector_.prefer_rail(channel, rail, from);
  }
  void use_members(std::span<const int> ours, std::span<const int> theirs) override {
    selector_.use_members(ours, theirs);
  }

  [[nodiscard]] std::vector<PathReport> path_reports() const override;

  // Called at every turn: takes notes about paths, and posts again the notices that a fence showed
  // to be missing. Returns false if none of this has changed what the endpoint shows.
  bool progress();
  [[nodiscard]] bool flushed() const {
    return notes_.empty() && !streams_.misses() && (lives() || !failure_.ok());
  }
  // Called now and then (kLookNs): looks at links, rates and silence, and tries paths again.
  void look(std::int64_t now);
  // Called when the peer has spoken on a connection that belongs to no path: it may have connected
  // a path anew, perhaps over other ports.
  void look_for_returns(std::int64_t now);
  // Another endpoint has taken the place of this one.
  void be_replaced() { trials_.end(); }
  // Aborts if the paths or the figures about them contradict each other. For tests, after any turn.
  void check() const;

  // For the endpoint's parts.
  [[nodiscard]] BondInterface& bond() const { return bond_; }
  [[nodiscard]] std::vector<Path>& paths() { return paths_; }
  [[nodiscard]] Streams& streams() { return streams_; }
  [[nodiscard]] PathSelector& selector() { return selector_; }
  [[nodiscard]] OneSided& one_sided() { return one_sided_; }
  [[nodiscard]] Notes& notes() { return notes_; }
  [[nodiscard]] Recovery& recovery() { return recovery_; }
  [[nodiscard]] Comeback& comeback() { return comeback_; }
  [[nodiscard]] Reserve& reserve() { return reserve_; }
  // Whether a path is live, and whether it is the only one.
  [[nodiscard]] bool lives() const;
  [[nodiscard]] bool is_last(const Path& path) const;
  void fail(const Status& why);

 private:
  BondInterface& bond_;
  std::string address_;
  std::vector<Path> paths_;
  Streams streams_;
  PathSelector selector_;
  OneSided one_sided_;
  Notes notes_;
  Recovery recovery_;
  Comeback comeback_;
  Reserve reserve_;
  PortTrials trials_;
};

}  // namespace weft::bond
