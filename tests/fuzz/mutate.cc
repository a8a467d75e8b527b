// Changes to a text, one function for each kind.
#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace weft::fuzz {
namespace {

constexpr std::size_t kLongest = std::size_t{64} << 10;

// Numbers and words at which parsers go wrong.
constexpr std::array<std::string_view, 30> kWords{"0",
                                                  "-1",
                                                  "1",
                                                  "255",
                                                  "65535",
                                                  "65536",
                                                  "4294967295",
                                                  "4294967296",
                                                  "9223372036854775808",
                                                  "18446744073709551616",
                                                  "1e308",
                                                  "1e-320",
                                                  "nan",
                                                  "inf",
                                                  "-0.0",
                                                  "0x",
                                                  "0xf...f",
                                                  "\"",
                                                  "'",
                                                  "<",
                                                  ">",
                                                  "</object>",
                                                  "<!--",
                                                  "<![CDATA[",
                                                  "&#0;",
                                                  "[[",
                                                  "]]",
                                                  "= ",
                                                  "\n",
                                                  "\xff\xfe"};

class Changes {
 public:
  Changes(const std::vector<std::string>& corpus, std::mt19937_64& random)
      : corpus_(corpus), random_(random), text_(corpus[below(corpus.size())]) {}

  std::string take() {
    for (std::size_t left = 1 + below(8); left > 0; --left) change();
    if (text_.size() > kLongest) text_.resize(kLongest);
    return std::move(text_);
  }

 private:
  // In [0, end): the remainder, because the distributions of <random> differ between libraries.
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }
  std::size_t somewhere() { return below(text_.size() + 1); }
  std::size_t piece() { return 1 + below(std::size_t{1} << below(10)); }

  void change() {
    switch (below(8)) {
      case 0:
        return flip();
      case 1:
        return replace_number();
      case 2:
        return void(text_.insert(somewhere(), kWords[below(kWords.size())]));
      case 3:
        return void(text_.erase(somewhere(), piece()));
      case 4:
        return repeat();
      case 5:
        return swap_value();
      case 6:
        return splice();
      default:
        return void(text_.insert(somewhere(), 1, static_cast<char>(below(256))));
    }
  }

  void flip() {
    if (text_.empty()) return;
    char& at = text_[below(text_.size())];
    at = static_cast<char>(at ^ (1 << below(8)));
  }

  void replace_number() {
    constexpr std::string_view kDigits = "0123456789";
    const std::size_t begin = std::min(text_.find_first_of(kDigits, somewhere()), text_.size());
    const std::size_t end = std::min(text_.find_first_not_of(kDigits, begin), text_.size());
    text_.replace(begin, end - begin, kWords[below(16)]);
  }

  void repeat() {
    const std::string part = text_.substr(somewhere(), piece());
    const std::size_t at = somewhere();
    for (std::size_t times = std::size_t{1} << below(8); times > 0 && text_.size() < kLongest;
         --times)
      text_.insert(std::min(at, text_.size()), part);
  }

  // What stands in quotes here takes the place of what stands in quotes there.
  void swap_value() {
    const std::string_view from = corpus_[below(corpus_.size())];
    const std::string_view value = quoted(from, below(from.size() + 1));
    const std::string_view old = quoted(text_, somewhere());
    if (old.data() == nullptr || value.data() == nullptr) return;
    text_.replace(static_cast<std::size_t>(old.data() - text_.data()), old.size(),
                  std::string(value));
  }

  static std::string_view quoted(std::string_view text, std::size_t from) {
    const std::size_t begin = text.find('"', from);
    if (begin == std::string_view::npos) return {};
    const std::size_t end = text.find('"', begin + 1);
    return end == std::string_view::npos ? std::string_view{}
                                         : text.substr(begin + 1, end - begin - 1);
  }

  void splice() {
    const std::string& other = corpus_[below(corpus_.size())];
    text_.insert(somewhere(), other.substr(below(other.size() + 1), piece()));
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64& random_;
  std::string text_;
};

}  // namespace

std::string mutated(const std::vector<std::string>& corpus, std::mt19937_64& random) {
  return Changes(corpus, random).take();
}

}  // namespace weft::fuzz
