// config: weft::Config, field by field.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <weft/weft.h>

#include <string>
#include <vector>

#include "bindings/python/core/bindings.h"
#include "bindings/python/core/errors.h"

namespace weft::python {
namespace nb = nanobind;

namespace {

void bind_choices(nb::module_& module) {
  nb::enum_<Launcher>(module, "Launcher", "Who started this process.")
      .value("automatic", Launcher::automatic)
      .value("weft", Launcher::weft)
      .value("pmix", Launcher::pmix)
      .value("torchrun", Launcher::torchrun)
      .value("alone", Launcher::alone);
  nb::enum_<ProgressMode>(module, "ProgressMode", "Who moves the bytes.")
      .value("thread", ProgressMode::thread)
      .value("waiter", ProgressMode::waiter);
  nb::enum_<HugePageUse>(module, "HugePageUse")
      .value("automatic", HugePageUse::automatic)
      .value("off", HugePageUse::off);
  nb::enum_<OnDeath>(module, "OnDeath", "What the death of a rank means to the others.")
      .value("fail", OnDeath::fail)
      .value("skip", OnDeath::skip);
  nb::enum_<Digests>(module, "Digests", "Which data ranks check for damage.")
      .value("off", Digests::off)
      .value("pieces", Digests::pieces)
      .value("results", Digests::results)
      .value("all", Digests::all);
  nb::enum_<GpuReduce>(module, "GpuReduce", "Who adds up tensors in GPU memory.")
      .value("automatic", GpuReduce::automatic)
      .value("host", GpuReduce::host)
      .value("gpu", GpuReduce::gpu);
  nb::enum_<NcclUse>(module, "NcclUse", "Whether NCCL runs operations inside a machine.")
      .value("automatic", NcclUse::automatic)
      .value("on", NcclUse::on)
      .value("off", NcclUse::off);
  nb::enum_<PrivatePath>(module, "PrivatePath", "How memory outside of Weft's segments is read.")
      .value("automatic", PrivatePath::automatic)
      .value("cma", PrivatePath::cma)
      .value("staging", PrivatePath::staging);
  nb::enum_<RailChoice>(module, "RailChoice", "Which network interfaces a rank uses.")
      .value("automatic", RailChoice::automatic)
      .value("near", RailChoice::near)
      .value("all", RailChoice::all);
  nb::enum_<ServedBy>(module, "ServedBy", "Who holds the rendezvous server.")
      .value("rank0", ServedBy::rank0)
      .value("launcher", ServedBy::launcher);
  nb::enum_<LogLevel>(module, "LogLevel")
      .value("debug", LogLevel::debug)
      .value("info", LogLevel::info)
      .value("warning", LogLevel::warning)
      .value("error", LogLevel::error)
      .value("off", LogLevel::off);
  nb::class_<Transports>(module, "Transports", "Which transports a rank opens.")
      .def(nb::init<>())
      .def_rw("automatic", &Transports::automatic)
      .def_rw("shm", &Transports::shm)
      .def_rw("ib", &Transports::ib)
      .def_rw("ucx", &Transports::ucx);
}

void make(nb::pointer_and_handle<Config> self, const nb::kwargs& fields) {
  new (self.p) Config();
  nb::inst_mark_ready(self.h);  // its properties are set next
  for (const auto& [field, value] : fields) nb::setattr(self.h, field, value);
}

}  // namespace

void bind_config(nb::module_& module) {
  bind_choices(module);
  nb::class_<Config>(module, "Config",
                     "Everything that a user may set. Each field has a default; `weft config` "
                     "explains them.")
      .def("__init__", &make, nb::arg("fields"),
           nb::sig("def __init__(self, **fields: typing.Any) -> None"))
      .def_static(
          "from_environment", [] { return check(Config::from_environment()); },
          "The environment of this process, read and checked as a whole.")
      .def_static(
          "from_entries",
          [](const std::vector<std::string>& entries) {
            return check(Config::from_entries(entries));
          },
          nb::arg("entries"), "The same from \"NAME=value\" entries.")
      .def(
          "check", [](const Config& self) { check(self.check()); },
          "Raises InvalidArgument if fields contradict each other.")
      .def_prop_ro("launch", &Config::launch, "Who started this process and how that was found.")
      .def("__repr__", [](const Config& self) { return "<weft.Config of " + self.launch() + ">"; })
      .def_rw("launcher", &Config::launcher)
      .def_rw("launcher_reason", &Config::launcher_reason)
      .def_rw("rank", &Config::rank)
      .def_rw("size", &Config::size, "Ranks in the job.")
      .def_rw("local_rank", &Config::local_rank)
      .def_rw("local_size", &Config::local_size, "Ranks on this machine; 0: not told.")
      .def_rw("local_cores", &Config::local_cores)
      .def_rw("host", &Config::host, "Identity of this machine; empty: found out.")
      .def_rw("rendezvous", &Config::rendezvous, "\"host:port\".")
      .def_rw("served_by", &Config::served_by)
      .def_rw("job_key", &Config::job_key, "Secret that the ranks share.")
      .def_rw("transports", &Config::transports)
      .def_rw("interfaces", &Config::interfaces)
      .def_rw("rails", &Config::rails)
      .def_rw("gpu", &Config::gpu)
      .def_rw("hardware", &Config::hardware)
      .def_rw("ib_gid_index", &Config::ib_gid_index)
      .def_rw("ib_queue_pairs", &Config::ib_queue_pairs)
      .def_rw("ib_mtu", &Config::ib_mtu)
      .def_rw("ib_traffic_class", &Config::ib_traffic_class)
      .def_rw("ib_service_level", &Config::ib_service_level)
      .def_rw("ib_udp_source_port", &Config::ib_udp_source_port)
      .def_rw("ib_timeout", &Config::ib_timeout)
      .def_rw("ib_retries", &Config::ib_retries)
      .def_rw("ib_rnr_timer", &Config::ib_rnr_timer)
      .def_rw("ib_receive_depth", &Config::ib_receive_depth)
      .def_rw("memory_hooks", &Config::memory_hooks)
      .def_rw("ucx_transports", &Config::ucx_transports)
      .def_rw("ucx_ports", &Config::ucx_ports)
      .def_rw("path_silence_ms", &Config::path_silence_ms)
      .def_rw("deadline_ms", &Config::deadline_ms, "Bound of every wait that is given none.")
      .def_rw("deadline_name", &Config::deadline_name,
              "What the user has set the deadline by, for messages.")
      .def_rw("progress", &Config::progress)
      .def_rw("spin_ns", &Config::spin_ns)
      .def_rw("yield_us", &Config::yield_us)
      .def_rw("channels", &Config::channels, "Operations in flight per context.")
      .def_rw("slots", &Config::slots)
      .def_rw("rail_slots", &Config::rail_slots)
      .def_rw("eager_bytes", &Config::eager_bytes)
      .def_rw("heap_mib", &Config::heap_mib)
      .def_rw("shm_dir", &Config::shm_dir)
      .def_rw("huge_pages", &Config::huge_pages)
      .def_rw("private_memory", &Config::private_memory)
      .def_rw("on_death", &Config::on_death)
      .def_rw("bits", &Config::bits, "Which bits sums have; a request may ask for fixed ones.")
      .def_rw("digests", &Config::digests)
      .def_rw("gpu_reduce", &Config::gpu_reduce)
      .def_rw("gpu_ipc", &Config::gpu_ipc)
      .def_rw("gpu_rdma", &Config::gpu_rdma)
      .def_rw("nccl", &Config::nccl)
      .def_rw("topo_check", &Config::topo_check)
      .def_rw("record", &Config::record)
      .def_rw("trace", &Config::trace)
      .def_rw("metrics", &Config::metrics)
      .def_rw("flight", &Config::flight)
      .def_rw("live", &Config::live)
      .def_rw("log", &Config::log);
}

}  // namespace weft::python
