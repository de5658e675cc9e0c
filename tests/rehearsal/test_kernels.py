"""The kernels in C++ (simulate/values/torch) that compute most operators, and what they leave to those in Python behind them."""

import json

import pytest

# Python functions of ours that each operator passes, and what it gives.
COUNTED = """
import json, sys
import torch

passed = []
def watch(frame, event, argument):
    if event == "call" and "devtrace_values" in frame.f_code.co_filename:
        passed.append(frame.f_code.co_name)

def passes(function):
    function()  # whatever is made once
    passed.clear()
    sys.setprofile(watch)
    function()
    sys.setprofile(None)
    return len(passed)

x = torch.arange(8.0, device="cuda").view(2, 4)
q = torch.rand(1, 2, 3, 4, device="cuda")
one = torch.tensor([1], device="cuda")
sparse = torch.eye(4, device="cuda").to_sparse()
found = {
    "pointwise": passes(lambda: x * x), "number": passes(lambda: x + 2), "product": passes(lambda: x @ x.T), "list": passes(lambda: torch.cat((x, x))),
    "in place": passes(lambda: x.mul_(1.0)), "copy": passes(lambda: x.clone()), "index": passes(lambda: x.index_select(0, one)),
    "reduction": passes(lambda: x.mean(-1)), "nested": passes(lambda: torch.isin(x, x)),
    "attention": passes(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)),
    "sparse": passes(lambda: torch.sparse.mm(sparse, x.T)),
    "random": passes(lambda: torch.rand(3, device="cuda")),
}
print(json.dumps(found))
"""


def test_most_operators_pass_no_python(rehearse):
    """Each pass through Python costs several times what the operator itself does."""
    outcome = rehearse(COUNTED, trace=False)
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found.pop("random") > 0, "what only Python computes shows that passes are counted"
    assert not any(found.values()), found


def test_python_is_behind_them(rehearse):
    """As with a PyTorch that the kernels were not compiled for."""
    outcome = rehearse(COUNTED, trace=False, env={"DEVTRACE_SIM_VALUES": "python"})
    assert outcome.code == 0, outcome.err
    assert all(json.loads(outcome.out).values()), outcome.out


# Numbers before and behind the first 64 draws after a seed, from generators of two kinds, in types that the CPU draws and in one that it does not.
DRAWN = """
import json, sys
import torch
from torch.nn.functional import dropout, scaled_dot_product_attention

own = torch.Generator("cuda")
def draw():
    x = torch.ones(50, device="cuda")
    query, mask = torch.linspace(-1, 1, 192, device="cuda").view(1, 2, 8, 12).requires_grad_(), torch.eye(8, device="cuda", dtype=torch.bool)
    attended = [scaled_dot_product_attention(query, query * 2, query, attn_mask=mask, dropout_p=p) for p in (0.5, 0.0)]
    attended += torch.autograd.grad(attended[0].pow(2).sum(), query) + torch.autograd.grad(attended[1].pow(2).sum(), query)
    return [torch.randn(5, 3, device="cuda"), torch.rand(4, device="cuda", generator=own), torch.randint(0, 1000, (4,), device="cuda"),
            dropout(x), dropout(x.half(), 1.0), torch.bernoulli(x / 2), torch.empty(3, device="cuda", dtype=torch.bfloat16).exponential_(),
            torch._standard_gamma(x.half()), torch.randn(3, device="cuda"), *attended]

found = []
for seed in (0, 3):
    torch.manual_seed(seed)
    own.manual_seed(seed)
    for _ in range(80):
        found.append([t.float().tolist() for t in draw()])
    state = torch.cuda.get_rng_state()
    again = [t.float().tolist() for t in draw()[:1]]
    torch.cuda.set_rng_state(state)
    assert again == [t.float().tolist() for t in draw()[:1]]
passed = []
def watch(frame, event, argument):
    if event == "call" and "devtrace_values" in frame.f_code.co_filename:
        passed.append(frame.f_code.co_name)
query = torch.ones(1, 1, 4, 8, device="cuda")
sys.setprofile(watch)
torch.randn(5, device="cuda"), dropout(torch.ones(5, device="cuda")), scaled_dot_product_attention(query, query, query, dropout_p=0.5)
sys.setprofile(None)
print(json.dumps({"found": found, "passed": len(passed)}))
"""


def test_random_numbers_pass_no_python_behind_the_first(rehearse):
    """The same numbers by either way."""
    quick = rehearse(DRAWN, trace=False)
    assert quick.code == 0, quick.err
    slow = rehearse(DRAWN, trace=False, env={"DEVTRACE_SIM_VALUES": "python"})
    assert slow.code == 0, slow.err
    quick, slow = json.loads(quick.out), json.loads(slow.out)
    assert quick["found"] == slow["found"]
    assert quick["passed"] == 0 and slow["passed"] > 0


# What the kernels in C++ find out only after the real one has run.
LEFT_TO_PYTHON = """
import json
import torch

def blocks():
    return torch.cuda.memory_stats()["allocation.all.allocated"]

def own(function):
    function()
    before = blocks()
    result = function()
    return result, blocks() - before

found = {}
z = torch.tensor([0, 1j], device="cuda").to(torch.complex32)  # no such type in the CPU's kernel
result, found["wider"] = own(z.exp)
assert torch.allclose(result.to(torch.complex64), z.to(torch.complex64).exp(), atol=1e-3), result
negative = z.to(torch.complex64).conj().imag  # negated when it is read
result, found["negated"] = own(lambda: negative.view(2) + 1)
assert result.tolist() == [1, 0], result
x = torch.arange(4.0, device="cuda")
try:
    x[torch.tensor([7], device="cuda")]
    raise SystemExit("no error")
except IndexError as error:
    found["error"] = str(error)
assert (torch.empty(0, device="cuda") + 1).tolist() == []
assert torch.empty(3, 0, device="cuda").sum(1).tolist() == [0.0] * 3
graph = torch.cuda.CUDAGraph()
y = torch.zeros(4, device="cuda")
with torch.cuda.graph(graph):
    y.add_(x)
assert y.tolist() == [0.0] * 4, "captured, not done"
graph.replay()
graph.replay()
assert y.tolist() == [0.0, 2.0, 4.0, 6.0], y
print(json.dumps(found))
"""


@pytest.mark.parametrize("way", ["", "python"])
def test_what_does_not_fit_is_python_s(rehearse, way):
    """The real kernel has run by then, and does not run again: one block for one result, and errors are told once."""
    outcome = rehearse(LEFT_TO_PYTHON, env={"DEVTRACE_SIM_VALUES": way} if way else None, options="text=0:html=0")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["wider"] == 1, found
    assert "index 7 is out of bounds" in found["error"]
    assert outcome.findings == [] and "not computed" not in outcome.err


INFERENCE_FIRST = """
import torch

with torch.inference_mode():
    x = torch.arange(6.0, device="cuda")
    first = x.topk(2)[0].tolist()
print(first, x.topk(2)[0].tolist())
"""


@pytest.mark.parametrize("way", ["", "python"])
def test_what_is_made_in_inference_mode_serves_after_it(rehearse, way):
    """The tensors over all of memory are made when first needed: those made in inference mode could not be written to after it."""
    outcome = rehearse(INFERENCE_FIRST, trace=False, env={"DEVTRACE_SIM_VALUES": way} if way else None)
    assert outcome.code == 0 and outcome.out == "[5.0, 4.0] [5.0, 4.0]\n", outcome.err
