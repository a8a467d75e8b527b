// UcxInterface: one network device with a context of UCX, and an endpoint for each peer's interface.
// Internal to the module.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "verbs/ucx/batch.h"
#include "verbs/ucx/endpoint.h"
#include "verbs/ucx/ucx.h"

namespace weft::ucx {

// The id of the one active message that all our messages use.
inline constexpr unsigned kActiveMessage = 0;

[[nodiscard]] std::uint64_t checksum(Address address, std::string_view worker);

class UcxInterface final : public Interface {
 public:
  static Result<std::unique_ptr<Interface>> open(Rank rank, const InterfaceOptions& options,
                                                 const UcxOptions& ucx, AddressResolver resolver);
  ~UcxInterface() override;

  [[nodiscard]] Status link() const override;
  [[nodiscard]] std::string address() const override { return address_; }
  Result<Endpoint*> connect(Rank peer, std::string_view address) override;
  Result<Endpoint*> reconnect(Rank peer, std::string_view address) override;
  void forget(Endpoint& failed) override;
  Result<Region> expose(std::span<std::byte> memory) override;
  void withdraw(std::uint32_t number) override;
  bool progress() override;
  [[nodiscard]] bool flushed() const override {
    return sending_ == 0 && filled_.empty() && reporters_.empty() && stalled_.empty() &&
           greeters_.empty();
  }
  std::size_t poll(std::span<Completion> completions) override;
  Result<Endpoint*> attention() override;
  void sleep(std::int64_t timeout_ns, const std::function<bool()>& ready) override;
  void wake() override;
  [[nodiscard]] Result<int> descriptor() override { return descriptor_; }
  [[nodiscard]] bool arm() override;
  void disarm() override { armed_ = false; }  // what woke us is taken in by progress()
  void close() override;
  [[nodiscard]] std::size_t endpoint_bytes() const override { return endpoint_bytes_; }

  [[nodiscard]] const Library& library() const { return library_; }
  [[nodiscard]] ucp_worker_h worker() const { return worker_; }
  [[nodiscard]] const InterfaceOptions& options() const { return options_; }
  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] std::uint64_t nonce() const { return nonce_; }
  [[nodiscard]] bool closed() const { return closed_; }
  // One-sided work with at most so many bytes travels in its message.
  [[nodiscard]] std::size_t eager_work_bytes() const { return eager_work_bytes_; }
  // Bytes of a slot's payload, whole cache lines.
  [[nodiscard]] std::size_t payload_stride() const { return payload_stride_; }
  void count_bytes(std::size_t bytes) { endpoint_bytes_ += bytes; }
  void uncount_bytes(std::size_t bytes) { endpoint_bytes_ -= bytes; }
  // Buffers for payloads that have come: piece_bytes() long for pieces, payload_stride() for
  // others.
  [[nodiscard]] Pool& pool(bool of_pieces) { return of_pieces ? pieces_ : payloads_; }
  // A notice has come, so this turn has news.
  void count_arrival() { ++arrivals_; }
  // A piece has come or was released. Its sender may wait for that, so it is told at the next turn.
  void report_soon() { urgent_ = true; }
  void ask_attention(UcxEndpoint& endpoint) { askers_.push_back(&endpoint); }
  // flush_later(): the endpoint has a batch to send. report_later(): it has releases to report.
  void flush_later(UcxEndpoint& endpoint) { filled_.push_back(&endpoint); }
  void report_later(UcxEndpoint& endpoint) { reporters_.push_back(&endpoint); }
  [[nodiscard]] std::unique_ptr<Batch> take_batch();
  void give_batch(std::unique_ptr<Batch> batch) { free_batches_.push_back(std::move(batch)); }
  [[nodiscard]] bool armed() const { return armed_; }
  [[nodiscard]] std::size_t batch_bytes() const { return batch_bytes_; }
  // How many messages UCX still reads.
  [[nodiscard]] std::size_t& sending() { return sending_; }
  void fail_later(UcxEndpoint& endpoint) { failing_.push_back(&endpoint); }
  // Whether nothing is sent to a peer until both ends have greeted (UcxEndpoint::begin()).
  [[nodiscard]] bool greets_first() const { return greets_first_; }
  // Every turn tries to greet.
  void greet_later(UcxEndpoint& endpoint) { greeters_.push_back(&endpoint); }
  // The stranger waits for answers. The next turn connects to it, at the address in its hello.
  void answer_later(UcxEndpoint& stranger);
  [[nodiscard]] std::string_view own_address() const { return address_; }
  [[nodiscard]] Completions& completions() { return completions_; }
  // The region of ours with this number; nullptr if it is not exposed.
  [[nodiscard]] const std::span<std::byte>* exposed(std::uint64_t number) const;
  // The endpoint has work of its peer that has to wait for earlier work. Every turn tries to begin
  // it.
  void proceed_later(UcxEndpoint& endpoint);
  // Waits, with a bound, until UCX has let go of a disconnected endpoint's memory.
  void wait_closed(const UcxEndpoint& endpoint);
  void let_go(const UcxEndpoint& endpoint);
  // The endpoint has one-sided work, whose ends poll() collects.
  void collect_later(UcxEndpoint& endpoint);

 private:
  UcxInterface(Rank rank, const InterfaceOptions& options, const UcxOptions& ucx,
               const Library& library, AddressResolver resolver);
  // Listens at this port; 0: at one that the kernel chooses. False: the port is taken.
  Result<bool> listen(const UcxOptions& ucx, std::uint16_t port);
  Status listen_within(const UcxOptions& ucx);
  Status open_context(const UcxOptions& ucx, std::uint16_t port);
  Status open_worker();
  void make_address(std::string_view worker);
  void connect_stranger(UcxEndpoint& stranger);
  // The endpoint of the message's sender; an unknown sender, or one that has connected anew, becomes
  // a stranger. nullptr if its rank is another one than before, or if there are too many strangers.
  UcxEndpoint* sender_of(const Message& message);
  // Puts the endpoint of this incarnation in the place of `known`, which is kept until it may go.
  void replace(std::unique_ptr<UcxEndpoint>& known, std::uint16_t incarnation);
  void drop_forgotten();
  void unlist(UcxEndpoint* endpoint);
  [[nodiscard]] bool meant_for_us(const Message& message, std::size_t header_bytes) const;
  // Delivers one message; false if it is refused. A batch is delivered message by message.
  bool deliver(const void* header, std::size_t header_bytes, const Arriving& data, bool& taken);
  void deliver_batch(std::span<const std::byte> batch);
  bool refuse(const char* why);
  static ucs_status_t on_message(void* self, const void* header, std::size_t header_bytes,
                                 void* data, std::size_t bytes, const ucp_am_recv_param_t* param);
  void report_releases();
  void flush_batches();
  void answer_strangers();
  // Returns whether an endpoint has greeted.
  bool greet_peers();
  void fail_broken();
  void proceed_stalled();
  void warn_once(const Status& status);
  void wait_for_event(std::int64_t timeout_ns);
  // Makes progress, and sleeps in between, until `done` is true or the deadline has passed. Returns
  // whether `done` is true.
  bool drain(const std::function<bool()>& done, const Deadline& deadline);
  [[nodiscard]] bool answered_all();

  Rank rank_;
  InterfaceOptions options_;
  std::size_t payload_stride_;
  std::string device_;
  AddressResolver resolver_;
  const Library& library_;
  const bool greets_first_;
  const std::size_t eager_work_bytes_;
  pid_t process_;
  std::uint64_t nonce_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
  Address fields_;  // the fixed part of our address
  std::string address_;
  // The newest endpoint to each interface of a peer, by its nonce. They stay, because users may
  // still hold one whose peer has opened another interface.
  std::unordered_map<std::uint64_t, std::unique_ptr<UcxEndpoint>> known_;
  std::vector<std::unique_ptr<UcxEndpoint>> replaced_;  // earlier ones, until they may go
  UcxEndpoint* last_sender_ = nullptr;
  std::size_t strangers_ = 0;  // how many of them are not connected
  std::deque<UcxEndpoint*> askers_;
  std::vector<UcxEndpoint*> filled_;     // endpoints with a batch to send
  std::vector<UcxEndpoint*> flushing_;   // those that this turn serves
  std::vector<UcxEndpoint*> reporters_;  // endpoints with releases to report
  std::vector<std::unique_ptr<Batch>> free_batches_;
  std::size_t batch_bytes_;
  // When let_go() last waited in vain for a path; 0 if its last wait succeeded.
  std::int64_t stuck_ns_ = 0;
  std::size_t sending_ = 0;  // messages that UCX still reads
  std::vector<UcxEndpoint*> failing_;
  std::vector<UcxEndpoint*> unanswered_;
  std::vector<UcxEndpoint*> greeters_;
  std::vector<UcxEndpoint*> at_work_;  // with one-sided work outstanding
  std::vector<UcxEndpoint*> stalled_;  // with work of their peers that waits for its turn
  Completions completions_;
  std::unordered_map<std::uint64_t, std::span<std::byte>> exposed_;  // by number
  std::size_t endpoint_bytes_ = 0;
  Pool payloads_;
  Pool pieces_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t arrivals_told_ = 0;  // how many of them progress() has reported as news
  bool urgent_ = false;              // releases are reported at the next turn
  bool armed_ = false;               // the caller is about to sleep
  std::uint32_t busy_calls_ = 0;
  std::uint32_t idle_calls_ = 0;
  bool warned_ = false;
  bool closed_ = false;
};

}  // namespace weft::ucx
