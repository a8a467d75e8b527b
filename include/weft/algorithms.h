// algorithms: methods of decentralized learning, on top of contexts and windows (weft/window.h).
//
//   const weft::Schedule schedule = *weft::one_peer_exponential(n);
//   auto push_sum = weft::PushSum::create(context, schedule, weft::out(x, m));
//   for (;;) {
//     push_sum->begin_step();                 // shares of x travel to this step's receivers
//     compute_gradient(z, slope);             // meanwhile
//     push_sum->end_step();                   // x := the share that was kept + what has arrived
//     for (i…) x[i] -= gamma * slope[i];
//     push_sum->debias(weft::out(z, m));      // z := x / w, an estimate of the mean
//   }
//
// PushSum            SGP (Assran et al., Stochastic Gradient Push, Algorithm 1)
// DPsgd              D-PSGD with one peer a step, as the SGP paper measures it (appendix A)
// AdPsgd             AD-PSGD (Prague, Figure 3), on any graph and without deadlocks
// PartialAllreduce   partial all-reduce in groups that a generator makes (Prague)
// BoundedStaleness   how far a rank may be ahead of its neighbors (Canary, 4; Prague, 2.2)
//
// create() and end() are collective: all ranks call them with the same names, counts, types and
// options, in the same order. The memory given to create() must outlive the object, and
// weft::allocate() saves copies. The context must outlive the object.
//
// That memory may be on a GPU, on some ranks or on all, and so may z and y. Calls then begin behind the work in
// the `stream` of the options, or in the default stream, and what they write is there when they return.
//
// But for PartialAllreduce that memory is a window's tensor. end() frees the windows. An object that
// is destroyed without end() leaves them to the context: other ranks may still use the memory, which
// must then stay until the context closes, or have an `owner`.
//
// Threads: one thread at a time may use an object, but AdPsgd may be used by several.
//
// Errors name the rank that is at fault, and every wait ends within Config::deadline_ms. Only
// floating types can be averaged; others are invalid_argument. If one rank gives create() wrong
// arguments, or other ones than the others, all ranks have the error, and no window is left.
#pragma once

#include <weft/graph/schedule.h>
#include <weft/status.h>
#include <weft/types.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace WEFT_PUBLIC weft {

class Context;

// PushSumOptions::lag for an exchange that waits for nobody.
inline constexpr std::uint64_t kAnyLag = std::numeric_limits<std::uint64_t>::max();

struct PushSumOptions {
  // Of the windows; begins their names.
  std::string name = "push_sum";
  // How many steps the messages of others may be late (tau). The end of step k waits for the
  // messages of steps 0…k-lag. With 0 the exchange is synchronous.
  std::uint64_t lag = 0;
  // Owns the memory of x, as WindowOptions::owner does.
  std::shared_ptr<const void> owner{};
  std::optional<Stream> stream{};  // of a GPU
};

// Push-sum over a schedule whose columns sum to 1 (SGP, section 2; Algorithm 1, lines 5 to 8).
//
// Rank i holds a tensor x_i and a weight w_i, which is 1 at first. At step k it keeps the share
// p_ii of both and sends p_ji of both to each receiver j:
//   x_i := sum_j p_ij x_j,   w_i := sum_j p_ij w_j,   z_i := x_i / w_i
// The sums of x and of w over all ranks and messages under way never change. So z converges to the
// mean of the x, even if ranks receive different numbers of messages. Receivers take no part in
// sending. Between the steps the caller may change x, for example by a gradient step.
//
// Synchronous (lag 0): step k gives exactly the sums above. With the one-peer exponential schedule,
// each of 2^m ranks has the exact mean after m steps. A rank waits for the messages that the
// schedule has for it in this step. A sender waits until its last message to the same rank was
// taken.
//
// With a lag: a step takes whatever has arrived, and waits only for messages that are later than
// the lag. Before the last debias(), settle() takes the messages that are still under way.
//
// Memory: a window of the graph of all edges of the schedule, which create() sets as the context's
// graph. If lag is 0, the graph also has the opposite edges, by which ranks acknowledge what they
// took.
class PushSum {
 public:
  // `x`: this rank's tensor, which the steps change. Other windows may exist only if the context's
  // graph is this one already.
  static Result<PushSum> create(Context& context, const Schedule& schedule, const Output& x,
                                const PushSumOptions& options = {});
  ~PushSum();
  PushSum(PushSum&&) noexcept;
  PushSum& operator=(PushSum&&) noexcept;

  // Sends this step's shares. From here to end_step() x belongs to the step.
  Status begin_step();
  // Waits as the lag says, and adds to x what has arrived. After the patience (negative:
  // Config::deadline_ms) the result is timed_out and names the rank that is late. The step has not
  // ended then, and end_step() may be called again. After any other error later steps return that
  // error.
  Status end_step(std::int64_t patience_ns = -1);
  // Both.
  Status step();

  // z := x / w. z has the shape of x. Not between begin_step() and end_step().
  Status debias(const Output& z);
  // w.
  [[nodiscard]] Result<double> weight();
  // The steps that have ended.
  [[nodiscard]] std::uint64_t steps() const;

  // Waits until no message is under way, and takes all. Collective.
  Status settle();
  // Frees the windows. Collective.
  Status end();

 private:
  class State;
  explicit PushSum(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// Decentralized parallel SGD with one peer a step (Lian et al. 2017; SGP, appendix A): the ranks
// pair up, and each pair exchanges and averages. The pairs wait for each other.
//   x_i := w_ii x_i + w_ij x_j, for the j that the schedule has for i in this step
class DPsgd {
 public:
  // The schedule pairs ranks, as undirected_one_peer() does. Not collective.
  static Result<DPsgd> create(Context& context, const Schedule& schedule);

  // y := the average; may be the same memory as x. A rank without a peer in this step keeps x.
  // invalid_argument if the schedule has another receiver than sender for this rank.
  Status step(const Input& x, const Output& y);
  // The steps that have ended.
  [[nodiscard]] std::uint64_t steps() const { return step_; }

 private:
  DPsgd(Context& context, const Schedule& schedule) : context_(&context), schedule_(schedule) {}

  Context* context_;
  Schedule schedule_;
  std::uint64_t step_ = 0;
};

struct AdPsgdOptions {
  std::string name = "ad_psgd";  // of the window
  std::uint64_t seed = 1;        // of the choice of peers; each rank makes its own of it
  // Owns the memory of the model, as WindowOptions::owner does.
  std::shared_ptr<const void> owner{};
  std::optional<Stream> stream{};  // of a GPU
};

// Asynchronous decentralized parallel SGD (Lian et al. 2018; Prague, section 2.3 and Figure 3):
// now and then a rank averages its model with that of a neighbor, as one indivisible step:
//   x_i, x_j := (x_i + x_j) / 2
// The neighbor takes no part and is not interrupted.
//
// Prague shows that the original method deadlocks unless the graph is bipartite and only one side
// begins. Here every rank may begin, on any graph. A rank that averages holds the mutexes of both
// ranks, and takes them in ascending order of the ranks. So ranks cannot wait for each other in a
// circle: the one that holds the highest mutex waits for no other of them.
//
// A program may change the model only in update(), because other ranks write to it at any time. A model on a GPU
// is kept in host memory, to which other ranks write. The caller's tensor is given it by update(), before the
// change, and by averages of this rank; in between nobody else writes to the tensor.
//
// If a rank dies or leaves, the others go on. A mutex that it held passes to the next waiter. If it
// dies while it averages, each element of its peer's model is as before the average or as after it.
class AdPsgd {
 public:
  // `model`: this rank's x. The graph is the context's; a rank averages with its out-neighbors.
  static Result<AdPsgd> create(Context& context, const Output& model,
                               const AdPsgdOptions& options = {});
  ~AdPsgd();
  AdPsgd(AdPsgd&&) noexcept;
  AdPsgd& operator=(AdPsgd&&) noexcept;

  // Averages with this out-neighbor. After an error the own model is as before.
  Status average_with(Rank peer);
  // Averages with a random out-neighbor and returns it; kNoRank if there is none. The error
  // peer_died or peer_left names the one that is gone, and later calls choose among the others.
  Result<Rank> average();
  // Runs `change` while nobody else reads or writes the model. It must not use this object.
  Status update(const std::function<void()>& change);
  // y := the model, as it is between two averages.
  Status read(const Output& y);

  // Frees the window. Collective.
  Status end();

 private:
  class State;
  explicit AdPsgd(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

struct PartialAllreduceOptions {
  std::string name = "partial_allreduce";  // begins what errors say
  // How groups are made:
  //   smart, smart:SIZE    all workers without a group are divided at once, by machine and by speed
  //   random, random:SIZE  each request makes a group of its worker and random others
  //   pairs                random groups of two, as in AD-PSGD
  //   static               a schedule that each rank computes alone; the ranks take equally many steps
  // SIZE: workers of a group, 3 if it is not given. Smart groups may be whole machines as well.
  std::string law = "smart";
  // Smart: a worker is slow if others compute at least so many iterations while it computes one. At
  // least 2. Nobody waits for a slow worker.
  int threshold = 2;
  // Averages only in every so many calls of average() (Prague, Fig. 17).
  int section = 1;
  std::uint64_t seed = 1;          // of the groups
  std::optional<Stream> stream{};  // of a GPU
};

// Partial all-reduce (Luo et al., Prague, ASPLOS 2020): in each iteration a worker averages its
// model with a small group of workers instead of with all of them.
//
//   for (;;) {
//     partial.begin();             // asks for a group; the answer comes while the worker computes
//     compute_gradient(x, slope);
//     for (i…) x[i] -= gamma * slope[i];
//     partial.average();           // x := the mean of x over the group
//   }
//   partial.end();
//
// A generator on the lowest rank makes the groups. A worker asks it at the beginning of an
// iteration. At the end of the iteration the worker takes part in the groups that it was put into
// meanwhile, up to the one that answers its request. All members of a group get the same bits. The
// sum of the models over all ranks never changes by an average.
//
// average() asks for the next group as it returns. So begin() is needed at most before the first
// average(), and each iteration costs a worker one small message in each direction. The time from
// the end of average() to its next call is the time that the worker computes; the smart law tells
// slow workers by it.
//
// The ranks may take different numbers of iterations. A rank that has done with training calls
// end(), and is in no group that is made after that. But it takes part in the groups that it is in
// already, so its model may change. It returns when all ranks have called end(). A rank that is
// destroyed without end() has left the others, as if it had died.
//
// If ranks die, the others go on without them, with an error of no call; usage() counts it. The
// lowest rank that is alive has the generator from then on. It waits until all others have told it
// where they are, so this once they all wait for the slowest. A group that lost a member runs with
// the others. The static schedule goes on with those that are left, in the iteration of the one that is
// ahead; the others average with nobody until then. A rank that drops the object without end() has left as
// if it had died. Other objects of the context fail with a death as always.
//
// Between two averages a rank must not wait for what another rank does after an average, as in a
// collective operation: the other one may wait in a group for this rank. Such operations belong
// before the first average() or after end(), or are started and waited for with averages between.
//
// Memory: one more copy of the model, two if it is on a GPU, and connections of its own.
class PartialAllreduce {
 public:
  // `model`: this rank's x, of a floating type. mismatch on all ranks if their options or models differ, and
  // says in what.
  static Result<PartialAllreduce> create(Context& context, const Output& model,
                                         const PartialAllreduceOptions& options = {});
  ~PartialAllreduce();
  PartialAllreduce(PartialAllreduce&&) noexcept;
  PartialAllreduce& operator=(PartialAllreduce&&) noexcept;

  // Asks for a group, unless this rank has asked.
  Status begin();
  // Returns the group that answered, ascending. A group of this rank alone is a legal answer. In the
  // calls between two sections nothing is averaged, and the group is empty.
  Result<std::vector<Rank>> average();

  struct Usage {
    // Of this rank with the generator.
    std::uint64_t messages_sent = 0;
    std::uint64_t messages_received = 0;
    std::uint64_t groups = 0;       // in which this rank averaged with others
    std::uint64_t successions = 0;  // new generators, or old ones that lost workers
  };
  [[nodiscard]] Usage usage() const;

  // Collective.
  Status end();

 private:
  class State;
  explicit PartialAllreduce(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct BoundedStalenessOptions {
  std::string name = "bounded_staleness";  // of the windows; begins their names
  // How many versions a rank may be ahead of what each in-neighbor has delivered. 0: none.
  std::uint64_t bound = 1;
  // Owns the memory of x, as WindowOptions::owner does.
  std::shared_ptr<const void> owner{};
};

// Averaging with the newest version of each in-neighbor, of which none may be too old (bounded
// staleness, or stale synchronous parallel).
//
//   for (;;) { train(x); publish(); wait(); average(); }
//
// publish() makes x this rank's next version and delivers it to the out-neighbors, which take no
// part. wait() after version v returns when every in-neighbor has delivered version v - bound or a
// newer one; it sleeps meanwhile. average() never waits.
class BoundedStaleness {
 public:
  // The graph is the context's, as are the weights. `x`: this rank's tensor.
  static Result<BoundedStaleness> create(Context& context, const Output& x,
                                         const BoundedStalenessOptions& options = {});
  ~BoundedStaleness();
  BoundedStaleness(BoundedStaleness&&) noexcept;
  BoundedStaleness& operator=(BoundedStaleness&&) noexcept;

  Status publish();
  // After the patience (negative: Config::deadline_ms) the result is timed_out and names the rank
  // that is behind. wait() may be called again.
  Status wait(std::int64_t patience_ns = -1);
  // x_i := w_ii x_i + sum_j w_ij (the newest x_j that was delivered). Before the first delivery, x
  // of create() stands for x_j.
  Status average();
  // publish(), wait(), average().
  Status step();

  // How often this rank has published.
  [[nodiscard]] std::uint64_t version() const;
  // The newest version of each in-neighbor, ascending by rank, that was delivered here; 0: none.
  [[nodiscard]] Result<std::vector<std::uint64_t>> delivered();

  // Frees the windows. Collective.
  Status end();

 private:
  class State;
  explicit BoundedStaleness(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace weft
