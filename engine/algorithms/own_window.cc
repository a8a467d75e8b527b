// own_window: see the header.
#include "engine/algorithms/own_window.h"

#include <weft/macros.h>

#include <memory>
#include <utility>

#include "engine/context/context.h"
#include "engine/kernels/kernels.h"

namespace weft {

Result<Window> own_window(Context& context, std::size_t count, DataType type,
                          const std::string& name, std::size_t more) {
  WEFT_ASSIGN(Memory memory, Memory::allocate((count + more) * size_of(type)));
  const Output tensor{memory.data(), count, type};
  return context.win_create(
      tensor, name, {.zero_init = true, .owner = std::make_shared<Memory>(std::move(memory))});
}

}  // namespace weft
