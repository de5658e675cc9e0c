# === pytorch_149196
# thread: https://github.com/pytorch/pytorch/issues/149196
# about: a tensor's handle is sent to another process, which opens it where the sender had it, by the sender's numbering of the devices.
# category: inter-process
# operands: weights cuda:1, x cuda:0
# fails: y = x @ weights
# fix: y = x @ weights.to(x.device)
# alone: yes



import torch
import torch.multiprocessing as multiprocessing


def work(queue):
    weights = queue.get()
    x = torch.ones(2, 4, device="cuda:0")
    try:
        y = x @ weights
        print(y)
    except RuntimeError:
        print(f"{__file__} refused", flush=True)


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    weights = torch.ones(4, 4, device="cuda:1")
    queue.put(weights)
    process.join()

# === unsloth_6831
# thread: https://github.com/unslothai/unsloth/issues/6831
# about: a Triton kernel is launched for a layer on the second GPU while the first one is current. Nothing refuses it.
# category: unguarded-kernel
# operands: x cuda:1
# fails: dequantize[(1,)](x, scale, y, x.numel())
# silent: yes



import torch
import triton
import triton.language as tl


@triton.jit
def dequantize(x, scale, y, count, SIZE: tl.constexpr = 64):
    at = tl.arange(0, SIZE)
    tl.store(y + at, tl.load(x + at, mask=at < count) * tl.load(scale), mask=at < count)


def forward(x, scale):
    y = torch.empty_like(x)
    dequantize[(1,)](x, scale, y, x.numel())
    return y


forward(torch.randn(64, device="cuda:1"), torch.rand(1, device="cuda:1"))
