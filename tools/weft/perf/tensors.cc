// The shapes of models, by the formulas of their papers, and a file's.
#include "tools/weft/perf/tensors.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>

#include "topology/text/text.h"

namespace weft {
namespace {

constexpr std::size_t kMostFile = std::size_t{64} << 20;
constexpr std::size_t kMostTensors = 100'000;
constexpr std::size_t kMostElements = std::size_t{1} << 32;  // of a set

Status invalid(std::string text) {
  return Status(Code::invalid_argument, std::move(text));
}

using Tensors = std::vector<TensorSet::Tensor>;

Tensors resnet50() {
  Tensors tensors;
  const auto convolution = [&](const std::string& name, std::size_t in, std::size_t out,
                               std::size_t width) {
    tensors.push_back({name + ".weight", in * out * width * width});
    tensors.push_back({name + ".norm.weight", out});
    tensors.push_back({name + ".norm.bias", out});
  };
  convolution("conv1", 3, 64, 7);
  constexpr std::array<int, 4> kBlocks = {3, 4, 6, 3};
  std::size_t in = 64;
  std::size_t planes = 64;
  for (std::size_t stage = 0; stage < kBlocks.size(); ++stage, planes *= 2) {
    for (int block = 0; block < kBlocks[stage]; ++block) {
      const std::string name = fmt::format("stage{}.block{}", stage + 1, block);
      convolution(name + ".conv1", in, planes, 1);
      convolution(name + ".conv2", planes, planes, 3);
      convolution(name + ".conv3", planes, 4 * planes, 1);
      if (block == 0) convolution(name + ".shortcut", in, 4 * planes, 1);
      in = 4 * planes;
    }
  }
  tensors.push_back({"classifier.weight", in * 1000});
  tensors.push_back({"classifier.bias", 1000});
  return tensors;
}

Tensors bert() {
  constexpr std::size_t kHidden = 768, kInner = 3072, kWords = 30'522, kPositions = 512;
  constexpr int kLayers = 12;
  Tensors tensors;
  const auto add = [&](const std::string& name, std::size_t count) {
    tensors.push_back({name, count});
  };
  const auto linear = [&](const std::string& name, std::size_t in, std::size_t out) {
    add(name + ".weight", in * out);
    add(name + ".bias", out);
  };
  const auto norm = [&](const std::string& name) {
    add(name + ".norm.weight", kHidden);
    add(name + ".norm.bias", kHidden);
  };
  add("words", kWords * kHidden);
  add("positions", kPositions * kHidden);
  add("segments", 2 * kHidden);
  norm("embeddings");
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string name = fmt::format("layer{}", layer);
    for (const char* part : {".query", ".key", ".value", ".attention"})
      linear(name + part, kHidden, kHidden);
    norm(name + ".attention");
    linear(name + ".inner", kHidden, kInner);
    linear(name + ".outer", kInner, kHidden);
    norm(name + ".outer");
  }
  linear("pooler", kHidden, kHidden);
  return tensors;
}

// "64x3x7x7" as a product; nothing if it is no shape, or too large.
std::optional<std::size_t> product(std::string_view shape) {
  std::size_t all = 1;
  for (bool is_more = true; is_more;) {
    std::size_t side = 0;
    const char* const end = shape.data() + shape.size();
    const auto [rest, error] = std::from_chars(shape.data(), end, side);
    if (error != std::errc{} || side == 0 || side > kMostElements / all) return std::nullopt;
    all *= side;
    is_more = rest != end;
    if (is_more && *rest != 'x') return std::nullopt;
    shape.remove_prefix(static_cast<std::size_t>(rest - shape.data()) + (is_more ? 1 : 0));
  }
  return all;
}

// "1000x1024"; nothing if it is something else.
std::optional<Tensors> equal_ones(std::string_view asked) {
  const std::size_t x = asked.find('x');
  if (x == std::string_view::npos) return std::nullopt;
  const auto tensors = product(asked.substr(0, x));
  const auto count = product(asked.substr(x + 1));
  if (!tensors || !count || *tensors > kMostTensors || *count > kMostElements / *tensors)
    return std::nullopt;
  Tensors result;
  for (std::size_t t = 0; t < *tensors; ++t) result.push_back({fmt::format("tensor{}", t), *count});
  return result;
}

Result<Tensors> read(const std::string& path) {
  Result<std::string> text = read_text(path, kMostFile);
  if (!text.ok()) {
    return invalid(
        fmt::format("--tensors {}: neither a set (resnet50, bert, 1000x1024) nor a file "
                    "that can be read: {}",
                    path, text.status().text()));
  }
  std::istringstream file(*std::move(text));
  Tensors tensors;
  std::set<std::string> names;
  std::size_t all = 0;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    const std::size_t end = line.find_last_not_of(" \t\r") + 1;
    const std::string_view words = std::string_view(line).substr(begin, end - begin);
    const std::size_t gap = words.find_last_of(" \t");
    const std::size_t name_end = words.find_last_not_of(" \t", gap) + 1;
    const auto count =
        gap == std::string_view::npos ? std::nullopt : product(words.substr(gap + 1));
    if (!count) {
      return invalid(
          fmt::format("--tensors {}: line {}: expected a name and a shape such as "
                      "64x3x7x7, not {}",
                      path, number, words.substr(0, 80)));
    }
    std::string name(words.substr(0, name_end));
    if (!names.insert(name).second)
      return invalid(fmt::format("--tensors {}: line {}: {} comes twice", path, number, name));
    all += *count;
    if (tensors.size() == kMostTensors || all > kMostElements)
      return invalid(fmt::format("--tensors {}: line {}: more than {} tensors or {} elements", path,
                                 number, kMostTensors, kMostElements));
    tensors.push_back({std::move(name), *count});
  }
  if (tensors.empty()) return invalid(fmt::format("--tensors {}: no tensor is in it", path));
  return tensors;
}

}  // namespace

std::size_t TensorSet::count() const {
  std::size_t all = 0;
  for (const Tensor& tensor : tensors) all += tensor.count;
  return all;
}

Result<TensorSet> tensor_set(const std::string& asked) {
  if (asked == "resnet50") return TensorSet{asked, resnet50()};
  if (asked == "bert") return TensorSet{asked, bert()};
  if (std::optional<Tensors> equal = equal_ones(asked)) return TensorSet{asked, *std::move(equal)};
  WEFT_ASSIGN(Tensors tensors, read(asked));
  return TensorSet{asked, std::move(tensors)};
}

}  // namespace weft
