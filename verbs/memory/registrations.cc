// Finding, adding and dropping registrations.
#include "verbs/memory/registrations.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "verbs/memory/memory.h"

namespace weft {

Registrations::Registrations(RegistrationBackend& backend, const RegistrationOptions& options,
                             Status coherence)
    : backend_(backend),
      options_(options),
      coherence_(std::move(coherence)),
      page_bytes_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
      by_range_(Watch::kMostRanges, nullptr) {}

Registrations::~Registrations() {
  while (!by_start_.empty()) forget(by_start_.begin()->second.get());
  invariant(left_ == 0, "a registration is in use when its Registrations end");
}

bool Registrations::keeps(const void* address, std::size_t bytes) const {
  return is_coherent() || heap_offset(address, bytes) != kNotInHeap;
}

RegistrationCounts Registrations::counts() const {
  RegistrationCounts counts = counts_;
  counts.kept = by_start_.size();
  return counts;
}

Result<Registrations::Use> Registrations::look_up(std::uintptr_t start, std::size_t bytes) {
  if (watch_.changed()) forget_changed();
  if (Registration* found = covering(start, bytes)) {
    last_ = found;
    return use(found);
  }
  if (bytes == 0 || bytes > ~start || ~start - bytes < page_bytes_) {
    return Status(Code::invalid_argument,
                  fmt::format("no memory to register: {} bytes at {:#x}", bytes, start));
  }
  const std::uintptr_t in_page = page_bytes_ - 1;
  return add(Pages{start & ~in_page, (start + bytes + in_page) & ~in_page});
}

// Of those that start no later than the request, the last one also ends last.
Registrations::Registration* Registrations::covering(std::uintptr_t start,
                                                     std::size_t bytes) const {
  const auto after = by_start_.upper_bound(start);
  if (after == by_start_.begin()) return nullptr;
  Registration* const candidate = std::prev(after)->second.get();
  return candidate->covers(start, bytes) ? candidate : nullptr;
}

// The pages are watched before they are registered, so that no change from then on is missed.
Result<Registrations::Use> Registrations::add(const Pages& pages) {
  forget_idle_within(pages);
  WEFT_RETURN_IF_ERROR(make_room(pages.bytes()));
  const std::optional<std::size_t> range = watch_with_room(pages);
  Result<Registered> given = add_with_room(pages, range.has_value());
  if (given.ok()) return insert(pages, given.value(), range);
  if (range) watch_.end(*range);
  return given.status();
}

// Watches the pages, and evicts others if that needs room. Returns nothing if registrations of such
// pages are not kept, or if all that are kept are in use; then this one is not kept.
std::optional<std::size_t> Registrations::watch_with_room(const Pages& pages) {
  if (!keeps(reinterpret_cast<const void*>(pages.start), pages.bytes())) return std::nullopt;
  do {
    if (const auto range = watch_.begin(pages.start, pages.end)) return range;
  } while (evict_one());
  return std::nullopt;
}

Result<Registered> Registrations::ask_backend(const Pages& pages, bool is_watched) {
  auto* const address = reinterpret_cast<void*>(pages.start);  // NOLINT
  return is_watched ? backend_.share(address, pages.bytes()) : backend_.add(address, pages.bytes());
}

Result<Registered> Registrations::add_with_room(const Pages& pages, bool is_watched) {
  while (true) {
    Result<Registered> given = ask_backend(pages, is_watched);
    if (given.ok() || given.status().code() != Code::exhausted) return given;
    if (!evict_one()) return exhausted(pages.bytes(), given.status());
  }
}

Registrations::Use Registrations::insert(const Pages& pages, const Registered& given,
                                         std::optional<std::size_t> range) {
  if (range && !given.watched) {
    watch_.end(*range);
    range.reset();
  }
  auto made = std::make_unique<Registration>(
      Registration{this, pages, given, range.value_or(0), range.has_value()});
  counts_.bytes += pages.bytes();
  ++counts_.added;
  if (!range) {
    ++left_;
    return use(made.release());  // its Use removes it
  }
  forget_within(pages);
  last_ = by_range_[*range] = made.get();
  by_start_.emplace(pages.start, std::move(made));
  return use(last_);
}

Status Registrations::make_room(std::size_t bytes) {
  const std::size_t limit = options_.limit_bytes;
  while (limit != 0 && (bytes > limit || counts_.bytes > limit - bytes)) {
    if (bytes <= limit && evict_one()) continue;
    return Status(Code::exhausted,
                  fmt::format("registering {} KiB for RDMA would pass the limit of {} KiB set for "
                              "registered memory: {} KiB are in use",
                              bytes >> 10, limit >> 10, counts_.bytes >> 10));
  }
  return {};
}

// Walks over all kept registrations. The deregistration that follows costs more than a thousand
// such steps.
bool Registrations::evict_one() {
  Registration* oldest = nullptr;
  for (const auto& [start, registration] : by_start_) {
    if (registration->uses != 0) continue;
    if (oldest == nullptr || registration->used_at < oldest->used_at) oldest = registration.get();
  }
  if (oldest == nullptr) return false;
  ++counts_.evicted;
  forget(oldest);
  return true;
}

void Registrations::give_room() {
  while (evict_one()) {
  }
}

// Takes a registration out of the cache. If it is in use, it is removed with its last Use.
void Registrations::forget(Registration* registration) {
  if (last_ == registration) last_ = nullptr;
  watch_.end(registration->range);
  by_range_[registration->range] = nullptr;
  const auto at = by_start_.find(registration->pages.start);
  (void)at->second.release();
  by_start_.erase(at);
  registration->kept = false;
  ++left_;
  if (registration->uses == 0) remove(registration);
}

// Forgets the registrations that lie within the pages. They follow each other in by_start_.
void Registrations::forget_within(const Pages& pages) {
  auto at = by_start_.lower_bound(pages.start);
  while (at != by_start_.end() && at->second->pages.end <= pages.end) {
    forget((at++)->second.get());
  }
}

// Forgets the idle registrations within pages that are about to be registered, so that these pages
// are not pinned twice. Those in use stay until the new registration has succeeded.
void Registrations::forget_idle_within(const Pages& pages) {
  auto at = by_start_.lower_bound(pages.start);
  while (at != by_start_.end() && at->second->pages.end <= pages.end) {
    Registration* const covered = (at++)->second.get();
    if (covered->uses == 0) forget(covered);
  }
}

void Registrations::forget_changed() {
  for (const std::size_t range : watch_.take_changed()) {
    ++counts_.changed;
    forget(by_range_[range]);
  }
}

void Registrations::remove(Registration* registration) {
  const std::unique_ptr<Registration> owned(registration);
  backend_.remove(owned->given.native);
  counts_.bytes -= owned->pages.bytes();
  --left_;
}

// The error if the system refuses to pin more: what it said, and what to set. The limit is that of
// the process, over all devices.
Status Registrations::exhausted(std::size_t bytes, const Status& said) const {
  struct rlimit limit {};
  const bool known = getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const std::string advice =
      known ? fmt::format(
                  "RLIMIT_MEMLOCK is {} KiB; raise it with `ulimit -l unlimited`, or "
                  "LimitMEMLOCK=infinity in the service that starts the job",
                  limit.rlim_cur >> 10)
            : "RLIMIT_MEMLOCK is unlimited (`ulimit -l`, LimitMEMLOCK), so the device or the "
              "machine's memory is at its end";
  return Status(Code::exhausted,
                fmt::format("registering {} KiB for RDMA: {}; {} KiB are registered already and in "
                            "use; {}",
                            bytes >> 10, said.text(), counts_.bytes >> 10, advice));
}

}  // namespace weft
