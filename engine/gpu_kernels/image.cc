// image: the file that nvcc has made, as a part of this object.
#include "engine/gpu_kernels/image.h"

asm(R"(
  .pushsection .rodata
  .balign 64
weft_gpu_image:
  .incbin ")" WEFT_GPU_IMAGE R"("
weft_gpu_image_end:
  .popsection
)");
extern "C" {
extern const std::byte weft_gpu_image[];
extern const std::byte weft_gpu_image_end[];
}

namespace weft::gpu {

std::span<const std::byte> image() {
  return {weft_gpu_image, weft_gpu_image_end};
}

}  // namespace weft::gpu
