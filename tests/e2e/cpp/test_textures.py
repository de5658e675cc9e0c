"""Textures and surfaces of kernels that a rehearsal computes: CUDA's programming guide, "Texture and Surface Memory" and "Texture Fetching"."""

import pytest
from conftest import DEVTRACE, environment, execute
from cpp_programs import build_nvcc

PROGRAM = r"""
#include <cstdio>
#include <type_traits>
#define DO(call) do { cudaError_t e = call; if (e) { std::printf("%s: %s\n", #call, cudaGetErrorName(e)); return 1; } } while (0)
enum { kWidth = 4, kHeight = 3, kDepth = 2 };
__global__ void flat(cudaTextureObject_t t, float* to, float x, float y) { *to = tex2D<float>(t, x, y); }
__global__ void line(cudaTextureObject_t t, int x, float4* to) { *to = tex1Dfetch<float4>(t, x); }
__global__ void whole(cudaTextureObject_t t, float x, float y, int* to) { *to = tex2D<int>(t, x, y); }
__global__ void deep(cudaTextureObject_t t, float* to, float x, float y, float z) { *to = tex3D<float>(t, x, y, z); }
__global__ void layer(cudaTextureObject_t t, float* to, float x, float y, int z) { *to = tex2DLayered<float>(t, x, y, z); }
__global__ void cube(cudaTextureObject_t t, float* to, float x, float y, float z) { *to = texCubemap<float>(t, x, y, z); }
__global__ void four(cudaTextureObject_t t, float x, float y, float4* to) { *to = tex2Dgather<float4>(t, x, y, 0); }
__global__ void add(cudaSurfaceObject_t s) {
  float value;
  surf2Dread(&value, s, threadIdx.x * sizeof value, threadIdx.y);
  surf2Dwrite(value + 100, s, threadIdx.x * sizeof value, threadIdx.y);
  surf2Dwrite(7.0f, s, kWidth * sizeof value, threadIdx.y, cudaBoundaryModeZero);
}
struct Kind { cudaTextureAddressMode edge; cudaTextureFilterMode filter; cudaTextureReadMode read; bool normalized; };
cudaTextureObject_t object(const cudaResourceDesc& resource, Kind kind) {
  cudaTextureDesc d = {};
  for (auto& edge : d.addressMode) edge = kind.edge;
  d.filterMode = kind.filter; d.readMode = kind.read; d.normalizedCoords = kind.normalized; d.borderColor[0] = 50;
  cudaTextureObject_t t = 0;
  cudaCreateTextureObject(&t, &resource, &d, nullptr);
  return t;
}
cudaResourceDesc of(cudaArray_t array) { cudaResourceDesc r = {}; r.resType = cudaResourceTypeArray; r.res.array.array = array; return r; }
template <class... T> float get(void (*kernel)(cudaTextureObject_t, float*, T...), cudaTextureObject_t t, std::common_type_t<T>... at) {
  static float* to = nullptr;
  if (!to) cudaMallocManaged(&to, sizeof *to);
  *to = -1;
  kernel<<<1, 1>>>(t, to, at...);
  cudaDeviceSynchronize();
  return *to;
}
int main(int count, char**) {
  constexpr auto kPoint = cudaFilterModePoint, kLinear = cudaFilterModeLinear;
  constexpr auto kAsIs = cudaReadModeElementType, kPart = cudaReadModeNormalizedFloat;
  float numbers[kDepth * kHeight * kWidth];
  for (int i = 0; i < kDepth * kHeight * kWidth; ++i) numbers[i] = i;
  cudaArray_t array;
  const auto floats = cudaCreateChannelDesc<float>();
  DO(cudaMallocArray(&array, &floats, kWidth, kHeight, cudaArraySurfaceLoadStore | cudaArrayTextureGather));
  DO(cudaMemcpyToArray(array, 0, 0, numbers, kHeight * kWidth * sizeof(float), cudaMemcpyHostToDevice));
  const auto point = object(of(array), {cudaAddressModeClamp, kPoint, kAsIs, false});
  std::printf("point %g %g %g\n", get(flat, point, 1.9f, 2.1f), get(flat, point, -5.0f, 0.0f), get(flat, point, 99.0f, 99.0f));
  const auto between = object(of(array), {cudaAddressModeClamp, kLinear, kAsIs, false});
  std::printf("linear %g %g %g\n", get(flat, between, 1.75f, 1.0f), get(flat, between, 0.5f, 0.5f), get(flat, between, 0.0f, 0.5f));
  const auto wrap = object(of(array), {cudaAddressModeWrap, kLinear, kAsIs, true});
  std::printf("wrap %g %g %g\n", get(flat, wrap, 0.0f, 0.5f / kHeight), get(flat, wrap, 1.125f, 0.5f / kHeight), get(flat, wrap, -0.0625f, 0.5f / kHeight));
  const auto mirror = object(of(array), {cudaAddressModeMirror, kPoint, kAsIs, true});
  std::printf("mirror %g %g\n", get(flat, mirror, 1.1f, 0.0f), get(flat, mirror, -0.3f, 0.0f));
  const auto border = object(of(array), {cudaAddressModeBorder, kPoint, kAsIs, false});
  std::printf("border %g %g\n", get(flat, border, -0.5f, 0.5f), get(flat, border, 3.5f, 0.5f));
  float4* four_numbers;
  DO(cudaMallocManaged(&four_numbers, sizeof *four_numbers));
  four<<<1, 1>>>(between, 2.0f, 1.0f, four_numbers);
  DO(cudaDeviceSynchronize());
  std::printf("gather %g %g %g %g\n", four_numbers->x, four_numbers->y, four_numbers->z, four_numbers->w);
  cudaSurfaceObject_t surface;
  const cudaResourceDesc resource = of(array);
  DO(cudaCreateSurfaceObject(&surface, &resource));
  add<<<1, dim3(kWidth, kHeight)>>>(surface);
  float back[kHeight * kWidth];
  DO(cudaMemcpyFromArray(back, array, 0, 0, sizeof back, cudaMemcpyDeviceToHost));
  std::printf("surface %g %g %g\n", back[0], back[kWidth], back[kHeight * kWidth - 1]);

  // 8 bits as parts of 1, and as they are.
  const unsigned char bytes[kHeight * kWidth] = {0, 51, 255};
  const auto small = cudaCreateChannelDesc<unsigned char>();
  DO(cudaMallocArray(&array, &small, kWidth, kHeight));
  DO(cudaMemcpy2DToArray(array, 0, 0, bytes, kWidth, kWidth, kHeight, cudaMemcpyHostToDevice));
  const auto part = object(of(array), {cudaAddressModeClamp, kLinear, kPart, false});
  int* number;
  DO(cudaMallocManaged(&number, sizeof *number));
  whole<<<1, 1>>>(object(of(array), {cudaAddressModeClamp, kPoint, kAsIs, false}), 2.5f, 0.5f, number);
  DO(cudaDeviceSynchronize());
  std::printf("bytes %g %g %d\n", get(flat, part, 1.5f, 0.5f), get(flat, part, 2.0f, 0.5f), *number);

  // Linear memory, and with a pitch.
  float* memory;
  DO(cudaMalloc(&memory, 64 * sizeof(float)));
  DO(cudaMemcpy(memory, numbers, sizeof numbers, cudaMemcpyHostToDevice));
  cudaResourceDesc linear = {};
  linear.resType = cudaResourceTypeLinear;
  linear.res.linear = {memory, cudaCreateChannelDesc<float4>(), sizeof numbers};
  line<<<1, 1>>>(object(linear, {cudaAddressModeClamp, kPoint, kAsIs, false}), 2, four_numbers);
  DO(cudaDeviceSynchronize());
  std::printf("fetch %g %g\n", four_numbers->x, four_numbers->w);
  cudaResourceDesc pitched = {};
  pitched.resType = cudaResourceTypePitch2D;
  pitched.res.pitch2D = {memory, floats, 3, 2, 8 * sizeof(float)};
  std::printf("pitch %g\n", get(flat, object(pitched, {cudaAddressModeClamp, kPoint, kAsIs, false}), 2.5f, 1.5f));

  // Three dimensions, layers, a cube.
  const auto fill = [&](cudaExtent extent, unsigned flags, const float* from) {
    cudaMalloc3DArray(&array, &floats, extent, flags);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(const_cast<float*>(from), extent.width * sizeof(float), extent.width, extent.height);
    copy.dstArray = array; copy.extent = extent; copy.kind = cudaMemcpyHostToDevice;
    return cudaMemcpy3D(&copy);
  };
  DO(fill({kWidth, kHeight, kDepth}, 0, numbers));
  std::printf("deep %g\n", get(deep, object(of(array), {cudaAddressModeClamp, kLinear, kAsIs, false}), 1.5f, 1.5f, 1.0f));
  DO(fill({kWidth, kHeight, kDepth}, cudaArrayLayered, numbers));
  std::printf("layer %g %g\n", get(layer, object(of(array), {cudaAddressModeClamp, kLinear, kAsIs, false}), 1.0f, 0.5f, 1), get(layer, object(of(array), {cudaAddressModeClamp, kLinear, kAsIs, false}), 0.5f, 0.5f, 9));
  float faces[24];
  for (int i = 0; i < 24; ++i) faces[i] = i;
  DO(fill({2, 2, 6}, cudaArrayCubemap, faces));
  const auto box = object(of(array), {cudaAddressModeClamp, kPoint, kAsIs, true});
  std::printf("cube %g %g %g\n", get(cube, box, 1.0f, 0.5f, 0.5f), get(cube, box, 0.1f, -3.0f, 0.5f), get(cube, box, 0.2f, 0.2f, -0.9f));

  if (count > 1) {
    DO(cudaSetDevice(1));
    const float got = get(flat, point, 0.5f, 0.5f);
    std::printf("other %g %s\n", got, cudaGetErrorName(cudaGetLastError()));
  }
}
"""
EXPECTED = """point 9 0 11
linear 3.25 0 0
wrap 1.5 0 2.25
mirror 3 1
border 50 3
gather 5 6 2 1
surface 100 104 111
bytes 0.2 0.6 255
fetch 8 11
pitch 10
deep 11
layer 12.5 12
cube 0 13 20
"""


@pytest.mark.parametrize("arguments", [[], ["other"]], ids=["all", "another_devices"])
def test_textures(tmp_path, arguments):
    outcome = execute([DEVTRACE, "rehearse", "--kernels", "--", build_nvcc(PROGRAM, "-w"), *arguments], tmp_path, environment(None))
    assert outcome.out == EXPECTED + ("other -1 cudaErrorIllegalAddress\n" if arguments else ""), outcome.out + outcome.err
    assert "not computed" not in outcome.err
    if arguments:
        assert "illegal address: tex.2d.v4.f32.f32 of an object of device 0, whose kernels alone may use it, by thread (0,0,0)" in outcome.err, outcome.err
