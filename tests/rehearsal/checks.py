"""Parts of PyTorch that reach the operators in ways of their own, each on cuda:0 and on the CPU: prints one JSON line a check.

{"check": NAME, "fault": null or what differs}. Run under `devtrace rehearse --gpus 2` by test_values.py.
"""

import copy
import gc
import json
import sys
import threading
import traceback

import attention_checks  # noqa: F401 (its checks)
import torch
import type_checks  # noqa: F401 (its checks)
from both_devices import CHECKS, X, both, check, module_both, same
from torch import nn
from torch.utils.checkpoint import checkpoint


@check
def threads():
    gpu, results = X.cuda(), {}

    def work(i):
        results[i] = (gpu * i).softmax(-1).sum(0)

    started = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    for i in range(4):
        same(results[i], (X * i).softmax(-1).sum(0))


@check
def custom_function_and_hooks():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * x.exp() * 2

    def function(x):
        out = Twice.apply(x)
        out.register_hook(lambda grad: grad * 3)
        return out

    both(function, X)


@check
def modes_of_autograd():
    gpu = X.cuda()
    for mode in (torch.inference_mode, torch.no_grad):
        with mode():
            same((gpu @ gpu.T + 1).relu() * 2, (X @ X.T + 1).relu() * 2)


@check
def numbers_do_not_promote():
    small = torch.tensor(3, dtype=torch.int8, device="cuda")
    assert (small * 2).dtype == torch.int8 and int(small * 2) == 6
    assert (small + 1.5).dtype == torch.float32 and float(small + 1.5) == 4.5
    assert (2 ** small).item() == 8
    half = torch.tensor(1.0, dtype=torch.float16, device="cuda")
    assert (half * 2.5).dtype == torch.float16 and float(half * 2.5) == 2.5
    assert float(half * -0.0) == 0.0 and str(float(half * -0.0)) == "-0.0" and str(float(half * 0.0)) == "0.0"


@check
def a_numbers_thread_lets_go_of_its_tensors_before_it_says_so():
    """Else a program that ends right then is aborted: Python ends the thread inside PyTorch's destructor."""
    import _devtrace_values.numbers as numbers

    left = []

    class Done:
        def release(self):
            left.extend(name for name, value in sys._getframe(1).f_locals.items() if isinstance(value, torch.Tensor))

    box = []
    numbers._make(2.5, box, Done())
    assert box[0].item() == 2.5 and left == [], left


@check
def torchscript():
    @torch.jit.script
    def scripted(x):
        out = x * 2 + 1
        for _ in range(3):
            out = out.tanh() @ torch.ones(out.size(1), out.size(1), device=out.device)
        return out

    for _ in range(3):  # it is optimized after the second
        both(scripted, X)


@check
def data_parallel():
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    on_gpu = copy.deepcopy(module).cuda()
    parallel = nn.DataParallel(on_gpu, [0, 1])
    same(parallel(X.cuda()), module(X))
    parallel(X.cuda()).sum().backward()
    module(X).sum().backward()
    same(on_gpu[0].weight.grad, module[0].weight.grad)


@check
def what_the_program_forbids_itself_is_refused():
    """Operators whose result is of a size that depends on values get a second chance where the real kernel failed for want of them."""
    counts, weights = torch.tensor([1, 1], device="cuda"), torch.ones(2, device="cuda")

    def refused(function, text):
        try:
            function()
        except RuntimeError as error:
            assert text in str(error), error
        else:
            raise AssertionError("not refused: " + text)

    torch.use_deterministic_algorithms(True)
    try:
        refused(lambda: torch.bincount(counts, weights), "does not have a deterministic implementation")
    finally:
        torch.use_deterministic_algorithms(False)
    torch.cuda.set_sync_debug_mode("error")
    try:
        refused(lambda: torch.nonzero(counts), "called a synchronizing CUDA operation")
    finally:
        torch.cuda.set_sync_debug_mode("default")


@check
def recurrent():
    inputs = torch.randn(3, 7, 8)
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        module_both(kind(8, 5, 2, bidirectional=True, batch_first=True), inputs, atol=1e-4, rtol=1e-4)


@check
def recurrent_in_narrow_types_and_without_biases():
    for kind in (nn.LSTM, nn.GRU):
        module_both(kind(8, 5, bias=False), torch.randn(4, 3, 8), atol=1e-4, rtol=1e-4)
        module_both(kind(8, 5).double(), torch.randn(4, 3, 8).double())
        module_both(kind(8, 5).bfloat16(), torch.randn(4, 3, 8).bfloat16(), atol=0.2, rtol=0.1)


def captured(function):
    """The graph of a call, and its result."""
    with torch.no_grad():
        function()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = function()
    return graph, result


@check
def recurrent_in_a_graph():
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        module, x = kind(8, 5, 2), torch.randn(4, 3, 8)
        on_gpu, given = copy.deepcopy(module).cuda(), x.cuda()
        graph, (out, _) = captured(lambda on_gpu=on_gpu, given=given: on_gpu(given))
        for factor in (2, 3):
            given.copy_(x * factor)
            graph.replay()
            same(out, module(x * factor)[0], atol=1e-5, rtol=1e-5)


@check
def a_graph_is_replayed_without_python():
    """Where the kernels in C++ fit this PyTorch."""
    graphs, native, compute = (sys.modules["_devtrace_values." + name] for name in ("graphs", "native", "compute"))
    if not native.started():
        return
    gpu, counts = X.cuda(), torch.zeros((), device="cuda")

    def step():
        values, places = gpu.max(1)
        counts.add_(1)
        return torch.stack([values, places.to(values.dtype)])

    graph, out = captured(step)
    own = compute.Plan.value
    compute.Plan.value = None  # python/'s general way would fail
    quick = [call[0].number for call in graph._devtrace_operators]
    try:
        counts.zero_()
        gpu.mul_(2)
        graph.replay()
    finally:
        compute.Plan.value = own
    assert all(quick), quick
    assert graphs.recording is None
    same(counts, torch.ones(()))
    same(out, torch.stack([(X * 2).max(1).values, (X * 2).max(1).indices.to(X.dtype)]))


@check
def several_results():
    for function in (
        lambda x: x.max(1).values, lambda x: x.sort(0, descending=True).values, lambda x: x.topk(3).values, lambda x: torch.std_mean(x)[1],
        lambda x: torch.cat(torch._foreach_mul([x, x + 1], 2)), lambda x: nn.functional.layer_norm(x, (8,)), lambda x: torch.linalg.qr(x)[1].abs(),
    ):  # fmt: skip
        both(function, X, atol=1e-5, rtol=1e-5)
    both(lambda x: torch._foreach_add([x, x[:2]], 1)[1], X)
    lists = {d: [torch.arange(4.0, device=d), torch.ones(2, 3, device=d)] for d in ("cpu", "cuda")}
    for each in lists.values():
        torch._foreach_mul_(each, 3)
    for have, want in zip(lists["cuda"], lists["cpu"]):
        same(have, want)


@check
def sizes_that_only_values_know():
    places, mask = torch.tensor([3, 0, 3]), X > 0
    both(lambda x: x[places.to(x.device)], X)
    both(lambda x: x[mask.to(x.device)], X)
    both(lambda x: x[places.to(x.device), torch.tensor([7, 0, 1]).to(x.device)], X)
    gpu = X.cuda()
    same((gpu > 0).nonzero(), mask.nonzero())
    for have, want in zip(places.cuda().unique(return_inverse=True, return_counts=True), places.unique(return_inverse=True, return_counts=True)):
        same(have, want)
    for where in (places, mask):
        have, want = X.cuda(), X.clone()
        have[where.cuda()] = 5.0
        want[where] = 5.0
        same(have, want)
    try:
        gpu[torch.tensor([9], device="cuda")]
        raise AssertionError("a bad index was taken")
    except IndexError as error:
        assert "out of" in str(error), error


@check
def convolutions():
    layers = [nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, groups=6), nn.MaxPool2d(2), nn.Flatten()]
    module_both(nn.Sequential(*layers, nn.Linear(54, 2)), torch.randn(4, 3, 8, 8), atol=1e-4, rtol=1e-4)


@check
def transformer():
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    module_both(layer, torch.randn(2, 5, 16), atol=1e-4, rtol=1e-4)


@check
def narrow_types():
    for dtype in (torch.float16, torch.bfloat16):
        both(lambda x: (x @ x.T).relu().sum(1), X.to(dtype))
    with torch.autocast("cuda", dtype=torch.float16):
        same(X.cuda() @ X.cuda().T, X.half() @ X.half().T)


@check
def complex_numbers():
    z = torch.randn(4, 4, dtype=torch.complex64)
    gpu = z.cuda()
    same(gpu.conj() @ gpu.mH, z.conj() @ z.mH)
    same(torch.fft.fft2(gpu), torch.fft.fft2(z))
    same(gpu.conj().imag + 1, z.conj().imag + 1)


@check
def operators_that_call_their_kernels_themselves():
    """Not by way of the operators that are registered for CUDA."""
    want, have = (torch.full((6,), 7.0, device=d) for d in ("cpu", "cuda"))
    indices = [torch.full((6,), 7, device=d) for d in ("cpu", "cuda")]
    torch.mode(X, out=(want, indices[0]))
    torch.mode(X.cuda(), out=(have, indices[1]))
    same(have, want)
    same(indices[1], indices[0])
    z = torch.randn(4, 4, dtype=torch.complex64)
    gpu = z.cuda()
    z[:, ::2].conj_physical_()
    gpu[:, ::2].conj_physical_()
    same(gpu, z)


@check
def writing_through_views():
    want, have = X.clone(), X.cuda()
    for x in (want, have):
        x[x > 0] = 5
        x[:, [0, 2]] += 1
        x.cumsum_(0)
        x.t().cumsum_(0)
        x[1:, ::2].mul_(x[:-1, 1::2])
        torch.add(x, 1, out=x)
        x[torch.tensor([True, False] * 3)] = torch.arange(24.0).view(3, 8).to(x.device)
    same(have, want)


@check
def what_lies_on_the_cpu_is_written_at_places_from_a_gpu():
    """PyTorch copies the places itself."""
    for accumulate in (False, True):
        filled = torch.zeros(4, 3)
        filled.index_put_((torch.tensor([2, 1], device="cuda:0"), torch.tensor([0, 2], device="cuda:0")), torch.tensor([3.0, 5.0]), accumulate)
        same(filled, torch.tensor([[0, 0, 0], [0, 0, 5.0], [3, 0, 0], [0, 0, 0]]))
    chosen = torch.zeros(3)
    chosen[torch.tensor([False, True, True], device="cuda:0")] = 2.0
    same(chosen, torch.tensor([0, 2.0, 2]))


@check
def sizes_that_depend_on_values():
    gpu = X.cuda()
    same(gpu[gpu > 0.5], X[X > 0.5])
    same((gpu > 0).nonzero(), (X > 0).nonzero())
    counts = torch.tensor([3, 1, 3, 2, 1, 1])
    for have, want in zip(counts.cuda().unique(return_inverse=True, return_counts=True), counts.unique(return_inverse=True, return_counts=True)):
        same(have, want)
    for function in (torch.nonzero, lambda x, out: torch.masked_select(x, x > 1, out=out)):
        want = torch.empty(0, dtype=torch.int64)
        have = torch.empty(1, dtype=torch.int64, device="cuda")
        function(counts, out=want)
        function(counts.cuda(), out=have)
        same(have, want)
    same(torch.bincount(counts.cuda()), torch.bincount(counts))
    same(torch.repeat_interleave(gpu, counts.cuda(), 0), torch.repeat_interleave(X, counts, 0))


@check
def optimizers():
    for kind in "SGD Adam AdamW RMSprop Adagrad Adamax NAdam RAdam Rprop ASGD Adadelta LBFGS".split():
        ends = []
        for device in ("cpu", "cuda:0"):
            weight = nn.Parameter(X.clone().to(device))
            optimizer = getattr(torch.optim, kind)([weight], lr=0.05)

            def closure():
                optimizer.zero_grad()
                loss = ((weight - 1) ** 2).sum()
                loss.backward()
                return loss

            for _ in range(3):
                optimizer.step(closure)
            ends.append(weight)
        same(ends[1], ends[0], atol=1e-4, rtol=1e-4)


@check
def gradient_scaling():
    ends = []
    for device in ("cpu", "cuda:0"):
        weight = nn.Parameter(X.clone().to(device))
        optimizer, scaler = torch.optim.Adam([weight], lr=0.1, fused=True), torch.amp.GradScaler(device)
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale((weight**2).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        ends.append(weight)
    same(ends[1], ends[0])


@check
def random_numbers_follow_the_seed():
    def draw():
        return [torch.rand(3, device="cuda"), torch.randn(3, device="cuda"), torch.randint(9, (3,), device="cuda"), torch.randperm(5, device="cuda")]

    torch.manual_seed(3)
    first, second = draw(), draw()
    assert not torch.equal(first[0], second[0])
    torch.cuda.manual_seed(3)
    for again, before in zip(draw(), first):
        assert torch.equal(again, before)
    state = torch.cuda.get_rng_state()
    one = [torch.rand(3, device="cuda") for _ in range(100)]
    torch.cuda.set_rng_state(state)
    assert all(torch.equal(a, torch.rand(3, device="cuda")) for a in one)
    own = torch.Generator("cuda").manual_seed(3)
    assert torch.equal(torch.rand(3, device="cuda", generator=own), first[0])
    torch.manual_seed(3)
    assert torch.equal(torch.rand(3), first[0].cpu())
    assert abs(torch.rand(10_000, device="cuda").mean().item() - 0.5) < 0.02


@check
def checkpointed_dropout():
    linear, dropout = nn.Linear(8, 8).cuda(), nn.Dropout(0.5)
    grads = []
    for wrapped in (False, True):
        x = X.cuda().requires_grad_()
        torch.manual_seed(5)
        block = lambda x: dropout(linear(x))  # noqa: E731
        (checkpoint(block, x, use_reentrant=False) if wrapped else block(x)).sum().backward()
        grads.append(x.grad)
    same(grads[1], grads[0])


@check
def graphs():
    x, total = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = (x * 2).relu() + 1
        total.add_(y)
        before = x.clone()
        x.zero_()
        noise = torch.rand(4, device="cuda")
    same(total, torch.zeros(4))  # nothing runs while it is captured
    draws = []
    for i in (1.0, 3.0):
        x.fill_(i)
        graph.replay()
        same(y, torch.full((4,), 2 * i + 1))
        same(before, torch.full((4,), i))
        same(x, torch.zeros(4))
        draws.append(noise.clone())
    same(total, torch.full((4,), 10.0))
    assert not torch.equal(*draws) and draws[0].std() > 0


@check
def graphs_draw_what_the_seed_says():
    own = torch.Generator("cuda")
    graph, again = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    for each in graph, again:
        each.register_generator_state(own)
        with torch.cuda.graph(each):
            drawn = [torch.rand(4, device="cuda"), torch.randn(4, device="cuda", generator=own), nn.functional.dropout(torch.ones(32, device="cuda"))]
        each.drawn = drawn

    def replays(graph):
        torch.cuda.manual_seed(3)
        own.manual_seed(4)
        out = []
        for _ in range(2):
            graph.replay()
            out.append([t.clone() for t in graph.drawn])
        return out

    first, second = replays(graph)
    assert not any(torch.equal(a, b) for a, b in zip(first, second))
    for other in (replays(graph), replays(again)):
        assert all(torch.equal(a, b) for a, b in zip([*first, *second], [*other[0], *other[1]]))


@check
def a_graph_cannot_hold_what_waits():
    counts, text = torch.tensor([1, 0], device="cuda"), ""
    side = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        graph.capture_begin()
        try:
            torch.nonzero(counts)
        except RuntimeError as error:
            text = str(error)
        try:
            graph.capture_end()
        except RuntimeError:
            pass
    assert "not permitted when stream is capturing" in text, text
    same(torch.nonzero(counts), torch.tensor([[0]]))


@check
def graph_of_a_training_step():
    ends = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 1))
        module.to(device)
        optimizer = torch.optim.Adam(module.parameters(), lr=0.01, capturable=device == "cuda")
        x = torch.randn(16, 8).to(device)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = module(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        if device == "cuda":
            side = torch.cuda.Stream()
            with torch.cuda.stream(side):
                step()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                loss = step()
            for _ in range(4):
                graph.replay()
        else:
            for _ in range(5):
                loss = step()
        ends.append([loss, *module.parameters()])
    for want, have in zip(*ends):
        same(have, want, atol=1e-4, rtol=1e-4)


@check
def sparse_gradients():
    ends = []
    for device in ("cpu", "cuda:0"):
        table = nn.Embedding(10, 3, sparse=True)
        table.weight.data = torch.arange(30.0).view(10, 3).to(device)
        optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            table(torch.tensor([1, 2, 1], device=device)).pow(2).sum().backward()
            optimizer.step()
        ends.append(table.weight)
    same(ends[1], ends[0])


@check
def sparse_matrices():
    dense = X.relu()
    coo, csr = dense.cuda().to_sparse(), dense.cuda().to_sparse_csr()
    other = torch.randn(8, 3)
    same(coo.to_dense(), dense)
    same(torch.sparse.mm(coo, other.cuda()), dense @ other)
    same(csr @ other.cuda(), dense @ other)
    coo.mul_(2)
    same(coo.to_dense(), dense * 2)


@check
def singular_matrix_is_refused():
    for device in ("cpu", "cuda:0"):
        try:
            torch.linalg.inv(torch.zeros(3, 3, device=device))
            raise AssertionError(f"inverted on {device}")
        except torch.linalg.LinAlgError as error:
            assert "the input matrix is singular" in str(error)


@check
def solving_with_a_cpu_operand_is_refused():
    """It crashed: getrsBatched wrote a result code a matrix to a place for one."""
    same(torch.linalg.solve(torch.eye(3).repeat(16, 1, 1).cuda(), torch.ones(16, 3, 1).cuda()), torch.ones(16, 3, 1))
    for a, b in (("cpu", "cuda:0"), ("cuda:0", "cpu")):
        for function in (torch.linalg.solve, torch.linalg.solve_ex):
            try:
                function(torch.eye(3).repeat(16, 1, 1).to(a), torch.ones(16, 3, 1).to(b))
                raise AssertionError("solved")
            except RuntimeError as error:
                assert "device" in str(error), error


@check
def refusals_show_no_frame_of_ours():
    try:
        torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")
        raise AssertionError("added")
    except RuntimeError as error:
        assert "Expected all tensors to be on the same device" in str(error)
        assert [frame.filename for frame in traceback.extract_tb(error.__traceback__)] == [__file__]


@check
def memory_is_what_the_program_uses():
    """Computing keeps no device memory of its own, and none until Python's garbage collector comes by."""
    gpu, counts = X.cuda(), torch.tensor([3, 1, 3], device="cuda")
    csr = X.relu().cuda().to_sparse_csr()
    calls = {
        "product": lambda: (gpu @ gpu.T).softmax(-1),
        "several results": lambda: gpu.sort(),
        "a list": lambda: torch._foreach_add([gpu, gpu], 1.0),
        "several results of unknown size": lambda: counts.unique(return_inverse=True, return_counts=True),
        "unknown size": lambda: gpu[gpu > 0],
        "random": lambda: nn.functional.dropout(gpu, 0.5),
        "by hand": lambda: nn.functional.scaled_dot_product_attention(*[gpu.view(1, 2, 3, 8)] * 3),
        "sparse": lambda: csr @ gpu.T,
        "nested": lambda: torch.nested.nested_tensor([gpu, gpu[:2]]).to_padded_tensor(0.0),
        "backward": lambda: nn.functional.layer_norm(gpu.clone().requires_grad_(), (8,)).sum().backward(),
    }
    gc.collect()
    gc.disable()
    try:
        for name, call in calls.items():
            call()  # libraries get their workspaces
            before = torch.cuda.memory_allocated()
            call()
            assert torch.cuda.memory_allocated() == before, name
    finally:
        gc.enable()


def main():
    for name in sys.argv[1:] or CHECKS:
        torch.manual_seed(0)
        try:
            CHECKS[name]()
            fault = None
        except Exception:
            fault = traceback.format_exc()[-1500:]
        print(json.dumps({"check": name, "fault": fault}), flush=True)


if __name__ == "__main__":
    main()
