"""What a kernel's code does with its parameters is read out of the image it came from, however that was loaded."""

import re
import textwrap

import pytest
from conftest import line_of, only
from kernel_programs import DRIVER

# A tensor that says it is on cuda:0 and lies on cuda:1: what a wrong extension makes.
CLAIMED = """
import ctypes, torch
class Managed(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
kept = []
def claimed(tensor, device):
    shape = (ctypes.c_int64 * 1)(tensor.numel())
    managed = Managed(tensor.data_ptr(), 2, device, 1, 2, 32, 1, ctypes.addressof(shape), None, 0, None, None)
    kept.append((shape, managed, tensor))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return torch.from_dlpack(new(ctypes.addressof(managed), b"dltensor", None))
here, there = (torch.ones(4096, device=f"cuda:{n}") for n in (0, 1))
"""


def test_a_structure_of_pytorchs_own_kernels(rehearse):
    """Registered by libtorch_cuda when it was loaded, as one of tens of thousands; the addresses are in a structure."""
    outcome = rehearse(CLAIMED + "wrong = claimed(there, 0)\nhere + here\nhere + wrong  # HERE")
    finding = only(outcome, "remote-access")
    assert "elementwise_kernel" in finding["launch"]["kernel"]
    assert [one["device"] for one in finding["operands"]] == ["cuda:0", "cuda:0", "cuda:1"]
    assert len({one["parameter"] for one in finding["operands"]}) == 1 and finding["launch"]["offset"] == 16
    assert next(frame["line"] for frame in finding["python"] if frame.get("project")) == line_of(outcome, "HERE")


@pytest.mark.parametrize("part", ["h100", "a100", "t4"])
@pytest.mark.parametrize("operation, kernel, offset", [
    ("torch.cat([here, here, {}])", "CatArrayBatchedCopy", 8 * 2),
    ("torch._foreach_mul_([here, here, {}], 2.0)", "multi_tensor_apply_kernel", 8 * 2),
])  # fmt: skip
def test_an_array_of_which_each_block_takes_an_entry(rehearse, operation, kernel, offset, part):
    """By its own number, as in a concatenation, or by one out of a table. Any entry but the first."""
    outcome = rehearse(CLAIMED + operation.format("here") + "\nwrong = claimed(there, 0)\n" + operation.format("wrong") + "  # HERE", env={"DEVTRACE_SIM_PART": part})
    finding = only(outcome, "remote-access")
    assert kernel in finding["launch"]["kernel"] and finding["launch"]["offset"] == offset
    assert next(frame["line"] for frame in finding["python"] if frame.get("project")) == line_of(outcome, "HERE")


@pytest.mark.parametrize("part", ["h100", "a100", "t4"])
def test_what_no_block_takes_of_an_array_may_be_anything(rehearse, part):
    """PyTorch leaves the entries that it does not need as they were on the stack: with the addresses of the other device's call before."""
    outcome = rehearse(
        """
        import torch
        def work(device, count):
            many = [torch.ones(8, device=device) for _ in range(count)]
            torch.cat(many)
            torch._foreach_add_(many, 1.0)
            torch._foreach_mul_(many, [tensor.clone() for tensor in many])
            torch._foreach_norm(many)
            torch._foreach_norm(many, float("inf"))
            optimizer = torch.optim.AdamW([tensor.requires_grad_() for tensor in many], fused=True)
            for tensor in many:
                tensor.grad = torch.ones_like(tensor)
            optimizer.step()
        for _ in range(2):
            work("cuda:0", 40)
            work("cuda:1", 2)
        for device in range(2):
            torch.cuda.synchronize(device)
        print("no error 700")
        """,
        env={"DEVTRACE_SIM_PART": part, "DEVTRACE_SIM_PEER": "none"},
    )
    assert (outcome.code, outcome.out, outcome.findings) == (0, "no error 700\n", []), outcome.err


# Both fields of the structure: one that the code follows, one that it never reads.
UNREAD = re.sub(r"  (ld.param.u64 %rd3, \[both\+16\]|cvta.to.global.u64 %rd6, %rd3|st.global.u32 \[%rd6\], %r1);\n", "", DRIVER)

LOADED = {
    "cuModuleLoadDataEx": "call('cuModuleLoadDataEx', ctypes.byref(module), PTX, 0, None, None)",
    "cuModuleLoad": "open('kernel.ptx', 'wb').write(PTX); call('cuModuleLoad', ctypes.byref(module), b'kernel.ptx')",
    "a buffer that is used again": """
buffer = ctypes.create_string_buffer(PTX)
call('cuModuleLoadData', ctypes.byref(module), buffer)
ctypes.memset(buffer, 0, len(PTX))
""",
    "a fat binary": """
import struct
text = PTX + b'\\0'
entry = struct.pack('<HHIQIIIIQQQQ', 1, 0x101, 64, len(text), 0, 0, 0, 80, 0, 0, 0, 0) + text
fat = struct.pack('<IHHQ', 0xba55ed50, 1, 16, len(entry)) + entry
call('cuModuleLoadFatBinary', ctypes.byref(module), fat)
""",
}
LIBRARIES = {
    "cuLibraryLoadData": "PTX",
    "cuLibraryLoadFromFile": "b'kernel.ptx'",
}
MODULE = "call('cuModuleGetFunction', ctypes.byref(touch), module, b'touch')\n"
LIBRARY = """
open('kernel.ptx', 'wb').write(PTX)
library = P()
call({how!r}, ctypes.byref(library), {what}, None, None, 0, None, None, 0)
"""
KERNELS = {
    "its kernel": "call('cuLibraryGetKernel', ctypes.byref(touch), library, b'touch')\n",
    "its kernel's function": """
kernel = P()
call('cuLibraryGetKernel', ctypes.byref(kernel), library, b'touch')
call('cuKernelGetFunction', ctypes.byref(touch), kernel)
""",
    "its module's function": "call('cuLibraryGetModule', ctypes.byref(module), library)\n" + MODULE,
}
WAYS = {how: "module = P()\n" + code + "\n" + MODULE for how, code in LOADED.items()} | {
    f"{how}, {which}": LIBRARY.format(how=how, what=what) + code for how, what in LIBRARIES.items() for which, code in KERNELS.items()
}


@pytest.mark.parametrize("how", WAYS)
def test_every_way_to_load_code(rehearse, how):
    outcome = rehearse(UNREAD + WAYS[how] + "launch(here, here, there)\nlaunch(here, there, here)  # HERE")
    finding = only(outcome, "remote-access")
    assert (finding["launch"]["parameter"], finding["launch"]["offset"]) == (2, 8)
    assert next(frame["line"] for frame in finding["python"] if frame.get("project")) == line_of(outcome, "def launch") + 3


def test_a_handle_that_comes_back_is_another_kernels(rehearse):
    """What was known of a module that is gone is forgotten, whatever address the next one gets."""
    outcome = rehearse(
        UNREAD
        + textwrap.dedent("""
        call("cuCtxEnablePeerAccess", contexts[1], 0)  # no launch ends in an error
        launch(here, here, there)
        FOLLOWED = PTX.replace(b"[both+8]", b"[both+16]")
        for _ in range(4):
            call("cuModuleUnload", module)
            call("cuModuleLoadData", ctypes.byref(module), FOLLOWED)
            call("cuModuleGetFunction", ctypes.byref(touch), module, b"touch")
            launch(here, here, there)
            call("cuModuleUnload", module)
            call("cuModuleLoadData", ctypes.byref(module), PTX)
            call("cuModuleGetFunction", ctypes.byref(touch), module, b"touch")
            launch(here, here, there)
        """)
    )
    finding = only(outcome, "remote-access")
    assert finding["launch"]["offset"] == 16
    assert max([record["count"] for record in outcome.records if record["record"] == "count"], default=1) == 4


def test_a_driver_that_tells_nothing_of_a_kernel(rehearse):
    """Before CUDA 12.4: the layout of the parameters, and the name, come out of the image as well."""
    outcome = rehearse(UNREAD + "launch(here, here, there)\nlaunch(here, there, here)", env={"DEVTRACE_SIM_OLD_DRIVER": "1"})
    finding = only(outcome, "remote-access")
    assert (finding["launch"]["kernel"], finding["launch"]["parameter"], finding["launch"]["offset"]) == ("touch", 2, 8)


def test_pytorchs_own_kernels_under_such_a_driver(rehearse):
    outcome = rehearse(CLAIMED + "here + here\nhere + claimed(there, 0)", env={"DEVTRACE_SIM_OLD_DRIVER": "1"})
    finding = only(outcome, "remote-access")
    assert "elementwise_kernel" in finding["launch"]["kernel"] and finding["launch"]["offset"] == 16


def test_verbose_tells_whose_code_was_read(rehearse):
    outcome = rehearse(CLAIMED + "here + here\nhere + claimed(there, 0)", "verbose=1:text=0")
    told = [line for line in outcome.err.splitlines() if "elementwise_kernel" in line]
    assert any("its code was read" in line for line in told), outcome.err
