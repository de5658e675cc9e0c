"""The edits that are tried: made from the syntax tree of small programs and findings, without running them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from asked_edits import EDITS, asked, codes, line_with, operand, program
from conftest import TOP
from interpreters import SUPPORTED, interpreters

# kind: program, the failing line, its function, operands (name, device, further facts), the edit that must be among them
SMALL = {
    "move-at-use": ("def f(x, w):\n    return x @ w\n", "x @ w", "f", [("x", "cpu", {}), ("w", "cuda:0", {})], "return x.to(w.device) @ w"),
    "device-at-creation": (
        "import torch\ndef f(w):\n    x = torch.zeros(3)\n    return x + w\n", "x + w", "f",
        [("x", "cpu", {"created": "torch.zeros"}), ("w", "cuda:0", {})], "x = torch.zeros(3, device=w.device)",
    ),
    "move-result": (
        "def f(a, w):\n    x = a * 2\n    return x + w\n", "x + w", "f",
        [("x", "cpu", {"created": "a * 2"}), ("w", "cuda:0", {})], "x = (a * 2).to(w.device)",
    ),
    "move-batch": (
        "def train(loader, model, device):\n    for batch in loader:\n        y = batch[\"x\"] + model.w\n", "y = ", "train",
        [('batch["x"]', "cpu", {}), ("model.w", "cuda:0", {"role": "parameter"})],
        "batch = {key: value.to(device) for key, value in batch.items()}",
    ),
    "device-argument": (
        "import torch\ndef grid(n, device='cpu'):\n    return torch.zeros(n, device=device)\ndef f(w):\n    x = grid(3)\n    return x + w\n", "x + w", "f",
        [("x", "cpu", {"created": "torch.zeros", "in": "grid", "called": ["x = grid(3)"]}), ("w", "cuda:0", {})], "x = grid(3, device=w.device)",
    ),
    "redirect-move": (
        "def f(x, w):\n    x = x.cuda(non_blocking=True)\n    return x + w\n", "x + w", "f",
        [("x", "cuda:0", {"moved": "x.cuda"}), ("w", "cuda:1", {})], "x = x.to(w.device, non_blocking=True)",
    ),
    "keep-moved": (
        "def f(x, w, device):\n    x.to(device)\n    return x + w\n", "x + w", "f",
        [("x", "cpu", {}), ("w", "cuda:0", {})], "x = x.to(device)",
    ),
    "register-buffer": (
        "import torch\nclass N(torch.nn.Module):\n    def __init__(self):\n        self.s = torch.ones(3)\n    def forward(self, x):\n        return x * self.s\n",
        "x * self.s", "N.forward", [("self.s", "cpu", {}), ("x", "cuda:0", {})], 'self.register_buffer("s", torch.ones(3), persistent=False)',
    ),
    "register-modules": (
        "from torch import nn\nclass N(nn.Module):\n    def __init__(self):\n        self.heads = [nn.Linear(2, 2) for _ in range(2)]\n"
        "    def forward(self, x):\n        return self.heads[0](x)\n",
        "self.heads[0](x)", "N.forward", [("self.heads[0].weight", "cpu", {"role": "parameter"}), ("x", "cuda:0", {})],
        "self.heads = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])",
    ),
    "move-module": (
        "model = Model()\nmodel.to(device)\nhead = Head()\ny = head(x)\n", "head(x)", "<module>",
        [("head.weight", "cpu", {"role": "parameter"}), ("x", "cuda:0", {})], "head.to(device)",
    ),
    "map-location": (
        "import torch\nstate = torch.load(path)\ny = state + x\n", "state + x", "<module>",
        [("state", "cpu", {"created": "torch.load"}), ("x", "cuda:0", {})], 'state = torch.load(path, map_location="cuda:0")',
    ),
    "set-device": (
        "import threading, torch\ndef load(q):\n    q.put(b.cuda())\nthreading.Thread(target=load)\ny = x + w\n", "x + w", "<module>",
        [("x", "cuda:0", {"moved": "b.cuda", "in": "load"}), ("w", "cuda:1", {})], "torch.cuda.set_device(1)",
    ),
    "no-split": (
        "class Block:\n    def forward(self, x):\n        return x + r\nm = infer_auto_device_map(model, max_memory=memory)\n", "x + r", "Block.forward",
        [("x", "cuda:0", {}), ("r", "cuda:1", {})], 'm = infer_auto_device_map(model, max_memory=memory, no_split_module_classes=["Block"])',
    ),
    "device-map": (
        'y = x + w\nmap = {"embed": 0, "head": 1}\n', "x + w", "<module>",
        [("w", "cuda:1", {"role": "parameter", "module_path": "head.weight"}), ("x", "cuda:0", {})], 'map = {"embed": 0, "head": 0}',
    ),
    "call-through-self": (
        "import functools\nfrom torch import nn\nclass N(nn.Module):\n    def __init__(self):\n        self.k = functools.partial(self.kernel, width=2)\n"
        "    def forward(self, x):\n        return self.k(x)\n",
        "self.k(x)", "N.forward", [("x", "cuda:1", {}), ("self.w", "cuda:0", {})], "return self.kernel(x, width=2)",
    ),
    "generator-device": (
        "import torch\ng = torch.Generator()\ny = torch.rand(3, generator=g, device=d)\n", "torch.rand", "<module>", [],
        "y = torch.rand(3, generator=g, device=g.device).to(d)",
    ),
    "optimizer-state": (
        "opt = SGD(model.parameters())\nmodel.cuda()\nopt.step()\n", "opt.step", "step",
        [("p", "cuda:0", {}), ("m", "cpu", {})], "model.cuda()",
    ),
    "pin-memory": (
        "for batch in loader:\n    pass\nloader = DataLoader(data, pin_memory=True)\n", "loader:", "<module>", [("data", "cuda:0", {})],
        "loader = DataLoader(data, pin_memory=False)",
    ),
    "cache-key": (
        "cache = {}\ndef grid(x):\n    key = x.shape\n    if key not in cache:\n        cache[key] = make(x)\n    return cache[key] + x\n", "cache[key] + x", "grid",
        [("cache[key]", "cuda:0", {}), ("x", "cuda:1", {})], "key = (x.shape, x.device)",
    ),
    "collective-of-all": (
        "if rank == 0:\n    print(dist.all_gather(x))\ndist.barrier()\n", "print(", "<module>", [("rank 0", "cuda:0", {"role": "rank", "created": "print("})],
        "from_all_ranks = dist.all_gather(x)\n    print(from_all_ranks)",
    ),
    "device-ids": (
        "def wrap(model, local_rank):\n    return DDP(model, device_ids=[0])\n", "return DDP", "wrap", [("x", "cuda:0", {}), ("module.w", "cuda:1", {"role": "parameter"})],
        "return DDP(model, device_ids=[local_rank])",
    ),
    "reported-fix": ("y = x + w\n", "x + w", "<module>", [("x", "cpu", {}), ("w", "cuda:0", {})], "y = x.cuda() + w"),
    "device-guard": ("import torch\nlaunch(x, w)\n", "launch(", "<module>", [("x", "cuda:1", {}), ("w", "cuda:1", {})], "with torch.cuda.device(x.device):\n    launch(x, w)"),
}  # fmt: skip

OTHER_FINDINGS = {"device-guard": "wrong-current-device", "collective-of-all": "collective-mismatch"}


def test_every_kind_is_tested():
    ran = subprocess.run(
        [sys.executable, "-c", "import json, kinds; print(json.dumps(list(kinds.CATEGORIES)))"], cwd=EDITS, capture_output=True, text=True,
        env={"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert sorted(json.loads(ran.stdout)) == sorted(SMALL)
    page = (TOP / "docs/guide/fix.md").read_text()
    assert [kind for kind in SMALL if f"`{kind}`" not in page] == []


@pytest.mark.parametrize("kind", SMALL)
def test_kind(tmp_path, kind):
    text, failing, function, operands, wanted = SMALL[kind]
    path = program(tmp_path, text)
    made = []
    for name, device, facts in operands:
        facts = dict(facts)
        inside = facts.pop("in", function)
        outward = [(path, line_with(path, text), function) for text in facts.pop("called", [])]
        events = {event: [(path, line_with(path, facts.pop(event)), inside), *outward] for event in ("created", "moved") if event in facts}
        made.append(operand(name, device, **events, **facts))
    more = {"message": "Expected a 'cuda' device type for generator but found 'cpu'"} if kind == "generator-device" else {}
    if kind == "reported-fix":
        more["cause"] = {"file": str(path), "line": 1, "fix": wanted}
    if kind == "pin-memory":
        more["message"] = "cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned"
    if kind in OTHER_FINDINGS:
        more["kind"] = OTHER_FINDINGS[kind]
    stack = [(path, line_with(path, failing), function)]
    if kind == "optimizer-state":
        stack.insert(0, ("/site-packages/torch/optim/sgd.py", 1, "SGD.step"))
    if kind == "device-ids":
        stack.insert(0, ("/site-packages/torch/nn/parallel/distributed.py", 1, "DistributedDataParallel.forward"))
    found = asked(tmp_path, stack, made, **more)
    assert wanted in codes(found, kind), codes(found, kind)


def test_the_current_device_comes_before_a_number(tmp_path):
    """Of a rank that has chosen its own: where its batches go to that of rank 0."""
    path = program(tmp_path, "def batches(rank):\n    yield x.to(\"cuda:0\")\ny = model(x)\n")
    operands = [operand("x", "cuda:0", moved=[(path, 2, "batches"), (path, 3, "<module>")]), operand("w", "cuda:1")]
    stack = [(path, 3, "<module>")]
    found = asked(tmp_path, stack, operands, current_device="cuda:1")
    assert found[0]["code"] == 'yield x.to("cuda")'
    assert codes(found, "redirect-move") == ['yield x.to("cuda")', 'yield x.to("cuda:1")']
    assert codes(asked(tmp_path, stack, operands, current_device="cuda:0"), "redirect-move") == ['yield x.to("cuda:1")']


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("y = f(x, w)", "y = f(x.to(w.device), w)"),
        ("y = f(größe=x, w=w)", "y = f(größe=x.to(w.device), w=w)"),
        ('y = f("é", x), w', 'y = f("é", x.to(w.device)), w'),
        ("y = x.shape[0] + f(x, w)", "y = x.shape[0] + f(x.to(w.device), w)"),
        ("if f(x, w):\n    pass", "if f(x.to(w.device), w):"),
        ("with f(x, w) as y:\n    pass", "with f(x.to(w.device), w) as y:"),
        ("x += w", None),
        ("x.add_(w)", None),
        ("y = f(\n    w,\n    x,\n)", "x.to(w.device),"),
        ("y = f(w)  # x", None),
        ('y = f(w, "x")', None),
    ],
)
def test_only_what_is_read_is_moved(tmp_path, text, wanted):
    path = program(tmp_path, text + "\n")
    found = asked(tmp_path, [(path, 1, "<module>")], [operand("x", "cpu"), operand("w", "cuda:0")])
    moves = [code for code in codes(found, "move-at-use") if "x.to(w.device)" in code]
    assert (moves[:1] or [None])[0] == wanted or (wanted is None and not moves), codes(found, "move-at-use")


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ny = x + w\nz = 1\n",
        "import torch\r\ny = x + w\r\nz = 1\r\n",
        "\ufeffy = x + w\nz = 1\n",
        "import torch\ny = x + w",
        "def f():\n\ty = x + w\n\treturn y\n",
        "s = 'a\x0cb\u2028c'\ny = x + w\n",
    ],
    ids=["plain", "CRLF", "byte order mark", "no newline at the end", "tabs", "other line ends in a string"],
)
def test_git_takes_the_patch(tmp_path, text):
    folder = tmp_path / "tree"
    folder.mkdir()
    path = program(folder, text)
    line = next(number for number, each in enumerate(text.split("\n"), 1) if "x + w" in each)
    found = asked(tmp_path, [(path, line, "<module>")], [operand("x", "cpu"), operand("w", "cuda:0")], folder=folder)
    best = next(each for each in found if each["kind"] == "move-at-use")
    patch = tmp_path / "patch"
    patch.write_bytes(best["patch"].encode("utf-8"))
    applied = subprocess.run(["git", "apply", patch], cwd=folder, capture_output=True, text=True)
    assert applied.returncode == 0, applied.stderr + best["patch"]
    assert path.read_bytes() == text.replace("x + w", "x.to(w.device) + w").encode("utf-8")
    assert best["texts"][str(path)].encode("utf-8") == path.read_bytes()
    assert best["added"] == {str(path): [line]}


def test_an_argument_is_followed_to_its_call(tmp_path):
    path = program(tmp_path, "def f(a, w):\n    return a + w\n\ny = f(g(1) * 2, w)\n")
    found = asked(tmp_path, [(path, 2, "f"), (path, 4, "<module>")], [operand("a", "cpu"), operand("w", "cuda:0", (0, 1))])
    assert "y = f((g(1) * 2).to(w.device), w)" in codes(found, "move-at-use")


STEP = ("/site-packages/torch/optim/adam.py", 1, "Adam.step")


def test_an_optimizer_of_the_class_casts_its_state_after_the_move(tmp_path):
    text = (
        "class Worker:\n    def __init__(self, model):\n        self.opt = Adam(model.parameters())\n"
        "    def migrate(self, device):\n        self.model.to(device)\n    def train(self):\n        self.opt.step()\n"
    )
    path = program(tmp_path, text)
    found = asked(tmp_path, [STEP, (path, 7, "Worker.train")], [operand("state", "cuda:0"), operand("grad", "cuda:1")])
    places = [(each["line"], each["code"]) for each in found if each["kind"] == "optimizer-state"]
    assert places[0] == (5, "self.opt.load_state_dict(self.opt.state_dict())")
    assert not codes(asked(tmp_path, [(path, 7, "Env.step")], [operand("state", "cuda:0"), operand("grad", "cuda:1")]), "optimizer-state")


def test_an_optimizers_edit_has_a_place_where_model_and_optimizer_are_elsewhere(tmp_path):
    made = program(tmp_path, "def build(model, device):\n    return Adam(model.parameters())\n", "made.py")
    text = "from made import build\ndef fit(loader, opt):\n    for epoch in range(2):\n        for batch in loader:\n            opt.step()\n"
    path = program(tmp_path, text)
    found = asked(tmp_path, [STEP, (path, 5, "fit")], [operand("state", "cpu"), operand("grad", "cuda:0")])
    places = {(Path(each["file"]).name, each["line"], each["code"]) for each in found if each["kind"] == "optimizer-state"}
    assert {(made.name, 2, "model.to(device)"), (path.name, 3, "opt.load_state_dict(opt.state_dict())")} <= places


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ("torch.rand(3)", 'torch.rand(3).to("cuda:0")'),
        ("torch.from_numpy(np.random.normal(size=3))", 'torch.from_numpy(np.random.normal(size=3)).to("cuda:0")'),
        ("torch.zeros_like(v)", 'torch.zeros_like(v, device="cuda:0")'),
        ("v.new_zeros(3)", 'v.new_zeros(3, device="cuda:0")'),
        ("torch.asarray(v)", 'torch.asarray(v, device="cuda:0")'),
        ("torch.complex(v, v)", 'torch.complex(v, v).to("cuda:0")'),
    ],
)
def test_what_makes_a_tensor_is_given_the_device_or_moved(tmp_path, made, wanted):
    path = program(tmp_path, f"import torch\nx = {made}\ny = x + w\n")
    found = asked(tmp_path, [(path, 3, "<module>")], [operand("x", "cpu", created=[(path, 2, "<module>")]), operand("w", "cuda:0")])
    assert codes(found, "device-at-creation")[0] == f"x = {wanted}"


def test_no_device_stands_where_a_type_did(tmp_path):
    path = program(tmp_path, "def f(x, w, dtype):\n    x = x.to(dtype)\n    return x + w\n")
    x = operand("x", "cpu", created=[(path, 2, "f")])
    found = [each["code"] for each in asked(tmp_path, [(path, 3, "f")], [x, operand("w", "cuda:0")])]
    assert "x = x.to(dtype).to(w.device)" in found
    assert "x = x.to(w.device)" not in found


def test_files_of_others_are_left_alone(tmp_path):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    path = program(folder, "y = x + w\n")
    assert asked(tmp_path, [(path, 1, "<module>")], [operand("x", "cpu"), operand("w", "cuda:0")]) == []


@pytest.mark.parametrize("text", [b"y = x + w\n\xff\n", b"# coding: latin-1\ny = x + w\n", b"y = (x + w\n"], ids=["no UTF-8", "latin-1", "no Python"])
def test_what_is_no_python_is_left_alone(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_bytes(text)
    line = next(number for number, each in enumerate(text.split(b"\n"), 1) if b"x + w" in each)
    assert asked(tmp_path, [(path, line, "<module>")], [operand("x", "cpu"), operand("w", "cuda:0")]) == []


def test_an_earlier_edit_is_kept(tmp_path):
    path = program(tmp_path, "a = 1\ny = x + w\n")
    edited = "a = 2\ny = x + w\n"
    found = asked(tmp_path, [(path, 2, "<module>")], [operand("x", "cpu"), operand("w", "cuda:0")], texts={str(path): edited})
    best = found[0]
    assert best["texts"][str(path)] == "a = 2\ny = x.to(w.device) + w\n"
    assert best["changed"] == 2 and "-a = 1" in best["patch"]
    assert best["code"] == "y = x.to(w.device) + w"


def test_what_was_not_seen_being_made_is_found_by_its_assignment(tmp_path):
    text = (
        "import torch\nclass Sampler:\n    def __init__(self):\n        self.losses = None\n    def start(self):\n        self.losses = torch.tensor([])\n"
        "    def add(self, new):\n        self.losses = torch.cat([self.losses, new])\n"
    )
    path = program(tmp_path, text)
    found = asked(tmp_path, [(path, 8, "Sampler.add")], [operand("self.losses", "cpu"), operand("new", "cuda:0")])
    assert codes(found, "device-at-creation") == ['self.losses = torch.tensor([], device="cuda:0")', 'self.losses = torch.tensor([]).to("cuda:0")']


def test_a_number_is_not_asked_for_its_device(tmp_path):
    path = program(tmp_path, "import torch\ndef f(steps, config, x):\n    made = torch.zeros(config.width)\n    for _ in range(steps):\n        x = x + made\n")
    found = asked(tmp_path, [(path, 1, "<module>")], [operand("made", "cpu", frames=(), created=[(path, 3, "f")]), operand("other", "cuda:1", frames=())])
    assert [each["code"] for each in found if each["kind"] == "device-at-creation"][0] == "made = torch.zeros(config.width, device=x.device)"
    assert not any("steps.device" in each["code"] or "config.device" in each["code"] for each in found)


def test_what_goes_to_the_cpu_is_told_however_it_is_said(tmp_path):
    path = program(tmp_path, "import torch\ndef f(model, x):\n    return model(x)\n")
    found = asked(tmp_path, [(path, 3, "f")], [operand("x", "cpu"), operand("model.weight", "cuda:0", role="parameter")])
    told = {each["code"]: each["to_cpu"] for each in found}
    assert told["return model.to(x.device)(x)"]
    assert [code for code, to_cpu in told.items() if not to_cpu and ".to(model." in code]


def test_an_edit_is_known_again_behind_another(tmp_path):
    text = "import torch\ndef f(device, w):\n    x = torch.zeros(3)\n    return x + w\n"
    path = program(tmp_path, text)
    edited = "# more\n" + text
    operands = [operand("x", "cpu", created=[(path, 3, "f")]), operand("w", "cuda:0")]
    later = [operand("x", "cpu", created=[(path, 4, "f")]), operand("w", "cuda:0")]
    first = asked(tmp_path, [(path, 4, "f")], operands)
    behind = asked(tmp_path, [(path, 5, "f")], later, texts={str(path): edited})
    assert [each["identity"] for each in first] == [each["identity"] for each in behind]
    assert len({each["identity"] for each in first}) == len(first)
    made = [each for each in first if each["code"].startswith("x = torch.zeros(3, device=")]
    assert len(made) > 1 and len({each["alternatives"] for each in made}) == 1
    assert len({each["asks"] for each in made}) == len(made)
    assert all((each["asks"] == "") == each["names_device"] for each in made)
    other = next(each for each in first if each["kind"] == "move-at-use")
    assert other["alternatives"] not in ("", made[0]["alternatives"])


@pytest.mark.parametrize(
    "made, called, wanted",
    [
        ("self.k = lambda x: self.w(x)", "self.k(x)", {"return (self.w(x))"}),
        ("two = lambda x: self.w(x)\n        self.k = two", "self.k(x)", {"two = lambda self, x: self.w(x)", "return self.k(self, x)"}),
        ("self.k = (lambda x: self.w(x)) if a else lambda: self.v", "self.k(x)", {"self.k = (lambda self, x: self.w(x)) if a else lambda self: self.v", "return self.k(self, x)"}),
        ("def two(x):\n            return self.w(x)\n        self.k = two", "self.k(x)", {"def two(self, x):", "return self.k(self, x)"}),
        ("two = lambda x: w(x)\n        self.k = two", "self.k(x)", set()),
        ("self.k = two if a else lambda x: self.w(x)", "self.k(x)", set()),
    ],
)  # fmt: skip
def test_a_closure_of_self(tmp_path, made, called, wanted):
    path = program(tmp_path, f"class N:\n    def setup(self, a):\n        {made}\n    def forward(self, x):\n        return {called}\n")
    stack = [(path, line_with(path, called), "N.forward")]
    found = asked(tmp_path, stack, [operand("x", "cuda:1"), operand("self.w.weight", "cuda:0")])
    assert {line.strip() for code in codes(found, "call-through-self") for line in code.split("\n")} == wanted


@pytest.mark.parametrize("python", [path for path, (minor, _) in interpreters().items() if minor in SUPPORTED])
def test_every_interpreter_makes_the_same_edits(tmp_path, python):
    path = program(tmp_path, "import torch\ndef f(w):\n    x = torch.zeros(3)\n    return g(*[x], w)\n")
    operands = [operand("x", "cpu", created=[(path, 3, "f")]), operand("w", "cuda:0")]
    mine, theirs = (asked(tmp_path, [(path, 4, "f")], operands, python=each) for each in (sys.executable, python))
    assert len(mine) > 3 and theirs == mine


# A function whose line makes `made`, refused two lines further; what may stand for the device in that line, and comes first.
WHERE_MADE = [
    # What the other operand was computed from, and lies there: no argument of the function does.
    ("def train(controller, optimizer, rate):\n    entropies = controller.sample()\n    made = torch.tensor(0.5).cuda()\n    return made + rate * entropies\n",
     "rate * entropies", "entropies", "torch.tensor(0.5).to(entropies.device)"),
    ("def row(lengths, count):\n    made = torch.arange(count, device=torch.cuda.current_device())\n    return made < lengths[:, None]\n",
     "lengths[:, None]", "lengths", "torch.arange(count, device=lengths.device)"),
    # The arguments that are used as tensors.
    ("def forward(ctx, means, settings):\n    height, width = settings\n    made = torch.zeros(3, device=\"cuda\")\n    near = torch.cdist(means, means)\n    ctx.save(near, made)\n    return near * made\n",
     None, None, "torch.zeros(3, device=means.device)"),
    ("def shift(table, steps, x):\n    made = torch.zeros(3)\n    for _ in range(steps):\n        x = x[:, None] + table[\"a\"]\n    return x + made\n",
     None, None, "torch.zeros(3, device=x.device)"),
    ("def weigh(options, rows: torch.Tensor):\n    made = torch.ones(options.count)\n    return made\n", None, None, "torch.ones(options.count, device=rows.device)"),
]  # fmt: skip


@pytest.mark.parametrize("text, expression, source_of, expected", WHERE_MADE, ids=lambda each: None)
def test_the_first_way_to_say_the_device_is_one_that_has_it(tmp_path, text, expression, source_of, expected):
    path = program(tmp_path, "import torch\n" + text)
    function = text[4 : text.index("(")]
    last = len(text.split("\n"))
    failing = last if expression else 1  # elsewhere, where the names of the function say nothing
    stack = [(path, failing, function if expression else "<module>")]
    made = operand("made", "cpu" if "cuda" not in text else "cuda:0", frames=(0,) if expression else (), created=[(path, line_with(path, "made ="), function)])
    other = operand("", "cuda:1", frames=(), expression=expression or "")
    if source_of:
        other["computed_from"] = [operand(source_of, "cuda:1")]
    found = asked(tmp_path, stack, [made, other])
    at_creation = [each for each in found if each["kind"] in ("device-at-creation", "redirect-move") and "made =" in each["code"]]
    assert at_creation[0]["code"].strip() == f"made = {expected}", [each["code"] for each in at_creation]


def test_torch_by_another_name(tmp_path):
    path = program(tmp_path, "import torch as th\ndef f(w):\n    x = th.zeros(3)\n    return x + w\n")
    found = asked(tmp_path, [(path, 4, "f")], [operand("x", "cpu", created=[(path, 3, "f")]), operand("w", "cuda:0")])
    assert "x = th.zeros(3, device=w.device)" in codes(found, "device-at-creation")


def test_torch_is_not_named_where_the_file_has_none(tmp_path):
    path = program(tmp_path, "def load(q):\n    q.put(b.cuda())\nThread(target=load)\ny = x + w\n")
    operands = [operand("x", "cuda:0", moved=[(path, 2, "load")]), operand("w", "cuda:1")]
    assert codes(asked(tmp_path, [(path, 4, "<module>")], operands), "set-device") == []


def test_what_the_failing_line_computed_is_not_moved_behind_it(tmp_path):
    path = program(tmp_path, "def f(x, w):\n    y = (x.exp() + w).sum()\n    return y\n")
    made = operand("", "cpu", frames=(), expression="x.exp()", created=[(path, 2, "f")])
    found = asked(tmp_path, [(path, 2, "f")], [made, operand("w", "cuda:0")])
    assert not [code for code in codes(found, "move-result") + codes(found, "device-at-creation") if ".sum().to(" in code]
    named = operand("x", "cpu", created=[(path, 2, "f")])  # of an earlier call: the same line gave it
    again = asked(tmp_path, [(path, 2, "f")], [named, operand("w", "cuda:0")])
    assert [code for code in codes(again, "move-result") if ".sum().to(" in code]


@pytest.mark.parametrize(
    ("text", "line", "new"),
    [
        ('net = Net()\nx = x.to("cuda:0")\ny = net(x)\n', 3, False),
        ('net = Net()\ny = net(x)\ndef other():\n    return zeros("cuda:0")\n', 2, True),
    ],
)
def test_a_device_that_the_same_function_names_is_not_new(tmp_path, text, line, new):
    path = program(tmp_path, text)
    state = operand("net.weight", "cpu", role="parameter", is_parameter=True)
    found = asked(tmp_path, [(path, line, "<module>")], [operand("x", "cuda:0"), state])
    made = [each for each in found if each["code"] == 'net = Net().to("cuda:0")']
    assert [each["names_new_device"] for each in made] == [new] and made[0]["names_device"]


def test_operands_that_two_lines_made_are_made_elsewhere_at_once(tmp_path):
    path = program(tmp_path, "import torch\ndef f(x):\n    a = torch.zeros(3)\n    b = torch.ones(3)\n    return x.clamp(a, b)\n")
    operands = [operand("x", "cuda:0"), operand("a", "cpu", created=[(path, 3, "f")]), operand("b", "cpu", created=[(path, 4, "f")])]
    found = asked(tmp_path, [(path, 5, "f")], operands)
    assert "a = torch.zeros(3, device=x.device)\nb = torch.ones(3, device=x.device)" in codes(found, "device-at-creation")


def test_a_module_goes_to_the_cpu_last(tmp_path):
    path = program(tmp_path, "net = Net()\ny = net(x)\n")
    state = operand("net.weight", "cuda:0", role="parameter", is_parameter=True)
    order = [each["to_cpu"] for each in asked(tmp_path, [(path, 2, "<module>")], [operand("x", "cpu"), state]) if not each["fallback"]]
    assert order == sorted(order) and True in order


ARGUMENTS = {
    "through two calls, from the place that names it": (
        "import torch\ndef made(n, where):\n    return torch.zeros(n, device=where)\ndef grid(n, device):\n    return made(n, device)\n"
        "def f(w):\n    x = grid(3, 'cpu')\n    return x + w\n",
        ["torch.zeros", "return made", "x = grid"], ["x = grid(3, w.device)"],
    ),
    "a constructor that keeps it": (
        "import torch\nclass Env:\n    def __init__(self, n, device='cpu'):\n        self.n, self.device = n, device\n        self.device = torch.device(device)\n"
        "    def reset(self):\n        return torch.zeros(self.n, device=self.device)\ndef f(w):\n    env = Env(3)\n    x = env.reset()\n    return x + w\n",
        ["torch.zeros", "x = env.reset"], ["env = Env(3, device=w.device)"],
    ),
    "a base class, by name where it was given by place": (
        "import torch\nclass Base:\n    def __init__(self, n, device='cpu'):\n        self.x = torch.zeros(n, device=device)\nclass Env(Base):\n"
        "    def __init__(self, n, w):\n        super().__init__(n)\n        y = self.x + w\n",
        ["torch.zeros", "super()"], ["super().__init__(n, device=w.device)"],
    ),
    "a class below the one that keeps it": (
        "import torch\nclass Base:\n    def __init__(self, n, seed=0, device='cpu'):\n        self.n = n\n        self.device = torch.device(device)\n"
        "    def state(self):\n        return torch.zeros(self.n, device=self.device)\nclass Env(Base):\n    def __init__(self, n, device):\n"
        "        super().__init__(n, device)\nclass Other(Base):\n    pass\ndef f(w):\n    x = Env(3, w.device).state()\n    Other(3)\n    return x + w\n",
        ["torch.zeros", "x = Env"], ["Other(3, device=w.device)", "super().__init__(n, device, device=device)"],
    ),
    "from a function that is given lists": (
        "import torch\ndef grid(n, device='cpu'):\n    return torch.zeros(n, device=device)\ndef f(scores):\n    w = torch.cat([each.flatten() for each in scores])\n"
        "    x = grid(len(scores))\n    return x + w\n",
        ["return torch.zeros", "x = grid"], ["x = grid(len(scores), device=w.device)", "x = grid(len(scores), device=scores[0].device)"],
    ),
    "a line that asks for no device": (
        "import torch\ndef grid(n, device='cpu'):\n    rows = torch.arange(n, device=device)\n    return torch.cat([rows, rows])\ndef f(w):\n    x = grid(3)\n"
        "    return x + w\n",
        ["torch.cat", "x = grid"], ["x = grid(3, device=w.device)"],
    ),
    "a function that another one called by another name": (
        "import torch\ndef grid(n, device='cpu'):\n    return torch.zeros(n, device=device)\nmake = grid\ndef f(w):\n    x = make(3)\n    return x + w\n",
        ["torch.zeros", "x = make"], [],
    ),
    "a type in the same place of .to()": (
        "import torch\ndef cast(x, to):\n    return x.to(to)\ndef f(a, w):\n    x = cast(a, a.dtype)\n    return x + w\n",
        ["x.to", "x = cast"], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", ARGUMENTS)
def test_a_device_is_given_where_a_call_leaves_it_out(tmp_path, form):
    text, stack, wanted = ARGUMENTS[form]
    path = program(tmp_path, text)
    failing = line_with(path, "+ w")
    operands = [operand("x", "cpu", created=[(path, line_with(path, each), "") for each in stack]), operand("w", "cuda:0")]
    found = codes(asked(tmp_path, [(path, failing, "f")], operands), "device-argument")
    assert [each for each in found if "cuda:" not in each][: len(wanted)] == wanted, found


def test_a_threads_device_is_one_that_the_program_names(tmp_path):
    text = "import threading, torch\nclass Batches:\n    def __init__(self, device):\n        self.device = device\n        threading.Thread(target=self.load)\n"
    text += "    def load(self):\n        self.q.put(torch.zeros(3).cuda())\ny = x + w\n"
    path = program(tmp_path, text)
    x = operand("x", "cuda:0", moved=[(path, 7, "Batches.load")])
    found = codes(asked(tmp_path, [(path, 8, "<module>")], [x, operand("w", "cuda:1")]), "set-device")
    assert found[0] == "torch.cuda.set_device(self.device)", found


def test_what_an_operand_was_computed_from_is_moved_too(tmp_path):
    path = program(tmp_path, "net = Net()\nlimit = load().to(torch.device(\"cuda\"))\ny = g(x, net.w.exp(), limit.exp())\n")
    weight = operand("net.w", "cpu", role="parameter", is_parameter=True)
    limit = operand("limit", "cuda:0", moved=[(path, 2, "<module>")])
    results = [operand("", "cpu", frames=(), computed_from=[weight]), operand("", "cuda:0", frames=(), computed_from=[limit])]
    found = asked(tmp_path, [(path, 3, "<module>")], [operand("x", "cuda:1"), *results])
    assert 'net = Net().to("cuda:1")' in codes(found, "move-module")
    assert 'limit = load().to("cuda:1")' in codes(found, "redirect-move")


# The function that fails in its last line, what it calls the operand on the CPU, and the edit that moves the whole.
BATCHES = [
    ("targets = sample()", 'targets[0]["boxes"]', "targets = [{key: value.to(w.device) for key, value in each.items()} for each in targets]"),
    ("a, b = sample()", "b", "a, b = [each.to(w.device) for each in sample()]"),
    ("batch = Pair(1, 2)", "batch.a", "batch = type(batch)(*(value.to(w.device) for value in batch))"),
    ("batch = Data(1, 2)", "batch.a", 'batch = type(batch)(**{**vars(batch), "a": batch.a.to(w.device)})'),
    ("batch = Own()", "batch.a", "batch = Own().to(w.device)"),
    ("batch = Kept()", "batch.k", None),
]


@pytest.mark.parametrize(("line", "name", "wanted"), BATCHES, ids=[name for _, name, _ in BATCHES])
def test_the_whole_batch_is_moved_where_it_comes_in(tmp_path, line, name, wanted):
    classes = (
        "class Pair(NamedTuple):\n    a: torch.Tensor\n    b: torch.Tensor\n@dataclass\nclass Data:\n    a: torch.Tensor\n    n: int\n"
        "class Kept:\n    def __init__(self):\n        self.k = 1\n"
    )
    own = "class Own:\n    a: object\n    def to(self, device):\n        pass\n" if "Own" in line else ""
    path = program(tmp_path, f"{classes}{own}def f(w):\n    {line}\n    return use(w)\n")
    found = asked(tmp_path, [(path, line_with(path, "use(w)"), "f")], [operand(name, "cpu"), operand("w", "cuda:0")])
    assert codes(found, "move-batch")[:1] == ([wanted] if wanted else [])


# What stands for the device in the line `made = …` of a method, where nothing of that line has one.
SAID = [
    ("self.device = device", "", "self.device"),
    ("self.args = args\n        print(args.device)", "", "self.args.device"),
    ("pass", "    @property\n    def device(self):\n        return 1\n", "self.device"),
]


@pytest.mark.parametrize(("line", "more", "wanted"), SAID, ids=[wanted for _, _, wanted in SAID])
def test_an_expression_of_the_object_comes_before_a_number(tmp_path, line, more, wanted):
    text = f"import torch\nclass A:\n    def __init__(self, device, args):\n        {line}\n{more}    def make(self):\n        made = torch.zeros(3)\n        return made\n"
    path = program(tmp_path, text + "y = x + w\n")
    operands = [operand("made", "cpu", frames=(), created=[(path, line_with(path, "made ="), "A.make")]), operand("w", "cuda:0")]
    found = asked(tmp_path, [(path, line_with(path, "x + w"), "<module>")], operands)
    assert codes(found, "device-at-creation")[0] == f"made = torch.zeros(3, device={wanted})"


def test_nothing_goes_to_meta_and_what_hooks_bring_is_not_moved(tmp_path):
    path = program(tmp_path, "def f(x, w):\n    return x + w\n")
    found = asked(tmp_path, [(path, 2, "f")], [operand("x", "cuda:0"), operand("w", "meta", role="parameter", hook="AlignDevicesHook")])
    assert not any('"meta"' in each["code"] or ".to(w.device)" in each["code"] or "w.to(" in each["code"] for each in found)


def test_a_name_that_is_used_again_is_moved_where_it_is_given(tmp_path):
    path = program(tmp_path, "def made():\n    return load()\ndef f(w):\n    x = made()\n    y = x + w\n    return y * x\n")
    found = asked(tmp_path, [(path, 5, "f")], [operand("x", "cpu", created=[(path, 2, "made"), (path, 4, "f")]), operand("w", "cuda:0")])
    moved = next(each for each in found if each["code"] == "x = made().to(w.device)")
    assert not moved["at_use"]


def test_what_the_finding_knows_of_a_line_is_said_in_the_place_of_a_number(tmp_path):
    path = program(tmp_path, "import torch\ndef train(task, labels):\n    out = task(labels)\n    return out - labels\ndef read(path):\n    return torch.load(path)\n")
    used, load = line_with(path, "out - labels"), line_with(path, "torch.load")
    said = [{"frame": 0, "expression": "task.last", "device": "cuda:1"}]
    step = {"what": "made", "line": {"file": str(path), "line": load}, "devices": [{"expression": "model.device", "device": "cuda:1"}]}
    labels = operand("labels", "cpu", created=[(path, load, "read")], lineage=[step])
    hidden = {"role": "temporary", "device": "cuda:1", "names": []}
    found = asked(tmp_path, [(path, used, "train")], [labels, hidden], expressions=said)
    assert "return out - labels.to(task.last)" in codes(found, "move-at-use")
    assert "return torch.load(path, map_location=model.device)" in codes(found, "map-location")
    assert [each["code"] for each in found if '"cuda:1"' in each["code"] and each["kind"] in ("move-at-use", "map-location")] == []


def test_no_device_is_given_to_what_a_loader_calls(tmp_path):
    path = program(tmp_path, "import torch\ndef collate(samples):\n    return torch.zeros(len(samples))\ndef run(loader, x):\n    for mask in loader:\n        print(x * mask)\n")
    made, loop, used = (line_with(path, text) for text in ("torch.zeros", "for mask", "x * mask"))
    fetch = ("/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py", 57, "fetch")
    mask = operand("mask", "cpu", created=[(path, made, "collate"), fetch, (path, loop, "run")])
    found = asked(tmp_path, [(path, used, "run")], [operand("x", "cuda:0"), mask])
    assert "print(x * mask.to(x.device))" in codes(found, "move-at-use")
    assert [each["code"] for each in found if each["line"] == made] == []


def test_nothing_is_called_a_second_time_for_its_device(tmp_path):
    path = program(tmp_path, "def run(self):\n    return self.embed(draw(3))\n")
    weight = operand("self.embed.weight", "cuda:1", role="parameter", is_parameter=True)
    found = asked(tmp_path, [(path, line_with(path, "draw"), "run")], [operand("draw(3)", "cuda:0"), weight])
    assert [each["code"] for each in found if each["code"].count("draw(3)") > 1] == []
