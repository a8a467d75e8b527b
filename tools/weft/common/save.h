// What subcommands write: files that they are asked for, and standard output. All of it is written
// and checked here. An error names the place: "cannot write FILE: No space left on device".
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "verbs/base/base.h"

namespace weft {

// The whole document.
[[nodiscard]] Status save(const std::string& path, std::string_view document);
// Whether save() could write there, for commands that work long before they do. "": nothing is to be
// written.
[[nodiscard]] Status check_writable(const std::string& path);
// When the call returns, standard output has this text and all that was printed before.
[[nodiscard]] Status print_now(std::string_view text);

// What a command tells as it goes: text for people on standard output, and lines of JSON in the file
// that --json names ("": none; "-": standard output, which then gets no text). Nothing is kept back.
class Rows {
 public:
  [[nodiscard]] static Result<Rows> open(const std::string& json);
  [[nodiscard]] bool has_text() const { return file_.get() != stdout; }
  [[nodiscard]] bool has_json() const { return file_ != nullptr; }

  // Dropped where there is no place for it.
  [[nodiscard]] Status text(std::string_view text) const;
  [[nodiscard]] Status json(std::string_view line) const;
  // Both, of one row.
  [[nodiscard]] Status row(std::string_view text, std::string_view json) const;
  // After all rows: whether the file system has them.
  [[nodiscard]] Status close();

 private:
  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdout) std::fclose(file);
    }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::string name_;
};

}  // namespace weft
