// PCI: x8 where the card has x16, Gen3 where the network needs Gen4.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/diagnosis/check.h"

namespace weft::diagnosis {
namespace {

// "0000:3b:00" of "0000:3b:00.1": the functions of a card share its link.
std::string card_of(const NicFacts& nic) {
  return nic.pci.address.substr(0, nic.pci.address.find('.'));
}

struct Card {
  std::vector<const NicFacts*> nics;
  double gbit_per_s = 0;  // of its ports together
  bool operator==(const Card&) const = default;
};

std::vector<Card> cards_of(const HostFacts& facts) {
  std::map<std::string, Card> cards;
  for (const NicFacts& nic : facts.nics) {
    if (!nic.is_card() || nic.is_virtual_function || nic.pci.links.empty()) continue;
    Card& card = cards[card_of(nic)];
    card.nics.push_back(&nic);
    if (nic.usable && nic.mbit_per_s > 0) card.gbit_per_s += nic.mbit_per_s / 1e3;
  }
  std::vector<Card> found;
  for (auto& [name, card] : cards) found.push_back(std::move(card));
  return found;
}

bool is_below(const PciLink& link) {
  return link.gbit_per_s() > 0 && link.most_gbit_per_s() > 0 &&
         (link.lanes < link.most_lanes || link.gt_per_s < link.most_gt_per_s);
}

std::string most_text(const PciLink& link) {
  return PciLink{link.address, link.most_gt_per_s, 0, link.most_lanes, 0}.text();
}

std::string seen_at(const PciLink& link) {
  return fmt::format(
      "/sys/bus/pci/devices/{}: current_link_speed {} GT/s, current_link_width {} (max {} GT/s, "
      "{})",
      link.address, link.gt_per_s, link.lanes, link.most_gt_per_s, link.most_lanes);
}

std::vector<RateChange> changes(const HostFacts& facts, const Card& card, double now,
                                double mended) {
  std::vector<RateChange> rates;
  for (const NicFacts* nic : card.nics) {
    if (!nic->usable || nic->mbit_per_s <= 0) continue;
    const double part = nic->mbit_per_s / 1e3 / card.gbit_per_s;
    rates.push_back({facts.host, nic->name, std::min(now, card.gbit_per_s) * part,
                     std::min(mended, card.gbit_per_s) * part});
  }
  return rates;
}

// The port above says what the slot has.
std::string cure(const PciLink& own, const std::vector<PciLink>& links) {
  const std::string look = fmt::format("lspci -vv -s {} | grep -E 'LnkCap|LnkSta'", own.address);
  const bool is_slot_narrow = links.size() > 1 && links[1].most_gbit_per_s() > 0 &&
                              links[1].most_gbit_per_s() < own.most_gbit_per_s();
  if (is_slot_narrow)
    return fmt::format("move the card: the slot's port {} has {}; {}", links[1].address,
                       most_text(links[1]), look);
  return fmt::format(
      "reseat the card, look at risers and at bifurcation and link speed in the BIOS; {}", look);
}

void look_at_card(const HostFacts& facts, const Card& card, Report& report) {
  const std::vector<PciLink>& links = card.nics.front()->pci.links;
  const PciLink& own = links.front();
  if (own.gbit_per_s() <= 0) return;
  const PciLink* narrowest = &own;
  for (const PciLink& link : links)
    if (link.gbit_per_s() > 0 && link.gbit_per_s() < narrowest->gbit_per_s()) narrowest = &link;
  const std::string& name = card.nics.front()->name;
  const double has = narrowest->gbit_per_s();
  const bool is_bottleneck = card.gbit_per_s > has;
  const double mended = own.most_gbit_per_s() > 0 ? own.most_gbit_per_s() : own.gbit_per_s();
  if (narrowest != &own && is_bottleneck) {
    report.add(
        Severity::severe, {facts.host},
        fmt::format("a bridge above {} has {}, which carries {} of the card's {}", name,
                    narrowest->text(), rate_text(has), rate_text(card.gbit_per_s)),
        seen_at(*narrowest),
        fmt::format("move the card to a slot without {} above it: lspci -tv", narrowest->address),
        changes(facts, card, has, own.gbit_per_s()));
    return;
  }
  if (is_below(own)) {
    report.add(
        is_bottleneck ? Severity::severe : Severity::hint, {facts.host},
        fmt::format("the PCI link of {} is {}, the card has {}: it carries {}{}", name, own.text(),
                    most_text(own), rate_text(has),
                    is_bottleneck ? " of " + rate_text(card.gbit_per_s) : ", which is enough"),
        seen_at(own), cure(own, links),
        is_bottleneck ? changes(facts, card, has, mended) : std::vector<RateChange>());
    return;
  }
  if (is_bottleneck) {
    report.add(Severity::hint, {facts.host},
               fmt::format("the card of {} has {}, which carries {} of its ports' {}", name,
                           own.text(), rate_text(has), rate_text(card.gbit_per_s)),
               seen_at(own), "a card for a faster slot, or one port of it");
  }
}

}  // namespace

void check_pci_link(const HostFacts& facts, Report& report) {
  for (const Card& card : cards_of(facts)) look_at_card(facts, card, report);
  // GPUs lower the speed of an idle link, but not its width.
  for (const GpuFacts& gpu : facts.gpus) {
    if (gpu.pci.links.empty()) continue;
    const PciLink& own = gpu.pci.links.front();
    if (own.lanes <= 0 || own.lanes >= own.most_lanes) continue;
    report.add(
        Severity::warning, {facts.host},
        fmt::format("GPU {} has {} of its {} PCI lanes", gpu.index, own.lanes, own.most_lanes),
        seen_at(own), cure(own, gpu.pci.links));
  }
}

void check_relaxed_ordering(const HostFacts& facts, Report& report) {
  for (const NicFacts& nic : facts.nics) {
    if (nic.rdma.empty() || !nic.is_card() || nic.is_virtual_function ||
        nic.pci.relaxed_ordering != 0)
      continue;
    report.add(
        Severity::warning, {facts.host},
        fmt::format("{} writes to memory in strict order, which is slow on hosts with several "
                    "sockets or chiplets",
                    nic.name),
        fmt::format("/sys/bus/pci/devices/{}/config: RlxdOrd-", nic.pci.address),
        fmt::format("setpci -s {0} CAP_EXP+8.w=0010:0010; for good mlxconfig -d {0} set "
                    "PCI_WR_ORDERING=1",
                    nic.pci.address));
  }
}

}  // namespace weft::diagnosis
