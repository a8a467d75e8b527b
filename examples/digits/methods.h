// methods: three ways for ranks to learn one model, each from its own images, by talking only to
// their neighbors. x_i is the model of rank i, g_i its gradient on a mini-batch.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "engine/context/context.h"
#include "examples/digits/dataset.h"
#include "examples/digits/softmax.h"
#include "examples/shared/tensor.h"

namespace digits {

inline constexpr std::size_t kSteps = 1000;
inline constexpr std::size_t kBatch = 16;  // images per rank and step
inline constexpr float kStepLength = 0.5F;

using Tensor = examples::Tensor<float>;

// A gradient step on the next batch.
void descend(const Dataset& data, Batches& batches, std::span<float> model);

struct Method {
  std::string_view name;
  std::string_view strategy;  // of weft::Strategy
};

// averaging: decentralized SGD, adapt then combine: x_i := sum_j w_ij (x_j - step * g_j). All ranks take
// step k before any of their neighbors takes step k + 1.
// sgp: SGP (Assran et al., Algorithm 1) over the one-peer exponential graph, whichever is given. The
// gradient is computed at z = x / w while the messages of the step travel.
// ad-psgd: AD-PSGD (Prague, Figure 3). No rank waits for another, except for its mutex.
inline constexpr std::array<Method, 3> kMethods{
    {{"averaging", "dpsgd"}, {"sgp", "sgp"}, {"ad-psgd", "ad_psgd"}}};

// The model of this rank after kSteps. The graph is the context's. Collective.
weft::Result<Tensor> learn_by(const Method& method, weft::Context& context, const Dataset& data,
                              Batches batches);

}  // namespace digits
