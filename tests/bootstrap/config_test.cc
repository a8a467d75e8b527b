// config: what is read, what is refused, and in which words.
#include "engine/config/config.h"

#include <gtest/gtest.h>

#include "verbs/ib/ib.h"
#include "verbs/ucx/ucx.h"

namespace weft {
namespace {

using Entries = std::vector<std::string>;

std::string error_of(const Entries& entries) {
  return std::string(Config::from_entries(entries, UnknownNames::refuse).status().text());
}

TEST(Config, AnEmptyEnvironmentGivesTheDefaults) {
  const Result<Config> config = Config::from_entries({"PATH=/bin", "HOME=/root"});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->rank, 0);
  EXPECT_EQ(config->size, 1);
  EXPECT_EQ(config->deadline_ms, 60'000);
  EXPECT_EQ(config->spin_ns, -1);
  EXPECT_EQ(config->eager_bytes, 16 << 10);
  EXPECT_EQ(config->log, LogLevel::warning);
}

TEST(Config, EveryFieldIsRead) {
  const Result<Config> config = Config::from_entries({"WEFT_RANK=3",
                                                      "WEFT_SIZE=8",
                                                      "WEFT_LOCAL_RANK=1",
                                                      "WEFT_LOCAL_SIZE=2",
                                                      "WEFT_LAUNCHER=weft",
                                                      "WEFT_HOST=machine-b",
                                                      "WEFT_RENDEZVOUS=[::1]:29500",
                                                      "WEFT_RENDEZVOUS_SERVER=launcher",
                                                      "WEFT_JOB_KEY=0123456789abcdef",
                                                      "WEFT_DEADLINE_MS=1500",
                                                      "WEFT_PROGRESS=waiter",
                                                      "WEFT_SPIN_NS=0",
                                                      "WEFT_YIELD_US=7",
                                                      "WEFT_CHANNELS=16",
                                                      "WEFT_SLOTS=2",
                                                      "WEFT_EAGER_BYTES=64",
                                                      "WEFT_HEAP_MIB=64",
                                                      "WEFT_SHM_DIR=/dev/shm",
                                                      "WEFT_HUGE_PAGES=off",
                                                      "WEFT_PRIVATE_MEMORY=staging",
                                                      "WEFT_TOPO_CHECK=0",
                                                      "WEFT_TRACE=out.json",
                                                      "WEFT_LOG=debug"});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->launcher, Launcher::weft);
  EXPECT_EQ(config->rank, 3);
  EXPECT_EQ(config->size, 8);
  EXPECT_EQ(config->local_rank, 1);
  EXPECT_EQ(config->local_size, 2);
  EXPECT_EQ(config->host, "machine-b");
  EXPECT_EQ(config->rendezvous, "[::1]:29500");
  EXPECT_EQ(config->served_by, ServedBy::launcher);
  EXPECT_EQ(config->deadline_ms, 1500);
  EXPECT_EQ(config->progress, ProgressMode::waiter);
  EXPECT_EQ(config->spin_ns, 0);
  EXPECT_EQ(config->yield_us, 7);
  EXPECT_EQ(config->channels, 16);
  EXPECT_EQ(config->slots, 2);
  EXPECT_EQ(config->eager_bytes, 64);
  EXPECT_EQ(config->heap_mib, 64);
  EXPECT_EQ(config->shm_dir, "/dev/shm");
  EXPECT_EQ(config->huge_pages, HugePageUse::off);
  EXPECT_EQ(config->private_memory, PrivatePath::staging);
  EXPECT_FALSE(config->topo_check);
  EXPECT_EQ(config->trace, "out.json");
  EXPECT_EQ(config->log, LogLevel::debug);
}

TEST(Config, WhatIsSaidOfRdmaReachesItsInterfaces) {
  const Result<Config> config = Config::from_entries(
      {"WEFT_IB_GID_INDEX=3", "WEFT_IB_QUEUE_PAIRS=4", "WEFT_IB_MTU=1024",
       "WEFT_IB_TRAFFIC_CLASS=104", "WEFT_IB_SERVICE_LEVEL=5", "WEFT_IB_UDP_SOURCE_PORT=50000",
       "WEFT_IB_TIMEOUT=14", "WEFT_IB_RETRIES=6", "WEFT_IB_RNR_TIMER=20",
       "WEFT_IB_RECEIVE_DEPTH=128"});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  const IbOptions ib = ib_options(*config);
  EXPECT_EQ(ib.gid_index, 3);
  EXPECT_EQ(ib.queue_pairs, 4u);
  EXPECT_EQ(ib.mtu, 1024);
  EXPECT_EQ(ib.traffic_class, 104);
  EXPECT_EQ(ib.service_level, 5);
  EXPECT_EQ(ib.udp_source_port, 50'000);
  EXPECT_EQ(ib.timeout, 14);
  EXPECT_EQ(ib.retries, 6);
  EXPECT_EQ(ib.rnr_timer, 20);
  EXPECT_EQ(ib.receive_depth, 128u);
}

TEST(Config, ABadValueIsNamedWithWhatIsAccepted) {
  EXPECT_EQ(error_of({"WEFT_DEADLINE_MS=abc"}),
            "WEFT_DEADLINE_MS=abc: expected a whole number of milliseconds from 1 to 86400000");
  EXPECT_EQ(
      error_of({"WEFT_SPIN_NS=soon"}),
      "WEFT_SPIN_NS=soon: expected auto or a whole number of nanoseconds from 0 to 1000000000");
  EXPECT_EQ(error_of({"WEFT_PROGRESS=threads"}),
            "WEFT_PROGRESS=threads: expected thread or waiter");
  EXPECT_EQ(error_of({"WEFT_RAILS=far"}), "WEFT_RAILS=far: expected auto, near or all");
  EXPECT_EQ(error_of({"WEFT_GPU=-2"}),
            "WEFT_GPU=-2: expected auto or a whole number from -1 to 65535");
  // As many as a queue pair's attributes can name.
  EXPECT_EQ(error_of({"WEFT_IB_GID_INDEX=256"}),
            "WEFT_IB_GID_INDEX=256: expected auto or a whole number from 0 to 255");
  EXPECT_EQ(error_of({"WEFT_PRIVATE_MEMORY=x"}),
            "WEFT_PRIVATE_MEMORY=x: expected auto, cma or staging");
  EXPECT_EQ(error_of({"WEFT_SHM_DIR=relative"}),
            "WEFT_SHM_DIR=relative: expected an absolute path");
}

TEST(Config, NumbersAreWholeAndInRange) {
  for (const char* value : {"", "0", "-1", "+5", "1.5", "1e3", " 7", "7 ", "0x10", "86400001",
                            "99999999999999999999"}) {
    const std::string entry = std::string("WEFT_DEADLINE_MS=") + value;
    EXPECT_EQ(Config::from_entries({entry}).status().code(), Code::invalid_argument) << entry;
  }
}

TEST(Config, AnUnknownVariableNamesTheClosestKnownOne) {
  EXPECT_NE(error_of({"WEFT_DEADLINE=5"})
                .find("WEFT_DEADLINE: no such variable; did you mean WEFT_DEADLINE_MS?"),
            std::string::npos);
  EXPECT_NE(error_of({"WEFT_RNAK=0"}).find("did you mean WEFT_RANK?"), std::string::npos);
}

// The host's process may hold another version of Weft, whose settings they are.
TEST(Config, AnUnknownVariableIsAWarningInALibrary) {
  std::vector<std::string> said;
  set_log_sink([&said](const LogRecord& record) { said.emplace_back(record.text); });
  const Result<Config> config =
      Config::from_entries({"WEFT_OF_TOMORROW=1", "WEFT_DEADLINE_MS=7"}, UnknownNames::warn);
  const bool is_silent = Config::from_entries({"WEFT_OF_TOMORROW=1", "WEFT_LOG=off"}).ok();
  set_log_sink({});
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  EXPECT_EQ(config->deadline_ms, 7);
  EXPECT_TRUE(is_silent);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_NE(said[0].find("WEFT_OF_TOMORROW: no such variable"), std::string::npos) << said[0];
}

TEST(Config, AnOldNameIsReadWithAWarning) {
  std::vector<std::string> said;
  set_log_sink([&said](const LogRecord& record) { said.emplace_back(record.text); });
  const Result<Config> config = Config::from_entries({"WEFT_FOREIGN=cma"});
  const Result<Config> both =
      Config::from_entries({"WEFT_PRIVATE_MEMORY=staging", "WEFT_FOREIGN=cma"});
  set_log_sink({});
  ASSERT_TRUE(config.ok() && both.ok());
  EXPECT_EQ(config->private_memory, PrivatePath::cma);
  EXPECT_EQ(both->private_memory, PrivatePath::staging) << "the new name counts";
  ASSERT_EQ(said.size(), 2U);
  EXPECT_NE(said[0].find("WEFT_FOREIGN is called WEFT_PRIVATE_MEMORY now"), std::string::npos)
      << said[0];
}

TEST(Config, TheKeyIsNeverRepeated) {
  EXPECT_EQ(error_of({"WEFT_JOB_KEY=hunter2"}),
            "WEFT_JOB_KEY=(secret): expected 16 to 256 characters");
}

const Entries kTorchrun{"RANK=1",
                        "WORLD_SIZE=4",
                        "LOCAL_RANK=1",
                        "LOCAL_WORLD_SIZE=2",
                        "MASTER_ADDR=node-a",
                        "MASTER_PORT=29500",
                        "WEFT_JOB_KEY=0123456789abcdef"};
const Entries kPmix{"PMIX_NAMESPACE=job", "PMIX_RANK=3"};
const Entries kWeft{"WEFT_RANK=1", "WEFT_SIZE=2", "WEFT_RENDEZVOUS=node-b:7",
                    "WEFT_JOB_KEY=0123456789abcdef"};

Entries both(Entries some, const Entries& others) {
  some.insert(some.end(), others.begin(), others.end());
  return some;
}

TEST(Launcher, IsFoundByItsVariables) {
  EXPECT_EQ(Config::from_entries({})->launcher, Launcher::alone);
  EXPECT_EQ(Config::from_entries(kWeft)->launcher, Launcher::weft);
  EXPECT_EQ(Config::from_entries(kPmix)->launcher, Launcher::pmix);
  EXPECT_EQ(Config::from_entries(kTorchrun)->launcher, Launcher::torchrun);
  EXPECT_EQ(Config::from_entries(kPmix)->rank, 3);
}

TEST(Launcher, TheOrderIsWeftPmixTorchrun) {
  const auto all = Config::from_entries(both(both(kTorchrun, kPmix), kWeft));
  EXPECT_EQ(all->launcher, Launcher::weft);
  EXPECT_EQ(all->launch(), "weft: WEFT_RANK is set; not used: PMIx's, torchrun's");
  EXPECT_EQ(all->size, 2);
  const auto two = Config::from_entries(both(kTorchrun, kPmix));
  EXPECT_EQ(two->launch(), "pmix: PMIX_NAMESPACE and PMIX_RANK are set; not used: torchrun's");
}

TEST(Launcher, IsTheOneThatIsAskedFor) {
  const Entries all = both(both(kTorchrun, kPmix), kWeft);
  const auto forced = [&](const char* name) {
    return Config::from_entries(both(all, {std::string("WEFT_LAUNCHER=") + name})).value();
  };
  EXPECT_EQ(forced("pmix").rank, 3);
  EXPECT_TRUE(forced("pmix").rendezvous.empty());
  EXPECT_EQ(forced("torchrun").size, 4);
  EXPECT_EQ(forced("alone").size, 1);
  EXPECT_TRUE(forced("alone").rendezvous.empty());
  EXPECT_NE(forced("alone").launch().find("asked for by WEFT_LAUNCHER"), std::string::npos);
  for (const char* name : {"pmix", "torchrun", "weft"}) {
    const std::string entry = std::string("WEFT_LAUNCHER=") + name;
    EXPECT_NE(error_of({entry}).find(entry), std::string::npos);
  }
}

TEST(Launcher, TorchrunMeetsOnePortAboveItsOwn) {
  const auto config = Config::from_entries(kTorchrun);
  EXPECT_EQ(config->rendezvous, "node-a:29501");
  EXPECT_EQ(config->rank, 1);
  EXPECT_EQ(config->size, 4);
  EXPECT_EQ(config->local_rank, 1);
  EXPECT_EQ(config->local_size, 2);
  const auto own = Config::from_entries(both(kTorchrun, {"WEFT_RENDEZVOUS=node-c:9"}));
  EXPECT_EQ(own->rendezvous, "node-c:9");
}

TEST(Launcher, TorchrunsVariablesAreChecked) {
  Entries without_key = kTorchrun;
  without_key.pop_back();
  EXPECT_NE(error_of(without_key).find("set WEFT_JOB_KEY"), std::string::npos);
  EXPECT_EQ(error_of(with_settings(kTorchrun, {{"RANK", "x"}})), "RANK=x: expected a whole number");
  EXPECT_EQ(error_of(with_settings(kTorchrun, {{"RANK", "4"}})),
            "RANK=4 of WORLD_SIZE=4: there is no such rank");
  EXPECT_NE(error_of(with_settings(kTorchrun, {{"MASTER_PORT", "65535"}})).find("MASTER_PORT"),
            std::string::npos);
  EXPECT_NE(error_of(with_settings(kTorchrun, {{"LOCAL_RANK", "2"}})).find("LOCAL_RANK"),
            std::string::npos);
}

TEST(Launcher, OneThatWeDoNotSpeakIsNotTakenForNone) {
  for (const char* entry : {"PMI_SIZE=4", "SLURM_STEP_NUM_TASKS=2"}) {
    EXPECT_NE(error_of({entry}).find("this process has peers"), std::string::npos) << entry;
    EXPECT_TRUE(Config::from_entries({entry, "WEFT_LAUNCHER=alone"}).ok());
    EXPECT_TRUE(Config::from_entries(both(kPmix, {entry})).ok());
  }
  EXPECT_TRUE(Config::from_entries({"PMI_SIZE=1"}).ok());
}

TEST(Config, FieldsMustAgree) {
  EXPECT_NE(error_of({"WEFT_RANK=0"}).find("one is set without the other"), std::string::npos);
  EXPECT_NE(error_of({"WEFT_RANK=4", "WEFT_SIZE=4"}).find("ranks 0 to 3"), std::string::npos);
  EXPECT_NE(error_of({"WEFT_RANK=0", "WEFT_SIZE=4"}).find("without WEFT_RENDEZVOUS"),
            std::string::npos);
  EXPECT_NE(error_of({"WEFT_RENDEZVOUS=a:1"}).find("without WEFT_JOB_KEY"), std::string::npos);
  EXPECT_NE(error_of({"WEFT_LOCAL_RANK=0"}).find("one is set without the other"),
            std::string::npos);
}

TEST(Config, WhatIsShownCanBeReadBack) {
  Config config;
  for (const Variable& variable : variables()) {
    const std::string shown = variable.show(config);
    EXPECT_TRUE(variable.read(shown, config)) << variable.name << "=" << shown;
    EXPECT_EQ(variable.show(config), shown) << variable.name;
    EXPECT_FALSE(variable.meaning.empty()) << variable.name;
  }
}

TEST(Config, SettingsReplaceEntries) {
  const Entries entries = with_settings({"A=1", "B=2", "AB=3"}, {{"A", "9"}, {"C", "4"}});
  EXPECT_EQ(entries, (Entries{"B=2", "AB=3", "A=9", "C=4"}));
  EXPECT_TRUE(is_set(entries, "AB"));
  EXPECT_FALSE(is_set(entries, "D"));
}

TEST(Config, PortsOfUcxAreARange) {
  Config config;
  EXPECT_EQ(ucx_options(config)->ports.last, 0);
  config.ucx_ports = "20000-20999";
  EXPECT_EQ(ucx_options(config)->ports.first, 20000);
  EXPECT_EQ(ucx_options(config)->ports.last, 20999);
  config.ucx_ports = "65535";
  EXPECT_EQ(ucx_options(config)->ports.first, 65535);
  for (const char* bad : {"0", "0-9", "9-8", "1-65536", "-", "1-", "-1", "1-2-3", "1 - 2", "x"}) {
    config.ucx_ports = bad;
    EXPECT_FALSE(ucx_options(config).ok()) << bad;
    EXPECT_FALSE(config.check().ok()) << bad;
  }
}

TEST(Address, ReadsNamesAndNumbers) {
  EXPECT_EQ(parse_address("node-7.example:29500")->host, "node-7.example");
  EXPECT_EQ(parse_address("10.0.0.1:1")->port, 1);
  EXPECT_EQ(parse_address("[fe80::1]:65535")->host, "fe80::1");
  EXPECT_EQ(parse_address("[fe80::1]:65535")->to_string(), "[fe80::1]:65535");
  for (const char* bad : {"", ":", "host", "host:", ":1", "host:0", "host:65536", "host:-1",
                          "host:1x", "::1:29500", "a b:1", "[]:1", "host:1:2"}) {
    EXPECT_FALSE(parse_address(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace weft
