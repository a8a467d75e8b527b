// NcclLinks: the links between GPUs of a topology file of NCCL or RCCL: <nvlink> and <xgmi> in a
// <gpu> name the PCI address of the other end. They are added while GPUs are read, and resolved when
// all GPUs are known. Internal to the module; one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "topology/hardware/hardware.h"
#include "topology/hardware/left_out.h"
#include "topology/hardware/xml.h"

namespace weft::hardware {

class NcclLinks {
 public:
  explicit NcclLinks(const XmlFile& file) : file_(file) {}

  // Those of <gpu>, which is `index` at `address`.
  [[nodiscard]] Status add(pugi::xml_node gpu, int index, const std::string& address);
  // Into the machine, whose GPUs are complete.
  void resolve(Machine& machine, LeftOut& left_out) const;

 private:
  struct Link {
    int gpu;
    std::string from, to;  // PCI addresses; `to` as the file has it where it is none
    bool is_switch;
    GpuLinkKind kind;
    int lanes;
    double gbyte_per_s;  // of all lanes
  };
  [[nodiscard]] Status add_link(pugi::xml_node node, GpuLinkKind kind, double each, Link link);

  const XmlFile& file_;
  std::vector<Link> links_;
};

}  // namespace weft::hardware
