// open(2) with O_EXCL, write(2), rename(2).
#include "engine/trace/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace weft {
namespace {

// Where a file may not grow (ulimit -f), write(2) sends the calling thread a signal that ends the
// process, besides EFBIG.
class WithoutSizeSignal {
 public:
  WithoutSizeSignal() {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  WithoutSizeSignal(const WithoutSizeSignal&) = delete;
  WithoutSizeSignal& operator=(const WithoutSizeSignal&) = delete;
  ~WithoutSizeSignal() {
    const timespec now{};
    ::sigtimedwait(&signal_, nullptr, &now);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t signal_{};
  sigset_t before_{};
};

// 0, or the errno.
int write_all(int fd, std::string_view text) {
  const WithoutSizeSignal without;
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

Status replace_file(std::string_view what, const std::string& path, std::string_view text) {
  const std::string about = fmt::format("{} {}", what, path);
  struct stat found {};
  if (::lstat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode) && !S_ISLNK(found.st_mode))
    return Status(Code::invalid_argument, about + ": there is something that is no file");
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) return system_error(about, errno);
  const std::string fresh = fmt::format("{}.{:016x}", path, random);
  constexpr mode_t kByUmask = 0666;
  const int fd =
      ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kByUmask);
  if (fd < 0) return system_error(about, errno);
  int error = write_all(fd, text);
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(fresh.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  (void)::unlink(fresh.c_str());
  return system_error(about, error);
}

}  // namespace weft
