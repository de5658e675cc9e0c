"""Where a tensor was created and moved: the kinds of memory that tensors come from. What the log carries for a time line:
who chose the thread's device, when copies began, and the lines around the user's own."""

import pytest
from conftest import line_of, operand


def origin(outcome, device, event):
    python = operand(outcome.finding, device)[event]["python"]
    return next(frame["line"] for frame in python if frame.get("project"))


REFUSED = """
left = torch.ones(4, device="cuda:0")
torch.cat([left, {}])
"""

CREATED = {  # how `other`, which lies on the CPU, is made at the line CREATED
    "a tensor": "other = torch.ones(4)  # CREATED",
    "a view inside another tensor": """
base = torch.ones(100, 4)  # CREATED
other = base[7]
""",
    "a file of weights (safetensors)": """
import safetensors.torch
safetensors.torch.save_file({"first": torch.ones(1000), "other": torch.ones(4)}, "weights.safetensors")
other = safetensors.torch.load_file("weights.safetensors")["other"]  # CREATED
""",
    "a file of weights (torch.load, mapped)": """
torch.save({"first": torch.ones(1000), "other": torch.ones(4)}, "weights.pt")
other = torch.load("weights.pt", mmap=True)["other"]  # CREATED
""",
    "memory shared by another process": """
import torch.multiprocessing
def fill(queue):
    queue.put(torch.ones(4))
    queue.join()
context = torch.multiprocessing.get_context("fork")
queue = context.JoinableQueue()
worker = context.Process(target=fill, args=(queue,))
worker.start()
other = queue.get()  # CREATED
queue.task_done()
worker.join()
""",
}


@pytest.mark.parametrize("how", CREATED)
def test_created(rehearse, how):
    outcome = rehearse("import torch\n" + CREATED[how] + REFUSED.format("other"))
    assert origin(outcome, "cpu", "created") == line_of(outcome, "CREATED")


@pytest.mark.parametrize("how", CREATED)
def test_moved(rehearse, how):
    outcome = rehearse(
        "import torch\n" + CREATED[how] + "\nthere = other.to('cuda:1')  # MOVED" + REFUSED.format("there"))
    moved = operand(outcome.finding, "cuda:1")["moved"]
    assert (moved["from"], moved["to"]) == ("cpu", "cuda:1")
    assert origin(outcome, "cuda:1", "moved") == line_of(outcome, "MOVED")
    assert origin(outcome, "cuda:1", "created") == line_of(outcome, "CREATED")


def test_a_file_that_is_no_longer_mapped_is_forgotten(rehearse):
    """The next memory at the same place must not be called the file's."""
    outcome = rehearse(
        """
        import ctypes, mmap, numpy, torch
        torch.save(torch.ones(1 << 20), "weights.pt")
        weights = torch.load("weights.pt", mmap=True)
        start, size = weights.untyped_storage().data_ptr() & ~4095, 4 << 20
        del weights
        libc = ctypes.CDLL(None)
        libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
        MAP_FIXED = 0x10
        assert libc.mmap(start, size, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start
        memory = (ctypes.c_float * 16).from_address(start + 4096)
        other = torch.from_numpy(numpy.frombuffer(memory, dtype=numpy.float32))
        torch.cat([torch.ones(16, device="cuda:0"), other])
        """
    )
    assert "created" not in operand(outcome.finding, "cpu")


PROGRAM = """
import threading, torch

def work():
    torch.cuda.set_device(1)  # FIRST
    left = torch.ones(3, device="cuda:0")
    right = torch.ones(3)
    for _ in range(20):
        there = right.to("cuda:1")  # COPY
    torch.cuda.set_device(0)  # SECOND
    with torch.cuda.device(1):  # BLOCK
        pass
    total = left + there  # HERE
    print(total)

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_what_a_time_line_is_drawn_from(rehearse):
    outcome = rehearse(PROGRAM)
    finding = outcome.finding
    changes = finding["device_changes"]
    own = [next(frame for frame in change["python"] if frame.get("project")) for change in changes]
    marks = [("# FIRST", "cuda:1"), ("# SECOND", "cuda:0"), ("# BLOCK", "cuda:1"), ("# BLOCK", "cuda:0")]
    expected = [(line_of(outcome, mark), device) for mark, device in marks]
    assert [(frame["line"], change["device"]) for frame, change in zip(own, changes)] == expected, "PyTorch's own guards are no changes"
    assert [change["time"] for change in changes] == sorted(change["time"] for change in changes)

    copies = [record for record in outcome.records if record["record"] == "traffic" and record["to"] == "cuda:1"]
    assert [record["copies"] for record in copies] == [20]
    assert copies[0]["first"]["thread"] == finding["thread"]
    assert changes[0]["time"] - 1 < copies[0]["first"]["time"] <= finding["time"] + 0.1


def test_the_lines_around_the_users_own(rehearse):
    above = 24
    outcome = rehearse("#\n" * above + PROGRAM)
    frame = next(frame for frame in outcome.finding["python"] if frame.get("project"))
    here = line_of(outcome, "# HERE")
    assert frame["around"]["line"] == here - above
    lines = frame["around"]["text"].split("\n")
    assert lines[above : above + 2] == ["    total = left + there  # HERE", "    print(total)"]
    assert lines[above - 2] == "    with torch.cuda.device(1):  # BLOCK" and lines[above + 3].startswith("thread = ")
    others = [frame for frame in outcome.finding["python"] if not frame.get("project")]
    assert others and all("around" not in frame for frame in others)
    moved = next(one for one in outcome.finding["operands"] if "moved" in one)["moved"]["python"]
    assert "# COPY" in moved[0]["around"]["text"]


def test_without_sources_there_is_nothing_around(rehearse):
    outcome = rehearse(PROGRAM, options="source=0")
    assert "around" not in str(outcome.finding["python"])


GUARDS = """
import torch
x, y = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
for _ in range(8):
    (torch.ones(3, device="cuda:1") + 1).sum()
def refused(operation):
    try:
        operation(x, y)
    except RuntimeError:
        pass
refused(torch.add)
with torch.cuda.device(1):  # WITH
    refused(torch.sub)
    (torch.ones(3, device="cuda:0") + 1).sum()
    refused(torch.mul)
refused(torch.div)
torch.cuda.set_device(1)  # ONE
torch.cuda.set_device(0)  # ZERO
(torch.ones(3, device="cuda:1") + 1).sum()
refused(torch.maximum)
"""


def test_guards_leave_no_trace_and_what_outlasts_its_line_does(rehearse):
    """Once it is known who they are, no stack is taken of guards: the first ones of a process are all that teaches that."""
    outcome = rehearse(GUARDS)
    lines = {mark: line_of(outcome, f"# {mark}") for mark in ("WITH", "ONE", "ZERO")}

    def changes(finding):
        return [(change["device"], next(frame["line"] for frame in change["python"] if frame.get("project"))) for change in finding.get("device_changes", [])]

    within = [("cuda:1", lines["WITH"])]
    after = [*within, ("cuda:0", lines["WITH"])]
    expected = [[], within, within, after, [*after, ("cuda:1", lines["ONE"]), ("cuda:0", lines["ZERO"])]]
    assert [changes(finding) for finding in outcome.findings] == expected
    assert [finding["current_device"] for finding in outcome.findings] == ["cuda:0", "cuda:1", "cuda:1", "cuda:0", "cuda:0"]


def test_a_guard_around_the_refused_operation_is_no_choice(rehearse):
    """PyTorch makes an operand's device current while it checks: the user chose nothing."""
    outcome = rehearse("import torch\ntorch.ones(3, device='cuda:1') + torch.ones(3, device='cuda:0')\n")
    assert "device_changes" not in outcome.finding


def steps_of(one: dict) -> list[tuple]:
    """What was done at which line of the program, and what means the other device there."""
    return [(each["what"], each["line"]["line"], {word["device"]: word["expression"] for word in each.get("devices", [])}) for each in one.get("lineage", [])]


PASSED = {  # how `mask`, which lies on the CPU, gets where it meets `images`; the steps, and what says cuda:0 there
    "made in a function that has returned: what it was given": ("""
def mask_for(batch, scale):
    return torch.ones(len(batch)) * scale  # MADE
class Blend:
    def run(self, images, factor):
        mask = mask_for(images, factor)  # RETURNED
        return torch.where(mask > 0, images, images * 2)  # LINE
Blend().run(torch.ones(4, device="cuda:0"), 1.0)
""", {"MADE": ("made", "batch.device"), "RETURNED": ("returned", "images.device")}),
    "two calls further in, through a method and a list": ("""
class Maker:
    def __init__(self):
        self.state = torch.ones(1)
    def outer(self, batches):
        return self.inner(sizes=[4], first=batches[0])
    def inner(self, sizes, first):
        return torch.ones(sizes)  # MADE
def run(images):
    maker = Maker()
    batches = [images]
    mask = maker.outer(batches)  # RETURNED
    return torch.where(mask > 0, images, images * 2)  # LINE
run(torch.ones(4, device="cuda:0"))
""", {"MADE": ("made", "first.device"), "RETURNED": ("returned", "images.device")}),
    "through a module's forward": ("""
class Masks(torch.nn.Module):
    def forward(self, batch, *, dims=1):
        return torch.ones(len(batch))  # MADE
def run(images):
    masks = Masks()
    mask = masks(images, dims=2)  # RETURNED
    return torch.where(mask > 0, images, images * 2)  # LINE
run(torch.ones(4, device="cuda:0"))
""", {"MADE": ("made", "batch.device"), "RETURNED": ("returned", "images.device")}),
    "where a line of its own gives a keyword of that name": ("""
def count(batch):
    return len(batch)
def mask_for(batch):
    size = count(
        batch=batch,
    )
    return torch.ones(size)  # MADE
def run(images):
    mask = mask_for(images)  # RETURNED
    return torch.where(mask > 0, images, images * 2)  # LINE
run(torch.ones(4, device="cuda:0"))
""", {"MADE": ("made", "batch.device"), "RETURNED": ("returned", "images.device")}),
    "where the name has another value since": ("""
def run(images):
    other = images
    mask = torch.ones(4)  # MADE
    other = mask
    images = images * 2
    return torch.where(mask > 0, images, images * 2)  # LINE
run(torch.ones(4, device="cuda:0"))
""", {"MADE": ("made", None)}),
    "a device that the file keeps": ("""
DEVICE = torch.device("cuda:0")
def mask_for(count):
    return torch.ones(count)  # MADE
def run(images):
    mask = mask_for(4)  # RETURNED
    return torch.where(mask > 0, images, images * 2)  # LINE
run(torch.ones(4, device=DEVICE))
""", {"MADE": ("made", "DEVICE"), "RETURNED": ("returned", "images.device")}),
    "handed on by a function that has returned, too": ("""
def ones(count):
    return torch.ones(count)  # MADE
def mask_for(batch):
    return ones(len(batch))  # HANDED ON
def run(images):
    mask = mask_for(images)  # RETURNED
    return torch.where(mask > 0, images, images * 2)  # LINE
run(torch.ones(4, device="cuda:0"))
""", {"MADE": ("made", None), "HANDED ON": ("returned", "batch.device"), "RETURNED": ("returned", "images.device")}),
    "in a dict that a call has given": ("""
import numpy
def prepared(count):
    return {"mask": torch.from_numpy(numpy.ones(count)), "count": count}
def run(images):
    batch = prepared(4)  # GIVEN
    return torch.where(batch["mask"] > 0, images, images * 2)  # LINE
run(torch.ones(4, device="cuda:0"))
""", {"GIVEN": ("assigned", "images.device")}),
    "in a dict that a line stores it in": ("""
import numpy
def run(images):
    masks = {}
    for name in ("first", "second"):
        masks[name] = torch.from_numpy(numpy.ones(4))  # STORED
    return torch.where(masks["first"] > 0, images, images * 2)  # LINE
run(torch.ones(4, device="cuda:0"))
""", {"STORED": ("assigned", "images.device")}),
    "in a variable that had another value": ("""
import numpy
def run(images, mask):
    if mask is None:
        mask = [1] * 4
    mask = torch.from_numpy(numpy.array(mask))  # ASSIGNED
    return torch.where(mask > 0, images, images * 2)  # LINE
run(torch.ones(4, device="cuda:0"), None)
""", {"ASSIGNED": ("assigned", "images.device")}),
    "left beside what a batch moves": ("""
from dataclasses import dataclass, replace
@dataclass
class Batch:
    images: torch.Tensor
    mask: torch.Tensor
    def to(self, device):
        return replace(self, images=self.images.to(device))  # LEFT
def run(batch):
    return torch.where(batch.mask > 0, batch.images, batch.images * 2)  # LINE
run(Batch(torch.ones(4), torch.ones(4)).to("cuda:0"))
""", {"LEFT": ("left", None)}),
}  # fmt: skip


def test_a_variable_that_may_have_either_value_has_no_line(rehearse):
    outcome = rehearse("""
        import numpy, torch
        def run(images, many):
            if many:
                mask = torch.from_numpy(numpy.ones(4))
            else:
                mask = torch.from_numpy(numpy.zeros(4))
            return torch.where(mask > 0, images, images * 2)
        run(torch.ones(4, device="cuda:0"), True)
        """)
    steps = [step for each in outcome.finding["operands"] for one in [each, *each.get("computed_from", [])] for step in steps_of(one)]
    assert not [step for step in steps if step[0] == "assigned"]


@pytest.mark.parametrize("how", PASSED)
def test_passed(rehearse, how):
    program, wanted = PASSED[how]
    outcome = rehearse("import torch\n" + program)
    steps = steps_of(next(each for each in outcome.finding["operands"] if each.get("device") == "cpu" and "mask" in str(each.get("name", each.get("expression")))))
    sources = [step for each in outcome.finding["operands"] for source in each.get("computed_from", []) for step in steps_of(source)]
    for mark, (what, expression) in wanted.items():
        line = line_of(outcome, mark)
        found = [step for step in steps + sources if step[:2] == (what, line)]
        assert found, (mark, steps, sources)
        assert found[0][2].get("cuda:0") == expression
