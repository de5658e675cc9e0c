"""Kernels that no rehearsal computes: PTX, launched by the driver's own functions. Each has a name of its own, as one line is said for each."""

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
