"""Kernels that a rehearsal computes by their PTX: what they store, where they fault, and which it leaves alone."""

import pytest
from conftest import DEVTRACE, environment, execute
from kernel_programs import LAUNCH

# A program of the driver's functions. `run(ptx, name, grid, block, *arguments)`; `give(list)` and `take(address, count)` copy numbers of 32 bits.
PROGRAM = """
import array, ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def do(name, *arguments):
    error = getattr(cuda, name)(*arguments)
    assert error == 0, (name, error)
contexts = {}
def use(device):
    if device not in contexts:
        contexts[device] = ctypes.c_void_p()
        do("cuDevicePrimaryCtxRetain", ctypes.byref(contexts[device]), device)
    do("cuCtxSetCurrent", contexts[device])
def memory(count):
    address = ctypes.c_uint64()
    do("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(4 * count))
    return address.value
def give(values):
    address, words = memory(len(values)), (ctypes.c_uint32 * len(values))(*values)
    do("cuMemcpyHtoD_v2", ctypes.c_uint64(address), words, ctypes.c_size_t(4 * len(values)))
    return address
def take(address, count):
    words = (ctypes.c_uint32 * count)()
    do("cuMemcpyDtoH_v2", words, ctypes.c_uint64(address), ctypes.c_size_t(4 * count))
    return list(words)
HEAD = ".version 7.8\\n.target sm_75\\n.address_size 64\\n"
def load(ptx):
    module = ctypes.c_void_p()
    do("cuModuleLoadData", ctypes.byref(module), ptx.encode())
    return module
def launch(module, name, grid, block, *arguments, stream=None):
    function = ctypes.c_void_p()
    do("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
    words = [ctypes.c_uint64(each) for each in arguments]
    pointers = (ctypes.c_void_p * len(words))(*(ctypes.addressof(each) for each in words))
    return cuda.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, pointers, None)
do("cuInit", 0)
use(0)
"""

# to[i] = from[i] + the module's number.
ADD = '''
ADD = HEAD + """
.const .align 4 .u32 number = 5;
.visible .entry add(.param .u64 from, .param .u64 to) {
  .reg .b64 %rd<6>; .reg .b32 %r<6>;
  .loc 1 12 3
  ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to];
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r2, %r3, %r1;
  mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r4, [%rd4]; ld.const.u32 %r5, [number]; add.u32 %r4, %r4, %r5;
  .loc 1 14 9
  st.global.u32 [%rd5], %r4;
  ret;
}
.file 1 "adding.cu"
"""
'''


def test_what_a_kernel_stores_is_there(rehearse):
    outcome = rehearse(
        PROGRAM
        + ADD
        + "a, b = give(range(1000)), memory(1000)\nassert launch(load(ADD), 'add', 10, 100, a, b) == 0\nassert take(b, 1000) == list(range(5, 1005))"
    )
    assert outcome.code == 0 and "not computed" not in outcome.err and outcome.findings == [], outcome.err


def test_variables_are_each_devices_own(rehearse):
    outcome = rehearse(
        PROGRAM
        + ADD
        + """
        module = load(ADD)
        for device in 0, 1:
            use(device)
            a, b = give([1] * 8), memory(8)
            if device:
                at, size = ctypes.c_uint64(), ctypes.c_size_t()
                do("cuModuleGetGlobal_v2", ctypes.byref(at), ctypes.byref(size), module, b"number")
                do("cuMemcpyHtoD_v2", at, ctypes.byref(ctypes.c_uint32(7)), ctypes.c_size_t(4))
            launch(module, "add", 1, 8, a, b)
            print(take(b, 8)[0])
        """.replace("\n        ", "\n")
    )
    assert outcome.code == 0 and outcome.out.split() == ["6", "8"], outcome.err


LINKED = """
state, image, size, module = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_void_p()
PTX = 1
do("cuLinkCreate_v2", 0, None, None, ctypes.byref(state))
def add(text):
    return cuda.cuLinkAddData_v2(state, PTX, text.encode(), ctypes.c_size_t(len(text)), b"adding.ptx", 0, None, None)
assert add("nothing of the kind") == 200
assert cuda.cuLinkComplete(state, ctypes.byref(image), ctypes.byref(size)) == 200
assert add(ADD) == 0
assert add(ADD) == 0
assert cuda.cuLinkComplete(state, ctypes.byref(image), ctypes.byref(size)) == 218, "two kernels of one name"
do("cuLinkDestroy", state)
do("cuLinkCreate_v2", 0, None, None, ctypes.byref(state))
assert add(ADD) == 0
if several:
    assert add(ADD.replace("entry add", "entry another")) == 0
do("cuLinkComplete", state, ctypes.byref(image), ctypes.byref(size))
do("cuModuleLoadData", ctypes.byref(module), image)
do("cuLinkDestroy", state)
a, b = give(range(32)), memory(32)
launch(module, "add", 1, 32, a, b)
assert take(b, 32) == list(range(5, 37))
"""


@pytest.mark.parametrize("several", [False, True], ids=["one", "several"])
def test_what_the_drivers_linker_is_given(rehearse, several):
    outcome = rehearse(PROGRAM + ADD + f"several = {several}\n" + LINKED)
    assert outcome.code == 0 and "not computed" not in outcome.err, outcome.err
    assert "cuLinkComplete: add is defined twice" in outcome.err


GRAPH = """
stream, graph, executable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
do("cuStreamCreate", ctypes.byref(stream), 1)
a, b, module = give(range(32)), memory(32), load(ADD)
do("cuStreamBeginCapture_v2", stream, 0)
launch(module, "add", 1, 32, a, b, stream=stream)
launch(module, "add", 1, 32, b, a, stream=stream)
do("cuStreamEndCapture", stream, ctypes.byref(graph))
do("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
for _ in range(3):
    do("cuGraphLaunch", executable, stream)
do("cuStreamSynchronize", stream)
assert take(a, 32) == list(range(30, 62)), take(a, 32)
"""


@pytest.mark.parametrize("env", [{}, {"DEVTRACE_SIM_ASYNC": "3"}], ids=["at_once", "async"])
def test_nodes_of_graphs(rehearse, env):
    outcome = rehearse(PROGRAM + ADD + GRAPH, env=env)
    assert outcome.code == 0 and "not computed" not in outcome.err, outcome.err


# Replays compute operators one by one.
BETWEEN_OPERATORS = LAUNCH + """
import torch
x, graph, seen = torch.zeros(32, device="cuda:0"), torch.cuda.CUDAGraph(), []
look = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda address: seen.append(ctypes.c_float.from_address(address).value))
at = lambda tensor: ctypes.c_uint64(tensor.data_ptr())
with torch.cuda.graph(graph):
    stream = torch.cuda.current_stream().cuda_stream
    a, b, filled = x * 2, torch.zeros(32, device="cuda:0"), x * 0
    launch("copied", a.data_ptr(), b.data_ptr(), stream)
    c, d = b + 1, x * 0
    do("cuMemcpyDtoDAsync_v2", at(d), at(c), ctypes.c_size_t(128), ctypes.c_void_p(stream))
    e = d * 10
    do("cuMemsetD32Async", at(filled), ctypes.c_uint(0x3f800000), ctypes.c_size_t(32), ctypes.c_void_p(stream))
    f = filled + e
    do("cuLaunchHostFunc", ctypes.c_void_p(stream), look, at(f))
    f.add_(1)
for n in range(3):
    x.fill_(n)
    graph.replay()
    torch.cuda.synchronize()
    print(seen[-1], f.mean().item())
"""


@pytest.mark.parametrize("env", [{}, {"DEVTRACE_SIM_ASYNC": "3"}], ids=["at_once", "async"])
def test_between_the_operators_of_a_graph(rehearse, env):
    outcome = rehearse(BETWEEN_OPERATORS, env={"DEVTRACE_SIM_KERNELS": "1", **env})
    assert outcome.code == 0 and outcome.out == "11.0 12.0\n31.0 32.0\n51.0 52.0\n", outcome.out + outcome.err


@pytest.mark.parametrize(
    ("addresses", "told"),
    [
        ("a, elsewhere", "memory of device 1, which device 0 has no access to"),
        ("a, b + 4096", "memory of device 0, 3580 bytes behind a block of 4"),
        ("a, freed", "memory of device 0"),
        ("a, 0", "the null pointer"),
    ],
    ids=["another_device", "behind_its_block", "freed", "null"],
)
def test_each_access_is_looked_at(rehearse, addresses, told):
    outcome = rehearse(
        PROGRAM
        + ADD
        + f"""
use(1); elsewhere = memory(32)
use(0); a = give(range(32)); b = memory(32); freed = memory(1 << 20); do("cuMemFree_v2", ctypes.c_uint64(freed))
print(launch(load(ADD), "add", 1, 32, {addresses}))
print(cuda.cuCtxSynchronize(), cuda.cuCtxSynchronize())
"""
    )
    assert outcome.out.split() == ["0", "700", "700"], outcome.err
    line = next(line for line in outcome.err.splitlines() if "illegal address" in line)
    assert "kernel add on device 0" in line and told in line and "st.global.u32 writes 4 bytes at" in line, line
    assert "thread (0,0,0) of block (0,0,0) at adding.cu:14" in line


def test_an_address_in_memory_is_looked_at_too(rehearse):
    """Nothing of the launch itself shows it: the kernel finds the address of another device's memory behind a pointer."""
    follow = """
.visible .entry follow(.param .u64 table) {
  .reg .b64 %rd<4>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [table]; ld.global.u64 %rd2, [%rd1+8]; ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd1], %r1; ret;
}
"""
    program = (
        PROGRAM
        + f"use(1); there = give([7])\nuse(0); table = give([0, 0, there & 0xffffffff, there >> 32])\nlaunch(load(HEAD + '''{follow}'''), 'follow', 1, 1, table)\nprint(cuda.cuCtxSynchronize())\n"
    )
    outcome = rehearse(program)
    assert outcome.out.split() == ["700"] and "ld.global.u32 reads 4 bytes" in outcome.err and "memory of device 1" in outcome.err, outcome.err
    enabled = program.replace("launch(load", "do('cuCtxEnablePeerAccess', contexts[1], 0)\nlaunch(load") + "print(take(table, 1))"
    outcome = rehearse(enabled)
    assert outcome.out.split() == ["0", "[7]"], outcome.err


@pytest.mark.parametrize("options", [[], ["--kernels"]], ids=["not_said", "said"])
def test_what_nvidias_compilers_make_is_computed_when_the_person_says_so(tmp_path, options):
    (tmp_path / "program.py").write_text(
        PROGRAM
        + ADD
        + "a, b = give(range(32)), give([9] * 32)\nlaunch(load('// Generated by NVIDIA NVVM Compiler\\n' + ADD), 'add', 1, 32, a, b)\nprint(take(b, 32)[31])\n"
    )
    outcome = execute([DEVTRACE, "rehearse", *options, "--", "python", "program.py"], tmp_path, environment(None))
    assert outcome.code == 0 and outcome.out.split() == ["36" if options else "9"], outcome.err
    assert ("kernel add (launches: 1): NVIDIA's compiler made it, and it is computed with --kernels" in outcome.err) == (not options), outcome.err


def test_what_is_not_known_is_named(rehearse):
    rare = '.visible .entry rare(.param .u64 at) { .reg .b64 %rd<2>; .loc 1 3 1 tcgen05.shift.cta_group::1.down [%rd1]; ret; } .file 1 \\"rare.cu\\"'
    outcome = rehearse(PROGRAM + f"launch(load(HEAD + \"{rare}\"), 'rare', 1, 1, 0)\nprint(cuda.cuCtxSynchronize())\n")
    assert outcome.out.split() == ["0"], outcome.err
    assert "kernel rare (launches: 1): tcgen05.shift.cta_group::1.down is not known, at rare.cu:3" in outcome.err, outcome.err


def test_what_is_computed_of_what_is_not(rehearse):
    """A kernel that reads what nobody computed leaves what nobody computed; one that does not, overwrites it."""
    program = LAUNCH + PROGRAM.replace("import array, ctypes, sys", "") + ADD.replace("launch(", "") + "a, b, c = (give([1] * 32) for _ in range(3))\n"
    first = program.replace("def launch(name, source", "def nobody(name, source").replace("def launch(module", "def run(module")
    outcome = rehearse(first + "nobody('touched', a, b)\nrun(load(ADD), 'add', 1, 32, b, c)\ntake(c, 32)")
    assert "what kernel touched should have written" in outcome.err, outcome.err
    outcome = rehearse(first + "nobody('covered', a, b)\nrun(load(ADD), 'add', 1, 32, c, b)\nassert take(b, 32) == [6] * 32")
    assert outcome.code == 0 and "should have written" not in outcome.err, outcome.err


PRINTS = '''
PRINTS = HEAD + """
.global .align 1 .b8 text[13] = {105, 61, 37, 100, 32, 102, 61, 37, 46, 49, 102, 10, 0};
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.visible .entry prints(.param .u64 none) {
  .local .align 8 .b8 room[16]; .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .f64 %fd<2>;
  mov.u64 %rd1, room; cvta.local.u64 %rd2, %rd1; mov.u32 %r1, %tid.x; st.local.u32 [%rd1], %r1; mov.f64 %fd1, 0d3FF8000000000000; st.local.f64 [%rd1+8], %fd1;
  mov.u64 %rd3, text; cvta.global.u64 %rd3, %rd3;
  { .param .b64 a; .param .b64 b; .param .b32 r; st.param.b64 [a], %rd3; st.param.b64 [b], %rd2; call.uni (r), vprintf, (a, b); ld.param.b32 %r2, [r]; }
  ret;
}
"""
'''


def test_printf(rehearse):
    outcome = rehearse(PROGRAM + PRINTS + "launch(load(PRINTS), 'prints', 1, 2, 0)\ndo('cuCtxSynchronize')")
    assert outcome.code == 0 and "i=0 f=1.5\ni=1 f=1.5\n" in outcome.out, outcome.err + outcome.out


def test_a_kernel_without_an_end_is_ended(rehearse):
    forever = ".visible .entry forever(.param .u64 none) { LOOP: bra LOOP; }"
    outcome = rehearse(
        PROGRAM + f"launch(load(HEAD + '{forever}'), 'forever', 1, 32, 0)\nprint(cuda.cuCtxSynchronize())\n", env={"DEVTRACE_SIM_KERNEL_SECONDS": "1"}
    )
    assert outcome.out.split() == ["702"] and "did not end within 1 s" in outcome.err, outcome.err


def test_text_that_is_no_ptx_harms_nobody(rehearse):
    outcome = rehearse(
        PROGRAM + "launch(load(HEAD + '.visible .entry torn(.param .u64 none) { add.s32 ;; } }'), 'torn', 1, 1, 0)\nprint(cuda.cuCtxSynchronize())\n"
    )
    assert outcome.code == 0 and "its PTX cannot be read: line 4: " in outcome.err, outcome.err
