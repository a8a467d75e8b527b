// fish: a school of fish finds out where a predator is, escapes from it, and encircles it.
//
//   weft run -n 20 -- fish [FILE.svg]
//
// Each rank is a fish (BlueFog, section IV-B, Listing 2). Few fish see the predator, and what they
// see is inexact. In each step a fish
//   - looks where the fish near it are; these are its neighbors in this step
//   - corrects its belief by what it sees of the predator itself, if it does
//   - averages its belief and its velocity with its neighbors (neighbor_allreduce with the weights
//     of this call), so that the news spread through the school
//   - swims: with the others, away from where it believes the predator to be, or around it
// So the graph is another one in each step, and every rank finds its own part of it alone. The
// positions of all fish come from an allgather; that stands for the eyes of the fish.
//
// Rank 0 writes an animated drawing to FILE.svg.
//
// Exits with 1 if in the end a fish is wrong about the predator, or the predator is not encircled.
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <numbers>
#include <string>
#include <vector>

#include "engine/context/context.h"
#include "examples/fish/film.h"
#include "examples/fish/school.h"

namespace fish {
namespace {

constexpr int kStepsPerFrame = 5;
constexpr double kStill = 0.93;      // the part of the film after which comes the frame for viewers
                                     // without animation
constexpr int kJudgedSteps = 60;     // at the end
constexpr double kLargestError = 3;  // of a belief, on average over these steps, in metres
constexpr double kLargestDeviation = 5;  // of a fish from the ring

// What travels between fish.
struct Thoughts {
  Point belief;
  Point velocity;
};
static_assert(sizeof(Thoughts) == 4 * sizeof(double));

weft::Result<School> look(weft::Context& context, Point at) {
  School school(static_cast<std::size_t>(context.size()));
  WEFT_RETURN_IF_ERROR(
      context.allgather(weft::in(&at.x, 2), weft::out(&school.front().x, 2 * school.size())));
  return school;
}

// The average of this fish's thoughts and those of its neighbors.
weft::Result<Thoughts> exchange(weft::Context& context, const Fish& self, const School& school) {
  const Weights given = weights(school, context.rank());
  const weft::NeighborWeights how{
      .self = given.self, .sources = given.sources, .destinations = given.destinations};
  const Thoughts mine{self.belief, self.velocity};
  Thoughts average;
  WEFT_RETURN_IF_ERROR(context.neighbor_allreduce(weft::in(&mine.belief.x, 4),
                                                  weft::out(&average.belief.x, 4), how));
  return average;
}

// At rank 0, all fish as they are.
weft::Result<std::vector<Fish>> gather(weft::Context& context, const Fish& self) {
  std::vector<Fish> all(context.rank() == 0 ? static_cast<std::size_t>(context.size()) : 0);
  WEFT_RETURN_IF_ERROR(context.gather({&self, sizeof self, weft::DataType::u8},
                                      {all.data(), sizeof self * all.size(), weft::DataType::u8},
                                      0));
  return all;
}

struct Story {
  std::vector<Frame> frames;  // at rank 0
  double error = 0;           // of this fish's belief, on average over the judged steps
  Fish self;
};

weft::Result<Story> live(weft::Context& context) {
  std::mt19937_64 random(static_cast<std::uint64_t>(context.rank()) + 1);
  Story story;
  Fish& self = story.self;
  self = fish_at_first(context.rank(), context.size());
  for (int step = 0; step < kSteps; ++step) {
    const Point predator = predator_at(step);
    WEFT_ASSIGN(const School school, look(context, self.at));
    observe(self, predator, random);
    WEFT_ASSIGN(const Thoughts average, exchange(context, self, school));
    self.belief = average.belief;
    if (step % kStepsPerFrame == 0) {
      WEFT_ASSIGN(std::vector<Fish> all, gather(context, self));
      if (context.rank() == 0) story.frames.push_back({step, predator, std::move(all)});
    }
    if (step >= kSteps - kJudgedSteps) story.error += length(self.belief - predator) / kJudgedSteps;
    swim(self, mood_at(step), school, neighbors(school, context.rank()), average.velocity);
  }
  return story;
}

struct Verdict {
  double error = 0;      // the largest of any fish
  double deviation = 0;  // from the ring
  double gap = 0;        // the largest angle between two fish that are next to each other, degrees
};

// Collective.
weft::Result<Verdict> judge(weft::Context& context, const Story& story) {
  const Point predator = predator_at(kSteps);
  const std::array<double, 2> mine{story.error, std::abs(length(story.self.at - predator) - kRing)};
  std::array<double, 2> most{};
  WEFT_RETURN_IF_ERROR(
      context.allreduce(weft::in(mine.data(), 2), weft::out(most.data(), 2), weft::ReduceOp::max));
  WEFT_ASSIGN(const School school, look(context, story.self.at));
  std::vector<double> angles;
  for (const Point at : school)
    angles.push_back(std::atan2(at.y - predator.y, at.x - predator.x) * 180 / std::numbers::pi);
  std::ranges::sort(angles);
  double gap = angles.front() + 360 - angles.back();
  for (std::size_t i = 1; i < angles.size(); ++i) gap = std::max(gap, angles[i] - angles[i - 1]);
  return Verdict{most[0], most[1], gap};
}

weft::Status expect(const char* what, double value, double most) {
  if (value <= most) return {};
  std::array<char, 128> text{};
  std::snprintf(text.data(), text.size(), "%s is %.2f; expected at most %.2f", what, value, most);
  return {weft::Code::mismatch, text.data()};
}

weft::Status write(const std::string& path, const std::vector<Frame>& frames) {
  std::ofstream file(path);
  const auto still = static_cast<std::size_t>(kStill * static_cast<double>(frames.size()));
  file << film(frames, still);
  file.close();
  if (file) return {};
  return {weft::Code::invalid_argument, path + ": cannot be written"};
}

weft::Status run(const std::string& path) {
  WEFT_ASSIGN(const auto context, weft::Context::from_environment());
  WEFT_ASSIGN(const Story story, live(*context));
  WEFT_ASSIGN(const Verdict verdict, judge(*context, story));
  if (context->rank() == 0) {
    std::printf(
        "fish: %d fish, %d steps\n"
        "their beliefs are at most %.2f m from the predator\n"
        "they are at most %.2f m from a ring of %.0f m around it, with gaps of at most %.0f "
        "degrees\n",
        context->size(), kSteps, verdict.error, verdict.deviation, kRing, verdict.gap);
    if (!path.empty()) WEFT_RETURN_IF_ERROR(write(path, story.frames));
  }
  WEFT_RETURN_IF_ERROR(expect("the error of a belief", verdict.error, kLargestError));
  WEFT_RETURN_IF_ERROR(expect("the distance from the ring", verdict.deviation, kLargestDeviation));
  return expect("the gap between two fish", verdict.gap, 3 * 360.0 / context->size());
}

}  // namespace
}  // namespace fish

int main(int argc, char** argv) {
  if (argc > 2) {
    std::fprintf(stderr, "usage: weft run -n RANKS -- fish [FILE.svg]\n");
    return 2;
  }
  const weft::Status done = fish::run(argc == 2 ? argv[1] : "");
  if (!done.ok()) std::fprintf(stderr, "fish: %s\n", done.to_string().c_str());
  return done.ok() ? 0 : 1;
}
