// windows: agreeing on a window, and ending it.
#include "engine/context/windows.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "engine/context/failures.h"
#include "engine/context/operands.h"
#include "engine/gpu/gpu.h"
#include "verbs/base/base.h"
#include "verbs/bond/bond.h"

namespace weft {
namespace {

constexpr std::size_t kNameBytes = 64;
constexpr std::size_t kErrorBytes = 160;

void put_text(std::span<char> to, std::string_view text) {
  const std::size_t bytes = std::min(text.size(), to.size() - 1);
  std::memcpy(to.data(), text.data(), bytes);
  to[bytes] = '\0';
}

std::uint64_t hash_of(const Graph& graph) {
  const auto bytes = [](const auto& value) {
    return std::string_view(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::uint64_t hash = kFnvBasis;
  for (Rank rank = 0; rank < graph.size(); ++rank) {
    for (const Peer& peer : graph.in_edges(rank)) {
      hash = fnv1a64(bytes(peer.rank), hash);
      hash = fnv1a64(bytes(peer.weight), hash);
    }
    hash = fnv1a64(bytes(rank), hash);
  }
  return hash;
}

std::size_t place_of(Rank rank, std::span<const Peer> peers) {
  return static_cast<std::size_t>(std::ranges::lower_bound(peers, rank, {}, &Peer::rank) -
                                  peers.begin());
}

// Whether a neighbor is reached by a device whose atomics are not those of a processor.
bool has_device_atomics(const WindowSetup& setup) {
  const auto by_device = [](const WindowNeighbor& each) {
    const Endpoint& endpoint = *each.part.endpoint;
    return !endpoint.properties().shares_memory && !endpoint.properties().work_needs_peer;
  };
  return std::ranges::any_of(setup.in, by_device) || std::ranges::any_of(setup.out, by_device);
}

Result<window::PeerMemory> import(Endpoint& endpoint, std::string_view key, std::size_t bytes) {
  window::PeerMemory memory;
  WEFT_ASSIGN(const std::uint32_t number, endpoint.import_region(key));
  memory.remote = {PieceForm::region, 0, bytes, number};
  // A view is for readers; here the memory is ours to write.
  memory.mapped = const_cast<std::byte*>(endpoint.view(memory.remote));
  return memory;
}

// Memory of windows that ended without the other ranks. It stays until the process ends.
void keep_forever(std::initializer_list<std::shared_ptr<const void>> memory) {
  static std::mutex& mutex = *new std::mutex;
  static auto& kept = *new std::vector<std::shared_ptr<const void>>;
  const std::lock_guard lock(mutex);
  kept.insert(kept.end(), memory.begin(), memory.end());
}

// What slots take can be counted.
Status check_slots(const Output& tensor, std::size_t in_degree) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max() / 2;
  if (tensor.count * size_of(tensor.type) <= kMost / (window::kBuffers * (in_degree + 1)))
    return {};
  return Status(Code::invalid_argument,
                fmt::format("{} elements and the slots of {} in-neighbors fit in no memory",
                            tensor.count, in_degree));
}

}  // namespace

// What a rank tells the others. Its values travel in an allgather; frozen with the wire version.
struct Windows::Record {
  enum class Call : std::uint32_t { create = 1, free = 2 };
  Call call = Call::create;
  std::uint32_t type = 0;
  std::uint64_t count = 0;
  std::uint64_t graph = 0;  // hash_of() it
  std::uint32_t zero_init = 0;
  std::uint32_t code = 0;                      // not 0: the rank refuses, with this code and error
  std::uint32_t part_key = 0, tensor_key = 0;  // bytes of the keys
  std::uint32_t device_atomics = 0;            // 1: the rank reaches a neighbor by such a device
  std::uint32_t on_gpu = 0;                    // 1: the tensor is GPU memory
  char name[kNameBytes] = {};
  char error[kErrorBytes] = {};

  void refuse(const Status& why) {
    code = static_cast<std::uint32_t>(why.code());
    put_text(error, why.text());
  }
};

Status Windows::check(const Output& tensor, std::string_view name) {
  if (name.empty() || name.size() >= kNameBytes)
    return invalid(fmt::format("the name \"{}\" must have 1 to {} bytes", name, kNameBytes - 1));
  if (name.find('\0') != std::string_view::npos)
    return invalid(fmt::format("the name \"{}\" has a NUL after these bytes", name.data()));
  if (tensor.data == nullptr && tensor.count != 0) return invalid("the tensor is null");
  if (!is_known(tensor.type))
    return invalid(fmt::format("no type has the number {}", static_cast<unsigned>(tensor.type)));
  if (!is_count_of_memory(tensor.count, tensor.type))
    return invalid(fmt::format("{} elements fit in no memory", tensor.count));
  const std::lock_guard lock(mutex_);
  if (windows_.contains(name)) return invalid("there is a window of that name");
  return {};
}

Result<std::vector<Windows::Record>> Windows::exchange(std::string_view what, const Record& own) {
  std::vector<Record> all(static_cast<std::size_t>(config_.size));
  const Input mine{&own, sizeof own, DataType::u8};
  const Output everyones{all.data(), sizeof own * all.size(), DataType::u8};
  const Status status =
      run_({.collective = Collective::allgather, .input = mine, .output = everyones});
  for (Record& each : all) each.name[kNameBytes - 1] = each.error[kErrorBytes - 1] = '\0';
  if (status.ok()) return all;
  return Status(status.code(), fmt::format("{} \"{}\": {}", what, own.name, status.text()),
                status.rank());
}

// The same answer on all ranks, whoever is at fault.
Status Windows::compare(std::string_view what, const std::vector<Record>& all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const Record& each = all[rank];
    if (each.code == 0) continue;
    const bool is_known = each.code <= static_cast<std::uint32_t>(kLastCode);
    return Status(is_known ? static_cast<Code>(each.code) : Code::mismatch,
                  fmt::format("{} \"{}\": rank {}: {}", what, each.name, rank, each.error),
                  static_cast<Rank>(rank));
  }
  const Record& first = all.front();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const Record& each = all[rank];
    std::string differs;
    if (each.call != first.call) {
      differs = "the one makes a window, the other frees one";
    } else if (std::strcmp(each.name, first.name) != 0) {
      differs = fmt::format("the name is \"{}\" and \"{}\"", first.name, each.name);
    } else if (each.type != first.type || each.count != first.count) {
      differs = fmt::format("the tensor has {} elements of {} and {} of {}", first.count,
                            weft::name(static_cast<DataType>(first.type)), each.count,
                            weft::name(static_cast<DataType>(each.type)));
    } else if (each.zero_init != first.zero_init) {
      differs = fmt::format("zero_init is {} and {}", first.zero_init != 0, each.zero_init != 0);
    } else if (each.graph != first.graph) {
      differs = "their graphs are different";
    } else {
      continue;
    }
    return Status(
        Code::mismatch,
        fmt::format("{} \"{}\": ranks 0 and {} disagree: {}", what, first.name, rank, differs),
        static_cast<Rank>(rank));
  }
  return {};
}

Result<Window> Windows::create(const Output& tensor, std::string_view name,
                               const WindowOptions& options, const std::shared_ptr<Lane>& lane) {
  const Graph& graph = edges_.graph();
  const std::size_t element = is_known(tensor.type) ? size_of(tensor.type) : 0;  // check() refuses
  const window::Shape shape{tensor.count * element, graph.in_edges(config_.rank).size(),
                            graph.out_edges(config_.rank).size()};
  Record own;
  put_text(own.name, name);
  own.type = static_cast<std::uint32_t>(tensor.type);
  own.count = tensor.count;
  own.zero_init = options.zero_init ? 1 : 0;
  own.graph = hash_of(graph);
  Part part;
  Status status = check(tensor, name);
  if (status.ok()) status = check_slots(tensor, shape.in_degree);
  if (status.ok()) status = make(tensor, options.stream, shape.total(), part);
  if (!status.ok()) own.refuse(status);
  own.part_key = static_cast<std::uint32_t>(part.keys.part.size());
  own.tensor_key = static_cast<std::uint32_t>(part.keys.tensor.size());
  own.on_gpu = part.on_gpu.image != nullptr ? 1 : 0;
  Result<Window> made = agree(tensor, name, options, own, part, lane);
  if (!made.ok()) withdraw(part.exposed);
  return made;
}

// Allocates our part, and exposes it and the tensor, or the host's copy of one on a GPU.
Status Windows::make(const Output& tensor, const std::optional<Stream>& stream,
                     std::size_t part_bytes, Part& part) {
  WEFT_ASSIGN(Memory memory, Memory::allocate(part_bytes));
  part.memory = std::make_shared<Memory>(std::move(memory));
  const std::size_t bytes = tensor.count * size_of(tensor.type);
  auto* data = static_cast<std::byte*>(tensor.data);
  std::optional<GpuMemory> gpu;
  if (bytes != 0) {
    WEFT_ASSIGN(gpu, find_gpu_memory(data));
  }
  if (gpu) {
    WEFT_ASSIGN(part.on_gpu, copy_to_host(*gpu, data, bytes, stream));
    data = part.on_gpu.image->data();
  }
  const Lane::Hold hold(lane_);
  Interface& interface = lane_.interface();
  WEFT_ASSIGN(const Region of_part, interface.expose({part.memory->as<std::byte>(), part_bytes}));
  const Result<Region> of_tensor = interface.expose({data, bytes});
  if (!of_tensor.ok()) {
    interface.withdraw(of_part.number);
    return of_tensor.status();
  }
  part.exposed = {of_part.number, of_tensor->number};
  part.keys = {of_part.key, of_tensor->key};
  return {};
}

Result<window::OwnCopies> Windows::copy_to_host(const GpuMemory& gpu, std::byte* data,
                                                std::size_t bytes,
                                                const std::optional<Stream>& stream) {
  window::OwnCopies made;
  WEFT_ASSIGN(made.image, HostCopy::make({{data, bytes}}, gpu, bell_));
  WEFT_ASSIGN(made.fetched, HostCopy::make({{data, bytes}}, gpu, bell_));
  window::Staging staging(stream, bell_);
  WEFT_RETURN_IF_ERROR(staging.fetches(made.image));
  const Lane::Hold hold(lane_);
  WEFT_RETURN_IF_ERROR(
      window::run_copies(lane_, staging, &window::Staging::fetch, config_.deadline_ms * 1'000'000));
  return made;
}

// The three steps of agreement: what everyone wants, where everyone's memory is, and that everyone
// is ready for the others to write.
Result<Window> Windows::agree(const Output& tensor, std::string_view name,
                              const WindowOptions& options, Record own, const Part& part,
                              const std::shared_ptr<Lane>& lane) {
  WEFT_ASSIGN(const std::vector<Record> all, exchange("win_create", own));
  WEFT_RETURN_IF_ERROR(compare("win_create", all));
  WEFT_ASSIGN(const std::vector<Keys> keys, exchange_keys(part.keys, all));
  Result<WindowSetup> setup = set_up(tensor, name, options, keys);
  if (setup.ok()) {
    setup->part = part.memory;
    setup->on_gpu = part.on_gpu;
    setup->exposed = part.exposed;
    for (auto* side : {&setup->in, &setup->out}) {
      for (WindowNeighbor& each : *side)
        each.is_on_gpu = all[static_cast<std::size_t>(each.part.rank)].on_gpu != 0;
    }
    own.device_atomics = has_device_atomics(*setup) ? 1 : 0;
  }
  Result<std::shared_ptr<WindowObject>> made = open(std::move(setup), lane);
  if (!made.ok()) own.refuse(made.status());
  const Result<std::vector<Record>> ready = exchange("win_create", own);
  // Others may have heard from all, and write.
  if (!ready.ok()) keep_forever({part.memory, part.on_gpu.image, options.owner});
  const Status status = ready.ok() ? compare("win_create", *ready) : ready.status();
  if (!status.ok()) {
    if (made.ok()) end(**made);
    return status;
  }
  const std::lock_guard lock(mutex_);
  device_atomics_ |=
      std::ranges::any_of(*ready, [](const Record& each) { return each.device_atomics != 0; });
  windows_.emplace(name, Made{*made, options.owner});
  return Window(*std::move(made));
}

Result<std::shared_ptr<WindowObject>> Windows::open(Result<WindowSetup> setup,
                                                    const std::shared_ptr<Lane>& lane) {
  if (!setup.ok()) return setup.status();
  auto object = std::make_shared<WindowObject>(*std::move(setup), lane);
  WEFT_RETURN_IF_ERROR(object->open());
  if (!object->setup().serves) return object;
  WEFT_RETURN_IF_ERROR(lane_.start_thread());
  const Lane::Hold hold(lane_);
  lane_.serve();
  return object;
}

// No rank writes to the window any more.
void Windows::end(WindowObject& object) {
  object.close(invalid(fmt::format("window \"{}\" was freed", object.name())));
  const WindowSetup& setup = object.setup();
  {
    const Lane::Hold hold(lane_);
    for (const auto* side : {&setup.in, &setup.out}) {
      for (const WindowNeighbor& each : *side) {
        each.part.endpoint->drop_region(each.part.memory.remote.region);
        each.part.endpoint->drop_region(each.tensor.memory.remote.region);
      }
    }
    if (setup.serves) lane_.end_serving();
  }
  withdraw(setup.exposed);
}

void Windows::withdraw(std::span<const std::uint32_t> regions) {
  const Lane::Hold hold(lane_);
  for (const std::uint32_t region : regions) lane_.interface().withdraw(region);
}

Result<std::vector<Windows::Keys>> Windows::exchange_keys(const Keys& own,
                                                          const std::vector<Record>& all) {
  const std::string mine = own.part + own.tensor;
  std::vector<std::size_t> counts;
  for (const Record& each : all) counts.push_back(each.part_key + each.tensor_key);
  std::string everyones(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), '\0');
  WEFT_RETURN_IF_ERROR(run_({.collective = Collective::allgather,
                             .input = {mine.data(), mine.size(), DataType::u8},
                             .output = {everyones.data(), everyones.size(), DataType::u8},
                             .counts = counts}));
  std::vector<Keys> keys;
  std::size_t place = 0;
  for (const Record& each : all) {
    keys.push_back({everyones.substr(place, each.part_key),
                    everyones.substr(place + each.part_key, each.tensor_key)});
    place += each.part_key + each.tensor_key;
  }
  return keys;
}

Result<WindowNeighbor> Windows::neighbor(Rank rank, std::size_t bytes, const Keys& keys) {
  const Graph& graph = edges_.graph();
  WindowNeighbor made;
  made.shape = {bytes, graph.in_edges(rank).size(), graph.out_edges(rank).size()};
  made.in_index = place_of(config_.rank, graph.in_edges(rank));
  made.out_index = place_of(config_.rank, graph.out_edges(rank));
  made.part.rank = made.tensor.rank = rank;
  if (rank == config_.rank) return made;
  WEFT_ASSIGN(const PeerConnection* connection, peers_.connection(rank));
  made.part.endpoint = made.tensor.endpoint = connection->endpoint;
  WEFT_ASSIGN(made.part.memory, import(*connection->endpoint, keys.part, made.shape.total()));
  // Puts do not need the tensor, so a window without that is one, too.
  Result<window::PeerMemory> tensor = import(*connection->endpoint, keys.tensor, bytes);
  if (tensor.ok())
    made.tensor.memory = *tensor;
  else
    made.tensor_access = tensor.status();
  return made;
}

// The atomics of a device are atomic only among themselves. So where a device of a rank is used for
// its mutex, all ranks use that device, also those that share the rank's memory, and the rank.
Result<window::Place> Windows::mutex_of(Rank rank, const Keys& keys) {
  Interface& interface = lane_.interface();
  window::Place place{rank, nullptr, {}};
  std::string address = interface.address();
  if (rank != config_.rank) {
    WEFT_ASSIGN(address, peers_.addresses().address_of(rank, config_.deadline_ms));
  }
  if (device_atomics_) {
    WEFT_ASSIGN(address, network_address(address));
  }
  WEFT_ASSIGN(place.endpoint, interface.connect(rank, address));
  WEFT_ASSIGN(place.memory, import(*place.endpoint, keys.part, sizeof(window::Head)));
  return place;
}

Result<WindowSetup> Windows::set_up(const Output& tensor, std::string_view name,
                                    const WindowOptions& options, const std::vector<Keys>& keys) {
  const Lane::Hold hold(lane_);
  const Graph& graph = edges_.graph();
  const std::span<const Peer> in = graph.in_edges(config_.rank);
  const double uniform = 1.0 / static_cast<double>(in.size() + 1);
  const std::size_t bytes = tensor.count * size_of(tensor.type);
  WindowSetup setup;
  setup.name = name;
  setup.tensor = tensor;
  setup.zero_init = options.zero_init;
  setup.self = config_.rank;
  setup.self_weight = edges_.is_weighted() ? graph.self_weight(config_.rank) : uniform;
  setup.deadline_ms = config_.deadline_ms;
  setup.lost_path_patience_ns = lost_path_patience_ns(config_);
  setup.bell = bell_;
  setup.timeline = &timeline_;
  std::map<Rank, Keys> keys_of;
  const auto add = [&](std::vector<WindowNeighbor>& side, const Peer& peer) -> Status {
    const Keys& its = keys_of[peer.rank] = keys[static_cast<std::size_t>(peer.rank)];
    WEFT_ASSIGN(WindowNeighbor made, neighbor(peer.rank, bytes, its));
    made.weight = edges_.is_weighted() ? peer.weight : uniform;
    setup.serves |= made.part.endpoint->properties().work_needs_peer;
    side.push_back(made);
    return {};
  };
  for (const Peer& peer : in) WEFT_RETURN_IF_ERROR(add(setup.in, peer));
  for (const Peer& peer : graph.out_edges(config_.rank)) WEFT_RETURN_IF_ERROR(add(setup.out, peer));
  keys_of[config_.rank] = keys[static_cast<std::size_t>(config_.rank)];
  WEFT_ASSIGN(setup.own, neighbor(config_.rank, bytes, keys_of[config_.rank]));
  setup.mutex_of = [this, keys_of = std::move(keys_of)](Rank rank) {
    return mutex_of(rank, keys_of.at(rank));
  };
  setup.check_alive = [this](Rank rank, const Endpoint* endpoint) -> Status {
    const bool has_news = membership_.epoch() != 0;
    if (has_news && membership_.died(rank))
      return Status(Code::peer_died, fmt::format("rank {} has died", rank), rank);
    const bool has_closed = endpoint != nullptr && endpoint->peer_closed();
    if (has_closed || (has_news && membership_.left(rank)))
      return Status(Code::peer_left, fmt::format("rank {} has closed its context", rank), rank);
    return {};
  };
  return setup;
}

Result<Window> Windows::find(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = windows_.find(name);
  if (found == windows_.end()) return invalid(fmt::format("there is no window \"{}\"", name));
  return Window(found->second.object);
}

std::vector<std::string> Windows::names() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, made] : windows_) names.push_back(name);
  return names;
}

std::vector<std::string> Windows::describe() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  for (const auto& [name, made] : windows_) lines.push_back(made.object->describe());
  return lines;
}

std::shared_ptr<WindowObject> Windows::object_of(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = windows_.find(name);
  return found == windows_.end() ? nullptr : found->second.object;
}

// While the ranks agree, no call may begin. If a rank refuses, the window goes on on all ranks. If this
// rank does not hear from all, others may have freed theirs, and others may still write here.
Status Windows::free(std::string_view name) {
  const std::shared_ptr<WindowObject> object = object_of(name);
  Record own;
  own.call = Record::Call::free;
  put_text(own.name, name);
  if (object == nullptr) {
    own.refuse(invalid("there is no window of that name"));
  } else if (const Status status = object->suspend(); !status.ok()) {
    own.refuse(status);
  }
  const Result<std::vector<Record>> all = exchange("win_free", own);
  const Status agreed = all.ok() ? compare("win_free", *all) : all.status();
  if (!all.ok() && object != nullptr) object->close(all.status());
  if (!agreed.ok()) {
    if (object != nullptr) object->resume();
    return agreed;
  }
  end(*object);
  Made freed;
  const std::lock_guard lock(mutex_);
  const auto found = windows_.find(name);
  freed = std::move(found->second);
  windows_.erase(found);
  return {};
}

Status Windows::free_all() {
  for (const std::string& name : names()) WEFT_RETURN_IF_ERROR(free(name));
  return {};
}

Status Windows::fence() {
  std::vector<std::shared_ptr<WindowObject>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, made] : windows_) all.push_back(made.object);
  }
  Status first;
  for (const auto& object : all) {
    const Status status = object->flush();
    if (first.ok()) first = status;
  }
  const Status met = run_({.collective = Collective::barrier});
  return first.ok() ? met : first;
}

Status Windows::check_none(std::string_view what) {
  const std::lock_guard lock(mutex_);
  if (windows_.empty()) return {};
  return invalid(fmt::format(
      "{}: the graph cannot be changed while there are windows: free {}{}", what,
      windows_.begin()->first,
      windows_.size() == 1 ? std::string() : fmt::format(" and {} more", windows_.size() - 1)));
}

void Windows::close(const Status& why) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, made] : windows_) {
    made.object->close(why);
    const WindowSetup& setup = made.object->setup();
    keep_forever({setup.part, setup.on_gpu.image, made.owner});
  }
  windows_.clear();
}

}  // namespace weft
