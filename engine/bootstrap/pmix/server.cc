// server: `weft run` as a PMIx server for one job, whose processes are all on this machine. The
// PMIx library keeps the values and passes them between its clients. This file tells the library
// which clients there are, and that there are no others.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "engine/bootstrap/bootstrap.h"
#include "engine/bootstrap/pmix/library.h"
#include "engine/bootstrap/proof.h"

namespace weft {
namespace {

constexpr std::int64_t kAnswerMs = 10'000;  // the library answers from memory

// A folder for the library's files. It is removed with the server.
class Folder {
 public:
  static Result<std::unique_ptr<Folder>> make() {
    std::error_code error;
    std::string path = std::filesystem::temp_directory_path(error) / "weft-pmix-XXXXXX";
    if (error || ::mkdtemp(path.data()) == nullptr) return system_error("mkdtemp " + path, errno);
    return std::make_unique<Folder>(std::move(path));
  }
  explicit Folder(std::string path) : path_(std::move(path)) {}
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// An environment variable that makes Open MPI 4 believe that it was started directly. It does so
// only if it finds the variable of a launcher that it knows. This one (of IBM's jsrun) has no other
// meaning to Open MPI, nor to an mpirun that a rank starts.
constexpr const char* kDirectLaunch = "JSM_JSRUN_PORT";

// The functions that the library calls in its host. Nothing is left for them to do: all processes
// of a fence are on this machine, and all values are in the library's memory.
pmix_status_t done_already(const pmix_proc_t*, void*, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

// Called when a rank calls PMIx_Abort. The rank then ends, and `weft run` treats that as any end of
// a rank.
pmix_status_t on_abort(const pmix_proc_t* process, void*, int status, const char message[],
                       pmix_proc_t*, std::size_t, pmix_op_cbfunc_t, void*) {
  log(LogLevel::warning, fmt::format("rank {} aborts with status {}: {}", process->rank, status,
                                     message == nullptr ? "(no message)" : message));
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t on_fence(const pmix_proc_t*, std::size_t, const pmix_info_t*, std::size_t, char* data,
                       std::size_t bytes, pmix_modex_cbfunc_t answer, void* request) {
  answer(PMIX_SUCCESS, data, bytes, request, &std::free, data);
  return PMIX_SUCCESS;
}

pmix_status_t on_get_from_elsewhere(const pmix_proc_t*, const pmix_info_t*, std::size_t,
                                    pmix_modex_cbfunc_t, void*) {
  return PMIX_ERR_NOT_FOUND;
}

pmix_status_t on_events(pmix_status_t*, std::size_t, const pmix_info_t*, std::size_t,
                        pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t on_events_no_more(pmix_status_t*, std::size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t on_event(pmix_status_t, const pmix_proc_t*, pmix_data_range_t, pmix_info_t*,
                       std::size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_server_module_t* host() {
  static pmix_server_module_t module = [] {
    pmix_server_module_t made{};
    made.client_connected = &done_already;
    made.client_finalized = &done_already;
    made.abort = &on_abort;
    made.fence_nb = &on_fence;
    made.direct_modex = &on_get_from_elsewhere;
    made.register_events = &on_events;
    made.deregister_events = &on_events_no_more;
    made.notify_event = &on_event;
    return made;
  }();
  return &module;
}

std::string ranks_below(int size) {
  std::string text;
  for (int rank = 0; rank < size; ++rank) text += fmt::format("{}{}", rank == 0 ? "" : ",", rank);
  return text;
}

// The name of a job. PMIx serves whoever names a job and says that it is of the server's user, which
// any process of this machine can say. So the name is a secret: 256 random bits, which only the
// environment of the ranks has.
Result<std::string> secret_name() {
  WEFT_ASSIGN(const wire::Nonce random, proof::fresh_nonce());
  return fmt::format("weft.{:02x}", fmt::join(random, ""));
}

class Server final : public PmixServer {
 public:
  Server(const pmix::Library& library, std::unique_ptr<Folder> folder, std::string name, int size)
      : library_(library),
        folder_(std::move(folder)),
        name_(std::move(name)),
        size_(static_cast<std::uint32_t>(size)) {}
  ~Server() override {
    if (is_up_) (void)library_.server_finalize();
  }

  Status open();
  [[nodiscard]] Result<std::vector<std::pair<std::string, std::string>>> environment_of(
      Rank rank) override;
  void declare_dead(Rank rank, int exit_status, const std::string& reason) override;

 private:
  Status register_job();
  Status register_rank(pmix_rank_t rank);
  template <typename Call>
  Status ask(std::string_view what, Call call);

  const pmix::Library& library_;
  const std::unique_ptr<Folder> folder_;
  const std::string name_;
  const std::uint32_t size_;
  const std::shared_ptr<pmix::Bell> bell_ = std::make_shared<pmix::Bell>();
  bool is_up_ = false;
};

// Makes a request that ends with a callback, and waits for the callback.
template <typename Call>
Status Server::ask(std::string_view what, Call call) {
  const auto answer = pmix::new_answer(bell_);
  void* shared = pmix::share(answer);
  pmix_status_t status = call(shared);
  if (status == PMIX_SUCCESS) {
    status = pmix::await(*answer, Deadline::after_ms(kAnswerMs));
  } else {
    pmix::take_back(shared);
  }
  if (status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED) return {};
  return pmix::failure(library_, what, status);
}

Status Server::open() {
  std::array<pmix_info_t, 1> infos{pmix::text(PMIX_SERVER_TMPDIR, folder_->path())};
  const pmix_status_t status = library_.server_init(host(), infos.data(), infos.size());
  if (status != PMIX_SUCCESS) return pmix::failure(library_, "start the server", status);
  is_up_ = true;
  WEFT_RETURN_IF_ERROR(register_job());
  for (pmix_rank_t rank = 0; rank < size_; ++rank) WEFT_RETURN_IF_ERROR(register_rank(rank));
  return {};
}

Status Server::register_job() {
  std::array<char, 256> host_name{};
  if (::gethostname(host_name.data(), host_name.size() - 1) != 0)
    return system_error("gethostname", errno);
  const std::string node = host_name.data();
  const std::string ranks = ranks_below(static_cast<int>(size_));
  char* nodes = nullptr;
  char* places = nullptr;
  pmix_status_t status = library_.generate_regex(node.c_str(), &nodes);
  if (status == PMIX_SUCCESS) status = library_.generate_ppn(ranks.c_str(), &places);
  const std::unique_ptr<char, decltype(&std::free)> nodes_owner(nodes, &std::free);
  const std::unique_ptr<char, decltype(&std::free)> places_owner(places, &std::free);
  if (status != PMIX_SUCCESS) return pmix::failure(library_, "describe the job", status);
  const std::string node_map = nodes;
  const std::string place_map = places;
  std::vector<pmix_info_t> infos{
      pmix::number(PMIX_UNIV_SIZE, size_),     pmix::number(PMIX_MAX_PROCS, size_),
      pmix::number(PMIX_JOB_SIZE, size_),      pmix::number(PMIX_APP_SIZE, size_),
      pmix::number(PMIX_LOCAL_SIZE, size_),    pmix::number(PMIX_NODE_SIZE, size_),
      pmix::number(PMIX_JOB_NUM_APPS, 1),      pmix::number(PMIX_NUM_NODES, 1),
      pmix::text(PMIX_LOCAL_PEERS, ranks),     pmix::text(PMIX_NODE_MAP, node_map),
      pmix::text(PMIX_PROC_MAP, place_map),    pmix::text(PMIX_JOBID, name_),
      pmix::text(PMIX_NSDIR, folder_->path()), pmix::text(PMIX_TMPDIR, folder_->path())};
  // The values of each process are an array of attributes, which the library copies.
  std::vector<std::array<pmix_info_t, 7>> own;
  std::vector<pmix_data_array_t> arrays(size_);
  for (pmix_rank_t rank = 0; rank < size_; ++rank) {
    const auto place = static_cast<std::uint16_t>(rank);
    own.push_back({pmix::process_rank(PMIX_RANK, rank), pmix::process_rank(PMIX_GLOBAL_RANK, rank),
                   pmix::small_number(PMIX_LOCAL_RANK, place),
                   pmix::small_number(PMIX_NODE_RANK, place), pmix::number(PMIX_APPNUM, 0),
                   pmix::number(PMIX_NODEID, 0), pmix::text(PMIX_HOSTNAME, node)});
  }
  for (pmix_rank_t rank = 0; rank < size_; ++rank) {
    arrays[rank] = {PMIX_INFO, own[rank].size(), own[rank].data()};
    pmix_info_t info = pmix::flag(PMIX_PROC_DATA);
    info.value.type = PMIX_DATA_ARRAY;
    info.value.data.darray = &arrays[rank];
    infos.push_back(info);
  }
  return ask("register the job", [&](void* shared) {
    return library_.server_register_nspace(name_.c_str(), static_cast<int>(size_), infos.data(),
                                           infos.size(), &pmix::on_done, shared);
  });
}

Status Server::register_rank(pmix_rank_t rank) {
  const pmix_proc_t process = pmix::process(name_, rank);
  return ask("register a rank", [&](void* shared) {
    return library_.server_register_client(&process, ::getuid(), ::getgid(), nullptr,
                                           &pmix::on_done, shared);
  });
}

Result<std::vector<std::pair<std::string, std::string>>> Server::environment_of(Rank rank) {
  const pmix_proc_t process = pmix::process(name_, static_cast<pmix_rank_t>(rank));
  char** entries = nullptr;
  const pmix_status_t status = library_.server_setup_fork(&process, &entries);
  if (status != PMIX_SUCCESS) return pmix::failure(library_, "a rank's environment", status);
  std::vector<std::pair<std::string, std::string>> settings{{kDirectLaunch, "0"}};
  for (char** entry = entries; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    settings.emplace_back(text.substr(0, equals), text.substr(std::min(equals + 1, text.size())));
    std::free(*entry);
  }
  std::free(entries);
  return settings;
}

// The end of a rank with exit status 0 is not reported to default event handlers, because these
// would end the other ranks.
void Server::declare_dead(Rank rank, int exit_status, const std::string& reason) {
  pmix_proc_t process = pmix::process(name_, static_cast<pmix_rank_t>(rank));
  std::vector<pmix_info_t> infos{pmix::process_name(PMIX_EVENT_AFFECTED_PROC, process),
                                 pmix::text(PMIX_EVENT_TEXT_MESSAGE, reason)};
  if (exit_status == 0) infos.push_back(pmix::flag(PMIX_EVENT_NON_DEFAULT));
  const pmix_status_t code = exit_status == 0 ? PMIX_PROC_TERMINATED : PMIX_ERR_PROC_ABORTED;
  const Status told = ask("tell of a rank's end", [&](void* shared) {
    return library_.notify_event(code, &process, PMIX_RANGE_NAMESPACE, infos.data(), infos.size(),
                                 &pmix::on_done, shared);
  });
  if (!told.ok()) log(LogLevel::warning, told.text());
}

}  // namespace

Result<std::unique_ptr<PmixServer>> PmixServer::start(int size) {
  WEFT_ASSIGN(const pmix::Library* library, pmix::library());
  WEFT_ASSIGN(std::unique_ptr<Folder> folder, Folder::make());
  WEFT_ASSIGN(std::string name, secret_name());
  auto server = std::make_unique<Server>(*library, std::move(folder), std::move(name), size);
  WEFT_RETURN_IF_ERROR(server->open());
  return std::unique_ptr<PmixServer>(std::move(server));
}

}  // namespace weft
