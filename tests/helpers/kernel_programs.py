"""Kernels, and programs that launch them: Triton's, the driver's without PyTorch (nobody sets a device, nobody checks), and those that no rehearsal computes."""

import textwrap

TRITON = """
import torch, triton, triton.language as tl
@triton.jit
def add(x, y, out, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(out + i, tl.load(x + i) + tl.load(y + i))
here, there, there_too = (torch.ones(64, device=f"cuda:{n}") for n in (0, 1, 1))
"""


# A kernel of one's own, touch(u32 count, u64 first, struct {u64 number, a, b}), and what it takes to launch it.
TOUCH = """
import ctypes, glob
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, (name, code)
P, S, U = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint
PTX = b'''
.version 7.0
.target sm_75
.address_size 64
.visible .entry touch(.param .u32 count, .param .u64 first, .param .align 8 .b8 both[24])
{
  .reg .b64 %rd<7>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [first];
  ld.param.u64 %rd2, [both+8];
  ld.param.u64 %rd3, [both+16];
  cvta.to.global.u64 %rd4, %rd1;
  cvta.to.global.u64 %rd5, %rd2;
  cvta.to.global.u64 %rd6, %rd3;
  ld.global.u32 %r1, [%rd4];
  st.global.u32 [%rd5], %r1;
  st.global.u32 [%rd6], %r1;
  ret;
}
'''
call("cuInit", 0)
contexts = {}
def use(ordinal):
    if ordinal not in contexts:
        contexts[ordinal] = P()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(contexts[ordinal]), ordinal)
    call("cuCtxSetCurrent", contexts[ordinal])
def memory(ordinal, size=4096):
    use(ordinal)
    address = P()
    call("cuMemAlloc_v2", ctypes.byref(address), S(size))
    return address.value
class Both(ctypes.Structure):
    _fields_ = [("number", ctypes.c_int), ("first", P), ("second", P)]
use(0)
module, touch = P(), P()
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(touch), module, b"touch")
def values(first, a, b):
    return [ctypes.c_int(7), P(first), Both(7, a, b)]
def launch(first, a, b):
    arguments = values(first, a, b)
    pointers = (P * 3)(*[ctypes.cast(ctypes.pointer(v), P) for v in arguments])
    return cuda.cuLaunchKernel(touch, 1, 1, 1, 32, 1, 1, 0, None, pointers, None)
"""

# The same with memory on two devices; the first is current.
DRIVER = TOUCH + """
here, there = memory(0), memory(1)
use(0)
"""


def told_before_error_700(rehearse, program):
    """The launch that `program` makes faults at the next synchronisation; by then the log says why."""
    outcome = rehearse(
        program
        + textwrap.dedent("""
        import glob
        print("findings on disk:", open(glob.glob("devtrace-*.jsonl")[0]).read().count('"record":"finding"'), flush=True)
        print("synchronised:", cuda.cuCtxSynchronize())
        """)
    )
    assert "findings on disk: 1" in outcome.out and "synchronised: 700" in outcome.out, outcome.out


# What no rehearsal computes: PTX, launched by the driver's own functions. Each has a name of its own, as one line is said for each.
LAUNCH = '''
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
PTX = """.version 8.0
.target sm_75
.address_size 64
.visible .entry NAME(.param .u64 from, .param .u64 to) {
  .reg .b64 %rd<6>;
  .reg .b32 %r<3>;
  ld.param.u64 %rd1, [from];
  ld.param.u64 %rd2, [to];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.u32 %r2, [%rd4];
  st.global.u32 [%rd5], %r2;
  ret;
}
"""
def do(name, *arguments):
    error = getattr(cuda, name)(*arguments)
    assert error == 0, (name, error)
def launch(name, source, target):
    "Launches a kernel of that name, which would copy 4 bytes a thread from one address to the other."
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    do("cuModuleLoadData", ctypes.byref(module), PTX.replace("NAME", name).encode())
    do("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
    words = [ctypes.c_uint64(source), ctypes.c_uint64(target)]
    pointers = (ctypes.c_void_p * 2)(*(ctypes.addressof(each) for each in words))
    do("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, None, pointers, None)
'''
