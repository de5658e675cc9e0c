# EXPECT {"kind":"wrong-current-device","operation":"gate_kernel","devices":["cuda:1","cuda:0"],"operands":["x|hidden|gate"],"category":"default or current device|unguarded kernel","line":["self.gpu_executor = ThreadPoolExecutor(","gate_kernel[("],"error":"","thread":"https://github.com/mstar-project/mstar/pull/180","hard":"the worker chose its device in the main thread; PyTorch's own operators go by the tensors, the kernel goes by the thread"}
# FIX self.gpu_executor = ThreadPoolExecutor(1) -> self.gpu_executor = ThreadPoolExecutor(1, initializer=torch.cuda.set_device, initargs=(self.device,))
from concurrent.futures import ThreadPoolExecutor

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def gate_kernel(x, gate, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    tl.store(out + at, tl.load(x + at, mask=mask) * tl.load(gate + at, mask=mask), mask=mask)


def gated(x, gate):
    out = torch.empty_like(x)
    gate_kernel[(triton.cdiv(x.numel(), 16),)](x, gate, out, x.numel(), BLOCK=16)
    return out


class Thinker(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.gate, self.down = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        return self.down(gated(self.up(x).contiguous(), self.gate(x).sigmoid().contiguous()))


class Worker:
    """Requests are answered in a thread of their own: the main thread goes on to receive them."""

    def __init__(self, device):
        self.device = torch.device(device)
        torch.cuda.set_device(self.device)
        self.model = Thinker(8).cuda()
        self.gpu_executor = ThreadPoolExecutor(1)

    @torch.no_grad()
    def answer(self, request):
        hidden = torch.tensor(request).to(self.device)
        return self.model(hidden).sum().item()

    def run(self, requests):
        futures = [self.gpu_executor.submit(self.answer, request) for request in requests]
        return [round(each.result(), 4) for each in futures]


torch.manual_seed(0)
workers = [Worker("cuda:0"), Worker("cuda:1")]
requests = [[[0.1 * i] * 8] * 2 for i in range(3)]
answers = [worker.run(requests) for worker in workers]
print("answers", [len(each) for each in answers])
