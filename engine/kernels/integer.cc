// Integers. Sum, product and bit operations do not know signs, so signed types share the code of
// the unsigned ones; minimum and maximum have code of their own. Compiled once per instruction set
// by including itself through Highway's foreach_target.
#include "engine/kernels/select.h"
#include "engine/kernels/targets.h"

// foreach_target.h comes before everything that is compiled per instruction set.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/integer.cc"
#include "hwy/foreach_target.h"
#include "engine/kernels/loop-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

// `Value` is the element as it is, `Word` the unsigned type of its size, `Factor` the format in
// which words are multiplied.
template <class Value, class Word, class Factor = Plain<Word>>
CombineFunction function_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return &combine_all<Plain<Word>, Sum>;
    case Reduction::min:
      return &combine_all<Plain<Value>, Minimum>;
    case Reduction::max:
      return &combine_all<Plain<Value>, Maximum>;
    case Reduction::product:
      return &combine_all<Factor, Product>;
    case Reduction::bit_and:
      return &combine_all<Plain<Word>, BitAnd>;
    case Reduction::bit_or:
      return &combine_all<Plain<Word>, BitOr>;
    case Reduction::bit_xor:
      return &combine_all<Plain<Word>, BitXor>;
    default:
      return nullptr;
  }
}

CombineFunction integer_function(DataType type, Reduction reduction) {
  switch (type) {
    case DataType::i8:
      return function_of<std::int8_t, std::uint8_t, Converted<ByteInWord>>(reduction);
    case DataType::u8:
      return function_of<std::uint8_t, std::uint8_t, Converted<ByteInWord>>(reduction);
    case DataType::i16:
      return function_of<std::int16_t, std::uint16_t>(reduction);
    case DataType::u16:
      return function_of<std::uint16_t, std::uint16_t>(reduction);
    case DataType::i32:
      return function_of<std::int32_t, std::uint32_t>(reduction);
    case DataType::u32:
      return function_of<std::uint32_t, std::uint32_t>(reduction);
    case DataType::i64:
      return function_of<std::int64_t, std::uint64_t>(reduction);
    case DataType::u64:
      return function_of<std::uint64_t, std::uint64_t>(reduction);
    default:
      return nullptr;
  }
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft {

HWY_EXPORT(integer_function);

CombineFunction select_integer(DataType type, Reduction reduction) {
  return HWY_DYNAMIC_DISPATCH(integer_function)(type, reduction);
}

}  // namespace weft
#endif  // HWY_ONCE
