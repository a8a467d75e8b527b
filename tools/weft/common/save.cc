// Streams of the C library, flushed and asked.
#include "tools/weft/common/save.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace weft {
namespace {

constexpr const char* kOutput = "standard output";

Status cannot_write(const std::string& name, int error) {
  return system_error("cannot write " + name, error);
}

// What a stream has lost stays lost, also if later writes succeed.
Status write_now(std::FILE* file, std::string_view text, const std::string& name) {
  errno = 0;
  const bool is_taken = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (is_taken && std::fflush(file) == 0 && std::ferror(file) == 0) return {};
  return cannot_write(name, errno != 0 ? errno : EIO);
}

Result<std::FILE*> open_file(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return cannot_write(path, errno);
  return file;
}

}  // namespace

Status save(const std::string& path, std::string_view document) {
  WEFT_ASSIGN(std::FILE* const file, open_file(path));
  const Status written = write_now(file, document, path);
  if (std::fclose(file) != 0 && written.ok()) return cannot_write(path, errno);
  return written;
}

Status check_writable(const std::string& path) {
  if (path.empty()) return {};
  struct stat found {};
  const bool exists = ::stat(path.c_str(), &found) == 0;
  if (!exists && errno != ENOENT) return cannot_write(path, errno);
  if (exists && S_ISDIR(found.st_mode)) return cannot_write(path, EISDIR);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const std::string asked = exists ? path : folder.empty() ? "." : folder;
  return ::access(asked.c_str(), W_OK) == 0 ? Status() : cannot_write(path, errno);
}

Status print_now(std::string_view text) {
  return write_now(stdout, text, kOutput);
}

Result<Rows> Rows::open(const std::string& json) {
  Rows rows;
  if (json.empty()) return rows;
  rows.name_ = json == "-" ? kOutput : json;
  if (json == "-") {
    rows.file_.reset(stdout);
  } else {
    WEFT_ASSIGN(std::FILE* const file, open_file(json));
    rows.file_.reset(file);
  }
  return rows;
}

Status Rows::text(std::string_view text) const {
  return has_text() ? print_now(text) : Status();
}

Status Rows::json(std::string_view line) const {
  return has_json() ? write_now(file_.get(), std::string(line) + '\n', name_) : Status();
}

// Whoever sees the text may end the command by Ctrl-C, which keeps what was printed.
Status Rows::row(std::string_view text, std::string_view json) const {
  WEFT_RETURN_IF_ERROR(this->json(json));
  return this->text(text);
}

Status Rows::close() {
  if (!has_json() || !has_text()) return {};
  return std::fclose(file_.release()) == 0 ? Status() : cannot_write(name_, errno);
}

}  // namespace weft
