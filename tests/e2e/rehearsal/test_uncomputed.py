"""What is not computed is never taken for a result: told where the host first reads it."""

import re
import sys

import pytest
from conftest import DEVTRACE, environment, execute, start_snippets
from kernel_programs import LAUNCH

# `out` is what a kernel should have written that nobody computes; `line()` begins the line that the last statement should be told by.
TENSORS = LAUNCH + """
import torch
torch.cuda.init()
before, x, out, behind = (torch.ones(1000, device="cuda:0") for _ in range(4))
launch("NAME", x.data_ptr(), out.data_ptr())
"""
TOLD = {
    "item": "out.sum().item()",
    "cpu": "out.cpu()",
    "a_part": "out[3:5].tolist()",
    "printed": "print(out)",
    "compared": "if out[0] > 0: pass",
    "all_close": "torch.allclose(out, x)",
    "equal": "torch.equal(out, x)",
    "indices": "out.nonzero()",
    "a_mask": "x[out > 0]",
    "added_to": "x.add_(out); x.cpu()",
    "another_device": "y = out.to('cuda:1')\ny.tolist()",
    "a_graph": """
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = out * 2
graph.replay()
y.cpu()""",
    "within_a_graph": """
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = torch.zeros(1000, device="cuda:0")
    launch("within_a_graph", x.data_ptr(), y.data_ptr(), torch.cuda.current_stream().cuda_stream)
    z = y + 1
graph.replay()
z.cpu()""",
    "column": "table = torch.zeros(1000, 2, device='cuda:0'); table[:, 1] = out; table[5, 1].item()",
    "backward": "w = torch.ones(1000, device='cuda:0', requires_grad=True); (w * out).sum().backward(); w.grad.cpu()",
    "pinned": "y = torch.empty(1000, pin_memory=True); y.copy_(out, non_blocking=True)",
    "of_float16": "out.half().cpu()",
    "several": "a, b = torch.aminmax(torch.stack([x, out]), dim=1); b.cpu()",
}
CLEAN = {
    "what_it_reads": "x.cpu()",
    "its_neighbours": "before.cpu(), behind.cpu()",
    "other_columns": "table = torch.zeros(1000, 2, device='cuda:0'); table[:, 1] = out; table[:, 0].cpu()",
    "allocated_anew": "at = out.data_ptr(); del out; y = torch.empty(1000, device='cuda:0'); y.mul_(1); assert y.data_ptr() == at; y.cpu()",
    "filled": "out.fill_(2); out.cpu()",
    "zeroed": "out.zero_(); out.cpu()",
    "copied_to": "out.copy_(x); out.cpu()",
    "from_the_host": "out.copy_(torch.ones(1000)); out.cpu()",
    "written_by_out": "torch.add(x, x, out=out); out.cpu()",
    "random": "out.normal_(); out.cpu()",
    "its_shape": "torch.zeros_like(out).cpu(); torch.rand_like(out).cpu(); out.shape",
    "in_pieces": "out[:600] = 1; out[600:] = 2; out.cpu()",
    "by_columns": "t = out.view(500, 2); t[:, 0] = 1; t[:, 1] = 2; out.cpu()",
    "not_read": "y = out * 2",
    "before_it_in_a_graph": """
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = x + 1
    launch("before_it_in_a_graph", x.data_ptr(), x.data_ptr(), torch.cuda.current_stream().cuda_stream)
graph.replay()
y.cpu()""",
}


def lines(outcome) -> list[tuple[str, int, str]]:
    """File, line and kernel or operator of each line that tells of a read."""
    return [
        (where.rpartition("/")[2], int(number), what)
        for where, number, what in re.findall(r"^devtrace: (.*):(\d+): the host reads what (.*) should have written", outcome.err, re.MULTILINE)
    ]


WAYS = {"C++": {}, "Python": {"DEVTRACE_SIM_VALUES": "python"}, "behind the host": {"DEVTRACE_SIM_ASYNC": "7"}}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_told_and_what_is_not(tmp_path, way):
    programs = {**TOLD, **CLEAN}
    if way == "Python":  # the blocks of a PyTorch that devtrace was not built beside are not known
        del programs["allocated_anew"]
    snippets = {name: TENSORS.replace("NAME", name) + code.strip() for name, code in programs.items()}
    outcome, _ = start_snippets(snippets, tmp_path, env=WAYS[way])
    assert outcome.code == 0, outcome.err
    assert lines(outcome) == [(f"{name}.py", snippets[name].count("\n") + 1, f"kernel {name}") for name in TOLD], outcome.err


STREAMED = TENSORS.replace("NAME", "told_once") + """
print("so far")
for _ in range(3):
    launch("told_once", x.data_ptr(), out.data_ptr())
    total = out.sum().item()
print("behind it", total, x.sum().item(), behind.sum().item())
"""


def rehearse(folder, source, *options):
    (folder / "program.py").write_text(source)
    return execute([DEVTRACE, "rehearse", "--gpus", 2, *options, "--", sys.executable, "program.py"], folder, environment(None))


def test_once_for_each_kernel(tmp_path):
    outcome = rehearse(tmp_path, STREAMED)
    assert outcome.code == 0 and outcome.out == "so far\nbehind it 1000.0 1000.0 1000.0\n", outcome.err
    assert lines(outcome) == [("program.py", STREAMED.count("\n") - 1, "kernel told_once")]
    assert "it is what lay in memory" in outcome.err


def test_a_thread_without_a_line_of_the_program(tmp_path):
    """As the one that pins a DataLoader's batches: the main thread's line is where to look."""
    source = TENSORS.replace("NAME", "elsewhere") + "import threading\nthread = threading.Thread(target=out.tolist)\nthread.start()\nthread.join()\n"
    outcome = rehearse(tmp_path, source)
    assert re.search(r"^devtrace: a thread beside \S*program\.py:\d+: the host reads what kernel elsewhere", outcome.err, re.MULTILINE), outcome.err


def test_poison(tmp_path):
    outcome = rehearse(tmp_path, STREAMED, "--poison")
    assert outcome.code == 0 and outcome.out == "so far\nbehind it nan 1000.0 1000.0\n", outcome.err
    assert len(lines(outcome)) == 1 and "it is poison" in outcome.err


def test_strict_ends_the_program_at_the_read(tmp_path):
    outcome = rehearse(tmp_path, STREAMED, "--strict")
    assert outcome.code == 65 and outcome.out == "so far\n", outcome.err
    assert lines(outcome) == [("program.py", STREAMED.count("\n") - 1, "kernel told_once")]
    assert "the program ends here, with exit status 65 (--strict)" in outcome.err


def test_strict_lets_run_what_is_not_read(tmp_path):
    outcome = rehearse(tmp_path, TENSORS.replace("NAME", "not_read") + CLEAN["what_it_reads"] + "\n" + CLEAN["not_read"], "--strict")
    assert outcome.code == 0 and lines(outcome) == [], outcome.err


def test_options_that_contradict(tmp_path):
    for option in ("--strict", "--poison"):
        outcome = rehearse(tmp_path, "", "--no-values", option)
        assert outcome.code == 2 and "excludes" in outcome.err


# No PyTorch: the driver's own copies and fills.
DRIVER = LAUNCH + """
do("cuInit", 0)
context = ctypes.c_void_p()
do("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
do("cuCtxSetCurrent", context)
size, host = ctypes.c_size_t(4096), ctypes.create_string_buffer(4096)
def allocate(*how):
    made = ctypes.c_uint64()
    do("cuMemAllocManaged" if how else "cuMemAlloc_v2", ctypes.byref(made), size, *how)
    return made
def read(address):
    do("cuMemcpyDtoH_v2", host, address, size)
source, other = allocate(), allocate()
def written(name):
    target = allocate()
    launch(name, source.value, target.value)
    return target
a = written("read_by_copy")
read(source)
read(a)
b = written("copied_on_the_device")
do("cuMemcpyDtoD_v2", other, b, size)
read(other)
c = written("filled")
do("cuMemsetD8_v2", c, 1, size)
read(c)
d = written("copied_to")
do("cuMemcpyHtoD_v2", d, host, size)
read(d)
e = written("freed")
do("cuMemFree_v2", e)
f = allocate()
assert f.value == e.value
read(f)
g = allocate(1)
launch("managed", source.value, g.value)
do("cuCtxSynchronize")
"""


def test_without_pytorch(tmp_path):
    outcome = rehearse(tmp_path, DRIVER)
    assert outcome.code == 0, outcome.err
    call = DRIVER.split("\n").index("    error = getattr(cuda, name)(*arguments)") + 1
    assert lines(outcome) == [("program.py", call, f"kernel {name}") for name in ("read_by_copy", "copied_on_the_device", "managed")], outcome.err


# One that the CPU has for no such type.
OPERATOR = """
import torch
y = torch.nansum(torch.ones(64, device="cuda:0", dtype=torch.complex32))
print(torch.view_as_real(y).isnan().all().item())
"""


def test_an_operator(tmp_path):
    outcome = rehearse(tmp_path, OPERATOR, "--poison")
    assert outcome.code == 0 and outcome.out == "True\n", outcome.err
    assert lines(outcome) == [("program.py", 4, "operator aten::nansum")]


# How a process ends that does not come to its list.
WITHOUT_A_LIST = LAUNCH + """
import os, signal, sys
import torch
def work(name, end):
    x = torch.ones(8, device="cuda:0")
    launch(name, x.data_ptr(), x.data_ptr())
    end()
ends = {"killed": lambda: os.kill(os.getpid(), signal.SIGKILL), "left": lambda: os._exit(0), "listed": lambda: sys.exit(0)}
for name, end in ends.items():
    child = os.fork()
    if child == 0:
        work(name, end)
    os.waitpid(child, 0)
    print(child, flush=True)
"""


def test_what_a_process_that_is_killed_has_not_computed_is_listed(tmp_path):
    outcome = rehearse(tmp_path, WITHOUT_A_LIST)
    killed, left, _ = outcome.out.split()
    lists = re.findall(r"^devtrace: not computed in (.*?)(?:, results.*|, which ended without saying so):\n((?:devtrace:   .*\n)+)", outcome.err, re.MULTILINE)
    kernels = sorted((process, re.findall("kernel (.*?)(?: .*)?\n", names)) for process, names in lists)
    assert kernels == sorted([(f"process {killed}", ["killed"]), (f"process {left}", ["left"]), ("this rehearsal", ["listed"])]), outcome.err
