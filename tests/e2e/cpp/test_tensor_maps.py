"""The tensor memory accelerator in a rehearsal: boxes of tensors come to shared memory and go back, by `cuTensorMapEncodeTiled`'s maps."""

from conftest import DEVTRACE, environment, execute
from cpp_programs import kept, nvcc

PROGRAM = r"""
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <vector>
__device__ uint32_t shared_of(const void* at) { return (uint32_t)__cvta_generic_to_shared(at); }
__device__ void wait_for(uint64_t* barrier) {
  uint32_t done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }" : "=r"(done) : "r"(shared_of(barrier)) : "memory");
}
// A box at (x, y) as it comes, all of its bytes; then it is written or added to another place.
__global__ void box(const __grid_constant__ CUtensorMap map, int x, int y, int bytes, uint8_t* out, int to_x, int to_y, int adds) {
  extern __shared__ __align__(1024) uint8_t tile[];
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_of(&barrier)));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_of(&barrier)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared_of(tile)), "l"(&map), "r"(x), "r"(y), "r"(shared_of(&barrier)) : "memory");
  }
  __syncthreads();
  wait_for(&barrier);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = tile[i];
  __syncthreads();
  if (threadIdx.x == 0) {
    if (adds)
      asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" :: "l"(&map), "r"(to_x), "r"(to_y), "r"(shared_of(tile)) : "memory");
    else
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" :: "l"(&map), "r"(to_x), "r"(to_y), "r"(shared_of(tile)) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;");
  }
}
// The map is changed in shared memory, to a tensor of another place and size; a box of that comes.
__global__ void other(const __grid_constant__ CUtensorMap map, CUtensorMap* changed, const float* tensor, int width, int height, int bytes, uint8_t* out) {
  extern __shared__ __align__(1024) uint8_t tile[];
  __shared__ __align__(128) CUtensorMap own;
  __shared__ uint64_t barrier;
  if (threadIdx.x == 0) {
    own = map;
    const uint32_t at = shared_of(&own);
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" :: "r"(at), "l"(tensor));
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;" :: "r"(at), "r"(width));
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" :: "r"(at), "r"(height));
    asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" :: "r"(at), "l"(width * 4ll));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_of(&barrier)));
  }
  __syncwarp();
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" :: "l"(changed), "r"(shared_of(&own)));
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(changed) : "memory");
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_of(&barrier)), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared_of(tile)), "l"(changed), "r"(4), "r"(2), "r"(shared_of(&barrier)) : "memory");
  }
  wait_for(&barrier);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = tile[i];
}
// Of plain bytes: sums of whole numbers in global memory, and in shared memory.
__global__ void sums(int* to, const int* from) {
  __shared__ __align__(16) int values[32];
  values[threadIdx.x] = from[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0)
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32 [%0], [%1], 128;" :: "l"(to), "r"(shared_of(values)) : "memory");
}
enum { kWidth = 80, kHeight = 20, kBoxX = 32, kBoxY = 8 };
int wrong = 0;
void expect(const char* what, int at, float found, float wanted) {
  if (found != wanted && wrong++ < 5) std::printf("%s %d: %g, not %g\n", what, at, found, wanted);
}
CUtensorMap made(float* tensor, CUtensorMapSwizzle swizzle, int step, CUtensorMapFloatOOBfill fill) {
  CUtensorMap map;
  const cuuint64_t dims[] = {kWidth, kHeight}, strides[] = {kWidth * sizeof(float)};
  const cuuint32_t boxes[] = {kBoxX, (cuuint32_t)(kBoxY * step)}, steps[] = {1, (cuuint32_t)step};
  const CUresult r = cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, tensor, dims, strides, boxes, steps,
                                            CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE, fill);
  if (r) std::printf("cuTensorMapEncodeTiled: %d\n", r);
  return map;
}
int main(int argc, char** argv) {
  float *tensor, *out;
  const int bytes = kBoxX * kBoxY * 4;
  cudaMallocManaged(&tensor, kWidth * kHeight * sizeof(float));
  cudaMallocManaged(&out, bytes);
  const auto fill = [&] { for (int i = 0; i < kWidth * kHeight; ++i) tensor[i] = (float)i; };
  // From the left above the tensor, from inside, over the right and lower edge.
  const int corners[][2] = {{-8, -3}, {16, 4}, {kWidth - 20, kHeight - 2}};
  for (const auto& [x, y] : corners)
    for (CUtensorMapSwizzle swizzle : {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_128B})
      for (int step : {1, 2}) {
        fill();
        const CUtensorMap map = made(tensor, swizzle, step, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        const bool adds = step == 1;
        box<<<1, 64, bytes>>>(map, x, y, bytes, (uint8_t*)out, 40, 10, adds);
        if (int e = cudaDeviceSynchronize()) std::printf("error %d\n", e);
        std::vector<float> changed(kWidth * kHeight);
        for (int i = 0; i < kWidth * kHeight; ++i) changed[i] = (float)i;
        for (int row = 0; row < kBoxY; ++row)
          for (int column = 0; column < kBoxX; ++column) {
            const int gx = x + column, gy = y + row * step, tx = 40 + column, ty = 10 + row * step;
            const bool inside = gx >= 0 && gx < kWidth && gy >= 0 && gy < kHeight;
            const float value = inside ? (float)(gy * kWidth + gx) : 0;
            const int unit = swizzle ? (column / 4) ^ row : column / 4;
            expect(swizzle ? "swizzled" : "plain", row * kBoxX + column, out[row * kBoxX + unit * 4 + column % 4], value);
            if (tx < kWidth && ty < kHeight) changed[ty * kWidth + tx] = adds ? changed[ty * kWidth + tx] + value : value;
          }
        for (int i = 0; i < kWidth * kHeight; ++i) expect(adds ? "added" : "stored", i, tensor[i], changed[i]);
      }
  fill();
  box<<<1, 64, bytes>>>(made(tensor, CU_TENSOR_MAP_SWIZZLE_NONE, 1, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA), -8, -3, bytes, (uint8_t*)out, 0, 0, 0);
  cudaDeviceSynchronize();
  expect("not a number", 0, out[0] != out[0], 1);
  CUtensorMap* changed;
  float* smaller;
  const int width = 16, height = 6;
  cudaMallocManaged(&changed, sizeof *changed);
  cudaMallocManaged(&smaller, width * height * sizeof(float));
  for (int i = 0; i < width * height; ++i) smaller[i] = 1000.f + i;
  other<<<1, 32, bytes>>>(made(tensor, CU_TENSOR_MAP_SWIZZLE_NONE, 1, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE), changed, smaller, width, height, bytes, (uint8_t*)out);
  if (int e = cudaDeviceSynchronize()) std::printf("error %d\n", e);
  for (int row = 0; row < kBoxY; ++row)
    for (int column = 0; column < kBoxX; ++column)
      expect("changed", row * kBoxX + column, out[row * kBoxX + column], 4 + column < width && 2 + row < height ? 1000.f + (2 + row) * width + 4 + column : 0);
  int *maxima, *values;
  cudaMallocManaged(&maxima, 128);
  cudaMallocManaged(&values, 128);
  for (int i = 0; i < 32; ++i) maxima[i] = 5 - i, values[i] = i - 20;
  sums<<<1, 32>>>(maxima, values);
  cudaDeviceSynchronize();
  for (int i = 0; i < 32; ++i) expect("maximum", i, (float)maxima[i], (float)(5 - i > i - 20 ? 5 - i : i - 20));
  std::printf("%d wrong\n", wrong);
  if (argc > 1) {  // another device's tensor
    cudaSetDevice(1);
    cudaMalloc(&tensor, kWidth * kHeight * sizeof(float));
    cudaSetDevice(0);
    box<<<1, 64, bytes>>>(made(tensor, CU_TENSOR_MAP_SWIZZLE_NONE, 1, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE), 0, 0, bytes, (uint8_t*)out, 0, 0, 0);
    std::printf("%d\n", cudaDeviceSynchronize());
  }
}
"""


def rehearsed(folder, *arguments):
    # tensormap.replace is Hopper's own: -arch would compile for what came after it, too.
    program = kept("program.cu", PROGRAM, [nvcc(), "-lineinfo", "-gencode", "arch=compute_90a,code=compute_90a", "-cudart", "shared", "-lcuda"])
    return execute([DEVTRACE, "rehearse", "--gpus", 2, "--kernels", "--", program, *arguments], folder, environment(None))


def test_boxes_come_and_go(tmp_path):
    outcome = rehearsed(tmp_path)
    assert outcome.out == "0 wrong\n" and "not computed" not in outcome.err and outcome.findings == [], outcome.out + outcome.err


def test_a_tensor_of_another_device_is_found(tmp_path):
    """The map that the kernel takes by value holds its address."""
    outcome = rehearsed(tmp_path, "remote")
    assert outcome.out.endswith("700\n"), outcome.err
    (finding,) = outcome.findings
    assert finding["kind"] in ("remote-access", "wrong-current-device"), finding
