// fuzz_parsers PARSER CORPUS SECONDS [SEED], or fuzz_parsers PARSER FILE: the corpus as it is, then
// changed texts for so long. Ends with 1 at the first bad answer or slow text; a sanitizer ends it
// itself. The text is then in the file that was named at the start. CORPUS is "own" for parsers that
// make theirs.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/parsers.h"

namespace weft::fuzz {
namespace {

namespace fs = std::filesystem;

// Of processor time, under sanitizers too: texts are short.
constexpr double kSlow = 4;

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Driver {
 public:
  Driver(const Parser& parser, const fs::path& folder)
      : parser_(parser), path_((folder / "text").string()) {}

  bool feed(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    const std::clock_t begin = std::clock();
    const std::string wrong = parser_.feed(text, path_);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    ++fed_;
    slowest_ = std::max(slowest_, seconds);
    if (wrong.empty() && seconds < kSlow) return true;
    fmt::print("{}: {}\n", parser_.name,
               wrong.empty() ? fmt::format("took {:.1f} s", seconds) : wrong);
    return false;
  }

  bool replay(const std::vector<std::string>& corpus) {
    return std::ranges::all_of(corpus, [this](const std::string& text) { return feed(text); });
  }

  bool mutate(const std::vector<std::string>& corpus, double seconds, std::uint64_t seed) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    std::mt19937_64 random(seed);
    while (std::chrono::steady_clock::now() < end) {
      if (!feed(mutated(corpus, random))) return false;
    }
    return true;
  }

  void report() const {
    fmt::print("{}: {} texts, the slowest took {:.3f} s\n", parser_.name, fed_, slowest_);
  }

 private:
  const Parser& parser_;
  std::string path_;
  std::uint64_t fed_ = 0;
  double slowest_ = 0;
};

std::vector<std::string> corpus_at(const Parser& parser, const fs::path& path) {
  if (path == "own" && parser.corpus != nullptr) return parser.corpus();
  if (!fs::is_directory(path)) return {bytes_of(path)};
  std::vector<fs::path> files(fs::directory_iterator(path), {});
  std::ranges::sort(files);  // a seed has one meaning
  std::vector<std::string> corpus;
  for (const fs::path& file : files) corpus.push_back(bytes_of(file));
  return corpus;
}

int run(int argc, char** argv) {
  const Parser* parser = argc >= 3 ? parser_of(argv[1]) : nullptr;
  const std::vector<std::string> corpus =
      parser != nullptr ? corpus_at(*parser, argv[2]) : std::vector<std::string>{};
  if (parser == nullptr || corpus.empty()) {
    fmt::print("usage: {} PARSER CORPUS|FILE [SECONDS [SEED]]\n", argv[0]);
    return 2;
  }
  char folder[] = "/tmp/weft-fuzz-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 0;
  const std::uint64_t seed = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1;
  fmt::print("{}: seed {}, the text is {}/text\n", parser->name, seed, folder);
  std::fflush(stdout);
  Driver driver(*parser, folder);
  const bool good = driver.replay(corpus) && driver.mutate(corpus, seconds, seed);
  driver.report();
  if (good) fs::remove_all(folder);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace weft::fuzz

int main(int argc, char** argv) {
  return weft::fuzz::run(argc, argv);
}
