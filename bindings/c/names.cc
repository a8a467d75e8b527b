// names: versions, and the names of codes, types and algorithms.
#include <weft/c.h>
#include <weft/types.h>
#include <weft/version.h>

#include <string>

#include "bindings/c/call.h"

// The numbers of the C API are those of the C++ API.
static_assert(WEFT_CORRUPTED == static_cast<weft_code>(weft::kLastCode));
static_assert(WEFT_PEER_LEFT == static_cast<weft_code>(weft::Code::peer_left));
static_assert(WEFT_BYTES == static_cast<weft_data_type>(weft::DataType::bytes));
static_assert(WEFT_E5M2 == static_cast<weft_data_type>(weft::DataType::e5m2));
static_assert(WEFT_E5M2 + 1 == static_cast<weft_data_type>(weft::kDataTypes));
static_assert(WEFT_COMPRESSION_LOW_RANK + 1 == static_cast<weft_compression>(weft::kCompressions));
static_assert(WEFT_F32 == static_cast<weft_data_type>(weft::DataType::f32));
static_assert(WEFT_BIT_XOR == static_cast<weft_reduce_op>(weft::ReduceOp::bit_xor));
static_assert(WEFT_AVERAGE == static_cast<weft_reduce_op>(weft::ReduceOp::average));
static_assert(WEFT_TORUS == static_cast<weft_algorithm>(weft::AllreduceAlgorithm::torus));
static_assert(WEFT_BITS_FIXED == static_cast<weft_bits>(weft::Bits::fixed));
static_assert(WEFT_NCCL == static_cast<weft_algorithm>(weft::AllreduceAlgorithm::nccl));
static_assert(WEFT_GROUP_AVERAGE == static_cast<weft_operation>(weft::Collective::group_average));
static_assert(WEFT_LOCAL_ALLREDUCE ==
              static_cast<weft_operation>(weft::Collective::local_allreduce));

namespace {

bool is_type(weft_data_type type) {
  return type >= 0 && type < static_cast<weft_data_type>(weft::kDataTypes);
}

}  // namespace

// The names are parts of string literals, which end with a null character.
const char* weft_code_name(weft_code code) {
  if (code < WEFT_OK || code > WEFT_CORRUPTED) return "unknown";
  return weft::name(static_cast<weft::Code>(code)).data();
}

const char* weft_version(void) {
  return weft::version().data();
}

int32_t weft_version_number(void) {
  return 10000 * WEFT_VERSION_MAJOR + 100 * WEFT_VERSION_MINOR + WEFT_VERSION_PATCH;
}

size_t weft_data_type_size(weft_data_type type) {
  return is_type(type) ? weft::size_of(static_cast<weft::DataType>(type)) : 0;
}

const char* weft_data_type_name(weft_data_type type) {
  return is_type(type) ? weft::name(static_cast<weft::DataType>(type)).data() : "unknown";
}

weft_code weft_data_type_from_name(const char* name, weft_data_type* type) {
  return weft::c::call(__func__, [&]() -> weft::Status {
    WEFT_RETURN_IF_ERROR(weft::c::check_not_null(name, "name"));
    WEFT_RETURN_IF_ERROR(weft::c::check_not_null(type, "type"));
    WEFT_ASSIGN(const weft::DataType found, weft::data_type(name));
    *type = static_cast<weft_data_type>(found);
    return {};
  });
}

weft_code weft_compression_from_name(const char* name, weft_compression* compression) {
  return weft::c::call(__func__, [&]() -> weft::Status {
    WEFT_RETURN_IF_ERROR(weft::c::check_not_null(name, "name"));
    WEFT_RETURN_IF_ERROR(weft::c::check_not_null(compression, "compression"));
    WEFT_ASSIGN(const weft::Compression found, weft::compression(name));
    *compression = static_cast<weft_compression>(found);
    return {};
  });
}

weft_code weft_algorithm_from_name(const char* name, weft_algorithm* algorithm) {
  return weft::c::call(__func__, [&]() -> weft::Status {
    WEFT_RETURN_IF_ERROR(weft::c::check_not_null(name, "name"));
    WEFT_RETURN_IF_ERROR(weft::c::check_not_null(algorithm, "algorithm"));
    WEFT_ASSIGN(const weft::AllreduceAlgorithm found, weft::allreduce_algorithm(name));
    *algorithm = static_cast<weft_algorithm>(found);
    return {};
  });
}
