"""Where programs are when they are refused: every kind of frame, and every place in which they keep tensors."""

import textwrap
from pathlib import Path

import pytest
from conftest import all_names, findings_of, line_of, operand, start_snippets

START = """
import torch
left, right = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
"""


def refused(rehearse, source, before=""):
    outcome = rehearse(START + before + textwrap.dedent(source))
    assert "RuntimeError: " in outcome.err and outcome.code == 1, outcome.err
    return outcome


PLACES = {  # what the program is; the function of the innermost frame
    "module level": ("left + right  # HERE", "<module>"),
    "lambda": ("(lambda a, b: a + b)(left, right)  # HERE", "<lambda>"),
    "generator": (
        """
        def rows():
            yield left + right  # HERE
        list(rows())
        """,
        "rows",
    ),
    "list comprehension": ("[a + right for a in [left]]  # HERE", "<listcomp>"),
    "method": (
        """
        class Adder:
            def add(self, a):
                return a + right  # HERE
        Adder().add(left)
        """,
        "Adder.add",
    ),
    "coroutine": (
        """
        import asyncio
        async def step():
            await asyncio.sleep(0)
            return left + right  # HERE
        asyncio.run(step())
        """,
        "step",
    ),
    "decorated": (
        """
        import functools
        def twice(f):
            @functools.wraps(f)
            def wrapper(*args):
                return f(*args)
            return wrapper
        @twice
        @torch.no_grad()
        def body(a):
            return a + right  # HERE
        body(left)
        """,
        "body",
    ),
    "called back from C": ("list(map(lambda a: a + right, [left]))  # HERE", "<lambda>"),
    "sort key": ("sorted([1, 2], key=lambda n: left + right)  # HERE", "<lambda>"),
    "exec": ("exec(compile('left + right', 'made-up.py', 'exec'))  # HERE", "<module>"),
    "statement over several lines": (
        """
        torch.add(  # HERE
            left,
            right,
        )
        """,
        "<module>",
    ),
    "forward hook": (
        """
        layer = torch.nn.Linear(3, 3, device="cuda:0")
        def hook(module, args, out):
            return out + right  # HERE
        layer.register_forward_hook(hook)
        layer(left)
        """,
        "hook",
    ),
    "destructor": (
        """
        class Late:
            def __enter__(self): return self
            def __exit__(self, *_):
                left + right  # HERE
        with Late():
            pass
        """,
        "Late.__exit__",
    ),
    "name beyond ASCII": (
        """
        def größe(wert):
            return wert + right  # HERE
        größe(left)
        """,
        "größe",
    ),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    snippets = {name: START + textwrap.dedent(source) for name, (source, _) in PLACES.items()}
    return start_snippets(snippets, tmp_path_factory.mktemp("places"))[0]


@pytest.mark.parametrize("name", PLACES)
def test_the_innermost_frame(places, name):
    findings = findings_of(places, name)
    assert len(findings) == 1, places.err
    frames = findings[0]["python"]
    frame = frames[0]
    assert frame["function"] == PLACES[name][1]
    if name == "exec":
        assert frame["file"] == "made-up.py" and frame["line"] == 1
        frame = frames[1]
    file = Path(frame["file"]).name
    assert frame["line"] == line_of(places, "# HERE", file)
    assert "# HERE" in frame["source"] and frame["project"] is True
    assert findings[0]["operation"] == "aten::add"


NAMES = {  # source; expected name of the tensor on cuda:0, of the one on cuda:1
    "arguments": ("def f(query, key):\n    return query + key\nf(left, right)", "query", "key"),
    "dictionary": ('def f(batch):\n    return batch["ids"] + batch["mask"]\nf({"ids": left, "mask": right})', 'batch["ids"]', 'batch["mask"]'),
    "list": ("def f(pair):\n    return torch.cat(pair)\nf([left, right])", "pair[0]", "pair[1]"),
    "nested": ('def f(state):\n    return state["kv"][0] + state["kv"][1]\nf({"kv": (left, right)})', 'state["kv"][0]', 'state["kv"][1]'),
    "attributes": (
        "class State: pass\ndef f(state):\n    return state.ids + state.cache\ns = State(); s.ids, s.cache = left, right\nf(s)",
        "state.ids",
        "state.cache",
    ),
    "dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass Batch:\n    ids: object\n    mask: object\ndef f(batch):\n    return batch.ids + batch.mask\nf(Batch(left, right))",
        "batch.ids",
        "batch.mask",
    ),
    "slots": (
        "class Slim:\n    __slots__ = ('ids', 'mask')\ndef f(slim):\n    return slim.ids + slim.mask\ns = Slim(); s.ids, s.mask = left, right\nf(s)",
        "slim.ids",
        "slim.mask",
    ),
    "named tuple": (
        "import collections\nPair = collections.namedtuple('Pair', 'ids mask')\ndef f(pair):\n    return pair.ids + pair.mask\nf(Pair(left, right))",
        "pair.ids",
        "pair.mask",
    ),
    "as the call writes it": ("class Pair:\n    pass\npair = Pair(); pair.left, pair.right = left, right\nfirst = left\n"
                             "def f(unused):\n    return torch.nn.functional.bilinear(pair.left, pair.right, torch.ones(1, 3, 3, device='cuda:0'))\nf(left)", "pair.left", "pair.right"),
    "a global given to a layer": ("layer = torch.nn.Linear(3, 3, device='cuda:1', bias=False)\nwanted = left\ndef f():\n    return layer(wanted)\nf()", "wanted", "weight"),
    "closure": ("def outer(bias):\n    def inner(x):\n        return x + bias\n    return inner\nouter(right)(left)", "x", "bias"),
    "globals": ("def f():\n    return left + right\nf()", "left", "right"),
    "variable arguments": ("def f(*tensors, **more):\n    return tensors[0] + more['other']\nf(left, other=right)", "tensors[0]", 'more["other"]'),
    "buffer": (
        "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.register_buffer('mean', right)\n"
        "    def forward(self, x):\n        return x - self.mean\nNet()(left)",
        "x",
        "mean",
    ),
    "attribute that is no buffer": (
        "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inv_freq = right\n"
        "    def forward(self, x):\n        return x * self.inv_freq\nNet()(left)",
        "x",
        "self.inv_freq",
    ),
    "parameter of a nested module": (
        "net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(3, 3, device='cuda:1', bias=False)))\ndef f(x):\n    return net(x)\nf(left)",
        "x",
        "0.0.weight",
    ),
}


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    snippets = {name: START + source + "\n" for name, (source, _, _) in NAMES.items()}
    return start_snippets(snippets, tmp_path_factory.mktemp("named"))[0]


@pytest.mark.parametrize("name", NAMES)
def test_operands_have_their_names(named, name):
    findings = findings_of(named, name)
    assert len(findings) == 1, named.err
    for device, expected in zip(("cuda:0", "cuda:1"), NAMES[name][1:]):
        [one] = [each for each in findings[0]["operands"] if each["device"] == device and "name" in each]
        assert expected in all_names(one)
        if "module" not in name:  # there PyTorch's own frames lie in between, and call it something else
            assert one["name"] == expected
        assert (one["shape"], one["dtype"]) == ([3, 3] if expected.endswith("weight") else [3], "float32")


# In f(a, b, …) a, mask and index are on cuda:0, everything else on cuda:1. The operands in order: "name device", "=what it is the result of device".
OPERANDS = {
    "return a * 2 + b.neg()": ["=a * 2 cuda:0", "=b.neg() cuda:1"],
    "return a.neg() + b.neg()": ["=a.neg() cuda:0", "=b.neg() cuda:1"],
    "return a + torch.zeros(3, device='cuda:1')": ["a cuda:0", "=torch.zeros(3, device='cuda:1') cuda:1"],
    "return torch.cat([a, b.neg()])": ["a cuda:0", "=b.neg() cuda:1"],
    "return torch.cat([a, *[b.neg()]])": ["a cuda:0", "=b.neg() cuda:1"],
    "return torch.cat([t for t in (a, b)])": ["a cuda:0", "b cuda:1"],
    "return torch.cat([a.neg(), b], dim=int('0'))": ["=a.neg() cuda:0", "b cuda:1"],
    "return torch.where(a > 0, a, b.neg())": ["=a > 0 cuda:0", "a cuda:0", "=b.neg() cuda:1"],
    "return a[0:2] @ b[1:]": ["=a[0:2] cuda:0", "=b[1:] cuda:1"],
    "return -a @ b": ["=-a cuda:0", "b cuda:1"],
    "return a.mT.add(b)": ["=a.mT cuda:0", "b cuda:1"],
    "return a.neg().add(b * 2)": ["=a.neg() cuda:0", "=b * 2 cuda:1"],
    "return a.add(other=b)": ["a cuda:0", "b cuda:1"],
    "return getattr(a, 'add')(b)": ["b cuda:1", "a cuda:0"],
    "return method(b.neg())": ["=b.neg() cuda:1", "a cuda:0"],
    "return method(b)": ["b cuda:1", "a cuda:0"],
    "return (c := a.neg()) + b": ["c cuda:0", "b cuda:1"],
    "return pair[where] + pair[1 - where]": ["pair[where] cuda:0", "right cuda:1"],
    "return (a.neg()\n        .add_(\n        b\n    ))": ["=a.neg() cuda:0", "b cuda:1"],
    "return torch.nn.functional.linear(a, b * 2)": ["a cuda:0", "=b * 2 cuda:1"],
    "return torch.index_select(a, 0, elsewhere.long())": ["a cuda:0", "=elsewhere.long() cuda:1"],
    "return a[elsewhere]": ["a cuda:0", "elsewhere cuda:1"],
    "return a < b": ["a cuda:0", "b cuda:1"],
    "a += b.neg()": ["a cuda:0", "=b.neg() cuda:1"],
    "a[index] = b": ["a cuda:0", "index cuda:0", "b cuda:1"],
    "a[index] = b.neg()": ["a cuda:0", "index cuda:0", "=b.neg() cuda:1"],
    "if (a.neg() + b).any(): pass": ["=a.neg() cuda:0", "b cuda:1"],
}
F = """
def f(a, b, unrelated, index, elsewhere, method, pair=(torch.ones(3, 3, device="cuda:0"), right), where=0):
    {}
square = torch.ones(3, 3, device="cuda:0")
index = torch.zeros(3, dtype=torch.int, device="cuda:0")
f(square, right, right.clone(), index, index.to("cuda:1"), square.add)
"""


def described(one) -> str:
    return one.get("name", "=" + one["expression"] if "expression" in one else "") + " " + one["device"]


@pytest.fixture(scope="module")
def expressions(tmp_path_factory):
    snippets = {str(number): START + F.replace("{}", source) for number, source in enumerate(OPERANDS)}
    return start_snippets(snippets, tmp_path_factory.mktemp("expressions"), options="text=0")[0]


@pytest.mark.parametrize("source", OPERANDS)
def test_temporaries_have_no_invented_names(expressions, source):
    """Neither what a temporary was made from, nor whatever else lies around on the other device, is an operand."""
    findings = findings_of(expressions, str(list(OPERANDS).index(source)))
    assert len(findings) == 1, expressions.err
    assert findings[0]["devices"] in (["cuda:0", "cuda:1"], ["cuda:1", "cuda:0"])
    operands = findings[0].get("operands", [])
    assert [described(one) for one in operands] == OPERANDS[source]
    for one in operands:
        assert one["dtype"] and ("name" in one) == (one["role"] != "temporary")


WITHOUT_COLUMNS = {  # a line with one operation, or with one whose operands do mix devices
    "return a.add(other=b)": ["a cuda:0", "b cuda:1"],
    "return a < b": ["a cuda:0", "b cuda:1"],
    "return a[elsewhere]": ["a cuda:0", "elsewhere cuda:1"],
    "return (c := a.neg()) + b": ["c cuda:0", "b cuda:1"],
    "a[index] = b": ["a cuda:0", "index cuda:0", "b cuda:1"],
    "return a * 2 + b.neg()": ["=a * 2 cuda:0", "=b.neg() cuda:1"],
}


def test_before_python_3_11_no_columns_are_told(tmp_path):
    snippets = {str(number): START + F.replace("{}", source) for number, source in enumerate(OPERANDS)}
    outcome = start_snippets(snippets, tmp_path, options="text=0", env={"PYTHONNODEBUGRANGES": "1"})[0]
    for number, source in enumerate(OPERANDS):
        found = [described(one) for one in findings_of(outcome, str(number))[0].get("operands", [])]
        assert {one for one in found if one[0] != " "} <= {*OPERANDS[source]}, source
        assert found == WITHOUT_COLUMNS.get(source, found), source


def test_what_a_program_puts_in_place_of_compile_is_not_called(rehearse):
    source = "import builtins\nbuiltins.compile = lambda *_: print('called')\nleft + right.neg()"
    outcome = refused(rehearse, source)
    assert [described(one) for one in outcome.finding["operands"]] == ["left cuda:0", "=right.neg() cuda:1"]
    assert outcome.out == ""


def test_the_report_says_what_made_a_temporary(rehearse):
    outcome = refused(rehearse, "left + right.neg()")
    assert "    the result of right.neg()  cuda:1" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("RuntimeError") and "left on cuda:0, the result of right.neg() on cuda:1" in outcome.err


def test_an_object_that_hangs_from_itself(rehearse):
    finding = refused(
        rehearse,
        """
        class Node: pass
        def f(node):
            return node.next.value + right
        node = Node(); node.next = node; node.value = left; node.all = [node] * 100000; node.map = {number: node for number in range(100000)}
        f(node)
        """,
    ).finding
    assert "node.value" in all_names(operand(finding, "cuda:0"))


def test_origins_of_both_operands(rehearse):
    outcome = refused(
        rehearse,
        """
        def make():
            return torch.zeros(5, device="cuda:0")  # CREATED
        def bring(tensor):
            return tensor.to("cuda:1")  # MOVED
        here = make()
        there = bring(torch.arange(5.0))  # FROM CPU
        here + there
        """,
    )
    here, there = operand(outcome.finding, "cuda:0"), operand(outcome.finding, "cuda:1")
    assert here["created"]["python"][0]["line"] == line_of(outcome, "# CREATED")
    assert "moved" not in here
    assert there["moved"]["python"][0]["line"] == line_of(outcome, "# MOVED")
    assert (there["moved"]["from"], there["moved"]["to"]) == ("cpu", "cuda:1")
    assert there["created"]["python"][0]["line"] == line_of(outcome, "# FROM CPU")
    assert there["created"]["device"] == "cpu"


def test_memory_that_the_allocator_gives_out_again_has_its_new_origin(rehearse):
    outcome = refused(
        rehearse,
        """
        old = torch.zeros(1000, device="cuda:0")
        address = old.data_ptr()
        del old
        new = torch.zeros(1000, device="cuda:0")  # NEW
        assert new.data_ptr() == address
        other = torch.zeros(1000, device="cuda:1")
        new + other
        """,
    )
    assert operand(outcome.finding, "cuda:0")["created"]["python"][0]["line"] == line_of(outcome, "# NEW")


def test_a_view_has_the_origin_of_its_memory(rehearse):
    outcome = refused(
        rehearse,
        """
        whole = torch.zeros(100, 10, device="cuda:0")  # WHOLE
        part = whole[50:, 3]
        other = torch.zeros(50, device="cuda:1")
        part + other
        """,
    )
    part = operand(outcome.finding, "cuda:0")
    assert part["shape"] == [50] and "part" in all_names(part)
    assert part["created"]["python"][0]["line"] == line_of(outcome, "# WHOLE")


BACKWARD = """
import time
def run(loss):
    try:
        loss.backward()
    except RuntimeError:
        time.sleep(0.5)  # an engine thread that still holds the exception while Python ends aborts; PyTorch's own race
        raise
"""


def test_backward_of_a_custom_function(rehearse):
    """The autograd engine runs it in a thread of its own."""
    outcome = refused(
        rehearse,
        """
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()
            @staticmethod
            def backward(ctx, gradient):
                return gradient * right  # HERE
        weight = torch.ones(3, device="cuda:0", requires_grad=True)
        run(Scale.apply(weight).sum())
        """,
        before=BACKWARD,
    )
    assert outcome.finding["operation"] == "aten::mul"
    assert outcome.finding["python"][0]["line"] == line_of(outcome, "# HERE")
    assert "gradient" in all_names(operand(outcome.finding, "cuda:0"))


def test_gradient_hook(rehearse):
    outcome = refused(
        rehearse,
        """
        weight = torch.ones(3, device="cuda:0", requires_grad=True)
        weight.register_hook(lambda gradient: gradient + right)  # HERE
        run((weight * 2).sum())
        """,
        before=BACKWARD,
    )
    assert outcome.finding["python"][0]["line"] == line_of(outcome, "# HERE")


def test_a_thread_of_the_programs_own(rehearse):
    outcome = rehearse(
        START
        + "import threading\ndef work():\n    left + right  # HERE\nthread = threading.Thread(target=work, name='loader')\nthread.start(); thread.join()\n"
    )
    assert outcome.code == 0
    assert outcome.finding["python"][0]["line"] == line_of(outcome, "# HERE")
    assert outcome.finding["thread"] != outcome.records[0]["pid"]


def test_inside_a_scripted_function(rehearse):
    outcome = refused(
        rehearse,
        """
        @torch.jit.script
        def add(a: torch.Tensor, b: torch.Tensor):
            return a + b
        add(left, right)  # HERE
        """,
    )
    assert outcome.findings[0]["operation"] == "aten::add"
    mine = [frame for frame in outcome.finding["python"] if frame.get("project")]
    assert mine[0]["line"] == line_of(outcome, "add(left, right)  # HERE")


def test_optimizer_step(rehearse):
    outcome = refused(
        rehearse,
        """
        layer = torch.nn.Linear(3, 3, device="cuda:0")
        optimizer = torch.optim.Adam(layer.parameters(), foreach=False, fused=False)
        layer(left).sum().backward()
        optimizer.step()
        for state in optimizer.state.values():
            state["exp_avg"] = state["exp_avg"].to("cuda:1")
        optimizer.step()  # HERE
        """,
    )
    mine = [frame for frame in outcome.finding["python"] if frame.get("project")]
    assert mine[0]["line"] == line_of(outcome, "# HERE")
    assert any("exp_avg" in str(name) for name in all_names(operand(outcome.finding, "cuda:1")))


def test_deep_recursion(rehearse):
    outcome = refused(
        rehearse,
        """
        def down(depth, a):
            return a + right if depth == 0 else down(depth - 1, a)  # HERE
        down(900, left)
        """,
    )
    assert outcome.finding["python"][0]["line"] == line_of(outcome, "# HERE")
    assert len(outcome.finding["python"]) >= 60


@pytest.mark.parametrize("inputs", ["left + right", "torch.cat([left, right])", "torch.nn.functional.linear(torch.ones(3, 3, device='cuda:0'), torch.ones(3, 3, device='cuda:1'))"])
def test_message_is_pytorchs_own_first_line(rehearse, inputs):
    outcome = refused(rehearse, inputs)
    raised = [line for line in outcome.err.splitlines() if line.startswith("RuntimeError: ")]
    assert raised == ["RuntimeError: " + outcome.finding["message"]]


GENERATOR = """
import dataclasses, importlib.util, pathlib, sys, tempfile
import torch

def imported(name, source):
    file = pathlib.Path(tempfile.mkdtemp()) / "template.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module

named = imported("generator.adds", "def add(a, b):\\n    return a + b\\n").add
apart = imported("adds_of_main", "def add(a, b):\\n    return a + b\\n").add
compiled = {}
exec("def add(a, b):\\n    return a + b\\n", compiled)
compiled = compiled["add"]
"""


@pytest.mark.parametrize("how", ["named", "apart", "compiled"])
def test_code_that_a_library_writes_is_not_the_programs(rehearse, tmp_path, how):
    package = tmp_path / "site-packages" / "generator"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(GENERATOR)
    outcome = rehearse(START + f"import generator\ngenerator.{how}(left, right)  # HERE\n", env={"PYTHONPATH": str(package.parent)})
    finding = outcome.finding
    assert [frame.get("project", False) for frame in finding["python"]] == [False, True], finding["python"]
    assert finding["python"][1]["source"].endswith("# HERE") and finding["cause"]["line"] == finding["python"][1]["line"]
