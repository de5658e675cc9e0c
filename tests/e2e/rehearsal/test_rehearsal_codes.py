"""What the simulated runtime answers where CUDA's documentation says what the real one does: errors, captures, graphs' own memory."""

import ast
import sys

from conftest import DEVTRACE, environment, execute

RUNTIME = """
import ctypes
from ctypes import byref, c_size_t as Size, c_void_p as Handle
runtime = ctypes.CDLL("libcudart.so.13")
def call(name, *arguments):
    return getattr(runtime, name)(*arguments)
def make(name, *arguments):
    made = Handle()
    error = call(name, byref(made), *arguments)
    assert error == 0, (name, error)
    return made
host = ctypes.create_string_buffer(4096)
"""


def said(folder, source, gpus=2):
    (folder / "program.py").write_text(RUNTIME + source)
    outcome = execute([DEVTRACE, "rehearse", "--gpus", gpus, "--no-trace", "--", sys.executable, "program.py"], folder, environment(None))
    assert outcome.code == 0, outcome.err
    return outcome.out.splitlines()


DEVICES = """
milliseconds, value = ctypes.c_float(), ctypes.c_int()
first, second = make("cudaEventCreate"), None
call("cudaEventRecord", first, None)
call("cudaSetDevice", 1)
second = make("cudaEventCreate")
call("cudaEventRecord", second, None)
print(call("cudaEventElapsedTime", byref(milliseconds), first, second))
print(call("cudaDeviceEnablePeerAccess", 1, 0), call("cudaDeviceGetP2PAttribute", byref(value), 2, 1, 1))
print(call("cudaSetDeviceFlags", 3), call("cudaSetDeviceFlags", 4))
print(call("cudaMallocPitch", byref(Handle()), byref(Size()), Size(1 << 40), Size(1 << 40)))
"""


def test_what_concerns_two_devices_is_refused_for_one(tmp_path):
    assert said(tmp_path, DEVICES) == ["400", "101 101", "1 0", "2"]


CAPTURES = """
event, stream = make("cudaEventCreate"), make("cudaStreamCreate")
call("cudaEventRecord", event, stream)
def capture(mode, name=None, *arguments):
    graph = Handle()
    begun = call("cudaStreamBeginCapture", stream, mode)
    return begun, call(name, *arguments) if name else None, call("cudaStreamEndCapture", stream, byref(graph))
print(capture(9))
print(capture(0, "cudaEventQuery", event), capture(2, "cudaEventQuery", event))
print(capture(1, "cudaEventSynchronize", event))
print(capture(2, "cudaDeviceSynchronize"))
print(call("cudaDeviceSynchronize"))
"""


def test_a_capture_is_not_waited_for(tmp_path):
    assert said(tmp_path, CAPTURES) == ["(1, None, 401)", "(0, 900, 901) (0, 0, 0)", "(0, 900, 901)", "(0, 900, 901)", "0"]


MEMORY = """
stream, pool = make("cudaStreamCreate"), make("cudaDeviceGetDefaultMemPool", 0)
def bytes_of(name, which, of):
    value = ctypes.c_uint64()
    assert call(name, of, which, byref(value)) == 0
    return value.value
pooled = lambda: bytes_of("cudaMemPoolGetAttribute", 7, pool)
graphs = lambda: [bytes_of("cudaDeviceGetGraphMemAttribute", which, 0) for which in range(4)]
def captured(free):
    call("cudaStreamBeginCapture", stream, 0)
    memory = make("cudaMallocAsync", Size(4096), stream)
    call("cudaMemsetAsync", memory, 7, Size(4096), stream)
    call("cudaMemcpyAsync", target, memory, Size(16), 3, stream)
    if free:
        assert call("cudaFreeAsync", memory, stream) == 0
    graph = make_graph()
    return memory, graph
def make_graph():
    graph = Handle()
    assert call("cudaStreamEndCapture", stream, byref(graph)) == 0
    return graph
def read(source):
    assert call("cudaMemcpyAsync", host, source, Size(16), 2, stream) == 0
    assert call("cudaStreamSynchronize", stream) == 0
    return host.raw[:2]
target = make("cudaMalloc", Size(4096))
ordinary = make("cudaMallocAsync", Size(1 << 20), stream)
print(pooled(), call("cudaFree", ordinary), pooled())

_, graph = captured(free=True)
executable = make("cudaGraphInstantiate", graph, ctypes.c_ulonglong(0))
for _ in range(3):  # each launch allocates anew
    call("cudaMemset", target, 0, Size(16))
    print(call("cudaGraphLaunch", executable, stream), read(target), graphs())
call("cudaGraphDestroy", graph), call("cudaGraphExecDestroy", executable)
print(graphs(), pooled())

memory, graph = captured(free=False)
executable = make("cudaGraphInstantiate", graph, ctypes.c_ulonglong(0))
print(call("cudaGraphLaunch", executable, stream), graphs()[0], call("cudaGraphLaunch", executable, stream))  # not freed yet
print(call("cudaFreeAsync", memory, stream), call("cudaFreeAsync", memory, stream), call("cudaGraphLaunch", executable, stream), read(memory))
forgiving = make("cudaGraphInstantiate", graph, ctypes.c_ulonglong(1))  # cudaGraphInstantiateFlagAutoFreeOnLaunch
print(call("cudaGraphLaunch", forgiving, stream), call("cudaGraphLaunch", forgiving, stream))
for each in executable, forgiving:
    call("cudaGraphExecDestroy", each)
call("cudaGraphDestroy", graph)
print(read(memory), graphs()[0], pooled(), call("cudaFree", memory), pooled())  # it outlives its graph until it is freed
"""


def test_memory_that_a_graph_allocates(tmp_path):
    again = "0 b'\\x07\\x07' [0, 4096, 4096, 4096]"
    assert said(tmp_path, MEMORY) == [
        "1048576 0 0", again, again, again, "[0, 4096, 0, 4096] 0",
        "0 4096 1", "0 1 0 b'\\x07\\x07'", "0 0", "b'\\x07\\x07' 0 4096 0 0",
    ]  # fmt: skip


UPDATES = """
stream = make("cudaStreamCreate")
a, b = make("cudaMalloc", Size(64)), make("cudaMalloc", Size(64))
class Fill(ctypes.Structure):
    _fields_ = [("to", Handle), ("pitch", Size), ("value", ctypes.c_uint), ("element", ctypes.c_uint), ("width", Size), ("height", Size)]
def graph_of(value, chained):
    graph, nodes = make("cudaGraphCreate", 0), []
    for memory in a, b:
        behind = (Handle * 1)(nodes[-1]) if chained and nodes else None
        nodes.append(make("cudaGraphAddMemsetNode", graph, behind, Size(1 if behind else 0), byref(Fill(memory, 0, value, 1, 64, 1))))
    return graph, nodes
def filled():
    call("cudaGraphLaunch", executable, stream)
    call("cudaMemcpy", host, a, Size(1), 2)
    return host.raw[0]
class Result(ctypes.Structure):
    _fields_ = [("result", ctypes.c_int), ("node", Handle), ("from_node", Handle)]
result = Result()
first, nodes = graph_of(1, True)
executable = make("cudaGraphInstantiate", first, ctypes.c_ulonglong(0))
print(filled())
print(call("cudaGraphExecUpdate", executable, graph_of(2, True)[0], byref(result)), result.result, filled())
print(call("cudaGraphExecUpdate", executable, graph_of(3, False)[0], byref(result)), result.result, filled())
print(call("cudaGraphExecMemsetNodeSetParams", executable, nodes[0], byref(Fill(a, 0, 4, 1, 64, 1))), filled())
"""


def test_a_graph_is_updated_by_one_of_the_same_shape(tmp_path):
    """What is not is refused as a whole; and nodes keep the names that they were instantiated with."""
    assert said(tmp_path, UPDATES) == ["1", "0 0 2", "910 2 2", "0 4"]


SHARED = """
import os, sys
handle = ctypes.create_string_buffer(64)
class Ticket(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]
if len(sys.argv) == 1:
    import subprocess
    before = make("cudaMalloc", Size(4608))  # so that it begins within a page, of 4 KiB and of 64 KiB
    memory = make("cudaMalloc", Size(4096))
    call("cudaMemset", memory, 5, Size(4096))
    assert call("cudaIpcGetMemHandle", handle, memory) == 0
    subprocess.run([sys.executable, sys.argv[0], handle.raw.hex()], check=True)
else:
    ticket = Ticket.from_buffer_copy(bytes.fromhex(sys.argv[1]))
    opened = [make("cudaIpcOpenMemHandle", ticket, 1) for _ in range(2)]
    print(opened[0].value == opened[1].value, call("cudaIpcCloseMemHandle", opened[0]))
    print(call("cudaMemcpy", host, opened[1], Size(16), 2), host.raw[:1], call("cudaIpcCloseMemHandle", opened[1]))
    print(call("cudaMemcpy", host, opened[1], Size(16), 2), call("cudaIpcCloseMemHandle", opened[1]))
"""


def test_shared_memory_that_is_opened_twice_is_closed_twice(tmp_path):
    assert said(tmp_path, SHARED) == ["True 0", "0 b'\\x05' 0", "1 1"]


PRIORITY = """
stream, priority = make("cudaStreamCreate"), ctypes.c_int()
class Value(ctypes.Union):
    _fields_ = [("pad", ctypes.c_char * 64), ("priority", ctypes.c_int)]
value = Value()
value.priority = -3
print(call("cudaStreamSetAttribute", stream, 8, byref(value)), call("cudaStreamGetPriority", stream, byref(priority)), priority.value)
value.priority = 0
print(call("cudaStreamGetAttribute", stream, 8, byref(value)), value.priority)
"""


def test_a_streams_priority_is_the_one_that_was_set(tmp_path):
    assert said(tmp_path, PRIORITY) == ["0 0 -3", "0 -3"]


MAPPED = """
driver, chunk = ctypes.CDLL("libcuda.so.1"), 2 << 20
class Place(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]
class Properties(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("place", Place), ("rest", ctypes.c_char * 16)]
class Access(ctypes.Structure):
    _fields_ = [("place", Place), ("flags", ctypes.c_int)]
call("cudaFree", None)
word = ctypes.c_uint64
memory, address = word(), word()
print(driver.cuMemCreate(byref(memory), Size(chunk), byref(Properties(1, 0, Place(1, 0))), word(0)),
      driver.cuMemAddressReserve(byref(address), Size(chunk), Size(0), word(0), word(0)),
      driver.cuMemMap(address, Size(chunk), Size(0), memory, word(0)))
print(driver.cuMemcpyHtoD_v2(address, host, Size(16)), driver.cuMemsetD8_v2(address, 1, Size(16)))
print(driver.cuMemSetAccess(address, Size(chunk), byref(Access(Place(1, 0), 3)), Size(1)), driver.cuMemsetD8_v2(address, 1, Size(16)))
"""


def test_mapped_memory_is_nobodys_before_access_is_given(tmp_path):
    assert said(tmp_path, MAPPED) == ["0 0 0", "1 1", "0 0"]


TEXTS = """
import glob, sys
for library in (runtime, ctypes.CDLL(glob.glob(sys.prefix + "/lib/python3*/site-packages/nvidia/cu13/lib/libcudart.so.13")[0])):
    for name in "cudaGetErrorName", "cudaGetErrorString":
        getattr(library, name).restype = ctypes.c_char_p
    print({code: (library.cudaGetErrorName(code), library.cudaGetErrorString(code)) for code in range(1000)})
"""


def test_errors_are_called_as_the_real_runtime_calls_them(tmp_path):
    """Those that a simulated device answers with; the others have no name here."""
    here, real = map(ast.literal_eval, said(tmp_path, TEXTS))
    named = {code: texts for code, texts in here.items() if texts[0] != b"unrecognized error code"}
    assert len(named) > 40
    assert named == {code: real[code] for code in named}


LOGS = """
driver = ctypes.CDLL("libcuda.so.1")
called = ctypes.CFUNCTYPE(None, Handle, ctypes.c_int, ctypes.c_char_p, Size)(lambda *arguments: None)
handle = Handle()
print(driver.cuLogsRegisterCallback(None, None, byref(handle)), driver.cuLogsRegisterCallback(called, None, byref(handle)), bool(handle))
print(driver.cuLogsUnregisterCallback(handle), driver.cuLogsUnregisterCallback(handle))
"""


def test_who_registers_for_the_drivers_log_is_let(tmp_path):
    assert said(tmp_path, LOGS) == ["1 0 True", "0 1"]
