// No libucm in this build: its headers are not installed, or a sanitizer does not get on with its
// hooks.
#include "verbs/memory/changes.h"

namespace weft {

Status announce_unmaps() {
  return Status(Code::unavailable,
                "this build has no memory hooks (libucm): registrations of memory cannot be kept, "
                "because nothing tells when it is unmapped");
}

}  // namespace weft
