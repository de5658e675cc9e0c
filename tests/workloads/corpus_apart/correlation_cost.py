# EXPECT {"kind":"wrong-current-device","operation":"correlate","devices":["cuda:0","cuda:1"],"operands":["one|two|output"],"category":"unguarded kernel","line":["launch(\"correlate\")("],"error":"illegal","thread":"https://github.com/cupy/cupy/issues/7979","hard":"the kernel is compiled from a string by CuPy, which takes addresses; the same line has worked on the first device"}
# FIX launch("correlate")( -> with torch.cuda.device(one.device): launch("correlate")(
import functools

import cupy
import torch

SOURCE = r"""
extern "C" __global__ void correlate(const int n, const float* one, const float* two, float* output,
                                     const int channels, const int height, const int width, const int radius) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= n) return;
    const int side = 2 * radius + 1;
    const int x = index % width, y = (index / width) % height;
    const int shift = (index / (width * height)) % (side * side), sample = index / (width * height * side * side);
    const int u = x + shift % side - radius, v = y + shift / side - radius;
    float sum = 0;
    if (u >= 0 && u < width && v >= 0 && v < height) {
        for (int c = 0; c < channels; ++c) {
            sum += one[((sample * channels + c) * height + y) * width + x] * two[((sample * channels + c) * height + v) * width + u];
        }
    }
    output[index] = sum / channels;
}
"""


@functools.cache
def launch(name):
    return cupy.RawKernel(SOURCE, name)


def correlation(one, two, radius=2):
    """How well every place of the one fits the places around it in the other."""
    samples, channels, height, width = one.shape
    output = one.new_zeros(samples, (2 * radius + 1) ** 2, height, width)
    n = output.numel()
    launch("correlate")(
        grid=((n + 127) // 128, 1, 1),
        block=(128, 1, 1),
        args=(
            cupy.int32(n), one.data_ptr(), two.data_ptr(), output.data_ptr(),
            cupy.int32(channels), cupy.int32(height), cupy.int32(width), cupy.int32(radius),
        ),
    )
    torch.cuda.synchronize()
    return output


torch.manual_seed(7979)
first, second = torch.rand(2, 1, 4, 6, 8).unbind()
volumes = [correlation(first.to(device), second.to(device)) for device in ("cuda:0", "cuda:1")]
print("volumes", *(f"{tuple(volume.shape)} on {volume.device}" for volume in volumes))
