"""What operands are called that no variable of the program holds: by the expression that gave them, or by who holds them."""

import pytest
from conftest import start

# The functions' parameters: `g…` lies on the GPU, all else on the CPU.
START = """
import functools
import torch
import torch.nn.functional as F
from torch import nn
DEVICE = "cuda:0"
class Box:
    SHIFT = torch.ones(4)
    TABLES = {"wide": (torch.ones(4), torch.zeros(4))}
    def __init__(self):
        self.ids = torch.tensor([0, 1])
        self.scaled = functools.partial(torch.mul, torch.ones(4))
        self.shifted = functools.partial(torch.add, other=torch.ones(4))
class Wider(Box):
    pass
class Head(nn.Module):
    SCALE = torch.ones(4)
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
    def forward(self, feats, extra=None):
        return self.fc(feats) if extra is None else extra * self.SCALE
def given():
    return {
        "g": torch.ones(2, 4, device=DEVICE), "ghead": Head().to(DEVICE), "gseq": nn.Sequential(nn.Linear(4, 4)).to(DEVICE),
        "h": torch.ones(2, 4), "ids": torch.tensor([0, 1, 2]), "batch": {"x": torch.ones(2, 4), "y": torch.tensor([0, 1])}, "box": Box(), "wider": Wider(),
    }
"""

# The line, and what its operand on the CPU is called.
ON_THE_CPU = {
    # Library code has a name for it (`input`, `target`, `value`), the line an expression.
    "gseq(h[:1])": "h[:1]",
    "gseq(torch.tensor([[1.0, 2, 3, 4]]))": "torch.tensor([[1.0, 2, 3, 4]])",
    "F.cross_entropy(g, ids[:2])": "ids[:2]",
    "F.cross_entropy(input=g, target=ids[1:])": "ids[1:]",
    "F.mse_loss(g, (h > 0).float())": "(h > 0).float()",
    "F.mse_loss(g, h[1])": "h[1]",
    "nn.CrossEntropyLoss()(g * 2, batch['y'].int().long())": "batch['y'].int().long()",
    "nn.CrossEntropyLoss()(g * 2, target=batch['y'] % 2)": "batch['y'] % 2",
    "torch.distributions.Categorical(logits=g).log_prob(ids[:2])": "ids[:2]",
    "torch.einsum('ij,ij->i', g, h * 2)": "h * 2",
    "ghead(h.clone())": "feats",  # the program's own name is nearer
    # A variable is still told by its name.
    "F.cross_entropy(g, box.ids)": "box.ids",
    "nn.CrossEntropyLoss()(g * 2, batch['y'].long())": 'batch["y"]',  # which it is already
    "gseq(h)": "h",
    # What the class has.
    "g + box.SHIFT": "box.SHIFT",
    "g + wider.SHIFT": "wider.SHIFT",
    "g - Box.SHIFT": "Box.SHIFT",
    "g * wider.TABLES['wide'][1]": 'wider.TABLES["wide"][1]',
    "ghead(g, g)": "self.SCALE",
    # What a partial holds.
    "box.scaled(g)": "box.scaled.args[0]",
    "box.shifted(g)": 'box.shifted.keywords["other"]',
    "functools.partial(torch.add, h)(g)": None,  # nothing leads to it
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    lines = [f"def line_{i}(g, ghead, gseq, h, ids, batch, box, wider):\n    return {line}" for i, line in enumerate(ON_THE_CPU)]
    run = f"for i in range({len(ON_THE_CPU)}):\n    try:\n        globals()['line_' + str(i)](**given())\n    except RuntimeError:\n        pass\n"
    outcome = start(START + "\n".join(lines) + "\n" + run, tmp_path_factory.mktemp("names"))
    by_line = {}
    for finding in outcome.findings:
        for frame in finding["python"]:
            if frame["function"].startswith("line_"):
                by_line.setdefault(list(ON_THE_CPU)[int(frame["function"].removeprefix("line_"))], finding)
    return by_line


@pytest.mark.parametrize("line", ON_THE_CPU)
def test_the_operand_on_the_cpu_is_told(findings, line):
    operands = [operand for operand in findings[line]["operands"] if operand["device"] == "cpu"]
    names = [operand.get("name") for operand in operands]
    assert names == [ON_THE_CPU[line]], findings[line]["operands"]


LAZY_MODULE = """
import types
import torch
class LazyModule(types.ModuleType):
    pass
def use(given):
    return torch.ones(2, device="cuda:0") + given
def program():
    package = LazyModule("package")
    package.table, kept = {"h": torch.ones(2)}, []
    kept.append(package.table["h"])
    try:
        use(kept.pop())
    except RuntimeError:
        pass
program()
"""


# transformers is one: thousands of names, for each finding, of which none says what the program's variable is.
def test_a_module_that_imports_late_is_not_searched(tmp_path):
    (finding,) = start(LAZY_MODULE, tmp_path).findings
    (operand,) = (operand for operand in finding["operands"] if operand["device"] == "cpu")
    assert operand["name"] == "given"
    assert not any("package" in name["name"] for name in operand["names"])
    assert not any("package" in chain["name"] for chain in operand.get("held_by", []))
