// library: loading PMIx, and helpers that both its client and its server need.
#include "engine/bootstrap/pmix/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace weft::pmix {
namespace {

// PMIx 2 to 5 have this file name and the same layout of the structures that Weft passes.
constexpr const char* kFile = "libpmix.so.2";

Result<Library> load() {
  // The symbols are global, because PMIx's plugins need them. The library is never closed, because
  // its thread runs in it.
  DynamicLibrary file(kFile, DynamicLibrary::Symbols::global);
  Library all{};
  WEFT_RETURN_IF_ERROR(file.find("PMIx_Error_string", all.error_string)
                           .find("PMIx_Init", all.init)
                           .find("PMIx_Finalize", all.finalize)
                           .find("PMIx_Put", all.put)
                           .find("PMIx_Commit", all.commit)
                           .find("PMIx_Get", all.get)
                           .find("PMIx_Get_nb", all.get_nb)
                           .find("PMIx_Fence_nb", all.fence_nb)
                           .find("PMIx_Notify_event", all.notify_event)
                           .find("PMIx_Register_event_handler", all.register_event_handler)
                           .find("PMIx_Deregister_event_handler", all.deregister_event_handler)
                           .find("PMIx_server_init", all.server_init)
                           .find("PMIx_server_finalize", all.server_finalize)
                           .find("PMIx_server_register_nspace", all.server_register_nspace)
                           .find("PMIx_server_register_client", all.server_register_client)
                           .find("PMIx_server_setup_fork", all.server_setup_fork)
                           .find("PMIx_generate_regex", all.generate_regex)
                           .find("PMIx_generate_ppn", all.generate_ppn)
                           .status("PMIx is not installed here"));
  return all;
}

std::shared_ptr<Answer> unshare(void* shared) {
  const std::unique_ptr<std::shared_ptr<Answer>> owner(
      static_cast<std::shared_ptr<Answer>*>(shared));
  return std::move(*owner);
}

template <typename Fill>
void answer(void* shared, pmix_status_t status, Fill fill) {
  const std::shared_ptr<Answer> answer = unshare(shared);
  const std::lock_guard lock(answer->bell->mutex);
  // PMIX_OPERATION_SUCCEEDED means that the request was served at once.
  answer->status = status == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : status;
  fill(*answer);
  answer->is_here = true;
  answer->bell->rung.notify_all();
}

pmix_info_t attribute(std::string_view key, pmix_data_type_t type) {
  invariant(key.size() < sizeof(pmix_key_t), "PMIx bounds its names");
  pmix_info_t info{};
  std::ranges::copy(key, info.key);
  info.value.type = type;
  return info;
}

}  // namespace

Result<const Library*> library() {
  // Never destroyed, because a static context may be the last one that uses it.
  static const auto& loaded = *new const Result<Library>(load());
  if (!loaded.ok()) return loaded.status();
  return &*loaded;
}

Status failure(const Library& library, std::string_view what, pmix_status_t status) {
  return Status(status == PMIX_ERR_UNREACH ? Code::unavailable : Code::system,
                fmt::format("PMIx: {}: {}", what, library.error_string(status)));
}

std::shared_ptr<Answer> new_answer(const std::shared_ptr<Bell>& bell) {
  auto answer = std::make_shared<Answer>();
  answer->bell = bell;
  return answer;
}

void* share(const std::shared_ptr<Answer>& answer) {
  return new std::shared_ptr<Answer>(answer);
}

void take_back(void* shared) {
  (void)unshare(shared);
}

void on_done(pmix_status_t status, void* shared) {
  answer(shared, status, [](Answer&) {});
}

void on_value(pmix_status_t status, pmix_value_t* value, void* shared) {
  answer(shared, status, [value](Answer& into) {
    if (value == nullptr || value->type != PMIX_BYTE_OBJECT) return;
    into.value.assign(value->data.bo.bytes, value->data.bo.size);
  });
}

void on_registered(pmix_status_t status, std::size_t reference, void* shared) {
  answer(shared, status, [reference](Answer& into) { into.reference = reference; });
}

pmix_status_t await(Answer& answer, Deadline deadline) {
  const std::chrono::steady_clock::time_point until{std::chrono::nanoseconds(deadline.ns())};
  std::unique_lock lock(answer.bell->mutex);
  if (!answer.bell->rung.wait_until(lock, until, [&] { return answer.is_here; })) {
    return PMIX_ERR_TIMEOUT;
  }
  return answer.status;
}

pmix_proc_t process(std::string_view name_space, pmix_rank_t rank) {
  invariant(name_space.size() < sizeof(pmix_nspace_t), "PMIx bounds its names");
  pmix_proc_t process{};
  std::ranges::copy(name_space, process.nspace);
  process.rank = rank;
  return process;
}

pmix_info_t flag(std::string_view key) {
  pmix_info_t info = attribute(key, PMIX_BOOL);
  info.value.data.flag = true;
  return info;
}

pmix_info_t number(std::string_view key, std::uint32_t value) {
  pmix_info_t info = attribute(key, PMIX_UINT32);
  info.value.data.uint32 = value;
  return info;
}

pmix_info_t small_number(std::string_view key, std::uint16_t value) {
  pmix_info_t info = attribute(key, PMIX_UINT16);
  info.value.data.uint16 = value;
  return info;
}

pmix_info_t seconds(std::string_view key, int value) {
  pmix_info_t info = attribute(key, PMIX_INT);
  info.value.data.integer = value;
  return info;
}

pmix_info_t text(std::string_view key, const std::string& value) {
  pmix_info_t info = attribute(key, PMIX_STRING);
  info.value.data.string = const_cast<char*>(value.c_str());
  return info;
}

pmix_info_t process_rank(std::string_view key, pmix_rank_t value) {
  pmix_info_t info = attribute(key, PMIX_PROC_RANK);
  info.value.data.rank = value;
  return info;
}

pmix_info_t process_name(std::string_view key, pmix_proc_t& value) {
  pmix_info_t info = attribute(key, PMIX_PROC);
  info.value.data.proc = &value;
  return info;
}

}  // namespace weft::pmix
