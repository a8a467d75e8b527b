// tasks: puts, gets and raw transfers of a window on their way through the lane. The tasks of one
// window take effect one after the other, in the order of the calls: each waits for its turn.
//
// Threads: the holder of the lane's token. What touches the tensor or a slot takes the window's
// mutex. Internal to the module.
#pragma once

#include <weft/window.h>

#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "engine/lane/lane.h"
#include "engine/one_sided/one_sided.h"
#include "engine/window/layout.h"
#include "engine/window/locks.h"
#include "engine/window/on_gpu.h"
#include "engine/window/timeline.h"

namespace weft {
class WindowObject;
}

namespace weft::window {

class SlotReader;
class SlotWriter;

// What all tasks have in common: their turn, their copies from GPUs and to them, the mutexes that they
// hold, and their end.
class Task : public OperationStep {
 public:
  // `locks`: the mutexes to be held for the duration; may be null.
  Task(CallName call, WindowObject& window, std::unique_ptr<Locks> locks)
      : window_(window), call_(call), locks_(std::move(locks)) {}
  [[nodiscard]] CallName call() const { return call_; }
  // For a task whose caller does not wait.
  void keep_window();
  void set_staging(Staging staging) { staging_ = std::move(staging); }
  [[nodiscard]] bool has_handle() const { return owner_ != nullptr; }
  bool advance() final;
  void abandon(const Status& why) final;
  [[nodiscard]] bool is_over() const final { return step_ == Step::over; }
  [[nodiscard]] const Status& status() const final { return status_; }

 protected:
  [[nodiscard]] virtual Status begin() = 0;
  virtual bool proceed() = 0;  // returns whether anything was done
  [[nodiscard]] virtual bool is_done() const = 0;
  virtual void give_up(const Status& why) = 0;
  [[nodiscard]] virtual Status finish() = 0;  // all went well or not: what is the status?
  // Whether finish() has changed what is to be stored although the task has failed.
  [[nodiscard]] virtual bool stores_anyway() const { return false; }

  // What is left until the deadline of the call, for one that holds mutexes or copies; else all of it.
  [[nodiscard]] std::int64_t patience_ns() const;
  // The task is used again, for another call.
  void begin_anew(CallName call, std::unique_ptr<Locks> locks);

  WindowObject& window_;

 private:
  enum class Step : std::uint8_t { waits, fetches, locks, works, asks, stores, unlocks, over };
  void note(const Status& status);
  [[nodiscard]] Status named(const Status& status) const;
  void ask();
  bool has_answer();
  // Begins the step, or the one after it if there is nothing to do in it.
  void fetch();
  void lock();
  void store();
  void unlock();
  void end();
  // Whether the copies have ended; too late is an end, too.
  bool have_copies_ended();

  std::shared_ptr<WindowObject> owner_;
  CallName call_;
  std::unique_ptr<Locks> locks_;
  Staging staging_;
  std::int64_t end_ns_ = 0;  // the deadline of the call; it begins with its turn
  std::int64_t asks_end_ns_ = 0;
  Step step_ = Step::waits;
  Status abandoned_;
  Status status_;
};

// A put or an accumulate at several out-neighbors.
class PutTask final : public Task {
 public:
  struct Target {
    SlotWriter* writer = nullptr;
    double weight = 1.0;
  };
  explicit PutTask(WindowObject& window) : Task(CallName::put, window, nullptr) {}
  // Before the task runs, each time.
  void prepare(bool accumulates, const Output& x, const WindowPut& how,
               std::unique_ptr<Locks> locks);
  [[nodiscard]] std::vector<Target>& targets() { return targets_; }

 private:
  Status begin() override;
  bool proceed() override;
  bool is_done() const override;
  void give_up(const Status& why) override;
  Status finish() override;
  bool stores_anyway() const override { return self_weight_ != 1.0; }

  bool accumulates_ = false;
  Output x_;
  double self_weight_ = 1.0;
  int signal_ = -1;
  Compression compression_ = Compression::none;
  std::vector<Target> targets_;
  Status first_;  // the first error at a target
};

// Reads the tensors of several in-neighbors into our slots.
class GetTask final : public Task {
 public:
  struct Source {
    SlotReader* reader = nullptr;
    double weight = 1.0;
    Place tensor;
    Place part;
    Chain chain{};
    Spread spread{};
    bool has_failed_spread = false;
    bool spreads = false;  // the tensor comes over several rails, now
    std::uint64_t before = 0;
    std::uint64_t after = 0;
    double p = 0;
    bool is_done = false;
  };
  GetTask(WindowObject& window, std::unique_ptr<Locks> locks, std::vector<Source> sources);

 private:
  Status begin() override;
  bool proceed() override;
  bool is_done() const override;
  void give_up(const Status& why) override;
  Status finish() override;
  void ask(Source& source) const;
  void ask_rest(Source& source) const;
  bool go_on(Source& source) const;

  std::vector<Source> sources_;
};

// Writes pages to the tensor of one neighbor, or reads a part of it.
class RawTask final : public Task {
 public:
  struct Part {
    std::byte* local = nullptr;
    std::size_t bytes = 0;
    std::size_t offset = 0;
  };
  // `writer`: whose signal is raised after a write; null for reads.
  RawTask(WindowObject& window, const Place& tensor, std::vector<Part> parts, SlotWriter* writer,
          int signal);

 private:
  Status begin() override;
  bool proceed() override { return chain_.advance(); }
  bool is_done() const override { return chain_.is_over(); }
  void give_up(const Status& why) override { chain_.give_up(why); }
  Status finish() override;

  const Place tensor_;
  const std::vector<Part> parts_;
  SlotWriter* const writer_;
  const int signal_;
  Chain chain_;
};

// Takes a turn, and does nothing but copy.
class FlushTask final : public Task {
 public:
  explicit FlushTask(WindowObject& window) : Task(CallName::flush, window, nullptr) {}

 private:
  Status begin() override { return {}; }
  bool proceed() override { return false; }
  bool is_done() const override { return true; }
  void give_up(const Status& /*why*/) override {}
  Status finish() override { return {}; }
};

// Waits for what `is_there` looks for, and for the lane's other work meanwhile.
class WaitTask final : public OperationStep {
 public:
  // Of a wait for tasks, each of which has a deadline.
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  // `late`: the error if the time has come; empty: none. `lost`: ok, or why what is waited for can
  // come no more; empty: it always can. `ended`: called with the result, if not empty.
  WaitTask(std::function<bool()> is_there, std::int64_t end_ns, std::function<Status()> late = {},
           std::function<Status()> lost = {}, std::function<void(const Status&)> ended = {})
      : is_there_(std::move(is_there)),
        end_ns_(end_ns),
        late_(std::move(late)),
        lost_(std::move(lost)),
        ended_(std::move(ended)) {}
  bool advance() override;
  void abandon(const Status& why) override;
  [[nodiscard]] bool is_over() const override { return is_over_; }
  [[nodiscard]] const Status& status() const override { return status_; }

 private:
  void end(const Status& status);

  const std::function<bool()> is_there_;
  const std::int64_t end_ns_;
  const std::function<Status()> late_;
  const std::function<Status()> lost_;
  const std::function<void(const Status&)> ended_;
  bool is_over_ = false;
  Status status_;
};

// Tells an in-neighbor what was read of its messages. Waits for no turn.
class TellTask final : public OperationStep {
 public:
  TellTask(const Place& part, std::size_t offset, std::uint64_t base, std::int64_t patience_ns);
  bool advance() override { return chain_.advance(); }
  void abandon(const Status& why) override { chain_.give_up(why); }
  [[nodiscard]] bool is_over() const override { return chain_.is_over(); }
  [[nodiscard]] const Status& status() const override { return chain_.status(); }

 private:
  const std::uint64_t base_;
  Chain chain_;
};

}  // namespace weft::window
