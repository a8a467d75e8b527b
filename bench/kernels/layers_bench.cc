// bench_layers: what the gradients of a model's layers cost on the way, by the kernel's count of the bytes that this
// host's interfaces have sent.
//
//   tools/netns -n 2 --each bench_layers RANK ROWSxCOLUMNS…
//
// Each layer is all-reduced: as it is, as a sketch, and by its RANK largest singular values where that is fewer bytes
// (ROWS above 1). Layers of at most 4 KiB travel as they are. Rank 0 prints one JSON line for each way.
#include <fmt/core.h>
#include <weft/macros.h>
#include <weft/weft.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>
#include <vector>

namespace {

using weft::Compression;
using weft::Context;
using weft::Status;

constexpr std::size_t kLeastBytes = 4097;

struct Layer {
  std::size_t rows = 1;
  std::size_t count = 0;
};

double sent_bytes() {
  double all = 0;
  for (const auto& each : std::filesystem::directory_iterator("/sys/class/net")) {
    double bytes = 0;
    if (each.path().filename() != "lo") std::ifstream(each.path() / "statistics/tx_bytes") >> bytes;
    all += bytes;
  }
  return all;
}

Status reduce(Context& context, const Layer& layer, Compression how, std::size_t rank, float* x) {
  weft::Request request{.collective = weft::Collective::allreduce,
                        .input = weft::in(x, layer.count),
                        .output = weft::out(x, layer.count)};
  if (layer.count * sizeof(float) >= kLeastBytes) request.compression = how;
  const std::size_t columns = layer.count / layer.rows;
  if (how == Compression::low_rank && 2 * rank * (layer.rows + columns) < layer.count)
    request.low_rank = {.rows = layer.rows, .rank = static_cast<std::uint32_t>(rank)};
  else if (request.compression == Compression::low_rank)
    request.compression = Compression::sketch;
  return context.run(request);
}

Status run(Context& context, std::size_t rank, const std::vector<Layer>& layers) {
  std::size_t most = 0;
  for (const Layer& each : layers) most = std::max(most, each.count);
  WEFT_ASSIGN(const weft::Memory memory, weft::Memory::allocate(most * sizeof(float)));
  std::minstd_rand random(static_cast<unsigned>(context.rank()) + 1);
  for (const auto& [name, how] :
       {std::pair{"none", Compression::none}, std::pair{"sketch", Compression::sketch},
        std::pair{"low_rank", Compression::low_rank}}) {
    auto* const x = memory.as<float>();
    for (std::size_t i = 0; i < most; ++i) x[i] = static_cast<float>(random() % 2001) / 1000 - 1;
    WEFT_RETURN_IF_ERROR(context.barrier());
    const double before = sent_bytes();
    for (const Layer& each : layers) WEFT_RETURN_IF_ERROR(reduce(context, each, how, rank, x));
    WEFT_RETURN_IF_ERROR(context.barrier());
    if (context.rank() == 0)
      fmt::print("{{\"op\":\"layers\",\"way\":\"{}\",\"bytes\":{:.0f}}}\n", name,
                 sent_bytes() - before);
  }
  return {};
}

// "4096x10", or "10" for a vector.
std::vector<Layer> layers_of(int count, char** words) {
  std::vector<Layer> layers;
  for (int i = 2; i < count; ++i) {
    char* rest = nullptr;
    const std::size_t rows = std::strtoul(words[i], &rest, 10);
    if (*rest == 'x')
      layers.push_back({rows, rows * std::strtoul(rest + 1, nullptr, 10)});
    else
      layers.push_back({1, rows});
  }
  return layers;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  auto context = Context::from_environment();
  const Status status =
      context.ok() ? run(**context, std::strtoul(argv[1], nullptr, 10), layers_of(argc, argv))
                   : context.status();
  if (status.ok()) return 0;
  fmt::print(stderr, "bench_layers: {}\n", status.to_string());
  return 1;
}
