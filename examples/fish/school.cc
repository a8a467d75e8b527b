// Each urge is a velocity; a fish turns towards their sum as fast as it can.
#include "examples/fish/school.h"

#include <algorithm>
#include <numbers>

namespace fish {
namespace {

constexpr int kCalmUntil = 100;
constexpr int kEscapeUntil = 300;

constexpr double kSight = 10;     // of other fish
constexpr double kVision = 24;    // of the predator, which is large
constexpr double kFear = 24;      // fish flee from a predator that they believe to be nearer
constexpr double kElbowRoom = 7;  // fish keep this distance from each other
constexpr double kShore = 6;      // and this from the edge of the water

constexpr double kGamma = 0.6;              // step length of the estimate
constexpr double kNoiseOfDistance = 0.05;   // relative
constexpr double kNoiseOfDirection = 0.06;  // radians

constexpr double kCruise = 0.35;
constexpr double kFlight = 1.1;
constexpr double kAgility = 0.18;  // the part of the way to its urges that a fish turns in a step

constexpr double kTurn = 2 * std::numbers::pi;

Point unit(Point a) {
  const double size = length(a);
  return size > 1e-9 ? (1 / size) * a : Point{1, 0};
}

// A number from -1 to 1; the same with every standard library.
double noise(std::mt19937_64& random) {
  return 2 * static_cast<double>(random() >> 11) * 0x1p-53 - 1;
}

// The predator swims a figure of eight.
Point eight(double turns) {
  const double angle = kTurn * (0.5 + turns);
  return {50 + 36 * std::cos(angle), 30 + 19 * std::sin(2 * angle)};
}

Point away_from_others(const Fish& self, const School& school,
                       const std::vector<weft::Rank>& near) {
  Point sum;
  for (const weft::Rank rank : near) {
    const Point apart = self.at - school[static_cast<std::size_t>(rank)];
    const double distance = length(apart);
    if (distance < kElbowRoom) sum = sum + (1 - distance / kElbowRoom) * unit(apart);
  }
  return sum;
}

Point towards_others(const Fish& self, const School& school, const std::vector<weft::Rank>& near) {
  if (near.empty()) return {};
  Point middle;
  for (const weft::Rank rank : near) middle = middle + school[static_cast<std::size_t>(rank)];
  return (1.0 / static_cast<double>(near.size())) * middle - self.at;
}

Point away_from_shore(Point at) {
  const auto push = [](double place, double end) {
    if (place < kShore) return kShore - place;
    return place > end - kShore ? end - kShore - place : 0.0;
  };
  return {push(at.x, kWater.x), push(at.y, kWater.y)};
}

// Onto the ring around the predator, and around with the others.
Point encircle(const Fish& self) {
  const Point out = unit(self.at - self.belief);
  const Point around{-out.y, out.x};
  return 0.25 * (kRing - length(self.at - self.belief)) * out + 0.45 * around;
}

}  // namespace

Mood mood_at(int step) {
  if (step < kCalmUntil) return Mood::calm;
  return step < kEscapeUntil ? Mood::escape : Mood::encircle;
}

// It comes in from the left, hunts, and is caught in the middle.
Point predator_at(int step) {
  constexpr double kEnd = 0.93;  // turns until it is encircled
  if (step < kCalmUntil) {
    const double part = static_cast<double>(step) / kCalmUntil;
    return eight(0) - Point{30 * (1 - part), 0};
  }
  const double part = static_cast<double>(step - kCalmUntil) / (kEscapeUntil - kCalmUntil);
  if (part < 1) return eight(kEnd * part);
  const double later = step - kEscapeUntil;
  const double slows = std::exp(-later / 40);
  const double angle = later / 25;
  const Point middle{kWater.x / 2 + 2 * std::cos(angle), kWater.y / 2 + 2 * std::sin(angle)};
  return slows * eight(kEnd) + (1 - slows) * middle;
}

Fish fish_at_first(weft::Rank rank, int ranks) {
  // The places of sunflower seeds.
  const double angle = rank * kTurn * 0.381966;
  const double distance = 14 * std::sqrt((rank + 0.5) / ranks);
  return {.at = {58 + 1.2 * distance * std::cos(angle), 30 + distance * std::sin(angle)},
          .velocity = {kCruise, 0},
          .belief = {0, kWater.y / 2}};
}

std::vector<weft::Rank> neighbors(const School& school, weft::Rank self) {
  std::vector<weft::Rank> near;
  for (std::size_t other = 0; other < school.size(); ++other) {
    const auto rank = static_cast<weft::Rank>(other);
    if (rank == self) continue;
    if (length(school[other] - school[static_cast<std::size_t>(self)]) < kSight)
      near.push_back(rank);
  }
  return near;
}

Weights weights(const School& school, weft::Rank self) {
  const std::vector<weft::Rank> near = neighbors(school, self);
  Weights made;
  for (const weft::Rank rank : near) {
    const std::size_t most = std::max(near.size(), neighbors(school, rank).size()) + 1;
    const double weight = 1 / static_cast<double>(most);
    made.sources.push_back({rank, weight});
    made.destinations.push_back({rank, 1.0});
    made.self -= weight;
  }
  return made;
}

void observe(Fish& self, Point predator, std::mt19937_64& random) {
  const double distance = length(self.at - predator);
  self.sees = distance < kVision;
  if (!self.sees) return;
  const double measured = distance * (1 + kNoiseOfDistance * noise(random));
  const double turn = kNoiseOfDirection * noise(random);
  const Point exact = unit(self.at - predator);
  const Point u{exact.x * std::cos(turn) - exact.y * std::sin(turn),
                exact.x * std::sin(turn) + exact.y * std::cos(turn)};
  const Point apart = self.at - self.belief;
  const double error = measured - (u.x * apart.x + u.y * apart.y);
  self.belief = self.belief - kGamma * error * u;
}

void swim(Fish& self, Mood mood, const School& school, const std::vector<weft::Rank>& near,
          Point course) {
  const Point from_predator = self.at - self.belief;
  const bool flees = mood == Mood::escape && length(from_predator) < kFear;
  Point urge = 0.8 * away_from_others(self, school, near) + 0.2 * away_from_shore(self.at);
  if (mood == Mood::encircle) {
    urge = urge + encircle(self);
  } else if (flees) {
    urge = urge + kFlight * (1.6 - length(from_predator) / kFear) * unit(from_predator);
  } else {
    urge =
        urge + course + 0.02 * towards_others(self, school, near) + 0.01 * (0.5 * kWater - self.at);
  }
  self.velocity = self.velocity + kAgility * (urge - self.velocity);
  const double fastest = mood == Mood::calm ? 1.4 * kCruise : kFlight;
  const double speed = length(self.velocity);
  if (speed > fastest) self.velocity = (fastest / speed) * self.velocity;
  self.at = self.at + self.velocity;
}

}  // namespace fish
