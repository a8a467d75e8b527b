// on_core: a Core with mail as the MailHost of a service. The rest of the service's host is added by a class
// that derives from this one. Internal to the module.
#pragma once

#include <memory>
#include <utility>

#include "engine/context/core.h"
#include "engine/mail_host/mail_host.h"

namespace weft {

template <typename Host>
class Context::Core::OnCore : public Host {
 public:
  explicit OnCore(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  [[nodiscard]] Rank rank() const override { return core_->config_.rank; }
  [[nodiscard]] int size() const override { return core_->config_.size; }
  [[nodiscard]] std::int64_t deadline_ms() const override { return core_->config_.deadline_ms; }
  [[nodiscard]] std::shared_ptr<Lane> shared_lane() override { return core_->shared_lane(); }
  Status leave() override { return core_->run(Request{.collective = Collective::barrier}); }
  Status attend(ProgressHook& hook) override {
    const Lane::Hold hold(core_->lane_);
    WEFT_RETURN_IF_ERROR(core_->lane_.start_thread());
    core_->lane_.attend(&hook);
    core_->lane_.serve();
    return {};
  }
  void close() override {
    core_->close();
    const Lane::Hold hold(core_->lane_);
    core_->lane_.attend(nullptr);
  }
  void send_mail(Rank to, std::span<const std::byte> message) override {
    const Status sent = core_->mail_->send(to, message);
    if (!sent.ok()) fail(Status(sent.code(), std::string(sent.text()), to));
  }
  // Ranks that have connected lately may write to this one, too.
  bool advance_mail(const Mail::Reader& read) override {
    Mail& mail = *core_->mail_;
    const auto& peers = core_->peers_.all();
    if (mail.lines() != peers.size())
      for (const auto& [rank, connection] : peers) mail.hear(rank, *connection->endpoint);
    const bool moved = mail.advance(read);
    if (!mail.failure().ok()) fail(mail.failure());
    return moved;
  }
  // As its connection or the store shows.
  bool has_left(Rank rank) override {
    const Membership& membership = core_->membership_;
    return core_->peers_.has_left(rank) || (membership.epoch() != 0 && membership.left(rank));
  }
  void fail(const Status& why) override { core_->failures_.fail(why); }

 protected:
  const std::shared_ptr<Core> core_;
};

}  // namespace weft
