// control: small messages between ranks, over the transports that their operations use. No socket
// is opened for them.
#pragma once

#include "engine/control/mail.h"
