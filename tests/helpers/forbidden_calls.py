"""Commands in whose way a seccomp filter stands, as a container's or a security module's does."""

import ctypes
import errno
import struct

PTRACE, PROCESS_VM_READV, PROCESS_VM_WRITEV = 101, 310, 311  # x86-64
LOAD_NUMBER = struct.pack("HBBI", 0x20, 0, 0, 0)
REFUSE = struct.pack("HBBI", 0x06, 0, 0, 0x0005_0000 | errno.EPERM)
ALLOW = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF_0000)


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def forbid(*numbers):
    """For preexec_fn: these system calls fail with EPERM from now on."""

    def apply() -> None:
        checks = [struct.pack("HBBI", 0x15, len(numbers) - index, 0, number) for index, number in enumerate(numbers)]
        code = b"".join([LOAD_NUMBER, *checks, ALLOW, REFUSE])
        buffer = ctypes.create_string_buffer(code, len(code))
        program = Program(len(code) // 8, ctypes.addressof(buffer))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
        assert libc.prctl(22, 2, ctypes.byref(program)) == 0, ctypes.get_errno()  # PR_SET_SECCOMP

    return apply
