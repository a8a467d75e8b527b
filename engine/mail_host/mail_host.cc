// mail_host: see the header.
#include "engine/mail_host/mail_host.h"

namespace weft {

MailHost::~MailHost() = default;

}  // namespace weft
