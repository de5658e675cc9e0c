"""What autograd's engine refuses on its own threads: which torch.autograd.Function gave the gradient, or which hook moved it, for what, and where."""

import pytest
from conftest import line_of, operand

QUANTIZE = """
import torch
class Quantize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, steps, codebook):  # forward
        ctx.save_for_backward(codebook)
        return x.round() + 0 * codebook.sum().to(x.device)
    @staticmethod
    def backward(ctx, grad):
        (codebook,) = ctx.saved_tensors
        return grad, None, {returned}  # returns
x = torch.ones(3, device="cuda:0", requires_grad=True)
book = torch.ones(3, device="cuda:1", requires_grad=True)
def step():
    out = Quantize.apply(x, 3, book)
    {call}  # backward
"""


def of_quantize(call="out.sum().backward()", returned="grad.sum() * torch.ones_like(codebook, device=grad.device)"):
    return QUANTIZE.format(call=call, returned=returned) + "try:\n    step()\nexcept RuntimeError as error:\n    print(error)\n"


def own_line(finding):
    return next(frame for frame in finding["python"] if frame.get("project"))["line"]


@pytest.mark.parametrize("call", ["out.sum().backward()", "torch.autograd.grad(out.sum(), [x, book])"])
def test_the_function_its_lines_and_what_the_gradient_is_for(rehearse, call):
    outcome = rehearse(of_quantize(call), options="text=0")
    assert "invalid gradient at index 1" in outcome.out, outcome.err
    finding = outcome.finding
    assert finding["operation"] == "QuantizeBackward" and finding["waiting"] is True
    assert sorted(finding["devices"]) == ["cuda:0", "cuda:1"]
    gradient = finding["gradient"]
    # The second tensor is the third argument.
    assert (gradient["function"], gradient["index"], gradient["argument"]) == ("Quantize", 1, "codebook")
    assert gradient["forward"]["line"] == line_of(outcome, "# forward") and gradient["backward"]["line"] == line_of(outcome, "# returns")
    assert own_line(finding) == line_of(outcome, "# backward")
    assert operand(finding, "cuda:1")["name"] == "book" and "created" in operand(finding, "cuda:1")
    assert operand(finding, "cuda:0")["expression"] == "grad.sum() * torch.ones_like(codebook, device=grad.device)"


def test_the_line_that_returns_it_is_the_fix(rehearse, tmp_path):
    outcome = rehearse(of_quantize(), options="text=0")
    cause = outcome.finding["cause"]
    assert (cause["category"], cause["confidence"], cause["repairs"]) == ("gradient-elsewhere", "high", "cause")
    program = (tmp_path / "program.py").read_text().split("\n")
    was = program[cause["line"] - 1]
    program[cause["line"] - 1] = was[: len(was) - len(was.lstrip())] + cause["fix"]
    (tmp_path / "repaired").mkdir()
    repaired = rehearse("\n".join(program), options="text=0", folder=tmp_path / "repaired")
    assert (repaired.code, repaired.out, repaired.findings) == (0, "", []), repaired.err


def test_several_of_one_name_are_not_told_apart(rehearse):
    outcome = rehearse(of_quantize("(out + Quantize.apply(x, 3, book)).sum().backward()"), options="text=0")
    finding = outcome.finding
    assert "gradient" not in finding and own_line(finding) == line_of(outcome, "# backward")


def test_a_function_with_two_returns_has_its_first_line(rehearse):
    source = of_quantize(returned="codebook.to(grad.device)").replace("        (codebook,)", "        if grad is None:\n            return None\n        (codebook,)")
    gradient = rehearse(source, options="text=0").finding["gradient"]
    assert gradient["backward"]["source"].startswith("def backward")


HOOK = """
import torch
x = torch.ones(3, device="cuda:0", requires_grad=True)
y = x * 2
z = y * 3
def elsewhere(gradient):  # hook
    return gradient.to("cuda:1")
y.register_hook(elsewhere)
try:
    z.sum().backward()
except RuntimeError as error:
    print(error)
"""


def test_a_hook_that_moved_the_gradient(rehearse):
    outcome = rehearse(HOOK.replace("z = y * 3", "z = y + 3"), options="text=0")
    finding = outcome.finding
    assert finding["operation"] == "MulBackward0" and operand(finding, "cuda:0")["name"] == "x"
    (hook,) = finding["gradient"]["hooks"]
    assert (hook["tensor"], hook["line"]) == ("y", line_of(outcome, "# hook"))
    assert finding["cause"]["category"] == "gradient-elsewhere" and "the hook of y" in finding["cause"]["because"]


def test_gradients_that_the_program_gave(rehearse):
    outcome = rehearse("""
        import torch
        x = torch.ones(3, device="cuda:0", requires_grad=True)
        y = x.pow(2)
        v = torch.ones(3)  # here
        torch.autograd.grad([x.sum(), y], x, grad_outputs=[None, v])
    """, options="text=0")  # fmt: skip
    finding = outcome.finding
    assert finding["operation"] == "torch.autograd.grad" and "waiting" not in finding
    assert operand(finding, "cpu")["name"] == "v" and operand(finding, "cpu")["odd"]
    assert operand(finding, "cuda:0")["name"] == "y"
    assert (finding["cause"]["line"], finding["cause"]["fix"]) == (line_of(outcome, "# here"), "v = torch.ones(3, device=y.device)  # here")


def test_the_one_of_two_threads_that_waits(rehearse):
    """The other one is at work in Python."""
    outcome = rehearse("import threading, time\nthreading.Thread(target=time.sleep, args=(20,), daemon=True).start()\n" + of_quantize(), options="text=0")
    assert own_line(outcome.finding) == line_of(outcome, "# backward")


def test_nothing_of_the_programs_is_run(rehearse):
    source = of_quantize().replace("x = torch.ones", """
class Box:
    def __getattr__(self, name): print("box asked", name)
    def __eq__(self, other): print("compared")
    __hash__ = object.__hash__
box = Box()
x = torch.ones""", 1)  # fmt: skip
    outcome = rehearse(source, options="text=0")
    assert outcome.finding["gradient"]["function"] == "Quantize"
    assert "asked" not in outcome.out and "compared" not in outcome.out


def test_memory_of_the_backward_pass_is_said_to_be_of_it(rehearse):
    """No Python line made it, and a frame of PyTorch's allocator would be none that anybody can change."""
    outcome = rehearse("""
        import torch
        class Keep(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x.detach().cpu() < 0.5)
                return x * 2
            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.saved_tensors[0]
        x = torch.ones(3, device="cuda:0", requires_grad=True)
        (Keep.apply(x) * 3).sum().backward()
        """)
    assert operand(outcome.finding, "cuda:0")["created"]["call"] == "the backward pass"
    assert "grad created on cuda:0 by the backward pass\n" in outcome.err, outcome.err
