"""A project's file of unit tests of tensor operations, each on tiny tensors: ordinary_bench.py starts it by pytest, the device in DEVICE."""

import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn

DEVICE = os.environ["DEVICE"]
SHAPES = [(4,), (3, 5), (2, 3, 4), (2, 2, 3, 3)]
TYPES = [torch.float32, torch.float64, torch.float16, torch.int64]


def given(shape, dtype=torch.float32):
    torch.manual_seed(0)
    return (torch.randn(shape) * 4).to(dtype).to(DEVICE)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TYPES)
class TestPointwise:
    def test_add(self, shape, dtype):
        x = given(shape, dtype)
        assert torch.equal(x + x, x * 2)

    def test_where(self, shape, dtype):
        x = given(shape, dtype)
        assert torch.equal(torch.where(x > 0, x, -x), x.abs())

    def test_clamp(self, shape, dtype):
        x = given(shape, dtype).clamp(-1, 1)
        assert x.max().item() <= 1 and x.min().item() >= -1

    def test_in_place(self, shape, dtype):
        x = given(shape, dtype)
        y = x.clone()
        y.add_(1).sub_(1)
        assert torch.allclose(x.float(), y.float(), atol=1e-2)


@pytest.mark.parametrize("shape", SHAPES)
class TestReductions:
    def test_sum(self, shape):
        x = given(shape)
        torch.testing.assert_close(x.sum(), x.flatten().cumsum(0)[-1])

    def test_mean_and_std(self, shape):
        x = given(shape)
        normal = (x - x.mean()) / x.std()
        torch.testing.assert_close(normal.mean().item(), 0.0, atol=1e-5, rtol=0)

    def test_max(self, shape):
        x = given(shape)
        values, places = x.max(-1)
        assert torch.equal(values, x.gather(-1, places.unsqueeze(-1)).squeeze(-1))

    def test_sort(self, shape):
        x = given(shape).sort(-1).values
        assert bool((x.diff(dim=-1) >= 0).all())

    def test_softmax(self, shape):
        torch.testing.assert_close(given(shape).softmax(-1).sum(-1), torch.ones(shape[:-1], device=DEVICE))


@pytest.mark.parametrize("size", [2, 5, 16])
class TestMatrices:
    def test_product(self, size):
        x = given((size, size))
        torch.testing.assert_close(x @ torch.eye(size, device=DEVICE), x)

    def test_solve(self, size):
        x = given((size, size)) + 10 * torch.eye(size, device=DEVICE)
        torch.testing.assert_close(x @ torch.linalg.solve(x, x), x, atol=1e-3, rtol=1e-3)

    def test_index(self, size):
        x, rows = given((size, size)), torch.arange(size, device=DEVICE).flip(0)
        assert torch.equal(x[rows][rows], x)

    def test_mask(self, size):
        x = given((size, size))
        assert x[x > 0].numel() == (x > 0).sum().item()

    def test_cat_and_split(self, size):
        x = given((size, size))
        assert torch.equal(torch.cat(x.split(1)), x)


@pytest.mark.parametrize("module", [nn.Linear(8, 8), nn.LayerNorm(8), nn.GRU(8, 8), nn.LSTM(8, 8), nn.MultiheadAttention(8, 2), nn.TransformerEncoderLayer(8, 2, 16)],
                         ids=lambda m: type(m).__name__)  # fmt: skip
class TestModules:
    def called(self, module, x):
        out = module(x, x, x) if isinstance(module, nn.MultiheadAttention) else module(x)
        return out[0] if isinstance(out, tuple) else out

    def test_forward(self, module):
        assert self.called(module.to(DEVICE), given((5, 2, 8))).shape == (5, 2, 8)

    def test_backward(self, module):
        module.to(DEVICE).zero_grad()
        self.called(module, given((5, 2, 8))).sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())

    def test_step(self, module):
        before = [p.detach().clone() for p in module.to(DEVICE).parameters()]
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
        F.mse_loss(self.called(module, given((5, 2, 8))), torch.ones(5, 2, 8, device=DEVICE)).backward()
        optimizer.step()
        assert any(not torch.equal(b, p) for b, p in zip(before, module.parameters()))

    def test_state(self, module):
        state = {name: value.cpu() for name, value in module.to(DEVICE).state_dict().items()}
        module.load_state_dict(state)
