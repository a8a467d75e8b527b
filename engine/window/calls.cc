// calls: the public face. Each call goes to the window's object.
#include <weft/context.h>
#include <weft/window.h>

#include "engine/window/prepared_transfer.h"
#include "engine/window/window.h"
#include "verbs/base/base.h"

namespace weft {
namespace {

Status check(const std::shared_ptr<WindowObject>& object, std::string_view what) {
  if (object == nullptr)
    return Status(Code::invalid_argument, std::string(what) + ": this names no window");
  if (is_forked_child()) return forked_child_error(what);
  return {};
}

// With a handle the call only begins.
Result<Handle> started(Status status, Handle handle) {
  if (!status.ok()) return status;
  return handle;
}

}  // namespace

Window::Window(std::shared_ptr<WindowObject> object) : object_(std::move(object)) {}

const std::string& Window::name() const {
  static const std::string& none = *new std::string;
  return object_ == nullptr ? none : object_->name();
}
Output Window::tensor() const {
  return object_ == nullptr ? Output() : object_->tensor();
}
std::span<const Rank> Window::in_neighbors() const {
  return object_ == nullptr ? std::span<const Rank>() : object_->in_ranks();
}
std::span<const Rank> Window::out_neighbors() const {
  return object_ == nullptr ? std::span<const Rank>() : object_->out_ranks();
}

Status Window::put(const Output& x, const WindowPut& how) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_put"));
  return object_->put(false, x, how, nullptr);
}
Result<Handle> Window::put_start(const Output& x, const WindowPut& how) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_put"));
  Handle handle;
  Status status = object_->put(false, x, how, &handle);
  return started(std::move(status), std::move(handle));
}
Status Window::accumulate(const Output& x, const WindowPut& how) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_accumulate"));
  return object_->put(true, x, how, nullptr);
}
Result<Handle> Window::accumulate_start(const Output& x, const WindowPut& how) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_accumulate"));
  Handle handle;
  Status status = object_->put(true, x, how, &handle);
  return started(std::move(status), std::move(handle));
}
Result<Prepared> Window::prepare_put(const Output& x, const WindowPut& how) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_put"));
  return object_->prepare_put(false, x, how);
}
Result<Prepared> Window::prepare_accumulate(const Output& x, const WindowPut& how) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_accumulate"));
  return object_->prepare_put(true, x, how);
}
Result<Prepared> Window::prepare_write(Rank to, const Input& x, std::span<const WindowPage> pages,
                                       std::size_t page_bytes, int signal,
                                       std::optional<Stream> stream) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_write"));
  return object_->prepare_write(to, x, pages, page_bytes, signal, stream);
}
Status Window::get(const WindowGet& how) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_get"));
  return object_->get(how, nullptr);
}
Result<Handle> Window::get_start(const WindowGet& how) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_get"));
  Handle handle;
  Status status = object_->get(how, &handle);
  return started(std::move(status), std::move(handle));
}
Status Window::update(const WindowUpdate& how) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_update"));
  return object_->update(how);
}
Status Window::update_then_collect(bool require_mutex, std::optional<Stream> stream) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_update_then_collect"));
  std::vector<NeighborWeight> sources;
  for (const Rank rank : object_->in_ranks()) sources.push_back({rank, 1.0});
  WindowUpdate how;
  how.self_weight = 1.0;
  how.sources = sources;
  how.reset = true;
  how.require_mutex = require_mutex;
  how.stream = stream;
  return object_->update(how);
}
Result<std::vector<std::uint64_t>> Window::versions() {
  WEFT_RETURN_IF_ERROR(check(object_, "win_versions"));
  return object_->versions();
}
Result<double> Window::associated_p() {
  WEFT_RETURN_IF_ERROR(check(object_, "win_associated_p"));
  return object_->associated_p();
}
Status Window::set_associated_p(bool on) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_set_associated_p"));
  return object_->set_associated_p(on);
}
Status Window::lock(std::span<const Rank> ranks) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_lock"));
  return object_->lock(ranks);
}
Status Window::unlock() {
  WEFT_RETURN_IF_ERROR(check(object_, "win_unlock"));
  return object_->unlock();
}
Status Window::flush(std::optional<Stream> stream) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_flush"));
  return object_->flush(stream);
}
Status Window::write(Rank to, const Input& x, std::span<const WindowPage> pages,
                     std::size_t page_bytes, int signal, std::optional<Stream> stream) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_write"));
  return object_->write(to, x, pages, page_bytes, signal, stream, nullptr);
}
Result<Handle> Window::write_start(Rank to, const Input& x, std::span<const WindowPage> pages,
                                   std::size_t page_bytes, int signal,
                                   std::optional<Stream> stream) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_write"));
  Handle handle;
  Status status = object_->write(to, x, pages, page_bytes, signal, stream, &handle);
  return started(std::move(status), std::move(handle));
}
Status Window::read(Rank from, const Output& y, std::size_t remote_offset,
                    std::optional<Stream> stream) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_read"));
  return object_->read(from, y, remote_offset, stream);
}
Result<std::uint64_t> Window::signal(int number) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_signal"));
  return object_->signal(number);
}
Status Window::wait_signal(int number, std::uint64_t count, std::int64_t patience_ns) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_wait_signal"));
  return object_->wait_signal(number, count, patience_ns, nullptr);
}
Result<Handle> Window::wait_signal_start(int number, std::uint64_t count,
                                         std::int64_t patience_ns) {
  WEFT_RETURN_IF_ERROR(check(object_, "win_wait_signal"));
  Handle handle;
  Status status = object_->wait_signal(number, count, patience_ns, &handle);
  return started(std::move(status), std::move(handle));
}

}  // namespace weft
