"""Communicators that are made out of others, by NCCL's own functions and by PyTorch's: shrunk, grown, revoked, suspended. Its version and its `pnccl` names."""

import importlib.metadata
import subprocess
import sys

from conftest import BUILD
from forked_ranks import FORKED, RUN_EACH

COMMUNICATORS = """
import ctypes, multiprocessing, os, time
import torch, torch.distributed as dist

WORLD = 4
SUCCESS, INVALID_ARGUMENT, INVALID_USAGE = 0, 4, 5
FLOAT, SUM = 7, 0
SHRINK_ABORT, SUSPEND_MEM = 1, 1
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]

def run(rank):
    torch.cuda.set_device(rank)
    x = torch.zeros(4096, device="cuda")
    nccl = ctypes.CDLL("libnccl.so.2")
    number = lambda of, comm: (of(comm, ctypes.byref(value := ctypes.c_int())), value.value)

    def made(function, *arguments):
        comm = ctypes.c_void_p()
        before, after = arguments[:arguments.index("comm")], arguments[arguments.index("comm") + 1:]
        result = function(*before, ctypes.byref(comm), *after)
        return comm if result == SUCCESS else result

    def shared(name, make):  # an id, made by rank 0
        if rank == 0:
            id = Id()
            assert make(id) == SUCCESS
            store.set(name, ctypes.string_at(ctypes.byref(id), 128).hex())
        return Id.from_buffer_copy(bytes.fromhex(store.get(name).decode()))

    def reduce(comm, function=nccl.ncclAllReduce):
        return function(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(x.data_ptr()), ctypes.c_size_t(4), FLOAT, SUM, comm, None)

    def total(comm, function=nccl.ncclAllReduce):
        x.fill_(rank + 1)
        assert reduce(comm, function) == SUCCESS
        return x[:4].tolist()

    def whole(name):
        return made(nccl.ncclCommInitRank, "comm", WORLD, shared(name, lambda id: nccl.ncclGetUniqueId(ctypes.byref(id))), rank)

    def excluding(*ranks):
        return (ctypes.c_int * len(ranks))(*ranks), len(ranks)

    first = whole("first")
    assert total(first) == [10.0] * 4 and total(first, nccl.pncclAllReduce) == [10.0] * 4
    # Only those that stay call; twice, with another one left out, in each case.
    for out in (1, 0):
        if rank != out:
            small = made(nccl.ncclCommShrink, first, *excluding(out), "comm", None, 0)
            assert number(nccl.ncclCommCount, small) == (SUCCESS, 3) and number(nccl.ncclCommUserRank, small) == (SUCCESS, rank - (rank > out))
            assert total(small) == [10.0 - (out + 1)] * 4
            assert nccl.ncclCommDestroy(small) == SUCCESS
    assert made(nccl.ncclCommShrink, first, *excluding(rank), "comm", None, 0) == INVALID_ARGUMENT
    assert made(nccl.ncclCommShrink, first, *excluding(WORLD), "comm", None, 0) == INVALID_ARGUMENT
    assert made(nccl.ncclCommShrink, first, None, 0, "comm", None, 0) == INVALID_ARGUMENT
    assert total(first) == [10.0] * 4
    # What waits for rank 2 is dropped.
    if rank != 2:
        assert reduce(first) == SUCCESS
        small = made(nccl.ncclCommShrink, first, *excluding(2), "comm", None, SHRINK_ABORT)
        torch.cuda.synchronize()
        assert total(small) == [7.0] * 4

    revoked = whole("revoked")
    if rank == 0:
        assert reduce(revoked) == SUCCESS
    assert nccl.ncclCommRevoke(revoked, 1) == INVALID_ARGUMENT and nccl.ncclCommRevoke(revoked, 0) == SUCCESS
    torch.cuda.synchronize()
    assert reduce(revoked) == INVALID_USAGE and nccl.ncclCommFinalize(revoked) == INVALID_USAGE
    half = made(nccl.ncclCommSplit, revoked, rank % 2, 0, "comm", None)
    assert total(half) == [[4.0] * 4, [6.0] * 4][rank % 2]

    # Ranks 0 and 2 are two already; 1 and 3 come by the id.
    nccl.ncclCommGrow.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    id = shared("grown", lambda id: nccl.ncclCommGetUniqueId(half, ctypes.byref(id)))
    if rank % 2 == 0:
        assert made(nccl.ncclCommGrow, half, 2, None, -1, "comm", None) == INVALID_ARGUMENT
    grown = made(nccl.ncclCommGrow, half if rank % 2 == 0 else None, WORLD, ctypes.addressof(id) if rank != 2 else None, -1 if rank % 2 == 0 else 2 + rank // 2, "comm", None)
    assert number(nccl.ncclCommUserRank, grown) == (SUCCESS, [0, 2, 1, 3][rank]) and total(grown) == [10.0] * 4

    stat = lambda which: (nccl.ncclCommMemStats(grown, which, ctypes.byref(value := ctypes.c_uint64(7))), value.value)
    assert nccl.ncclCommSuspend(grown, 0) == INVALID_ARGUMENT and stat(1) == (SUCCESS, 0)
    assert nccl.ncclCommSuspend(grown, SUSPEND_MEM) == SUCCESS and stat(1) == (SUCCESS, 1) and reduce(grown) == INVALID_USAGE
    assert nccl.ncclCommResume(grown) == SUCCESS and stat(1) == stat(3) == (SUCCESS, 0) and total(grown) == [10.0] * 4

    memory, window, found = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert nccl.ncclMemAlloc(ctypes.byref(memory), ctypes.c_size_t(8192)) == SUCCESS
    assert nccl.ncclCommWindowRegister(grown, memory, ctypes.c_size_t(8192), ctypes.byref(window), 1) == SUCCESS
    assert nccl.ncclWinGetUserPtr(grown, window, ctypes.byref(found)) == SUCCESS and found.value == memory.value
    assert nccl.ncclCommWindowDeregister(grown, window) == SUCCESS
    assert nccl.ncclCommWindowRegister(grown, ctypes.c_void_p(memory.value + 8), ctypes.c_size_t(64), ctypes.byref(window), 1) == INVALID_ARGUMENT
    # The last one that is asked to come does not.
    if rank == 3:
        os._exit(3)
    if rank != 1:
        start = time.monotonic()
        assert made(nccl.ncclCommShrink, grown, *excluding(2), "comm", None, SHRINK_ABORT) == 6, "remote error"
        assert time.monotonic() - start < 20
    os._exit(0)
""" + RUN_EACH


def test_communicators_out_of_communicators(rehearse):
    outcome = rehearse(COMMUNICATORS, gpus=4)
    assert outcome.out == "[0, 0, 0, 3]\n", outcome.out + outcome.err
    assert outcome.findings == [], outcome.err
    lines = [line for line in outcome.err.splitlines() if line.startswith("devtrace: NCCL:")]
    # Who is told of rank 3 ends, too, and may be gone before the other one comes.
    ends = ("has ended before all ranks had come", "the process that has made the communicator's id is gone")
    assert len(lines) == 2 and all(any(end in line for end in ends) for line in lines), outcome.err
    assert "rank 3 (process" in "".join(lines), outcome.err


GONE = """
import ctypes, os
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
nccl = ctypes.CDLL("libnccl.so.2")
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
read, write = os.pipe()
if os.fork() == 0:
    id = Id()
    assert nccl.ncclGetUniqueId(ctypes.byref(id)) == 0
    os.write(write, ctypes.string_at(ctypes.byref(id), 128))
    os._exit(0)
os.wait()
print(nccl.ncclCommInitRank(ctypes.byref(ctypes.c_void_p()), 2, Id.from_buffer_copy(os.read(read, 128)), 1))
"""


def test_who_made_the_id_is_gone(rehearse):
    outcome = rehearse(GONE, gpus=2)
    assert outcome.out == "6\n", "remote error: " + outcome.out + outcome.err
    assert "rank 1: the process that has made the communicator's id is gone" in outcome.err


SHRUNK = FORKED + """
import signal

def work(rank, world):
    x = torch.full((4,), float(rank), device="cuda")
    dist.all_reduce(x)
    assert x.tolist() == [3.0] * 4
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.shrink_group([1], shrink_flags=dist.distributed_c10d.SHRINK_ABORT)
    assert dist.get_world_size() == 2 and dist.get_rank() == rank // 2
    x = torch.full((4,), float(rank), device="cuda")
    dist.all_reduce(x)
    assert x.tolist() == [2.0] * 4

end("shrunk", begin("shrunk", work, 3))
"""


def test_pytorch_goes_on_without_a_killed_rank(rehearse):
    outcome = rehearse(SHRUNK, gpus=3)
    assert outcome.out == "shrunk [0, -9, 0]\n", outcome.out + outcome.err
    assert outcome.findings == [], outcome.err


def test_every_function_has_its_twin():
    """A profiler that stands in front of ncclAllReduce calls pncclAllReduce."""
    out = subprocess.run(["nm", "-D", "--defined-only", BUILD / "simulate/libnccl.so.2"], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1].partition("@")[0] for line in out.splitlines()}
    plain = {name for name in names if name.startswith("nccl")}
    assert len(plain) > 80 and {"p" + name for name in plain} <= names


VERSIONS = """
import ctypes, sys, torch
nccl = ctypes.CDLL("libnccl.so.2")
def version():
    value = ctypes.c_int()
    assert nccl.ncclGetVersion(ctypes.byref(value)) == 0
    return value.value
print(".".join(map(str, torch.cuda.nccl.version())), version())
"""
OTHER = """
import ctypes
ctypes.CDLL("./torch/lib/libtorch_cuda.so")
value = ctypes.c_int()
ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(value))
print(value.value)
"""


def test_the_version_is_that_of_the_wheel_beside_pytorch(rehearse, tmp_path):
    wheel = next(importlib.metadata.version(each.name) for each in importlib.metadata.distributions() if each.name.startswith("nvidia-nccl-cu"))
    major, minor, patch = map(int, wheel.split("."))
    assert rehearse(VERSIONS).out.split() == [wheel, str(major * 10000 + minor * 100 + patch)]
    for folder in ("torch/lib", "nvidia/nccl/include"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "nvidia/nccl/include/nccl.h").write_text("#define NCCL_MAJOR 2\n#define NCCL_VERSION_CODE 23007\n")
    subprocess.run(["gcc", "-shared", "-o", tmp_path / "torch/lib/libtorch_cuda.so", "-x", "c", "/dev/null"], check=True)
    (tmp_path / "other.py").write_text(OTHER)
    done = subprocess.run([BUILD / "devtrace", "rehearse", "--no-trace", "--", sys.executable, "other.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout == "23007\n", done.stderr
