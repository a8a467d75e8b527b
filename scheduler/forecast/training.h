// training: ranks that compute and exchange in virtual time, as their strategy says. Internal to the module.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "scheduler/forecast/fabric.h"

namespace weft {

class Training;

// A strategy: what its ranks exchange, and who waits for whom. It ends each iteration by Training::end().
class TrainingModel {
 public:
  explicit TrainingModel(Training& training) : training_(training) {}
  virtual ~TrainingModel() = default;
  TrainingModel(const TrainingModel&) = delete;
  TrainingModel& operator=(const TrainingModel&) = delete;

  // The rank begins an iteration: what travels beside the computation starts.
  virtual void begun(Rank) {}
  // The rank has computed its gradient.
  virtual void computed(Rank rank) = 0;

 protected:
  [[nodiscard]] Training& training() const { return training_; }

 private:
  Training& training_;
};

class Training {
 public:
  explicit Training(const TrainingJob& job);

  // The whole job. Within the bounds of forecast() it ends.
  [[nodiscard]] TrainingForecast run(TrainingModel& model);

  [[nodiscard]] const TrainingJob& job() const { return job_; }
  [[nodiscard]] Fabric& fabric() { return fabric_; }
  [[nodiscard]] Draws& draws() { return draws_; }
  [[nodiscard]] double now() const { return now_; }
  [[nodiscard]] const std::vector<Rank>& all() const { return all_; }  // ranks

  // The number of the rank's iteration, from 0.
  [[nodiscard]] std::uint64_t iteration(Rank rank) const { return of(rank).iteration; }
  [[nodiscard]] double computed_us(Rank rank) const { return of(rank).computed_us; }

  void at(double when, std::function<void()> happens);
  // The rank's iteration ends then, and its next one begins.
  void end(Rank rank, double when);
  void drop() { ++dropped_; }  // a gradient

  // Whether this is the last of `count` that come to a place, which is named by two numbers.
  [[nodiscard]] bool is_last(std::uint64_t step, Rank place, std::size_t count);
  // Something comes to a place, and is there at that time. The last of `count` that come learns when all are
  // there; before, nothing.
  [[nodiscard]] std::optional<double> arrive(std::uint64_t step, Rank place, std::size_t count,
                                             double when);

 private:
  struct Worker {
    std::uint64_t iteration = 0;
    double computed_us = 0;  // in its last iteration
  };
  struct Event {
    double when = 0;
    std::uint64_t number = 0;
    std::function<void()> happens;
    bool operator<(const Event& other) const {
      return std::pair(when, number) > std::pair(other.when, other.number);
    }
  };
  struct Arrivals {
    std::size_t count = 0;
    double last = 0;
  };
  // At the end of the first quarter.
  struct Mark {
    double when = 0, sent = 0;
    std::uint64_t dropped = 0;
    std::vector<double> busy_us{};
  };

  [[nodiscard]] Worker& of(Rank rank) { return workers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Worker& of(Rank rank) const {
    return workers_[static_cast<std::size_t>(rank)];
  }
  void begin(Rank rank);
  [[nodiscard]] TrainingForecast told(std::uint64_t ended) const;

  const TrainingJob& job_;
  Fabric fabric_;
  Draws draws_;
  TrainingModel* model_ = nullptr;
  std::vector<Rank> all_;
  std::vector<Worker> workers_;
  std::priority_queue<Event> agenda_;
  std::map<std::pair<std::uint64_t, Rank>, Arrivals> arrivals_;
  double now_ = 0;
  std::uint64_t events_ = 0, ended_ = 0, dropped_ = 0;
  Mark mark_;
};

}  // namespace weft
