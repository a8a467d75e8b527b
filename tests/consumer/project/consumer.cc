// A target that is no part of Weft and has a warning of every kind that Weft's own sources must not have.
#include "verbs/base/base.h"

int main(int count, char** unused) {
  int count_as_char = static_cast<int>(static_cast<char>(300 + count));
  {
    char count_as_char = 300 * count;  // -Wshadow, -Wconversion, -Wunused-variable
  }
  return weft::Status{}.ok() && count_as_char != 0 ? 0 : 1;
}
