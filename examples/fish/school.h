// school: how a fish of the school senses, thinks and swims. Values and pure functions; what is
// random comes from the caller's generator. Lengths are metres, times are steps.
//
// The model is BlueFog's (section IV-B, Listing 2; after Tu and Sayed, Mobile adaptive networks,
// 2011): fish that are near each other average what they believe about the predator.
#pragma once

#include <weft/types.h>

#include <cmath>
#include <random>
#include <vector>

namespace fish {

struct Point {
  double x = 0;
  double y = 0;
  friend Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
  friend Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
  friend Point operator*(double s, Point a) { return {s * a.x, s * a.y}; }
};
[[nodiscard]] inline double length(Point a) {
  return std::hypot(a.x, a.y);
}

inline constexpr Point kWater{100, 60};  // from (0, 0) to here
inline constexpr int kSteps = 540;
inline constexpr double kRing = 14;  // the distance at which the fish encircle the predator

// What the school does.
enum class Mood { calm, escape, encircle };
[[nodiscard]] Mood mood_at(int step);
// Where the predator is.
[[nodiscard]] Point predator_at(int step);

struct Fish {
  Point at;
  Point velocity;
  Point belief;       // where it believes the predator to be
  bool sees = false;  // the predator, in this step
};
using School = std::vector<Point>;  // where each fish is, by rank

[[nodiscard]] Fish fish_at_first(weft::Rank rank, int ranks);

// The fish that this one can see, ascending; without itself.
[[nodiscard]] std::vector<weft::Rank> neighbors(const School& school, weft::Rank self);

// Metropolis-Hastings weights among neighbors: 1 / max(d_i, d_j), where d counts a fish and its
// neighbors; the rest of 1 for itself. They are symmetric, and every fish finds its own alone.
struct Weights {
  double self = 1;
  std::vector<weft::NeighborWeight> sources;
  std::vector<weft::NeighborWeight> destinations;  // the same fish, with weight 1
};
[[nodiscard]] Weights weights(const School& school, weft::Rank self);

// If the predator is near enough to be seen, takes one step down the slope of
// f(w) = [d - u . (x - w)]^2 / 2, where d is the distance of the predator as measured, and u the
// direction from it to the fish. Along one u alone the place is not determined: that takes fish in
// several directions.
void observe(Fish& self, Point predator, std::mt19937_64& random);

// Moves the fish by one step. `course`: the average velocity of itself and its neighbors.
void swim(Fish& self, Mood mood, const School& school, const std::vector<weft::Rank>& near,
          Point course);

}  // namespace fish
