"""Kernels that are given another device's memory: found before the launch, whoever launches and by whatever way. Who allowed a device to reach
another's memory decides what is said of a kernel that does, and how a copy is told."""

import textwrap

import pytest
from conftest import line_of, only, start_snippets, traffic
from golden import compare
from kernel_programs import DRIVER, TRITON, told_before_error_700


def test_triton_with_an_operand_on_the_other_device(rehearse):
    outcome = rehearse(TRITON + "add[(1,)](here, there, torch.empty_like(here), 64)  # HERE")
    finding = only(outcome, "remote-access")
    assert finding["current_device"] == "cuda:0" and finding["devices"] == ["cuda:0", "cuda:1"]
    assert finding["launch"]["kernel"] == "add" and finding["launch"]["parameter"] == 1 and finding["launch"]["offset"] == 0
    assert [one["device"] for one in finding["operands"]] == ["cuda:0", "cuda:1", "cuda:0"]
    odd = [one for one in finding["operands"] if one.get("odd")]
    assert len(odd) == 1
    assert next(frame["line"] for frame in odd[0]["created"]["python"] if frame.get("project")) == line_of(outcome, "for n in (0, 1, 1)")
    assert next(frame["line"] for frame in finding["python"] if frame.get("project")) == line_of(outcome, "HERE")
    assert finding["cause"]["fix"] == "add[(1,)](here, there.to(here.device), torch.empty_like(here), 64)  # HERE"


def test_triton_with_everything_on_the_device_that_is_not_current(rehearse):
    outcome = rehearse(TRITON + "add[(1,)](there, there_too, torch.empty_like(there), 64)")
    finding = only(outcome, "wrong-current-device")
    assert finding["current_device"] == "cuda:0" and finding["devices"] == ["cuda:0", "cuda:1"]
    assert finding["cause"]["category"] == "unguarded-kernel"
    assert finding["cause"]["fix"] == "with torch.cuda.device(there.device):\n    add[(1,)](there, there_too, torch.empty_like(there), 64)"


GOLDEN = {
    "triton, another device's": TRITON + "add[(1,)](here, there, torch.empty_like(here), 64)",
    "triton, another current device": TRITON + "add[(1,)](there, there_too, torch.empty_like(there), 64)",
    "the driver's launch": DRIVER + "launch(here, there, here)",
    "host memory": TRITON + "add[(1,)](here, torch.ones(64).numpy().ctypes.data, torch.empty_like(here), 64)",
}


def test_the_records_are_what_they_were(tmp_path):
    compare("launches", start_snippets(GOLDEN, tmp_path, gpus=3)[0].findings, tmp_path)


def test_triton_where_everything_belongs(rehearse):
    outcome = rehearse(
        TRITON
        + textwrap.dedent("""
        add[(1,)](here, here, torch.empty_like(here), 64)
        with torch.cuda.device(1):
            add[(1,)](there, there_too, torch.empty_like(there), 64)
        torch.cuda.synchronize()
        """)
    )
    assert outcome.code == 0 and outcome.findings == [], outcome.err


@pytest.mark.parametrize(
    "arguments, parameter, offset", [("there, here, here", 1, 0), ("here, there, here", 2, 8), ("here, here, there", 2, 16)]
)
def test_every_place_of_a_pointer(rehearse, arguments, parameter, offset):
    outcome = rehearse(DRIVER + f"launch({arguments})")
    finding = only(outcome, "remote-access")
    assert (finding["launch"]["kernel"], finding["launch"]["parameter"], finding["launch"]["offset"]) == ("touch", parameter, offset)
    assert finding["launch"]["grid"] == [1, 1, 1] and finding["launch"]["block"] == [32, 1, 1]


LAUNCHES = {
    "cuLaunchKernel, parameters in one block": """
        class Block(ctypes.Structure):
            _fields_ = [("count", ctypes.c_int), ("first", P), ("both", Both)]
        block = Block(7, here, Both(7, here, there))
        size = S(ctypes.sizeof(block))
        extra = (P * 5)(1, ctypes.cast(ctypes.pointer(block), P), 2, ctypes.cast(ctypes.pointer(size), P), 0)
        cuda.cuLaunchKernel(touch, 1, 1, 1, 32, 1, 1, 0, None, None, extra)
        """,
    "cuLaunchCooperativeKernel": """
        arguments = values(here, here, there)
        pointers = (P * 3)(*[ctypes.cast(ctypes.pointer(v), P) for v in arguments])
        cuda.cuLaunchCooperativeKernel(touch, 1, 1, 1, 32, 1, 1, 0, None, pointers)
        """,
    "cuLaunchKernelEx": """
        class Config(ctypes.Structure):
            _fields_ = [("shape", U * 6), ("shared", U), ("stream", P), ("attributes", P), ("count", U)]
        arguments = values(here, here, there)
        pointers = (P * 3)(*[ctypes.cast(ctypes.pointer(v), P) for v in arguments])
        config = Config((U * 6)(1, 1, 1, 32, 1, 1), 0, None, None, 0)
        cuda.cuLaunchKernelEx(ctypes.byref(config), touch, pointers, None)
        """,
    "cuLaunchKernel, out of cuGetProcAddress": """
        found, status = P(), ctypes.c_int()
        call("cuGetProcAddress_v2", b"cuLaunchKernel", ctypes.byref(found), 12000, ctypes.c_uint64(0), ctypes.byref(status))
        function = ctypes.CFUNCTYPE(ctypes.c_int, P, U, U, U, U, U, U, U, P, P, P)(found.value)
        arguments = values(here, here, there)
        pointers = (P * 3)(*[ctypes.cast(ctypes.pointer(v), P) for v in arguments])
        function(touch, 1, 1, 1, 32, 1, 1, 0, None, ctypes.cast(pointers, P), None)
        """,
    "cuLaunchKernel, out of cuGetProcAddress as it was before CUDA 12": """
        found = P()
        call("cuGetProcAddress", b"cuLaunchKernel", ctypes.byref(found), 11030, ctypes.c_uint64(0))
        function = ctypes.CFUNCTYPE(ctypes.c_int, P, U, U, U, U, U, U, U, P, P, P)(found.value)
        arguments = values(here, here, there)
        pointers = (P * 3)(*[ctypes.cast(ctypes.pointer(v), P) for v in arguments])
        function(touch, 1, 1, 1, 32, 1, 1, 0, None, ctypes.cast(pointers, P), None)
        """,
}


@pytest.mark.parametrize("how", LAUNCHES)
def test_every_way_to_launch(rehearse, how):
    finding = only(rehearse(DRIVER + textwrap.dedent(LAUNCHES[how])), "remote-access")
    assert (finding["launch"]["parameter"], finding["launch"]["offset"]) == (2, 16)


ALLOCATIONS = {  # cuda:1 is current; `there` is made
    "cuMemAlloc": "there = memory(1)",
    "cuMemAllocAsync": "address = P(); call('cuMemAllocAsync', ctypes.byref(address), S(4096), None); there = address.value",
    "cuMemAllocPitch": """
address, pitch = P(), S()
call("cuMemAllocPitch_v2", ctypes.byref(address), ctypes.byref(pitch), S(100), S(40), 4)
there = address.value + 10 * pitch.value
""",
    "virtual memory": """
class Prop(ctypes.Structure):
    _fields_ = [("type", U), ("handles", U), ("location", U * 2), ("windows", P), ("flags", ctypes.c_ubyte * 8)]
class Access(ctypes.Structure):
    _fields_ = [("location", U * 2), ("flags", U)]
size, handle, address = 2 << 20, ctypes.c_uint64(), P()
prop = Prop(1, 0, (U * 2)(1, 1))
call("cuMemCreate", ctypes.byref(handle), S(size), ctypes.byref(prop), ctypes.c_uint64(0))
call("cuMemAddressReserve", ctypes.byref(address), S(2 * size), S(0), P(0), ctypes.c_uint64(0))
call("cuMemMap", P(address.value + size), S(size), S(0), handle, ctypes.c_uint64(0))
access = Access((U * 2)(1, 1), 3)
call("cuMemSetAccess", P(address.value + size), S(size), ctypes.byref(access), S(1))
there = address.value + size + 12345
""",
}


@pytest.mark.parametrize("how", ALLOCATIONS)
def test_every_kind_of_device_memory(rehearse, how):
    finding = only(rehearse(DRIVER + "use(1)\n" + ALLOCATIONS[how] + "\nuse(0)\nlaunch(here, here, there)"), "remote-access")
    assert finding["devices"] == ["cuda:0", "cuda:1"] and finding["launch"]["offset"] == 16


SHARED = {
    "managed": "address = P(); call('cuMemAllocManaged', ctypes.byref(address), S(4096), 1); shared = address.value",
    "pinned": "address = P(); call('cuMemHostAlloc', ctypes.byref(address), S(4096), 3); shared = address.value",
    "freed": "shared = memory(1); call('cuMemFree_v2', P(shared))",
    "unmapped": ALLOCATIONS["virtual memory"] + "call('cuMemUnmap', P(address.value + size), S(size)); shared = there",
}


@pytest.mark.parametrize("how", SHARED)
def test_memory_that_is_no_other_devices(rehearse, how):
    outcome = rehearse(DRIVER + "use(1)\n" + SHARED[how] + "\nuse(0)\nlaunch(here, here, shared)\nprint('launched')")
    kinds = ["invalid-access"] if how == "freed" else []  # by what the kernel does there
    assert [finding["kind"] for finding in outcome.findings] == kinds and "launched" in outcome.out, outcome.err


def test_the_report_is_on_disk_before_the_launch(rehearse):
    told_before_error_700(rehearse, DRIVER + "launch(here, here, there)\n")


# The stub's own names: no hook has them.
UNSEEN = """
use(1)
address = P()
call("devtrace_sim_cuMemAlloc_v2", ctypes.byref(address), S(8 << 20))
unseen = address.value + (4 << 20) + 4
use(0)
"""


def test_memory_that_nobody_saw_is_asked_for(rehearse):
    outcome = rehearse(DRIVER + UNSEEN + "launch(here, here, here); launch(here, here, unseen)")
    finding = only(outcome, "remote-access")
    assert finding["devices"] == ["cuda:0", "cuda:1"] and finding["launch"]["offset"] == 16


def test_memory_that_nobody_saw_is_asked_for_while_a_stream_is_captured(rehearse):
    outcome = rehearse(
        DRIVER
        + UNSEEN
        + textwrap.dedent("""
        stream, graph = P(), P()
        call("cuStreamCreate", ctypes.byref(stream), 1)
        call("cuStreamBeginCapture_v2", stream, 0)
        arguments = values(here, here, unseen)
        pointers = (P * 3)(*[ctypes.cast(ctypes.pointer(v), P) for v in arguments])
        call("cuLaunchKernel", touch, 1, 1, 1, 32, 1, 1, 0, stream, pointers, None)
        call("cuStreamEndCapture", stream, ctypes.byref(graph))
        print("captured")
        """)
    )
    assert only(outcome, "remote-access")["launch"]["graph"] is True and "captured" in outcome.out


def test_memory_that_nobody_saw_go_is_not_there_any_more(rehearse):
    freed = "use(1); launch(there, there, unseen); call('devtrace_sim_cuMemFree_v2', address); use(0)"
    outcome = rehearse(DRIVER + UNSEEN + freed + "\nlaunch(here, here, unseen)\nprint('launched')")
    assert only(outcome, "invalid-access")["cause"]["category"] == "invalid-access" and "launched" in outcome.out, outcome.err


def test_a_loop_is_one_finding_with_its_count(rehearse):
    outcome = rehearse(DRIVER + "for _ in range(8): launch(here, here, there)")
    only(outcome, "remote-access")
    assert max([record["count"] for record in outcome.records if record["record"] == "count"], default=1) == 8


def test_launches_can_be_left_alone(rehearse):
    outcome = rehearse(DRIVER + "launch(here, here, there); print('launched')", options="launches=0")
    assert outcome.findings == [] and "launched" in outcome.out, outcome.err


def test_a_function_is_asked_for_with_its_version(rehearse):
    """libcudart's symbols have one. A version that is not there stays what it is: nothing."""
    outcome = rehearse(
        DRIVER
        + textwrap.dedent("""
        libc, runtime = ctypes.CDLL(None), ctypes.CDLL("libcudart.so.13")
        libc.dlvsym.restype = P
        libc.dlvsym.argtypes = [P, ctypes.c_char_p, ctypes.c_char_p]
        found = libc.dlvsym(runtime._handle, b"cudaLaunchKernel", b"libcudart.so.13")
        print(libc.dlvsym(runtime._handle, b"cudaLaunchKernel", b"libcudart.so.9"), libc.dlvsym(None, b"printf", b"GLIBC_2.2.5") is not None)
        library, kernel = P(), P()
        assert runtime.cudaLibraryLoadData(ctypes.byref(library), PTX, None, None, 0, None, None, 0) == 0
        assert runtime.cudaLibraryGetKernel(ctypes.byref(kernel), library, b"touch") == 0
        arguments = values(here, here, there)
        pointers = (P * 3)(*[ctypes.cast(ctypes.pointer(v), P) for v in arguments])
        class Dim3(ctypes.Structure):
            _fields_ = [("x", U), ("y", U), ("z", U)]
        launch_kernel = ctypes.CFUNCTYPE(ctypes.c_int, P, Dim3, Dim3, P, S, P)(found)
        launch_kernel(kernel, Dim3(1, 1, 1), Dim3(32, 1, 1), ctypes.cast(pointers, P), 0, None)
        """)
    )
    assert outcome.out == "None True\n", outcome.err
    assert only(outcome, "remote-access")["launch"]["offset"] == 16


def test_a_program_that_asks_for_cuda_is_not_told_that_there_is(preload):
    """The library exports CUDA's names; a look-up of them must not find it where there is no CUDA."""
    program = "import ctypes; print(hasattr(ctypes.CDLL(None), 'cuLaunchKernel'), hasattr(ctypes.CDLL(None), 'printf'))"
    assert preload(["python3", "-c", program]).out == "False True\n"


HOLDERS = (
    TRITON
    + """
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(64, device="cuda:1"))
        self.register_buffer("mask", torch.ones(64, device="cuda:1"))
        self.cache = {"keys": [torch.ones(64, device="cuda:1")]}
        self.plain = torch.ones(64, device="cuda:1")
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Identity(), Layer()])
net = Net()
there.to("cuda:0"), here.to("cuda:1")  # PyTorch lets the devices reach each other: no error 700 ends the program
def launch(first, second, *rest):
    add[(1,)](first, second, torch.empty_like(here), 64)
"""
)
# statement → name, role and module path of the tensor on cuda:1
HELD = {
    "launch(here, there)": ("second", "argument", None),
    "launch(here, there[8:])": ("second", "argument", None),
    "add[(1,)](here, net.layers[1].weight, here, 64)": ("layers.1.weight", "parameter", "layers.1.weight"),
    "add[(1,)](here, net.layers[1].mask, here, 64)": ("layers.1.mask", "buffer", "layers.1.mask"),
    'add[(1,)](here, net.layers[1].cache["keys"][0], here, 64)': ('net.layers.1.cache["keys"][0]', "element", None),
    "add[(1,)](here, net.layers[1].plain, here, 64)": ("net.layers.1.plain", "attribute", None),
    "add[(1,)](here, torch.ones(64, device='cuda:1'), here, 64)": (None, "temporary", None),
    # PyTorch's own call, which has let go of the GIL; the device of the statement above it is the current one.
    "torch.ops.aten.fill_(there, 1)": (None, None, None),
}


def test_the_tensors_are_named_by_who_holds_them(rehearse):
    statements = "\n".join(HELD)
    outcome = rehearse(HOLDERS + statements + "\ntorch.cuda.synchronize()", "dedupe=0", env={"DEVTRACE_SIM_PEER": "all"})
    assert outcome.code == 0, outcome.err
    found = {next(f["source"] for f in one["python"] if f.get("project") and f["function"] == "<module>"): one for one in outcome.findings}
    wanted = {source: facts for source, facts in HELD.items() if facts[1]}
    assert set(found) == set(wanted), outcome.err
    for source, facts in wanted.items():
        odd = [one for one in found[source]["operands"] if one.get("odd")]
        assert [(one.get("name"), one["role"], one.get("module_path")) for one in odd] == [facts], source
        if facts[0]:
            assert odd[0]["dtype"] == "float32" and odd[0]["shape"] == [56 if "8:" in source else 64] and odd[0]["bytes"] >= 224
            assert odd[0].get("is_parameter", False) == (facts[1] == "parameter")
    assert [one["names"][-1]["name"] for one in found["launch(here, there)"]["operands"] if one.get("odd")] == ["there"]


RELEASED = """
import ctypes, torch
# A plain C library that launches: ctypes lets go of the GIL around it, and another thread makes and drops globals meanwhile.
import threading
""" + DRIVER + """
held = torch.ones(64, device="cuda:1")
class Keeper:
    def __init__(self, tensor):
        self.kept = tensor
def call_with(keeper):
    launch(here, keeper.kept.data_ptr(), here)
stop = False
def churn():
    n = 0
    while not stop:
        globals()[f"name{n % 3000}"] = [torch.ones(2), {"a": object()}]
        globals().pop(f"name{(n + 1500) % 3000}", None)
        n += 1
churning = threading.Thread(target=churn)
churning.start()
keeper = Keeper(held)
del held
for _ in range(100):
    call_with(keeper)
stop = True
churning.join()
"""


def test_names_are_found_without_the_gil_while_another_thread_changes_everything(rehearse):
    outcome = rehearse(RELEASED, env={"DEVTRACE_SIM_PEER": "all"}, options="dedupe=0")
    assert outcome.code == 0, outcome.err
    assert len(outcome.findings) == 100
    for finding in outcome.findings:
        odd = [one for one in finding["operands"] if one.get("odd")]
        assert [(one["name"], one["role"]) for one in odd] == [("keeper.kept", "attribute")]


CHOICES = {
    "nobody": ("", None),
    "a statement": ("torch.cuda.set_device(1)  # CHOICE\ntorch.cuda.set_device(0)  # THEN\n", "# THEN"),
    "a with block's end": ("with torch.cuda.device(1):  # BLOCK\n    here.to('cuda:1')\n", "# BLOCK"),
    # PyTorch's own guards change the device and put it back within these statements.
    "operations elsewhere": ("torch.cuda.set_device(1)\ntorch.cuda.set_device(0)  # CHOICE\n(there * 2).sum().to('cuda:0')\ntorch.ones(3, device='cuda:1').add_(1)\n", "# CHOICE"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
def test_a_wrong_current_device_says_who_chose_it(rehearse, name):
    code, mark = CHOICES[name]
    launch = "add[(1,)](there, there_too, torch.empty_like(there), 64)"
    outcome = rehearse(TRITON + code + launch)
    finding = only(outcome, "wrong-current-device")
    choice = finding["device_choice"]
    if mark is None:
        assert choice == {"by_default": True}
        assert "cuda:0 is current by default: this thread never chose a device" in outcome.err
    else:
        own = [frame for frame in choice["python"] if frame.get("project")]
        assert (own[0]["line"], choice["device"]) == (line_of(outcome, mark), "cuda:0")
        assert f"cuda:0 made the current device in <module> (program.py:{line_of(outcome, mark)})" in outcome.err


def test_each_thread_chooses_for_itself(rehearse):
    outcome = rehearse(
        TRITON
        + textwrap.dedent("""
        import threading
        torch.cuda.set_device(1)
        def work():
            add[(1,)](there, there_too, torch.empty_like(there), 64)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        """)
    )
    assert only(outcome, "wrong-current-device")["device_choice"] == {"by_default": True}


FOREIGN = """
    stream = P()
    use(1)
    call("cuStreamCreate", ctypes.byref(stream), 1)
    use(0)
    arguments = values(here, here, here)
    pointers = (P * 3)(*[ctypes.cast(ctypes.pointer(v), P) for v in arguments])
    class Configuration(ctypes.Structure):
        _fields_ = [("shape", U * 7), ("stream", P), ("attributes", P), ("count", U)]
    configuration = Configuration((U * 7)(1, 1, 1, 32, 1, 1, 0), stream, None, 0)
"""
REFUSED = {
    "cuLaunchKernel": "cuda.cuLaunchKernel(touch, 1, 1, 1, 32, 1, 1, 0, stream, pointers, None)",
    "cuLaunchCooperativeKernel": "cuda.cuLaunchCooperativeKernel(touch, 1, 1, 1, 32, 1, 1, 0, stream, pointers)",
    "cuLaunchKernelEx": "cuda.cuLaunchKernelEx(ctypes.byref(configuration), touch, pointers, None)",
}


@pytest.mark.parametrize("launch", REFUSED.values(), ids=REFUSED)
def test_a_launch_that_cuda_refuses_for_its_stream(rehearse, launch):
    """Told when the call comes back, before the program looks at the error."""
    outcome = rehearse(DRIVER + textwrap.dedent(FOREIGN) + f"print('error', {launch}, {launch})  # HERE\n")
    finding = only(outcome, "wrong-current-device")
    assert outcome.out == "error 400 400\n"
    assert (finding["argument"], finding["current_device"], finding["launch"]["stream_device"]) == ("stream", "cuda:0", "cuda:1")
    assert finding["operands"][0]["role"] == "stream" and [one["device"] for one in finding["operands"]] == ["cuda:1"] + ["cuda:0"] * 3
    assert next(frame["line"] for frame in finding["python"] if frame.get("project")) == line_of(outcome, "HERE")
    assert (finding["cause"]["category"], "fix" in finding["cause"]) == ("stream-of-another-device", False)


OWN = """
import ctypes
cudart = ctypes.CDLL("libcudart.so.13")
torch.cuda.synchronize()
print("allowed", cudart.cudaDeviceEnablePeerAccess(1, 0) in (0, 704))
cudart.cudaGetLastError()
"""
LAUNCH = """
def launch():
    add[(1,)](here, there, torch.empty_like(here), 64)  # HERE
for _ in range(3):
    launch()
"""


def test_a_program_that_asked_for_it_gets_a_note(rehearse):
    outcome = rehearse(TRITON + OWN + LAUNCH, options="error_exitcode=23")
    finding = outcome.finding
    assert (finding["kind"], finding["severity"], finding["cause"]["category"]) == ("remote-access", "note", "declared-access")
    assert finding["note"] == "the program itself enabled access from cuda:0 to cuda:1"
    assert line_of(outcome, "# HERE") in [frame["line"] for frame in finding["python"]]
    assert outcome.code == 0, "a note fails no run"
    end = outcome.records[-1]
    assert (end["findings"], end["notes"]) == (3, 3)
    assert "devtrace: remote-access (note): " in outcome.err


@pytest.mark.parametrize("before", ["", 'here.to("cuda:1"); there.to("cuda:0")'], ids=["nobody", "PyTorch for its copies"])
def test_whoever_did_not_ask_gets_a_finding(rehearse, before):
    outcome = rehearse(TRITON + before + LAUNCH, options="error_exitcode=23")
    assert (outcome.finding["kind"], outcome.finding["severity"]) == ("remote-access", "error")
    assert outcome.code == (23 if before else 1), "without access the kernel faults"
    assert "notes" not in outcome.records[-1]


def test_halt_on_error_goes_on_after_a_note(rehearse):
    outcome = rehearse(TRITON + OWN + LAUNCH + "print('done')", options="halt_on_error=1")
    assert outcome.out.endswith("done\n") and outcome.finding["severity"] == "note"


def test_pytorchs_copies_between_peers_are_direct(rehearse):
    outcome = rehearse("""
        import torch
        a = torch.ones(1000, device="cuda:0")
        a.to("cuda:1")
    """)
    assert [record["staged"] for record in traffic(outcome)] == [False]


OPENED = """
import ctypes, os, subprocess, sys

GIVER = '''
import ctypes, sys
cudart = ctypes.CDLL("libcudart.so.13")
pointer, handle = ctypes.c_void_p(), (ctypes.c_char * 64)()
assert cudart.cudaSetDevice(1) == cudart.cudaMalloc(ctypes.byref(pointer), 256) == cudart.cudaIpcGetMemHandle(handle, pointer) == 0
print(handle.raw.hex(), flush=True)
sys.stdin.read()
'''
environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
giver = subprocess.Popen([sys.executable, "-c", GIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


opened = ctypes.c_void_p()
handle = Handle.from_buffer_copy(bytes.fromhex(giver.stdout.readline()))
print("opened", ctypes.CDLL("libcudart.so.13").cudaIpcOpenMemHandle(ctypes.byref(opened), handle, 1))


class Memory:
    __cuda_array_interface__ = {"shape": (64,), "typestr": "<f4", "data": (opened.value, False), "version": 3}


there = torch.as_tensor(Memory(), device="cuda:1")
"""


def test_memory_that_is_opened_for_a_peer_is_asked_for(rehearse):
    """cudaIpcMemLazyEnablePeerAccess is the program's own word, and no kernel that reads there fails."""
    outcome = rehearse(TRITON + OPENED + LAUNCH + "torch.cuda.synchronize()\ngiver.stdin.close()\n")
    assert "opened 0" in outcome.out and outcome.code == 0, outcome.err
    finding = outcome.finding
    assert (finding["severity"], finding["note"]) == ("note", "the program itself enabled access from cuda:0 to cuda:1")
