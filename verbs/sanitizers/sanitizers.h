// sanitizers: which one this build has. WEFT_ADDRESS_SANITIZER and WEFT_THREAD_SANITIZER are defined in a build with the
// one or the other. g++ and Clang tell it in ways of their own.
#pragma once

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define WEFT_ADDRESS_SANITIZER
#endif
#if __has_feature(thread_sanitizer)
#define WEFT_THREAD_SANITIZER
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
#define WEFT_ADDRESS_SANITIZER
#endif
#ifdef __SANITIZE_THREAD__
#define WEFT_THREAD_SANITIZER
#endif
