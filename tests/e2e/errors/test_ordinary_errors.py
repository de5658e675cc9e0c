"""Errors that are not about devices, and mixed devices that PyTorch allows, make no finding."""

import pytest

ERRORS = {
    "shapes of matmul": "torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d)",
    "shapes of add": "torch.ones(2, device=d) + torch.ones(3, device=d)",
    "shapes of cat": "torch.cat([torch.ones(2, 2, device=d), torch.ones(3, 3, 3, device=d)])",
    "convolution's channels": "torch.nn.Conv1d(3, 4, 1, device=d)(torch.ones(1, 2, 5, device=d))",
    "index out of range": "torch.ones(3, device=d)[5]",
    "dimension out of range": "torch.ones(3, device=d).sum(dim=4)",
    "too many indices": "torch.ones(3, device=d)[0, 0]",
    "out of memory": "torch.empty(1 << 46, dtype=torch.uint8, device=d)",
    "wrong type": "torch.add('one', torch.ones(3, device=d))",
    "wrong dtype": "torch.nn.functional.embedding(torch.ones(3, device=d), torch.ones(3, 3, device=d))",
    "dtypes of matmul": "torch.ones(2, 2, device=d) @ torch.ones(2, 2, device=d, dtype=torch.float64)",
    "no gradient": "torch.ones(3, device=d).sum().backward()",
    "in-place on a leaf": "torch.ones(3, device=d, requires_grad=True).add_(1)",
    "view of wrong size": "torch.ones(4, device=d).view(3)",
    "no such operator": "torch.ops.aten.no_such_operator(torch.ones(3, device=d))",
    "state dict": "torch.nn.Linear(2, 2, device=d).load_state_dict({'weight': torch.ones(3, 3)})",
    "on the CPU": "torch.ones(2) @ torch.ones(3)",
    "python's own": "{}['cuda:0 and cuda:1']",
    "model's own words": "raise RuntimeError('the model is on cuda:0 but its configuration says cuda:1')",
    "assertion": "assert False, 'the tensor must be on cuda'",
    "warning as an error": "import warnings; warnings.simplefilter('error'); warnings.warn('expected all tensors to be on the same device')",
    "file of that name": "open('expected all tensors to be on the same device')",
    "text that is no JSON": "__import__('json').loads('{\"device\": cuda:0}')",
    "pattern": "import re; re.compile('cuda:(')",
    "device of a wrong type": "torch.rand(2, device=3.5)",
    "attribute of a device's module": "torch.cuda.no_such_device",
    "values that differ": "torch.testing.assert_close(torch.ones(2, device=d), torch.zeros(2, device=d))",
    "message that sounds like it": "torch._check(False, lambda: 'Expected all tensors to be on the same device, but found cuda:0 and cuda:1')",
}

ALLOWED = {
    "scalar on the CPU": "torch.ones(3, device='cuda:0') + torch.tensor(2.0)",
    "scalar on the CPU in place": "torch.ones(3, device='cuda:1').mul_(torch.tensor(2.0))",
    "index on the CPU": "torch.ones(3, device='cuda:0')[torch.tensor([0, 1])]",
    "index assignment": "torch.ones(3, device='cuda:1').__setitem__(torch.tensor([0, 1]), 1.0)",
    "copy between devices": "torch.ones(3, device='cuda:0').copy_(torch.ones(3, device='cuda:1'))",
    "to": "torch.ones(3, device='cuda:0').to('cuda:1').cpu()",
    "where with scalars": "torch.where(torch.ones(3, device='cuda:0') > 0, torch.tensor(1.0), torch.tensor(0.0))",
}


def test_errors_make_no_finding(rehearse):
    source = "import torch\nd = 'cuda:1'\n"
    for name, code in ERRORS.items():
        source += f"try:\n    {code}\n    print('nothing raised:', {name!r})\nexcept Exception:\n    pass\n"
    outcome = rehearse(source)
    assert (outcome.code, outcome.out) == (0, ""), outcome.err
    assert [finding["message"] for finding in outcome.findings] == []
    # One of them is an out-of-memory, of which a rehearsal says the device in any case.
    assert [line for line in outcome.err.splitlines() if "devtrace" in line and not line.startswith("devtrace: memory of cuda:1: ")] == []


def test_allowed_mixtures_make_no_finding(rehearse):
    source = "import torch\n" + "\n".join(ALLOWED.values()) + "\nprint('ran')\n"
    outcome = rehearse(source)
    assert (outcome.code, outcome.out) == (0, "ran\n"), outcome.err
    assert [finding["message"] for finding in outcome.findings if finding["kind"] == "refused-op"] == []


@pytest.mark.parametrize(
    "code, operation",
    [
        ("torch.ones(3, device='cuda:0') + torch.ones(3, device='cuda:1')", "aten::add"),
        ("torch.ones(3, device='cuda:0').mul_(torch.ones(3))", "aten::mul_"),
        ("torch.cat([torch.ones(3, device='cuda:0'), torch.ones(3)])", "aten::cat"),
        ("torch.nn.Conv1d(3, 4, 1, device='cuda:0')(torch.ones(1, 3, 5))", "aten::_slow_conv2d_forward|aten::cudnn_convolution|aten::convolution"),
        ("torch.ones(3, device='cuda:0')[torch.tensor([0], device='cuda:1')]", "aten::index"),
    ],
)
def test_the_same_program_with_a_refusal_makes_one(rehearse, code, operation):
    outcome = rehearse(f"import torch\ntry:\n    {code}\nexcept RuntimeError: print('refused')")
    assert outcome.out == "refused\n"
    assert outcome.finding["operation"] in operation.split("|")


TEXTS = r"""
import sys
import torch

class Text(str):
    pass

for text in (
    "\ud800 is on cuda:0 and cuda:1", "device é on cuda:0", "\udc80 device cuda:1 " * 3000, Text("device \ud800 cuda:0"), Text("device cuda:0 \udcff"),
):
    before = sys.getsizeof(text)
    error = ValueError(text)
    assert error.args[0] is text and sys.getsizeof(text) == before
try:
    getattr(torch, "\ud800cuda device of cuda:0")
except AttributeError as error:
    assert "\ud800cuda" in str(error)
print("unharmed")
"""


def test_texts_that_are_no_utf_8_are_read_and_stay_as_they_are(rehearse):
    """CPython raises where it makes UTF-8 of a lone surrogate: an exception in the midst of one, again and again. What it makes it keeps."""
    outcome = rehearse(TEXTS)
    assert outcome.code == 0 and outcome.out == "unharmed\n" and outcome.findings == [], outcome.err[-2000:]
