"""Triton's kernels, the program's own and torch.compile's: launched as on hardware, and computed."""

import pytest
from conftest import start
from nightly import first

HEAD = """
import torch, triton, triton.language as tl
from triton.language.extra import libdevice
torch.manual_seed(0)
def equal(name, a, b, tolerance=1e-5):
    a, b = a.float(), b.float()
    assert a.isfinite().all() and torch.allclose(a, b, rtol=tolerance, atol=tolerance), (name, (a - b).abs().max().item())
    print(name)
"""

KERNELS = HEAD + """
@triton.jit
def softmax(out, x, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < cols, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * cols + i, e / tl.sum(e, axis=0), mask=i < cols)

@triton.jit
def normalized(x, mean, variance, eps):
    return (x - mean) * libdevice.rsqrt(variance + eps)

@triton.jit
def layer_norm(x, w, b, out, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    m = i < cols
    v = tl.load(x + row * cols + i, mask=m, other=0.).to(tl.float32)
    mean = tl.sum(v, 0) / cols
    d = tl.where(m, v - mean, 0.)
    y = normalized(v, mean, (d * d).sum(0) / cols, eps) * tl.load(w + i, mask=m) + tl.load(b + i, mask=m)
    tl.store(out + row * cols + i, y, mask=m)

@triton.autotune([triton.Config({"M": 16, "N": 16, "K": 16}), triton.Config({"M": 32, "N": 16, "K": 16})], key=["rows"])
@triton.jit
def matmul(a, b, c, rows, cols, inner, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.program_id(0) * M + tl.arange(0, M)
    n = tl.program_id(1) * N + tl.arange(0, N)
    sums = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, inner, K):
        k = start + tl.arange(0, K)
        left = tl.load(a + m[:, None] * inner + k[None, :], mask=(m[:, None] < rows) & (k[None, :] < inner), other=0.)
        right = tl.load(b + k[:, None] * cols + n[None, :], mask=(k[:, None] < inner) & (n[None, :] < cols), other=0.)
        sums += tl.dot(left, right, input_precision="ieee")
    tl.store(c + m[:, None] * cols + n[None, :], sums.to(c.dtype.element_ty), mask=(m[:, None] < rows) & (n[None, :] < cols))

@triton.jit
def attention(q, k, v, out, length, scale, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    head = tl.program_id(1) * length * D
    m, d = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    query = tl.load(q + head + m[:, None] * D + d[None, :])
    best, below = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    sums = tl.zeros((M, D), tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * M, N):
        n = start + tl.arange(0, N)
        keys = tl.load(k + head + n[None, :] * D + d[:, None])
        scores = tl.dot(query, keys, input_precision="ieee") * scale
        scores = tl.where(m[:, None] >= n[None, :], scores, -float("inf"))
        higher = tl.maximum(best, tl.max(scores, 1))
        p, shrink = tl.exp(scores - higher[:, None]), tl.exp(best - higher)
        below = below * shrink + tl.sum(p, 1)
        values = tl.load(v + head + n[:, None] * D + d[None, :])
        sums = sums * shrink[:, None] + tl.dot(p.to(values.dtype), values, input_precision="ieee")
        best = higher
    tl.store(out + head + m[:, None] * D + d[None, :], (sums / below[:, None]).to(out.dtype.element_ty))

@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(bins + tl.load(x + i, mask=i < n), 1, mask=i < n)

@triton.jit
def mixed(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) * 1103515245 + 12345)  # a generator of random numbers, which wraps around

@torch.library.custom_op("tests::doubled", mutates_args=(), device_types="cuda")
def doubled(x: torch.Tensor) -> torch.Tensor:
    made = torch.empty_like(x)
    twice[(1,)](x, made, x.numel(), BLOCK=64)
    return made * 1

@triton.jit
def twice(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)

equal("operator", doubled(torch.arange(50., device="cuda")), torch.arange(0., 100, 2, device="cuda"))
for device in ("cuda:0", "cuda:1"):
    with torch.cuda.device(device):
        x = torch.randn(5, 40, device=device)
        out = torch.empty(5, 37, device=device)
        softmax[(5,)](out, x, x.stride(0), 37, BLOCK=64)
        equal("softmax", out, x[:, :37].softmax(1))
x, w, b = torch.randn(5, 37, device="cuda"), torch.randn(37, device="cuda"), torch.randn(37, device="cuda")
out = torch.empty_like(x)
layer_norm[(5,)](x, w, b, out, 37, 1e-5, BLOCK=64)
equal("layer_norm", out, torch.nn.functional.layer_norm(x, (37,), w, b))
for dtype, tolerance in ((torch.float32, 1e-4), (torch.float16, 1e-2)):
    a, b = torch.randn(40, 24, device="cuda", dtype=dtype), torch.randn(24, 20, device="cuda", dtype=dtype)
    c = torch.empty(40, 20, device="cuda", dtype=dtype)
    matmul[lambda meta: (triton.cdiv(40, meta["M"]), triton.cdiv(20, meta["N"]))](a, b, c, 40, 20, 24)
    equal("matmul", c, a @ b, tolerance)
q, k, v = (torch.randn(1, 2, 64, 16, device="cuda") for _ in range(3))
out = torch.empty_like(q)
attention[(2, 2)](q, k, v, out, 64, 0.25, D=16, M=32, N=32)
equal("attention", out, torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), 1e-4)
numbers = torch.arange(32, device="cuda", dtype=torch.int32)
made = torch.empty_like(numbers)
mixed[(1,)](numbers, made, BLOCK=32)
equal("wrapped", made, numbers * 1103515245 + 12345)
numbers, bins = torch.randint(0, 8, (100,), device="cuda"), torch.zeros(8, dtype=torch.int32, device="cuda")
histogram[(4,)](numbers, bins, 100, BLOCK=32)
equal("histogram", bins, torch.bincount(numbers, minlength=8))
bins.zero_()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    histogram[(4,)](numbers, bins, 100, BLOCK=32)
    doubled = bins * 2
assert not bins.any()
graph.replay()
equal("captured", doubled, 2 * torch.bincount(numbers, minlength=8))
"""


def test_a_programs_kernels_equal_pytorchs(tmp_path):
    outcome = start(KERNELS, tmp_path)
    assert outcome.code == 0, outcome.err
    assert outcome.out.split() == ["operator", "softmax", "softmax", "layer_norm", "matmul", "matmul", "attention", "wrapped", "histogram", "captured"]
    assert "not computed" not in outcome.err and "does not compute" not in outcome.err and outcome.findings == []


# The interpreter itself keeps bfloat16 as integers, leaves floats as they are and has no libdevice.
BFLOAT16 = HEAD + """
from triton.language.extra.libdevice import rsqrt
@triton.jit
def together(x, y, out, n, scale, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i, mask=i < n, other=1.), tl.load(y + i, mask=i < n)
    a = tl.where(a > b, a, -tl.abs(a)) * b + 1
    tl.store(out + i, a * scale.to(tl.bfloat16), mask=i < n)
@triton.jit
def products(a, b, c, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tl.store(c + i, tl.dot(tl.load(a + i), tl.load(b + i)))
@triton.jit
def one_each(x, out, BLOCK: tl.constexpr):
    values = tl.load(x + tl.arange(0, BLOCK))
    single = values.to(tl.float32)
    tl.store(out, tl.max(values, 0))
    tl.store(out + 1, tl.sum(single * single, 0))
    tl.store(out + 2, rsqrt(tl.sum(single * single, 0)))
    tl.store(out + 3, tl.full((), 1.5, tl.bfloat16))
    tl.store(out + 4, tl.load(x + 1).to(tl.int16, bitcast=True).to(tl.bfloat16, bitcast=True))
@triton.jit
def added(x, out):
    tl.atomic_add(out, tl.load(x))
x, y = (torch.randn(50, device="cuda", dtype=torch.bfloat16) for _ in range(2))
out = torch.empty_like(x)
together[(1,)](x, y, out, 50, 0.5, BLOCK=64)
equal("together", out, (torch.where(x > y, x, -x.abs()) * y + 1) * 0.5, 0)
a, b = (torch.randn(16, 16, device="cuda", dtype=torch.bfloat16) for _ in range(2))
c = torch.empty(16, 16, device="cuda")
products[(1,)](a, b, c, BLOCK=16)
equal("products", c, a.float() @ b.float())
x, few = torch.randn(64, device="cuda", dtype=torch.bfloat16), torch.empty(5, device="cuda", dtype=torch.bfloat16)
one_each[(1,)](x, few, BLOCK=64)
squares = x.float().square().sum()
equal("few", few, torch.stack([x.max().float(), squares, squares.rsqrt(), torch.tensor(1.5, device="cuda"), x[1].float()]), 4e-3)
added[(1,)](x, few)
"""


def test_bfloat16_floats_and_libdevice_by_name(tmp_path):
    outcome = start(BFLOAT16, tmp_path)
    assert outcome.code == 0 and outcome.out.split() == ["together", "products", "few"], outcome.err
    listed = [line for line in outcome.err.splitlines() if line.startswith("devtrace:   ")]
    assert listed == ["devtrace:   kernel added (launches: 1)"]  # said, as the interpreter would add the bits


# The interpreter has no inline assembly; an address that nobody allocated would end the process in it.
NOT_INTERPRETED = HEAD + """
@triton.jit
def assembly(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [tl.load(x + i)], dtype=tl.float32, is_pure=True, pack=1))
@triton.jit
def beyond(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i + 1000000000000))
@triton.jit
def plain(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))
@triton.jit
def another(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.sum(tl.load(x + i), 0) + tl.zeros((BLOCK,), tl.float32))
x = torch.arange(32., device="cuda")
first, second, third, fourth = (torch.zeros(32, device="cuda") for _ in range(4))
assembly[(1,)](x, first, 32)
beyond[(1,)](x, second, 32)
plain[(1,)](x, third, 32)
equal("plain", third, x)
plain[(1,)](first, fourth, 32)
another[(1,)](x, third, 32)
equal("another", third, x.sum().expand(32))
fourth.sum().item()
second.sum().item()
"""


def test_what_cannot_be_interpreted_is_listed_and_told(tmp_path):
    outcome = start(NOT_INTERPRETED, tmp_path)
    assert outcome.code == 0 and outcome.out.split() == ["plain", "another"], outcome.err
    listed = [line for line in outcome.err.splitlines() if line.startswith("devtrace:   kernel")]
    assert listed == ["devtrace:   kernel assembly (launches: 1)", "devtrace:   kernel beyond (launches: 1)"]
    last = NOT_INTERPRETED.count("\n")
    told = [line.split("program.py:")[1].split(" should")[0] for line in outcome.err.splitlines() if "the host reads what" in line]
    assert told == [f"{last - 1}: the host reads what kernel assembly", f"{last}: the host reads what kernel beyond"], outcome.err


COMPILED = HEAD + """
class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.drop = torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.5)
    def forward(self, x):
        return self.drop(torch.nn.functional.gelu(self.norm(self.linear(x)))).square().mean()
eager = Small().cuda()
compiled = torch.compile(copied := __import__("copy").deepcopy(eager))
x = torch.randn(12, 8, device="cuda")
for model in (eager, copied):
    model.drop.p = 0.0
eager(x).backward()
compiled(x).backward()
for (name, a), b in zip(eager.named_parameters(), copied.parameters()):
    equal(name, b.grad, a.grad)
equal("running", copied.norm.running_mean, eager.norm.running_mean)
@torch.compile
def dropped(x):
    return torch.nn.functional.dropout(x, 0.5)
ones = torch.ones(1000, device="cuda", requires_grad=True)
y = dropped(ones)
y.sum().backward()
assert set(y.tolist()) == {0.0, 2.0} and 300 < (y > 0).sum().item() < 700
equal("one_mask", ones.grad, y)
assert not torch.equal(dropped(ones), y)
@torch.compile
def made(n):
    return torch.arange(n, device="cuda").square() + 1
assert made(5).tolist() == [1, 2, 5, 10, 17]  # no tensor is given to the graph
"""

LLAMA = HEAD + """
from transformers import LlamaConfig, LlamaForCausalLM
model = LlamaForCausalLM(LlamaConfig(
    hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, vocab_size=50)).cuda()
ids = torch.randint(0, 50, (2, 8), device="cuda")
def step(run):
    model.zero_grad()
    out = run(ids, labels=ids)
    out.loss.backward()
    return [out.loss.detach(), out.logits.detach(), *(p.grad.clone() for p in model.parameters())]
expected = step(model)
for i, (a, b) in enumerate(zip(step(torch.compile(model)), expected)):
    equal("tensor", a, b)
"""
ALONE = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}


@pytest.mark.parametrize("program", first(1, [COMPILED, LLAMA]), ids=["modules", "LLaMA"])
def test_compiled_equals_eager(tmp_path, program):
    outcome = start(program, tmp_path, env={**ALONE, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}, timeout=400)
    assert outcome.code == 0, outcome.err
    assert "not computed" not in outcome.err and "does not compute" not in outcome.err and outcome.findings == []


# As vLLM does: a backend of the program's own that gives parts to Inductor, and finds them in a cache the next time.
OWN_BACKEND = HEAD + """
import os
from torch._inductor import CompiledArtifact, standalone_compile
def backend(graph, inputs):
    if os.path.exists("compiled"):
        made = CompiledArtifact.load(path="compiled", format="binary")
        print("loaded")
    else:
        made = standalone_compile(graph, inputs, dynamic_shapes="from_example_inputs", options={})
        made.save(path="compiled", format="binary")
    return lambda *args: made(*args)
x = torch.randn(5, 8, device="cuda")
def function(x):
    return (torch.nn.functional.gelu(x).sum(0) * 2,)
equal("compiled", torch.compile(function, backend=backend)(x)[0], function(x)[0])
"""


@pytest.mark.slow
def test_what_another_backend_gives_to_inductor_or_finds_in_a_cache_is_computed(tmp_path):
    for expected in (["compiled"], ["loaded", "compiled"]):
        outcome = start(OWN_BACKEND, tmp_path, env={**ALONE, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}, timeout=400)
        assert outcome.code == 0 and outcome.out.split() == expected, outcome.err
        assert "not computed" not in outcome.err and "does not compute" not in outcome.err and outcome.findings == []


# In the second process nobody calls torch.compile, which is how vLLM starts with what it has compiled before.
SAVED = HEAD + """
import os
from torch._inductor import CompiledArtifact, standalone_compile
from torch.fx.experimental.proxy_tensor import make_fx
torch._dynamo.config.enable_aot_compile = True
@triton.jit
def doubled(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
def function(x):
    return torch.nn.functional.gelu(x).sum(0) * 2, x.softmax(-1)
def own_kernel(x):
    out = torch.empty_like(x)
    doubled[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), 64)
    return out.sin() + 1,
def ahead_of_time(name, function, x):
    if not os.path.exists(name):
        torch.compile(function, fullgraph=True).aot_compile(((x,), {})).save_compiled_function(name)
    with open(name, "rb") as saved:
        return torch.compiler.load_compiled_function(saved)
def alone(name, function, x):
    if not os.path.exists(name):
        standalone_compile(make_fx(function)(x), [x], aot=name == "bundled").save(path=name, format="binary")
    return CompiledArtifact.load(path=name, format="binary")
x = torch.randn(5, 8, device="cuda")
for name, how, compiled in (("ahead", ahead_of_time, function), ("kernel", ahead_of_time, own_kernel), ("cache", alone, function), ("bundled", alone, function)):
    for a, b in zip(how(name, compiled, x)(x), compiled(x)):
        equal(name, a, b)
"""


@pytest.mark.slow
def test_what_was_compiled_by_an_earlier_process_is_computed(tmp_path):
    for _ in range(2):
        outcome = start(SAVED, tmp_path, env={**ALONE, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}, timeout=400)
        assert outcome.code == 0 and outcome.out.split() == ["ahead", "ahead", "kernel", "cache", "cache", "bundled", "bundled"], outcome.err
        assert "not computed" not in outcome.err and "does not compute" not in outcome.err and outcome.findings == []


# vLLM's settings, with which Inductor tries kernels as one and apart.
TRIED = HEAD + """
import torch._inductor.config as config
config.combo_kernels = config.benchmark_combo_kernel = config.benchmark_fusion = True
def function(a, b, c):
    return a * 2 + 1, b.cos(), (c.sin() + 1).sum(1), c.softmax(-1)
given = [torch.randn(*shape, device="cuda") for shape in ((64, 64), (32, 100), (40, 70))]
for a, b in zip(torch.compile(function)(*given), function(*given)):
    equal("tensor", a, b)
"""


@pytest.mark.slow
def test_kernels_that_inductor_only_tries_are_not_missed(tmp_path):
    outcome = start(TRIED, tmp_path, env={**ALONE, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}, timeout=400)
    assert outcome.code == 0 and "not computed" not in outcome.err, outcome.err


# An operator that the CPU does not have is asked of the device, where a replay computes.
REPLAYED = HEAD + """
@torch.library.custom_op("mine::twice", mutates_args=(), device_types="cuda")
def twice(x: torch.Tensor) -> torch.Tensor:
    return x + x
twice.register_fake(lambda x: torch.empty_like(x))
function = torch.compile(lambda x: torch.ops.mine.twice(x + 0.5) * 2 + 1)
x, graph = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
function(x)
with torch.cuda.graph(graph):
    out = function(x)
for turn in range(2):
    x.fill_(turn)
    graph.replay()
    assert out.tolist() == [turn * 4.0 + 3] * 4, out
"""


def test_a_compiled_graph_in_a_cuda_graph_asks_the_device(tmp_path):
    outcome = start(REPLAYED, tmp_path, env={**ALONE, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}, timeout=400)
    assert outcome.code == 0 and outcome.findings == [], outcome.err
