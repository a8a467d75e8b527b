// prague, prague:random: groups of the generator, which each rank asks at the beginning of an iteration.
#include "scheduler/forecast/table.h"
#include "scheduler/partial/partial.h"

namespace weft {
namespace {

class GroupsModel : public TrainingModel {
 public:
  GroupsModel(Training& training, GroupLaw::Kind kind)
      : TrainingModel(training),
        generator_(GroupGenerator::open(options_of(training, kind)).value()),
        workers_(training.all().size()) {}

  void begun(Rank rank) override {
    if (!is_exchange(rank)) return;
    const auto computed_us = static_cast<std::uint64_t>(training().computed_us(rank));
    tell([this, rank, computed_us] {
      const auto at_us = static_cast<std::uint64_t>(training().now()) + 1;  // 0: not known
      return generator_.request(rank, computed_us, at_us);
    });
  }
  void computed(Rank rank) override {
    if (!is_exchange(rank)) return training().end(rank, training().now());
    Worker& worker = of(rank);
    worker.has_computed = true;
    if (worker.group != 0) join(worker.group);
  }

 private:
  struct Worker {
    bool has_computed = false;
    std::uint64_t group = 0;  // that runs for it; 0: none
    bool answers = false;
  };
  struct Group {
    std::vector<Rank> members;
    std::size_t ready = 0;  // members that have computed, and know of it
  };

  static GroupOptions options_of(const Training& training, GroupLaw::Kind kind) {
    const TrainingJob& job = training.job();
    GroupOptions options{.size = job.ranks, .seed = job.seed};
    options.law = {.kind = kind, .group_size = job.group_size.value_or(GroupLaw{}.group_size)};
    for (const Rank rank : training.all()) options.machine.push_back(rank / job.per_machine);
    return options;
  }
  [[nodiscard]] Worker& of(Rank rank) { return workers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] bool is_exchange(Rank rank) const {
    const auto section = static_cast<std::uint64_t>(training().job().section.value_or(1));
    return (training().iteration(rank) + 1) % section == 0;
  }

  // A message to the generator, and what it sends because of it.
  void tell(std::function<Status()> event) {
    const double latency_us = training().fabric().latency_us();
    training().at(training().now() + latency_us, [this, latency_us, event = std::move(event)] {
      const Status status = event();
      invariant(status.ok(), "a worker tells the generator what has happened");
      for (const GroupAssignment& each : generator_.assignments()) {
        Group& group = groups_[each.group];
        if (group.members.empty()) group.members.assign(each.members.begin(), each.members.end());
        training().at(training().now() + latency_us,
                      [this, to = each.to, number = each.group, answers = each.answers] {
                        take(to, number, answers);
                      });
      }
    });
  }
  void take(Rank rank, std::uint64_t group, bool answers) {
    Worker& worker = of(rank);
    worker.group = group;
    worker.answers = answers;
    if (worker.has_computed) join(group);
  }
  void join(std::uint64_t number) {
    Group& group = groups_.at(number);
    if (++group.ready < group.members.size()) return;
    const TrainingJob& job = training().job();
    const double end = group.members.size() < 2
                           ? training().now()
                           : training().fabric().average(training().now(), group.members,
                                                         job.model_bytes, AverageWay::by_machine);
    training().at(end, [this, number] { leave(number); });
  }
  // Whose request it answers begins the next iteration; the others wait for their groups.
  void leave(std::uint64_t number) {
    const std::vector<Rank> members = std::move(groups_.at(number).members);
    groups_.erase(number);
    for (const Rank rank : members) {
      Worker& worker = of(rank);
      worker.group = 0;
      tell([this, rank, number] { return generator_.done(rank, number); });
      if (!worker.answers) continue;
      worker.has_computed = false;
      training().end(rank, training().now());
    }
  }

  GroupGenerator generator_;
  std::vector<Worker> workers_;            // by rank
  std::map<std::uint64_t, Group> groups_;  // that run, by number
};

}  // namespace

std::unique_ptr<TrainingModel> forecast_prague(Training& training) {
  return std::make_unique<GroupsModel>(training, GroupLaw::Kind::smart);
}
std::unique_ptr<TrainingModel> forecast_prague_random(Training& training) {
  return std::make_unique<GroupsModel>(training, GroupLaw::Kind::random);
}

}  // namespace weft
