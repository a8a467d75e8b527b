// owned_request: a request that outlives the call that gave it, with copies of all that it names but
// the tensors.
#pragma once

#include <weft/feedback.h>
#include <weft/types.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace weft {

// Not movable: the request points into it.
class OwnedRequest {
 public:
  // `bits`: in place of Bits::automatic.
  explicit OwnedRequest(const Request& request, Bits bits = Bits::automatic);
  OwnedRequest(const OwnedRequest&) = delete;
  OwnedRequest& operator=(const OwnedRequest&) = delete;

  [[nodiscard]] const Request& get() const { return request_; }
  // Other memory for its tensors.
  void put(const void* input, void* output) {
    request_.input.data = input;
    request_.output.data = output;
  }

 private:
  Request request_;
  std::vector<std::size_t> counts_, receive_counts_, shape_;
  std::vector<Rank> group_;
  NeighborWeights weights_;
  std::optional<ErrorFeedback> feedback_;
  std::vector<NeighborWeight> sources_, destinations_;
};

}  // namespace weft
