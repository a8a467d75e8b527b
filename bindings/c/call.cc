// call: see the header. The last error is plain memory of the thread without a destructor, so that
// it can be written at any time, also while the process exits or memory is short.
#include "bindings/c/call.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <utility>

namespace weft::c {
namespace {

struct LastError {
  weft_code code = WEFT_OK;
  Rank rank = kNoRank;
  std::array<char, 2048> text{};
};

constinit thread_local LastError last_error;
constinit thread_local const char* function_name = "";

// Copies the text. One that is too long is cut between two characters and ends with "…".
void set_text(std::string_view text) {
  constexpr std::string_view kMore = "…";
  std::array<char, 2048>& kept = last_error.text;
  std::size_t length = text.size();
  if (length >= kept.size()) {
    length = kept.size() - 1 - kMore.size();
    const auto is_continued = [&](std::size_t at) { return (text[at] & 0xC0) == 0x80; };
    while (length > 0 && is_continued(length)) --length;
  }
  std::memcpy(kept.data(), text.data(), length);
  if (length < text.size()) {
    std::memcpy(kept.data() + length, kMore.data(), kMore.size());
    length += kMore.size();
  }
  kept[length] = '\0';
}

weft_code remember(Code code, Rank rank, std::string_view text) noexcept {
  last_error.code = static_cast<weft_code>(code);
  last_error.rank = rank;
  set_text(text);
  return last_error.code;
}

}  // namespace

FunctionName::FunctionName(const char* name) : before_(std::exchange(function_name, name)) {}
FunctionName::~FunctionName() {
  function_name = before_;
}

Status call_error(Code code, std::string_view text) {
  return Status(code, std::string(function_name).append(": ").append(text));
}

Status argument_error(std::string_view argument, std::string_view problem) {
  return call_error(Code::invalid_argument, std::string(argument).append(" ").append(problem));
}

Status check_not_null(const void* pointer, std::string_view argument) {
  return pointer != nullptr ? Status() : argument_error(argument, "is NULL");
}

weft_code remember(const Status& status) noexcept {
  return status.ok() ? WEFT_OK : remember(status.code(), status.rank(), status.text());
}

weft_code remember_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return remember(Code::exhausted, kNoRank, "memory is exhausted");
  } catch (const std::length_error&) {
    return remember(Code::exhausted, kNoRank, "more memory is needed than there can be");
  } catch (const std::exception& thrown) {
    return remember(Code::system, kNoRank, thrown.what());
  } catch (...) {
    return remember(Code::system, kNoRank, "an exception that is no std::exception");
  }
}

Status give_string(std::string_view from, char** text) {
  auto* copy = static_cast<char*>(std::malloc(from.size() + 1));
  if (copy == nullptr) return call_error(Code::exhausted, "memory is exhausted");
  std::copy(from.begin(), from.end(), copy);
  copy[from.size()] = '\0';
  *text = copy;
  return {};
}

}  // namespace weft::c

const char* weft_last_error(void) {
  return weft::c::last_error.text.data();
}
weft_code weft_last_error_code(void) {
  return weft::c::last_error.code;
}
int32_t weft_last_error_rank(void) {
  return weft::c::last_error.rank;
}
void weft_string_free(char* text) {
  std::free(text);
}
