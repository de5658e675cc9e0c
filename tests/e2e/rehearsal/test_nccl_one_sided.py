"""Windows of NCCL's, and what ranks put into each other's: ncclPutSignal, ncclSignal, ncclWaitSignal."""

from forked_ranks import RUN_EACH

CALLS = """
import ctypes, multiprocessing, os
import torch, torch.distributed as dist

SUCCESS, INVALID_ARGUMENT, REMOTE_ERROR = 0, 4, 6
FLOAT, SYMMETRIC = 7, 1
nccl = ctypes.CDLL("libnccl.so.2")
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
class Wait(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("count", "peer", "signal", "context")]
P, S, I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
nccl.ncclPutSignal.argtypes = [P, S, I, I, P, S, I, I, I, P, P]
nccl.ncclSignal.argtypes = [I, I, I, I, P, P]
nccl.ncclWaitSignal.argtypes = [I, P, P, P]
nccl.ncclCommWindowRegister.argtypes = [P, P, S, P, I]
nccl.ncclCommWindowDeregister.argtypes = [P, P]
nccl.ncclGetPeerDevicePointer.argtypes = [P, S, I, P]

def buffer(count=1024):
    memory = P()
    assert nccl.ncclMemAlloc(ctypes.byref(memory), S(4 * count)) == SUCCESS
    return memory.value
def register(comm, memory, window, count=1024):
    assert nccl.ncclCommWindowRegister(comm, memory, 4 * count, ctypes.byref(window), SYMMETRIC) == SUCCESS
    return window
def put(memory, count, peer, window, offset, comm, stream=None, signal=0):
    return nccl.ncclPutSignal(memory, count, FLOAT, peer, window, offset, signal, 0, 0, comm, stream)
def wait(comm, *peers, stream=None, count=1):
    return nccl.ncclWaitSignal(len(peers), (Wait * len(peers))(*[Wait(count, peer, 0, 0) for peer in peers]), comm, stream)
cuda = ctypes.CDLL("libcudart.so.13")
def write(memory, values):
    assert cuda.cudaMemcpy(P(memory), (ctypes.c_float * len(values))(*values), S(4 * len(values)), 1) == 0
def read(memory, count):
    values = (ctypes.c_float * count)()
    assert cuda.cudaMemcpy(values, P(memory), S(4 * count), 2) == 0
    return list(values)
"""

BETWEEN = CALLS + """
WORLD = 3
def run(rank):
    torch.cuda.set_device(rank)
    stream = torch.cuda.Stream()
    id, comm = Id(), P()
    if rank == 0:
        assert nccl.ncclGetUniqueId(ctypes.byref(id)) == SUCCESS
        store.set("id", ctypes.string_at(ctypes.byref(id), 128).hex())
    id = Id.from_buffer_copy(bytes.fromhex(store.get("id").decode()))
    assert nccl.ncclCommInitRank(ctypes.byref(comm), WORLD, id, rank) == SUCCESS
    sent, received = buffer(), buffer()
    from_window, to_window = register(comm, sent, P()), register(comm, received, P())
    following, before = (rank + 1) % WORLD, (rank - 1) % WORLD
    write(sent, [rank * 10.0 + i for i in range(4)])
    # All wait first: no call waits for another rank on the host.
    assert wait(comm, before, stream=stream.cuda_stream) == SUCCESS
    assert put(sent, 4, following, to_window, 256, comm) == SUCCESS
    stream.synchronize()
    assert read(received + 256, 4) == [before * 10.0 + i for i in range(4)]
    # Each of three signals is waited for once, and those of all ranks at once.
    for _ in range(3):
        assert nccl.ncclSignal(following, 0, 0, 0, comm, None) == SUCCESS
    assert wait(comm, before, count=2) == SUCCESS and wait(comm, before) == SUCCESS
    for peer in range(WORLD):
        assert nccl.ncclSignal(peer, 0, 0, 0, comm, None) == SUCCESS
    assert wait(comm, *range(WORLD)) == SUCCESS
    torch.cuda.synchronize()

    # At each launch of a graph.
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
        assert put(sent, 1, following, to_window, 0, comm, stream.cuda_stream) == SUCCESS and wait(comm, before, stream=stream.cuda_stream) == SUCCESS
    for round in range(2):
        write(sent, [rank + 100.0 * round])
        graph.replay()
        torch.cuda.synchronize()
        assert read(received, 1) == [before + 100.0 * round]
        assert nccl.ncclSignal(before, 0, 0, 0, comm, None) == SUCCESS and wait(comm, following) == SUCCESS
        torch.cuda.synchronize()

    # Another rank's memory by its address.
    pointer = P()
    assert nccl.ncclSignal(following, 0, 0, 0, comm, None) == SUCCESS and wait(comm, before) == SUCCESS
    torch.cuda.synchronize()
    assert nccl.ncclGetPeerDevicePointer(to_window, 256, following, ctypes.byref(pointer)) == SUCCESS
    assert read(pointer.value, 1) == [rank * 10.0]
    assert nccl.ncclGetPeerDevicePointer(to_window, 0, rank, ctypes.byref(pointer)) == SUCCESS and pointer.value == received

    other = torch.zeros(4, device="cuda")
    refused = [
        put(other.data_ptr(), 4, following, to_window, 0, comm), put(sent, 4, following, to_window, 4090, comm), put(sent, 4, WORLD, to_window, 0, comm),
        put(sent, 4, following, None, 0, comm), put(sent, 4, following, to_window, 0, comm, signal=1), wait(comm, WORLD), wait(comm, before, count=0),
        nccl.ncclWaitSignal(0, None, comm, None), nccl.ncclSignal(following, 0, 1, 0, comm, None), nccl.ncclGetPeerDevicePointer(to_window, 0, WORLD, ctypes.byref(pointer)),
    ]
    assert refused == [INVALID_ARGUMENT] * len(refused), refused
    assert nccl.ncclCommWindowDeregister(comm, to_window) == SUCCESS and put(sent, 4, following, to_window, 0, comm) == INVALID_ARGUMENT
    if rank == 2:
        os._exit(3)
    if rank == 1:  # waits for one that has ended
        error = I()
        assert wait(comm, 2, stream=stream.cuda_stream) == SUCCESS
        while error.value == SUCCESS:
            assert nccl.ncclCommGetAsyncError(comm, ctypes.byref(error)) == SUCCESS
        assert error.value == REMOTE_ERROR
        assert nccl.ncclCommAbort(comm) == SUCCESS
    os._exit(0)
""" + RUN_EACH


def test_ranks_put_into_each_others_memory(rehearse):
    outcome = rehearse(BETWEEN, gpus=3)
    assert outcome.out == "[0, 0, 3]\n", outcome.out + outcome.err
    assert outcome.findings == [], outcome.err
    assert "rank 2 (process" in outcome.err and "and rank 1 waits for it in WaitSignal from rank 2" in outcome.err, outcome.err


# One thread that has both ranks registers both in a group.
ONE_PROCESS = CALLS + """
comms, windows, memory = (P * 2)(), [P(), P()], []
assert nccl.ncclCommInitAll(comms, 2, None) == SUCCESS
nccl.ncclGroupStart()
for rank in range(2):
    torch.cuda.set_device(rank)
    memory.append(buffer())
    register(comms[rank], memory[rank], windows[rank])
assert nccl.ncclGroupEnd() == SUCCESS
write(memory[0], [7.0])
torch.cuda.set_device(1)
assert wait(comms[1], 0) == SUCCESS
torch.cuda.set_device(0)
assert put(memory[0], 1, 1, windows[0], 64, comms[0]) == SUCCESS
torch.cuda.synchronize(1)
print(read(memory[1] + 64, 1))
"""


def test_both_ranks_in_one_process(rehearse):
    outcome = rehearse(ONE_PROCESS, gpus=2)
    assert outcome.out == "[7.0]\n", outcome.out + outcome.err
    assert outcome.findings == [], outcome.err
