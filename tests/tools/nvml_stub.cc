// A management library of NVIDIA's with two GPUs and four NVLink lanes between them, as far as `weft`
// asks it: what its loader finds where a machine has the real one. The ABI is written down here once
// more, so that a slip in ours shows.
#include <cstdint>
#include <cstring>

namespace {

constexpr int kWell = 0, kNotInitialized = 1, kInvalid = 2;
constexpr unsigned kGpus = 2, kLanes = 4;
constexpr unsigned kBuses[kGpus] = {0x3b, 0x5e};

struct Device {
  unsigned index;
};
Device devices[kGpus] = {{0}, {1}};
bool is_initialized = false;

struct PciInfo {
  char legacy_address[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned ids;
  unsigned subsystem;
  char address[32];
};

struct MemoryInfo {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

void put_address(unsigned index, PciInfo* pci) {
  *pci = {};
  pci->bus = kBuses[index];
  std::strcpy(pci->address, index == 0 ? "00000000:3B:00.0" : "00000000:5E:00.0");
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  is_initialized = true;
  return kWell;
}

int nvmlShutdown() {
  is_initialized = false;
  return kWell;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = kGpus;
  return is_initialized ? kWell : kNotInitialized;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
  if (index >= kGpus) return kInvalid;
  *device = &devices[index];
  return kWell;
}

int nvmlDeviceGetName(Device*, char* name, unsigned length) {
  std::strncpy(name, "NVIDIA A100-SXM4-40GB", length);
  return kWell;
}

int nvmlDeviceGetMemoryInfo(Device*, MemoryInfo* memory) {
  *memory = {40ULL << 30, 39ULL << 30, 1ULL << 30};
  return kWell;
}

int nvmlDeviceGetPciInfo_v3(Device* device, PciInfo* pci) {
  put_address(device->index, pci);
  return kWell;
}

int nvmlDeviceGetNvLinkState(Device*, unsigned link, unsigned* is_active) {
  if (link >= kLanes) return kInvalid;
  *is_active = 1;
  return kWell;
}

int nvmlDeviceGetNvLinkVersion(Device*, unsigned, unsigned* version) {
  *version = 3;
  return kWell;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device* device, unsigned, PciInfo* pci) {
  put_address(1 - device->index, pci);
  return kWell;
}

}  // extern "C"
