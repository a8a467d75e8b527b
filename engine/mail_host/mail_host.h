// mail_host: what a service between the ranks needs of the context beneath, which is one of its own: mail, and
// turns of the context's lane. Operations by name and the groups of partial all-reduce are such services.
//
// engine/context implements it. A service is the progress hook of the lane, from attend() to close().
// Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/lane/lane.h"
#include "engine/mail/mail.h"

namespace weft {

class MailHost {
 public:
  virtual ~MailHost();
  // Any thread.
  [[nodiscard]] virtual Rank rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual std::int64_t deadline_ms() const = 0;
  // The lane. The pointer keeps the context alive.
  [[nodiscard]] virtual std::shared_ptr<Lane> shared_lane() = 0;
  // Waits until all ranks call it, and leaves the job.
  [[nodiscard]] virtual Status leave() = 0;
  // From now on the lane's turns advance the hook.
  virtual Status attend(ProgressHook& hook) = 0;
  // Leaves the job without the others. The hook is advanced no more.
  virtual void close() = 0;

  // The rest needs the lane's token.
  // Sends a message. An error ends the context.
  virtual void send_mail(Rank to, std::span<const std::byte> message) = 0;
  // Sends and reads mail; returns whether anything moved.
  virtual bool advance_mail(const Mail::Reader& read) = 0;
  // Whether the rank has closed its context, as far as this one knows.
  [[nodiscard]] virtual bool has_left(Rank rank) = 0;
  // Ends the context with this error.
  virtual void fail(const Status& why) = 0;
};

}  // namespace weft
