// schema: numbers of Chakra's schema. Internal to chakra.
#pragma once

#include <weft/types.h>

#include <array>
#include <protozero/types.hpp>

namespace weft {

enum class ChakraField : protozero::pbf_tag_type {
  id = 1,
  name = 2,
  type = 3,
  data_deps = 5,
  start_micros = 6,
  duration_micros = 7,
  attributes = 10
};
enum class ChakraAttribute : protozero::pbf_tag_type {
  name = 1,
  int32 = 7,
  int64 = 9,
  uint32 = 11,
  uint64 = 13,
  sint32 = 15,
  sint64 = 17,
  fixed32 = 19,
  fixed64 = 21,
  sfixed32 = 23,
  sfixed64 = 25,
  boolean = 27,
  string = 29
};
enum class ChakraType : std::uint64_t {
  metadata = 1,
  computation = 4,
  send = 5,
  receive = 6,
  collective = 7,
};
// By comm_type. 7 is a reduce_scatter with counts, and 8 one of equal blocks.
inline constexpr std::array kChakraCollectives{
    Collective::allreduce, Collective::reduce,         Collective::allgather,
    Collective::gather,    Collective::scatter,        Collective::broadcast,
    Collective::alltoall,  Collective::reduce_scatter, Collective::reduce_scatter,
    Collective::barrier};

}  // namespace weft
