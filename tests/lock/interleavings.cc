// The world of interleavings.h, and the ways through it.
#include "tests/lock/interleavings.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace weft {
namespace {

constexpr std::int64_t kDeadlineNs = 1'000;
constexpr RemoteBuffer kWord{PieceForm::view, 64, 8};

LockOptions without_waits(Rank rank) {
  LockOptions options;
  options.self = rank;
  options.shortest_wait_ns = options.longest_wait_ns = 0;
  return options;
}

}  // namespace

World::World(const WorldOptions& options) : options_(options) {
  for (std::size_t c = 0; c < options_.ranks.size(); ++c) {
    Client& client = clients_.emplace_back();
    client.rank = options_.ranks[c];
    client.wants = options_.wants;
    for (std::size_t earlier = 0; earlier < c && !options_.separate_attempts; ++earlier) {
      if (clients_[earlier].rank == client.rank) client.attempts = clients_[earlier].attempts;
    }
    if (client.attempts == nullptr) client.attempts = &attempts_.emplace_back();
    client.paths.emplace_back(0);
    client.lock = std::make_unique<Lock>(client.paths.back(), kWord, *client.attempts,
                                         without_waits(client.rank));
  }
}

bool World::is_due(const Client& client) const {
  return client.lock->next_ns() == 0;
}

std::vector<World::Event> World::events() const {
  std::vector<Event> events;
  for (std::size_t c = 0; c < clients_.size(); ++c) {
    const Client& client = clients_[c];
    if (!client.alive) continue;
    const LockState state = client.lock->state();
    if (is_due(client)) events.push_back({What::advance, c});
    if (state == LockState::idle && client.wants > 0) events.push_back({What::acquire, c});
    if (state == LockState::held) events.push_back({What::release, c});
    const bool waits = state == LockState::taking || state == LockState::releasing;
    if (waits && !client.lock->is_settling() && options_.deadlines > 0)
      events.push_back({What::late, c});
    if (client.lock->busy() && options_.cuts > 0) events.push_back({What::cut, c});
    if (options_.deaths > 0) events.push_back({What::die, c});
  }
  for (std::size_t s = 0; s < swaps_.size(); ++s) {
    events.push_back({swaps_[s].landed ? What::answer : What::land, s});
    if (!swaps_[s].landed && options_.repeats > 0) events.push_back({What::repeat, s});
  }
  return events;
}

void World::happen(const Event& event) {
  switch (event.what) {
    case What::advance:
      return advance(event.which, 0);
    case What::acquire:
      --clients_[event.which].wants;
      (void)clients_[event.which].lock->acquire(kDeadlineNs);
      return;
    case What::release:
      (void)clients_[event.which].lock->release(kDeadlineNs);
      return;
    case What::late:
      --options_.deadlines;
      return advance(event.which, kDeadlineNs);
    case What::die:
      return die(clients_[event.which].rank);
    case What::cut:
      return cut(event.which);
    case What::land:
      return land(swaps_[event.which]);
    case What::answer:
      return answer(event.which);
    case What::repeat:
      --options_.repeats;
      swaps_.push_back(swaps_[event.which]);
      swaps_.back().found = nullptr;
      return;
  }
}

// Whoever sees a dead holder knows that it is dead.
void World::advance(std::size_t which, std::int64_t now_ns) {
  Client& client = clients_[which];
  const LockWord seen = client.lock->seen();
  const auto is_dead = [&](const Client& other) {
    return !other.alive && other.rank == seen.holder;
  };
  if (client.lock->state() == LockState::taking && std::ranges::any_of(clients_, is_dead))
    (void)client.lock->take_over(seen);
  client.lock->advance(now_ns);
  FakeEndpoint& path = client.paths.back();
  if (path.works.empty()) return;
  const WorkRequest posted = path.works.front();
  path.works.pop_front();
  client.in_doubt = false;
  client.expected = posted.expected;
  client.desired = posted.desired;
  swaps_.push_back({which, posted.expected, posted.desired, posted.found});
}

void World::land(Swap& swap) {
  const bool equal = ((word_ ^ swap.expected) & ~options_.ignored_bits) == 0;
  swap.result = equal ? swap.expected : word_;
  swap.landed = true;
  if (equal) word_ = swap.desired;
  std::erase_if(swaps_, [](const Swap& one) { return one.landed && one.found == nullptr; });
}

void World::answer(std::size_t which) {
  const Swap swap = swaps_[which];
  swaps_.erase(swaps_.begin() + static_cast<std::ptrdiff_t>(which));
  *swap.found = swap.result;
  clients_[swap.client].lock->completed({}, 0);
}

// What was under way may still land, and is answered to nobody.
void World::forsake(std::size_t which) {
  for (Swap& swap : swaps_) {
    if (swap.client == which) swap.found = nullptr;
  }
  std::erase_if(swaps_, [](const Swap& swap) { return swap.landed && swap.found == nullptr; });
}

void World::cut(std::size_t which) {
  --options_.cuts;
  Client& client = clients_[which];
  const Status why(Code::unavailable, "cut", 0);
  client.paths.back().abandon(why);
  forsake(which);
  client.lock->completed(why, 0);
  client.in_doubt = true;
  client.lock->rejoin(client.paths.emplace_back(0));
}

void World::die(Rank rank) {
  --options_.deaths;
  for (std::size_t c = 0; c < clients_.size(); ++c) {
    if (clients_[c].rank != rank) continue;
    clients_[c].alive = false;
    forsake(c);
  }
}

std::string World::signature() const {
  std::string text = fmt::format("{:x} {}{}{}{}", word_, options_.cuts, options_.repeats,
                                 options_.deadlines, options_.deaths);
  for (const Client& client : clients_) {
    const Lock& lock = *client.lock;
    text += fmt::format("|{}{}{}{}{} {} {:x} {:x} {:x}", client.alive, client.in_doubt,
                        client.wants, static_cast<int>(lock.state()), lock.busy(),
                        lock.status().ok() + 2 * lock.is_settling(), client.expected,
                        client.desired, pack(lock.seen()));
  }
  std::vector<std::string> flying;
  for (const Swap& swap : swaps_) {
    flying.push_back(fmt::format(";{} {:x} {:x} {}{} {:x}", swap.client, swap.expected,
                                 swap.desired, swap.found != nullptr, swap.landed, swap.result));
  }
  std::ranges::sort(flying);
  return text + fmt::format("{}", fmt::join(flying, ""));
}

std::string World::breach() const {
  int holders = 0;
  for (const Client& client : clients_) {
    if (!client.alive || client.lock->state() != LockState::held) continue;
    if (++holders > 1) return "two ranks hold the lock";
    if (((word_ ^ client.desired) & ~options_.ignored_bits) != 0)
      return fmt::format("rank {} holds the lock and the word does not say so", client.rank);
  }
  return {};
}

bool World::is_good_end() const {
  const Rank holder = unpack(word_).holder;
  return swaps_.empty() && std::ranges::all_of(clients_, [&](const Client& client) {
           return !client.alive || (client.wants == 0 && client.rank != holder &&
                                    client.lock->state() == LockState::idle);
         });
}

namespace {

// The graph of states, by number; a course of events leads to each.
class Explorer {
 public:
  explicit Explorer(const WorldOptions& options) : options_(options) {}

  Explored run() {
    World world(options_);
    enter(world, {});
    while (!open_.empty() && wrong_.empty()) {
      const std::size_t state = open_.back();
      open_.pop_back();
      expand(state);
    }
    if (wrong_.empty()) look_for_dead_ends();
    return {before_.size(), wrong_};
  }

 private:
  using Course = std::vector<World::Event>;

  World replay(const Course& course) const {
    World world(options_);
    for (const World::Event& event : course) world.happen(event);
    return world;
  }

  std::size_t enter(const World& world, const Course& course) {
    const auto [place, is_new] = numbers_.emplace(world.signature(), before_.size());
    if (!is_new) return place->second;
    before_.emplace_back();
    courses_.push_back(course);
    good_.push_back(world.is_good_end());
    open_.push_back(place->second);
    if (wrong_.empty()) wrong_ = world.breach();
    return place->second;
  }

  void expand(std::size_t state) {
    Course course = std::move(courses_[state]);
    World world = replay(course);
    const std::vector<World::Event> events = world.events();
    for (std::size_t e = 0; e < events.size(); ++e) {
      World next = replay(course);
      next.happen(events[e]);
      course.push_back(events[e]);
      before_[enter(next, course)].push_back(state);
      course.pop_back();
    }
  }

  void look_for_dead_ends() {
    std::vector<std::size_t> reached;
    for (std::size_t state = 0; state < good_.size(); ++state) {
      if (good_[state]) reached.push_back(state);
    }
    for (std::size_t next = 0; next < reached.size(); ++next) {
      for (const std::size_t state : before_[reached[next]]) {
        if (good_[state]) continue;
        good_[state] = true;
        reached.push_back(state);
      }
    }
    if (reached.size() != good_.size()) wrong_ = "a state from which no good end is reached";
  }

  const WorldOptions options_;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<std::vector<std::size_t>> before_;  // the states from which one is reached
  std::vector<Course> courses_;                   // of those that are open
  std::vector<bool> good_;                        // a good end is reached from it
  std::vector<std::size_t> open_;
  std::string wrong_;
};

}  // namespace

Explored explore(const WorldOptions& options) {
  return Explorer(options).run();
}

// By chance all of it ends; the bound is for a lock that is lost.
std::string play(const WorldOptions& options, std::uint64_t seed) {
  constexpr int kMostEvents = 200'000;
  std::mt19937_64 random(seed);
  World world(options);
  for (int n = 0; n < kMostEvents; ++n) {
    const std::vector<World::Event> events = world.events();
    if (events.empty()) break;
    world.happen(events[random() % events.size()]);
    if (std::string wrong = world.breach(); !wrong.empty()) return wrong;
  }
  return world.is_good_end() ? "" : "no good end is reached: " + world.signature();
}

}  // namespace weft
