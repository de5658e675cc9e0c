"""Checks (checks.py) of attention and of sequences of different lengths."""

import copy

import torch
from both_devices import X, check, same
from torch import nn


@check
def nested_tensors():
    ends = []
    for device in ("cpu", "cuda:0"):
        torch.manual_seed(0)
        parts = [X[:2].to(device, copy=True).requires_grad_(), X[2:].to(device, copy=True).requires_grad_()]
        linear, norm = nn.Linear(8, 8), nn.LayerNorm(8)
        padded = norm.to(device)(linear.to(device)(torch.nested.as_nested_tensor(parts))).to_padded_tensor(2.0)
        padded.pow(3).sum().backward()
        ends.append([padded, *[p.grad for p in (*parts, *linear.parameters(), *norm.parameters())]])
    for want, have in zip(*ends):
        same(have, want, atol=1e-4, rtol=1e-4)


@check
def encoder_with_padding():
    """In evaluation it takes the padding out, by way of a nested tensor."""
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    encoder, inputs = nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 5, 16)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    on_gpu = copy.deepcopy(encoder).cuda()
    with torch.no_grad():
        same(on_gpu(inputs.cuda(), src_key_padding_mask=padding.cuda()), encoder(inputs, src_key_padding_mask=padding), atol=1e-4, rtol=1e-4)


def attention_by_hand(parts, mask_of):
    out = []
    for q, k, v in parts:
        q, k, v = (t.float().transpose(0, 1).unsqueeze(0) for t in (q, k, v))
        out.append(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask_of(q.size(-2), k.size(-2)))[0].transpose(0, 1))
    return torch.cat(out)


@check
def attention_over_sequences_of_different_lengths():
    given = [torch.randn(6, 2, 8).half(), torch.randn(7, 2, 8).half(), torch.randn(7, 2, 8).half()]
    starts = [torch.tensor([0, 2, 6]), torch.tensor([0, 3, 7])]

    def mask(causal, left):
        def of(rows, columns):
            distance = torch.arange(columns) - torch.arange(rows).unsqueeze(1) - (columns - rows)  # the last query stands at the last key
            return (distance <= (0 if causal else columns)) & (distance >= -left)

        return of

    for causal, left in ((False, None), (True, None), (True, 1)):
        want, have = [t.clone().requires_grad_() for t in given], [t.cuda().requires_grad_() for t in given]
        parts = [[t[s[i] : s[i + 1]] for t, s in zip(want, (starts[0], starts[1], starts[1]))] for i in range(2)]
        expected = attention_by_hand(parts, mask(causal, 100 if left is None else left))
        on_gpu = [s.int().cuda() for s in starts]
        out, log_sum, state, unused, _ = torch.ops.aten._flash_attention_forward(
            *have, *on_gpu, 4, 4, 0.0, causal, False, window_size_left=left, window_size_right=0 if causal else None
        )  # fmt: skip
        same(out.float(), expected, atol=1e-2, rtol=1e-2)
        expected.pow(2).sum().backward()
        with torch.no_grad():
            grads = torch.ops.aten._flash_attention_backward(
                2 * out, *have, out, log_sum, *on_gpu, 4, 4, 0.0, causal, state, unused, window_size_left=left,
                window_size_right=0 if causal else None,
            )  # fmt: skip
        for grad, one in zip(grads, want):
            same(grad.float(), one.grad.float(), atol=2e-2, rtol=2e-2)


@check
def attention_of_jagged_tensors():
    """Flash kernels in half precision, memory-efficient ones in float."""
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.float16, 2e-2)):
        rows = [torch.randn(n, 2, 8).to(dtype) for n in (2, 4)]
        want, have = [r.clone().requires_grad_() for r in rows], [r.cuda().requires_grad_() for r in rows]
        expected = attention_by_hand([[r] * 3 for r in want], lambda rows, columns: None)
        jagged = torch.nested.as_nested_tensor(have, layout=torch.jagged).transpose(1, 2)
        out = nn.functional.scaled_dot_product_attention(jagged, jagged, jagged).transpose(1, 2).values()
        same(out.float(), expected, atol=tolerance, rtol=tolerance)
        expected.pow(2).sum().backward()
        out.float().pow(2).sum().backward()
        for a, b in zip(have, want):
            same(a.grad.float(), b.grad.float(), atol=tolerance, rtol=tolerance)


@check
def attention_with_dropout():
    """The backward must drop what the forward dropped: the gradient of a linear function of the values tells."""
    q, k, v = (torch.randn(1, 2, 4, 8, device="cuda", requires_grad=True) for _ in range(3))
    out = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    (grad,) = torch.autograd.grad((out * out.detach()).sum(), v)
    same((grad * v).sum(), (out * out).sum(), atol=1e-3, rtol=1e-3)
