// The protocol that connects two interfaces, decision by decision.
#include "verbs/ib/conversation.h"

#include <algorithm>
#include <utility>

namespace weft::ib {
namespace {

// Greetings are repeated, first soon, then at most ten times a second; each candidate pair is tried
// so many times before the next.
constexpr std::int64_t kFirstAgainNs = 4'000'000;
constexpr std::int64_t kLastAgainNs = 100'000'000;
constexpr std::uint32_t kTriesEach = 3;
// The leader says `ready` over a pair kTriesOfChoice times, for an eighth of a second in all,
// before it looks at other pairs; and kTriesBeforeAgain times before it looks again at pairs that
// it has given up.
constexpr std::uint32_t kTriesOfChoice = 5;
constexpr std::uint32_t kTriesBeforeAgain = 15;

}  // namespace

void Conversation::send_due(std::int64_t now) {
  if (waiting_) take(*std::exchange(waiting_, std::nullopt), now);
  if (unsent_ns_ != 0) {
    const Result<bool> known = side_.knows_way(pair_, port_);
    if (known.ok() && *known) next_ns_ = now;
  }
  if (now < next_ns_ || is_confirmed() || side_.is_over()) return;
  const std::int64_t again = kFirstAgainNs << std::min(attempts_, 8U);
  next_ns_ = now + std::min(again, kLastAgainNs);
  if (level_ == Level::asking && !candidates_.empty())
    pair_ = candidates_[attempts_ / kTriesEach % candidates_.size()];
  if (pair_.gid_index >= 0) greet(now);
  if (unsent_ns_ == 0 || now - unsent_ns_ > kLastAgainNs) ++attempts_;
}

void Conversation::greet(std::int64_t now) {
  const Result<bool> sent = side_.greet();
  const bool is_unsent = sent.ok() && !*sent;
  if (!is_unsent) unsent_ns_ = 0;
  if (is_unsent && unsent_ns_ == 0) unsent_ns_ = now;
  // While another pair can be tried, one whose neighbor is not found is no error yet.
  if (!sent.ok() && (level_ != Level::asking || candidates_.size() < 2)) side_.warn(sent.status());
}

void Conversation::take(const Greeting& greeting, std::int64_t now) {
  if (!may_answer(greeting) || is_early(greeting)) return;
  if (level_ == Level::asking) {
    answer_along(greeting);
    if ((leads_ || greeting.level != Level::asking) && !join(greeting, false)) return;
  } else if (level_ == Level::ready && gives_up_for(greeting)) {
    if (!move_on(greeting)) return;
  }
  const Level proof = leads_ ? Level::ready : Level::confirmed;
  if (level_ != Level::asking && greeting.choice == choice_ && greeting.level >= proof) confirm();
  if (greeting.level != Level::confirmed) greet(now);
}

// Whether the greeting can be answered now; if its way back is not known yet, it waits. Once the
// way back is known, connecting the queue pairs along it looks up no neighbor either.
bool Conversation::may_answer(const Greeting& greeting) {
  const Result<bool> known =
      side_.knows_way(side_.route_back(greeting), {greeting.datagrams, greeting.lid});
  if (!known.ok()) side_.warn(known.status());
  if (known.ok() && !*known) waiting_ = greeting;
  return known.ok() && *known;
}

// Whether the leader waits for a question over a better kind of address. The other asks kTriesEach times over each
// of its pairs and begins again, so one question more over the same pair has come after all of them.
bool Conversation::is_early(const Greeting& greeting) {
  if (!leads_ || is_confirmed() || greeting.level != Level::asking) return false;
  const RoutePair back = side_.route_back(greeting);
  if (back.kind != GidKind::roce_v1 || std::ranges::count(early_, back) >= kTriesEach) return false;
  if (std::ranges::find(candidates_, GidKind::roce_v2, &RoutePair::kind) == candidates_.end())
    return false;
  early_.push_back(back);
  return true;
}

// The pair over which the greeting came works in its direction; the answer goes back the same way.
void Conversation::answer_along(const Greeting& greeting) {
  pair_ = side_.route_back(greeting);
  port_ = {greeting.datagrams, greeting.lid};
}

// Whether this end gives its pair up for the one on which the greeting came. The leader does so for
// the pair of a question, if the other has not agreed to its choice for a while. The other does so
// for a later choice of the leader. The leader takes a pair again that it gave up, but only later
// (kTriesBeforeAgain).
bool Conversation::gives_up_for(const Greeting& greeting) {
  if (!leads_) return greeting.level == Level::ready && greeting.choice > choice_;
  const bool agrees = greeting.level != Level::asking && greeting.choice == choice_;
  if (agrees || attempts_ < kTriesOfChoice) return false;
  const RoutePair back = side_.route_back(greeting);
  if (attempts_ >= kTriesBeforeAgain) refuted_.clear();
  return back != pair_ && std::ranges::find(refuted_, back) == refuted_.end();
}

bool Conversation::move_on(const Greeting& greeting) {
  if (leads_) refuted_.push_back(pair_);
  answer_along(greeting);
  if (!join(greeting, true)) return false;
  if (leads_) ++choice_;
  return true;
}

// Connects the queue pairs. False: that cannot be done, and Side::fail() was called.
bool Conversation::join(const Greeting& greeting, bool anew) {
  if (const Status joined = side_.connect(greeting, anew); !joined.ok()) {
    side_.fail(joined);
    return false;
  }
  level_ = Level::ready;
  if (!leads_) choice_ = greeting.choice;
  attempts_ = 0;
  return true;
}

void Conversation::connect_to_self(const RoutePair& pair, const Greeting& own) {
  pair_ = pair;
  if (join(own, false)) confirm();
}

void Conversation::confirm() {
  level_ = Level::confirmed;
  side_.confirmed();
}

}  // namespace weft::ib
