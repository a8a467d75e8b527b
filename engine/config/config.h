// config: how a Config (weft/config.h) is read. One table (`variables()`) ties each field to its
// variable, what it accepts and what it means; parsing, `weft config` and the documentation are made
// from it, so they cannot disagree.
//
// Values and free functions; thread safe as far as nobody calls setenv(3) at the same time.
#pragma once

#include <weft/config.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/config/address.h"
#include "engine/config/profile.h"
#include "verbs/base/base.h"

namespace weft {

struct IbOptions;   // verbs/ib
struct UcxOptions;  // verbs/ucx

// Of an RDMA interface, what WEFT_IB_… say; its device and port are for the caller to fill in.
[[nodiscard]] IbOptions ib_options(const Config& config);
// The same for a network interface and WEFT_UCX_….
[[nodiscard]] Result<UcxOptions> ucx_options(const Config& config);

[[nodiscard]] std::string_view name(Launcher launcher);
// Replaces `automatic` by the launcher whose variables are among the entries, and reads from them
// what they say about this rank.
Status find_launcher(const std::vector<std::string>& entries, Config& config);

// One row of the table.
struct Variable {
  std::string name;      // WEFT_DEADLINE_MS
  std::string accepted;  // completes "expected …"
  std::string meaning;
  bool secret = false;                                              // never printed
  std::function<bool(std::string_view text, Config& config)> read;  // false: not accepted
  std::function<std::string(const Config& config)> show;            // as read() takes it
};

[[nodiscard]] const std::vector<Variable>& variables();

// Reads the file that `config.profile` names, if any and not yet read, and gives its values to the variables that the
// user has not set.
Status use_profile(Config& config, const std::function<bool(const Variable&)>& has_user_set);
// The same, where only the values tell what a user has set: those that are no defaults.
Status use_profile(Config& config);

// What the environment says of the GPUs that drivers show to this process; nothing: not set.
struct GpuVariables {
  std::optional<std::string> cuda, hip, rocr;  // CUDA_VISIBLE_DEVICES and so on
  bool is_by_bus = false;                      // CUDA_DEVICE_ORDER=PCI_BUS_ID
};
[[nodiscard]] GpuVariables gpu_variables(const std::vector<std::string>& entries);

// The "NAME=value" entries of this process.
[[nodiscard]] std::vector<std::string> environment();
// `entries` with each NAME of `settings` set to its value: the environment for a child.
[[nodiscard]] std::vector<std::string> with_settings(
    std::vector<std::string> entries,
    const std::vector<std::pair<std::string, std::string>>& settings);
// Is NAME among the entries?
[[nodiscard]] bool is_set(const std::vector<std::string>& entries, std::string_view name);

}  // namespace weft
