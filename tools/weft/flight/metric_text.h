// MetricText: Prometheus texts of several processes as one, in which each family has one head. Internal to the
// commands flight and top.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::dumps {

class MetricText {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;
  // Samples get those of the labels that they lack. A line that is no metric is left out.
  void add(std::string_view text, const Labels& labels);
  [[nodiscard]] std::string text() const;

 private:
  struct Family {
    std::string name, help, type, samples;
  };
  Family& family_of(std::string_view name);
  std::vector<Family> families_;
};

}  // namespace weft::dumps
