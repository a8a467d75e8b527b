// profile: what `weft tune` has measured, as a file. The engine takes the settings from it; all else is for people, and
// for `weft tune --explain`.
//
//   format = 1
//   weft = "0.3.0"
//   topology = "5f0e6c21ab90d3e4"     hash of ranks, machines, cores and rails; the profile fits no other
//   about = "4 ranks on 4 machines …"
//   seconds = 58.2
//   times = 1.31                      geometric mean over the rows: time of the defaults / time of the profile
//   [settings]
//   WEFT_EAGER_BYTES = "65536"
//   [[tried]]                         each value, beside the default
//   [[row]]                           the check at the end: operation, size, both times
//   [end]                             a file without it was cut short
//   complete = true                   false: the search was interrupted
//
// Values and free functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

struct Profile {
  struct Tried {
    std::string setting;
    std::string value;
    std::string usual;  // the value that it was measured against
    std::string where;  // operations and sizes
    double times =
        0;  // how many times as fast as with the usual value: the median of the rounds' ratios
    int rounds = 0;
    bool is_taken = false;
  };
  struct Row {
    std::string operation;
    std::size_t bytes = 0;
    double usual_us = 0;
    double us = 0;
    double times = 0;
    int rounds = 0;
  };
  std::string weft;      // the version
  std::string topology;  // the hash
  std::string about;
  double seconds = 0;
  double times = 0;
  bool is_complete = true;
  std::vector<std::pair<std::string, std::string>> settings;  // names of variables, values
  std::vector<Tried> tried;
  std::vector<Row> rows;
};

// The variables that a profile may set.
[[nodiscard]] const std::vector<std::string_view>& tuned_variables();

// An error names the file and the line.
[[nodiscard]] Result<Profile> read_profile(const std::string& path);
[[nodiscard]] Result<Profile> parse_profile(std::string_view text, const std::string& name);
[[nodiscard]] std::string to_toml(const Profile& profile);

}  // namespace weft
