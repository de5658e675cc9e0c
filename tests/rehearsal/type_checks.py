"""Checks (checks.py) of what CUDA's kernels take and the CPU's do not: types, singular matrices, values that a kernel reads of its own."""

import torch
from both_devices import X, check, same


@check
def softmax_of_halves_in_float():
    for dtype in (torch.float16, torch.bfloat16):
        for function in (torch.softmax, torch.log_softmax):
            want, have = (X.to(dtype).to(d).requires_grad_() for d in ("cpu", "cuda"))
            expected, result = function(want.float(), -1), function(have, -1, dtype=torch.float32)
            assert result.dtype == torch.float32
            same(result, expected)
            weights = torch.linspace(0.5, 1.5, X.numel()).view(X.shape)
            expected.backward(weights)
            result.backward(weights.cuda())
            same(have.grad, want.grad)


@check
def histogram_of_whole_numbers():
    counts = torch.tensor([0, 3, 3, 1, 2, 3])
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        have = torch.histc(counts.to(dtype).cuda(), bins=4, min=0, max=3)
        assert have.dtype == dtype and have.tolist() == [1, 1, 1, 3]
        out = torch.empty(0, dtype=dtype, device="cuda")
        assert torch.histc(counts.to(dtype).cuda(), bins=4, min=0, max=3, out=out).tolist() == [1, 1, 1, 3]


@check
def inverse_by_a_singular_factor():
    """No error on a GPU."""
    factor = torch.linalg.cholesky(X[:3, :3] @ X[:3, :3].T + torch.eye(3))
    same(torch.cholesky_inverse(factor.cuda()), torch.cholesky_inverse(factor), atol=1e-4, rtol=1e-4)
    factor[1, 1] = 0
    out = torch.empty(0, device="cuda")
    for result in (torch.cholesky_inverse(factor.cuda()), torch.cholesky_inverse(factor.cuda(), out=out), out):
        assert not result.isfinite().all()


@check
def sparse_out_of_batches():
    """The real kernel asserts about counts that its own nested operators take."""
    dense = torch.stack([X.relu(), 2 * X.relu()])
    for layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
        blocks = {"blocksize": (2, 2)} if layout in (torch.sparse_bsr, torch.sparse_bsc) else {}
        have, want = (dense.to(d).to_sparse(layout=layout, **blocks) for d in ("cuda", "cpu"))
        same(have.values(), want.values())
        same(have.to_dense(), want.to_dense())
    uneven = torch.stack([X, X.relu()]).cuda()
    try:
        uneven.to_sparse(layout=torch.sparse_csr)
        raise SystemExit("not refused")
    except RuntimeError as error:
        assert "Expect the same number of specified elements per batch" in str(error)


@check
def factors_into_given_memory():
    """The CPU's kernel asks whether its results share a storage."""
    for matrix in (X[:4, :4], X[:, :4], X[:4]):
        for mode in ("reduced", "complete", "r"):
            have, want = ([torch.empty(0, device=d) for _ in range(2)] for d in ("cuda", "cpu"))
            torch.linalg.qr(matrix.cuda(), mode, out=have)
            torch.linalg.qr(matrix, mode, out=want)
            for h, w in zip(have, want):
                same(h, w, atol=1e-5, rtol=1e-5)


@check
def elimination_without_pivoting():
    for matrix in (X[:4, :4], X[:, :4], X[:4], torch.stack([X[:4, :4], X[:4, 4:]])):
        n, given = min(matrix.shape[-2:]), matrix.cuda()
        _, lower, upper = torch.linalg.lu(given, pivot=False)
        same(lower @ upper, matrix, atol=1e-4, rtol=1e-4)
        lu, pivots = torch.linalg.lu_factor(given, pivot=False)
        same(pivots, torch.arange(1, n + 1).int().expand(pivots.shape))
        same(lu.tril(-1), torch.nn.functional.pad(lower.tril(-1), (0, lu.size(-1) - n)))
        same(lu[..., :n, :].triu(), upper)
    *_, info = torch.linalg.lu_factor_ex(torch.zeros(3, 3, device="cuda"), pivot=False)
    assert info.item() == 1


@check
def results_in_memory_with_strides():
    for dtype in (torch.float32, torch.float16):
        x = X.to(dtype)
        out = torch.zeros(6, 16, dtype=dtype, device="cuda")[:, ::2]
        assert torch.add(x.cuda(), 1, out=out) is out
        same(out, x + 1)
        torch.manual_seed(1)
        torch.randn(6, 8, out=out)
        torch.manual_seed(1)
        same(out, torch.randn(6, 8, dtype=dtype, out=torch.zeros(6, 16, dtype=dtype)[:, ::2]))
        column = torch.zeros(2 * int((x > 0).sum()), dtype=dtype, device="cuda")[::2]
        torch.masked_select(x.cuda(), x.cuda() > 0, out=column)
        same(column, x[x > 0])


@check
def graphs_draw_as_eager_does():
    """The same numbers, for the device's generator and a second one, after a seed and further on."""
    torch.cuda.init()
    own, ours = torch.Generator("cuda"), torch.cuda.default_generators[0]

    def draw():
        x = torch.rand(4, device="cuda")
        return x, torch.randn(4, device="cuda", generator=own), torch.nn.functional.dropout(x + 1, 0.5), torch.rand(3, device="cuda")

    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(own)
    with torch.cuda.graph(graph):
        results = draw()
    for seed in (3, 4):
        ours.manual_seed(seed), own.manual_seed(seed + 10)
        eager, behind = [draw() for _ in range(30)], torch.rand(2, device="cuda")
        ours.manual_seed(seed), own.manual_seed(seed + 10)
        for want in eager:
            graph.replay()
            for h, w in zip(results, want):
                assert torch.equal(h, w), (h, w)
        assert torch.equal(torch.rand(2, device="cuda"), behind)


@check
def products_of_halves_are_rounded_once():
    """They are taken in float, as on a GPU."""
    a, b, c = (torch.randn(n, m, generator=torch.Generator().manual_seed(n)).half() for n, m in ((40, 70), (70, 30), (40, 30)))
    left, right, other = a.cuda(), b.cuda(), c.cuda()
    product = a.float() @ b.float()
    same(left @ right, product.half(), atol=0, rtol=0)
    same(torch.mm(left, right, out=torch.empty(0, dtype=torch.half, device="cuda")), product.half(), atol=0, rtol=0)
    same(torch.addmm(other, left, right, beta=0.5, alpha=2), torch.addmm(c.float(), a.float(), b.float(), beta=0.5, alpha=2).half(), atol=0, rtol=0)
    same(torch.bmm(left[None], right[None]), product.half()[None], atol=0, rtol=0)
    layers = [torch.nn.Conv2d(3, 4, 3).to(torch.half)]
    layers.append(torch.nn.Conv2d(3, 4, 3))
    layers[1].load_state_dict(layers[0].state_dict())
    layers[0].cuda()
    image = torch.randn(2, 3, 9, 9).half()
    outs = [layers[0](image.cuda()), layers[1](image.float())]
    same(outs[0], outs[1].half(), atol=0, rtol=0)
    for out in outs:
        out.backward(torch.ones_like(out))
    same(layers[0].weight.grad, layers[1].weight.grad.half(), atol=0, rtol=0)


@check
def an_out_of_another_form_than_the_cpu_s_kernel_takes():
    """Some of the CPU's kernels forget strides, or make an out= larger for a while: where the memory belongs to others."""
    x, y = torch.rand(4, 3), torch.rand(4, 3)
    around = torch.full((64,), 7.0, device="cuda")
    out = around[10:11].view(())
    torch.ops.aten.binary_cross_entropy.out(x.cuda(), y.cuda(), None, 1, out=out)
    same(out, torch.nn.functional.binary_cross_entropy(x, y))
    assert around.eq(7).sum().item() == 63
    pooled = torch.zeros(1, 2, 4, 8, device="cuda")[..., ::2]
    torch.ops.aten.adaptive_avg_pool2d.out(x.repeat(2, 3).view(1, 2, 4, 9).cuda(), [4, 4], out=pooled)
    same(pooled, torch.nn.functional.adaptive_avg_pool2d(x.repeat(2, 3).view(1, 2, 4, 9), 4))
    matrix = torch.randn(4, 3, dtype=torch.complex64)
    outs = [torch.empty(0, dtype=t, device="cuda") for t in (torch.complex64, torch.float32, torch.complex64)]
    u, s, vh = torch.linalg.svd(matrix.cuda(), full_matrices=False, out=outs)
    same(u @ torch.diag(s).to(u.dtype) @ vh, matrix, atol=1e-4, rtol=1e-4)
    same(s, torch.linalg.svdvals(matrix))


@check
def a_number_among_values():
    """Its real kernel makes a tensor on the device of it, which is marked as a number."""
    values = torch.tensor([1.0, 2.0, 3.0])
    assert torch.isin(2.0, values.cuda()).item() and not torch.isin(5, values.cuda()).item()
    same(torch.isin(values.cuda(), 2), torch.isin(values, 2))
