// Which sanitizer this build has. A sanitizer keeps its own records of memory in address space that it
// reserves, so a program under one does not run below a limit of address space.
#pragma once

namespace weft {

#ifdef __SANITIZE_THREAD__
inline constexpr bool kHasThreadSanitizer = true;
#else
inline constexpr bool kHasThreadSanitizer = false;
#endif
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = kHasThreadSanitizer;
#endif

}  // namespace weft
