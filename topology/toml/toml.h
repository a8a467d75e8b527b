// toml: files that people write for Weft. Every complaint is `invalid_argument` and begins with
// "FILE:LINE: ", as compilers do; a key that nobody asked for is one too, since it is most often
// misspelled.
//
//   WEFT_ASSIGN(TomlTable file, read_toml(path));
//   WEFT_ASSIGN(std::vector<TomlTable> nics, file.tables("nic"));
//   for (TomlTable& nic : nics) {
//     WEFT_ASSIGN(const std::optional<std::string> name, nic.text("name"));
//     …
//     WEFT_RETURN_IF_ERROR(nic.done());
//   }
//   WEFT_RETURN_IF_ERROR(file.done());
//
// Tables share the file and keep it alive; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "verbs/base/base.h"

namespace weft {

class TomlTable {
 public:
  ~TomlTable();
  TomlTable(TomlTable&&) noexcept;
  TomlTable& operator=(TomlTable&&) noexcept;

  // Whether the key is there; asking counts as reading.
  [[nodiscard]] bool has(std::string_view key);
  // Nothing where there is no such key; an error where the value is of another kind, or outside of
  // [least, most].
  [[nodiscard]] Result<std::optional<std::string>> text(std::string_view key);
  [[nodiscard]] Result<std::optional<std::int64_t>> integer(std::string_view key,
                                                            std::int64_t least, std::int64_t most);
  [[nodiscard]] Result<std::optional<double>> number(std::string_view key, double least,
                                                     double most);
  [[nodiscard]] Result<std::optional<bool>> boolean(std::string_view key);
  [[nodiscard]] Result<std::vector<std::string>> texts(std::string_view key);
  [[nodiscard]] Result<std::vector<double>> numbers(std::string_view key, double least,
                                                    double most);
  // Of "[[key]]", in the file's order; of "[key]" the one. None: empty.
  [[nodiscard]] Result<std::vector<TomlTable>> tables(std::string_view key);

  // After all keys were asked for: an error names the first that nobody knows, and those that are.
  [[nodiscard]] Status done() const;
  // Of the file, where this table begins.
  [[nodiscard]] int line() const;
  // "FILE:LINE: what" of this table, or of a key in it.
  [[nodiscard]] Status wrong(std::string_view what) const;
  [[nodiscard]] Status wrong(std::string_view key, std::string_view what) const;

 private:
  struct Place;
  friend Result<TomlTable> read_toml(const std::string& path);
  friend Result<TomlTable> parse_toml(std::string_view text, const std::string& name);
  explicit TomlTable(std::unique_ptr<Place> place);

  std::unique_ptr<Place> place_;
  std::set<std::string, std::less<>> asked_;
};

[[nodiscard]] Result<TomlTable> read_toml(const std::string& path);
// `name` stands for the file in complaints.
[[nodiscard]] Result<TomlTable> parse_toml(std::string_view text, const std::string& name);

}  // namespace weft
