"""Simulated devices as a program sees them: parts, memory, peers, faults, memory shared between processes."""

import json
import sys

import pytest
from conftest import DEVTRACE, environment, execute, start

# Programs without PyTorch: the driver API through ctypes, so that a process lasts a tenth of a second.
DRIVER = """
import ctypes, glob, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    return getattr(cuda, name)(*arguments)
def do(name, *arguments):
    error = call(name, *arguments)
    assert error == 0, (name, error)
def context(device):
    made = ctypes.c_void_p()
    do("cuDevicePrimaryCtxRetain", ctypes.byref(made), device)
    do("cuCtxSetCurrent", made)
def allocate(device, size=4096):
    context(device)
    made = ctypes.c_uint64()
    do("cuMemAlloc_v2", ctypes.byref(made), ctypes.c_size_t(size))
    return made.value
do("cuInit", 0)
"""


def rehearse(folder, source, *options, env=None, gpus=4):
    (folder / "program.py").write_text(source)
    return execute([DEVTRACE, "rehearse", "--gpus", gpus, *options, "--", sys.executable, "program.py"], folder, environment(None, env))


ATTRIBUTES = DRIVER + """
name, memory = ctypes.create_string_buffer(100), ctypes.c_size_t()
do("cuDeviceGetName", name, 100, 0)
do("cuDeviceTotalMem_v2", ctypes.byref(memory), 0)
def attribute(number):
    value = ctypes.c_int()
    do("cuDeviceGetAttribute", ctypes.byref(value), number, 0)
    return value.value
major, minor, processors = attribute(75), attribute(76), attribute(16)
print(name.value.decode(), major, minor, processors, memory.value >> 20)
"""


@pytest.mark.parametrize("part, said", [
    ("h100", "NVIDIA H100 80GB HBM3 (simulated) 9 0 132 81079"),
    ("h200", "NVIDIA H200 (simulated) 9 0 132 143156"),
    ("a100", "NVIDIA A100-SXM4-80GB (simulated) 8 0 108 81153"),
    ("l40s", "NVIDIA L40S (simulated) 8 9 142 45589"),
    ("rtx4090", "NVIDIA GeForce RTX 4090 (simulated) 8 9 128 24217"),
    ("t4", "Tesla T4 (simulated) 7 5 40 15095"),
])
def test_a_part_has_its_public_properties(tmp_path, part, said):
    assert rehearse(tmp_path, ATTRIBUTES, "--part", part).out.strip() == said


PEERS = DRIVER + """
def can(a, b):
    value = ctypes.c_int()
    do("cuDeviceCanAccessPeer", ctypes.byref(value), a, b)
    return value.value
print([(a, b) for a in range(4) for b in range(4) if can(a, b)])
"""


@pytest.mark.parametrize("peer, pairs", [
    ("all", [(a, b) for a in range(4) for b in range(4) if a != b]), ("none", []), ("0-1,2-3", [(0, 1), (1, 0), (2, 3), (3, 2)]),
])
def test_peers_are_those_asked_for(tmp_path, peer, pairs):
    assert rehearse(tmp_path, PEERS, "--peer", peer).out.strip() == str(pairs)


# Kernels compiled by the real NVRTC. `walk` is made like PyTorch's elementwise kernels: its struct holds divisors for as many dimensions as
# could be, and only `dimensions` of them are set.
FAULTS = DRIVER + """
source = b'''
struct Divisor { unsigned divisor, magic, shift; };
struct Walk { int dimensions; Divisor sizes[4]; unsigned strides[4]; char* to; char* from; };
extern "C" __global__ void walk(Walk w) {
  unsigned left = threadIdx.x, offset = 0;
  for (int d = 0; d < 4; ++d) {
    if (d == w.dimensions) break;
    unsigned q = (__umulhi(left, w.sizes[d].magic) + left) >> w.sizes[d].shift;
    offset += (left - q * w.sizes[d].divisor) * w.strides[d];
    left = q;
  }
  *(float*)(w.to + offset) = *(float*)(w.from + offset);
}
extern "C" __global__ void store(float* p, const void* unread, unsigned long long number) { p[threadIdx.x] = number; }
struct Lists { float* at[64]; unsigned char of_block[64]; };  // as PyTorch's concatenation and its foreach have them: set as far as blocks take them
extern "C" __global__ void listed(float* to, Lists from) { *to = *from.at[blockIdx.y]; }
extern "C" __global__ void tabled(float* to, Lists from) { *to = *from.at[from.of_block[blockIdx.x]]; }
'''
class Walk(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint32 * 18), ("to", ctypes.c_uint64), ("source", ctypes.c_uint64)]
    @classmethod
    def over(cls, to, source, garbage):
        walk = cls(to=to, source=source)
        for i in range(18):
            walk.words[i] = garbage >> 32 if i % 2 else garbage & 0xffffffff
        walk.words[0] = 0
        return walk
class Lists(ctypes.Structure):
    _fields_ = [("at", ctypes.c_uint64 * 64), ("of_block", ctypes.c_uint8 * 64)]
    @classmethod
    def of(cls, at, of_block=()):
        "What is not given leads to another device."
        return cls((ctypes.c_uint64 * 64)(*at, *[theirs] * (64 - len(at))), (ctypes.c_uint8 * 64)(*of_block))
nvrtc = ctypes.CDLL(glob.glob(sys.prefix + "/lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13")[0])
def cubin(architecture):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"k.cu", 0, None, None)
    assert nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_" + architecture)) == 0
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    image = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetCUBIN(program, image)
    return image
image = cubin(sys.argv[1].encode() if len(sys.argv) > 1 else b"90")
def launch(device, name, *arguments, grid=(1, 1, 1)):
    "What the launch says, and what the next synchronisation does."
    context(device)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    error = call("cuModuleLoadData", ctypes.byref(module), image)
    if error:
        return error
    do("cuModuleGetFunction", ctypes.byref(function), module, name)
    pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(each) for each in arguments))
    error = call("cuLaunchKernel", function, *grid, 1, 1, 1, 0, None, pointers, None)
    return error, call("cuCtxSynchronize")
own, theirs = [allocate(device) for device in range(4)], allocate(3)
heap = ctypes.create_string_buffer(1 << 20)
word = ctypes.c_uint64
pinned = ctypes.c_uint64()
do("cuMemHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(4096), 0)
"""

FINE = FAULTS + """
print("own", launch(0, b"store", word(own[0]), word(own[0]), word(7)))
print("pinned", launch(0, b"store", word(pinned.value), word(own[0]), word(7)))
print("unread", launch(0, b"store", word(own[0]), word(theirs), word(7)))
print("unread host", launch(0, b"store", word(own[0]), word(ctypes.addressof(heap)), word(7)))
print("walk", launch(0, b"walk", Walk.over(own[0], own[0] + 64, 0)))
print("garbage", launch(0, b"walk", Walk.over(own[0], own[0] + 64, theirs)))
print("listed", launch(0, b"listed", word(own[0]), Lists.of([own[0], own[0]]), grid=(9, 2, 1)))
print("tabled", launch(0, b"tabled", word(own[0]), Lists.of([own[0], theirs, own[0]], [2, 0, 1]), grid=(2, 9, 1)))
"""
FAULTY = FAULTS + """
print("remote", launch(0, b"store", word(theirs), word(own[0]), word(7)))
print("again", call("cuCtxSynchronize"), call("cuMemAlloc_v2", ctypes.byref(word()), ctypes.c_size_t(8)))
print("host", launch(1, b"store", word(ctypes.addressof(heap)), word(own[1]), word(7)))
print("in a struct", launch(2, b"walk", Walk.over(theirs, own[2], 0)))
print("others", launch(3, b"store", word(own[3]), word(0), word(7)))
"""
TAKEN = FAULTS + """
print("listed", launch(0, b"listed", word(own[0]), Lists.of([own[0], own[0]]), grid=(1, 3, 1)))
print("tabled", launch(1, b"tabled", word(own[1]), Lists.of([own[1], theirs, own[1]], [2, 0, 1]), grid=(3, 1, 1)))
"""


# Each part's machine code is another: sm_75 has its constants in every instruction, sm_90 loads them into uniform registers first.
each_architecture = pytest.mark.parametrize("part, architecture", [("h100", "90"), ("a100", "80"), ("t4", "75")])


@each_architecture
def test_what_a_kernel_may_be_given(tmp_path, part, architecture):
    outcome = rehearse(tmp_path, FINE.replace('b"90"', f'b"{architecture}"'), "--peer", "none", "--part", part)
    assert outcome.out.splitlines() == [f"{name} (0, 0)" for name in ("own", "pinned", "unread", "unread host", "walk", "garbage", "listed", "tabled")], outcome.err


@each_architecture
def test_what_ends_in_an_illegal_address(tmp_path, part, architecture):
    outcome = rehearse(tmp_path, FAULTY.replace('b"90"', f'b"{architecture}"'), "--peer", "none", "--part", part)
    assert outcome.out.splitlines() == ["remote (0, 700)", "again 700 700", "host (0, 700)", "in a struct (0, 700)", "others (0, 0)"], outcome.err


@each_architecture
def test_an_entry_of_an_array_that_a_block_takes(tmp_path, part, architecture):
    outcome = rehearse(tmp_path, TAKEN.replace('b"90"', f'b"{architecture}"'), "--peer", "none", "--part", part)
    assert outcome.out.splitlines() == ["listed (0, 700)", "tabled (0, 700)"], outcome.err


def test_a_blocking_launch_returns_its_own_error(tmp_path):
    outcome = rehearse(tmp_path, FAULTY, "--peer", "none", env={"CUDA_LAUNCH_BLOCKING": "1", "DEVTRACE_SIM_VERBOSE": "1"})
    assert outcome.out.splitlines()[0] == "remote (700, 700)"
    assert "(of device 3) at byte 0 of the parameters of store on device 0" in outcome.err


CODES = DRIVER + """
p = allocate(0)
print(call("cuMemFree_v2", ctypes.c_uint64(p)), call("cuMemFree_v2", ctypes.c_uint64(p)))  # freed twice
print(call("cuDeviceGet", ctypes.byref(ctypes.c_int()), 4))  # there are 0 to 3
print(call("cuCtxSetCurrent", ctypes.c_void_p(12345)), call("cuStreamSynchronize", ctypes.c_void_p(12345)), call("cuEventQuery", ctypes.c_void_p(12345)))
print(call("cuMemcpyHtoD_v2", ctypes.c_uint64(p), b"x" * 8, ctypes.c_size_t(8)))  # memory that was freed
print(call("cuModuleUnload", ctypes.c_void_p(12345)), call("cuGraphDestroy", ctypes.c_void_p(12345)), call("cuMemRelease", ctypes.c_uint64(5)))
print(call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1 << 50)))
"""


def test_errors_have_their_real_codes(tmp_path):
    assert rehearse(tmp_path, CODES).out.splitlines() == ["0 1", "101", "201 400 400", "1", "400 1 1", "2"]


TORCH = """
import json, torch
said = {"names": sorted({torch.cuda.get_device_name(i) for i in range(4)}), "count": torch.cuda.device_count()}
blocks = []
try:
    while True:
        blocks.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda:1"))
except torch.OutOfMemoryError as error:
    said["blocks"], said["error"] = len(blocks), str(error).split(". ")[:3]
torch.zeros(1, device="cuda:0")  # the other devices' memory is their own
del blocks
torch.cuda.empty_cache()
torch.empty(768 << 20, dtype=torch.uint8, device="cuda:1")
# Operators that pass what no kernel reads: references to empty function objects, unset dimensions of small tensors.
right = []
for i in range(40):
    device = f"cuda:{i % 3}"
    x = torch.arange(48.0).view(2, 3, 8)[:, :, ::2] + i
    y = x.to(device)
    pairs = [
        (x.transpose(0, 2) * 2, y.transpose(0, 2) * 2), (x.permute(1, 2, 0).contiguous(), y.permute(1, 2, 0).contiguous()), (x**2, y**2),
        (torch.where(x > 5, x, 0.0), torch.where(y > 5, y, 0.0)), (x.sum(1), y.sum(1)), (torch.cat([x, x], 2), torch.cat([y, y], 2)),
        (x.flatten().index_add(0, torch.arange(24), x.flatten()), y.flatten().index_add(0, torch.arange(24, device=device), y.flatten())),
        (x[:, [2, 0]], y[:, [2, 0]]), (x.cumsum(2), y.cumsum(2)), (x @ x.transpose(1, 2), y @ y.transpose(1, 2)),
    ]
    right.append(all(torch.allclose(a, b.cpu()) for a, b in pairs))
    torch.cuda.synchronize(device)
said["right"] = all(right)
try:
    torch.zeros(2, device="cuda:0") + torch.zeros(2, device="cuda:3")
except RuntimeError:
    pass
try:
    torch.zeros(1, device="cuda:4")
except Exception as error:
    said["ordinal"] = type(error).__name__ + ": " + str(error).split("\\n")[0]
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    outcome = rehearse(tmp_path_factory.mktemp("torch"), TORCH, "--memory", "1GiB", "--peer", "none")
    assert outcome.code == 0, outcome.err
    return outcome, json.loads(outcome.out)


def test_it_cannot_be_mistaken_for_hardware(seen):
    outcome, said = seen
    assert said["names"] == ["NVIDIA H100 80GB HBM3 (simulated)"] and said["count"] == 4
    process = next(record for record in outcome.records if record["record"] == "process")
    assert process["rehearsal"] is True
    assert all("simulated" in device["name"] for device in process["devices"])
    assert "(rehearsal: simulated devices)" in outcome.err
    page = outcome.pages[0].read_text(encoding="utf-8")
    # The page's script shows this banner for a record like the one that the page holds.
    assert "Rehearsal: the devices were simulated." in page and '"rehearsal":true' in page


def test_memory_ends_where_it_was_said_to(seen):
    said = seen[1]
    assert said["blocks"] == 16
    assert said["error"][0] == "CUDA out of memory" and "Tried to allocate 64.00 MiB" in said["error"][1]
    assert "GPU 1 has a total capacity of 1024.00 MiB" in said["error"][2]


def test_operators_never_fault_on_what_is_not_read(seen):
    outcome, said = seen
    assert said["right"] is True
    # A device that is not there is refused, too.
    assert [finding["operation"] for finding in outcome.findings] == ["aten::add", "aten::empty"]


def test_a_device_that_is_not_there(seen):
    assert seen[1]["ordinal"] == "AcceleratorError: CUDA error: invalid device ordinal"


SHARING = """
import torch, torch.multiprocessing as mp

def child(inbox, outbox):
    part, whole = inbox.get(), inbox.get()
    part.mul_(2)  # in the parent's memory
    outbox.put((str(part.device), part.cpu().tolist(), str(whole.device), (whole + 1).cpu().tolist()))
    made = torch.tensor([5.0, 6.0], device="cuda:1") * 3
    outbox.put(made)
    torch.cuda.synchronize()
    inbox.get()

if __name__ == "__main__":
    context = mp.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=child, args=(there, back))
    process.start()
    numbers, whole = torch.arange(1000.0, device="cuda:0"), torch.arange(4, device="cuda:1")
    # A queue sends in a thread of its own. PyTorch (2.11) dies in GetNewRefCountedSentData when another thread allocates meanwhile, which collects
    # what it is about to use: so both are made before.
    there.put(numbers[3:6])
    there.put(whole)
    print(back.get(timeout=90))
    made = back.get(timeout=90)
    print(str(made.device), (made - 1).cpu().tolist(), numbers[2:7].cpu().tolist())
    del made
    there.put(None)
    process.join()
    print(process.exitcode)
"""


@pytest.mark.parametrize("configuration", ["", "expandable_segments:True"])
def test_processes_share_memory(tmp_path, configuration):
    outcome = start(SHARING, tmp_path, env={"PYTORCH_CUDA_ALLOC_CONF": configuration, "PYTORCH_ALLOC_CONF": configuration})
    assert outcome.out.splitlines() == [
        "('cuda:0', [6.0, 8.0, 10.0], 'cuda:1', [1, 2, 3, 4])", "cuda:1 [14.0, 17.0] [2.0, 6.0, 8.0, 10.0, 6.0]", "0"], outcome.err
    assert outcome.findings == []

LAUNCH = DRIVER + """
class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]
runtime = ctypes.CDLL("libcudart.so.13")
code = b".version 8.0\\n.target sm_75\\n.address_size 64\\n.visible .entry nothing(.param .u64 a) { ret; }\\n"
library, kernel, one = ctypes.c_void_p(), ctypes.c_void_p(), Dim3(1, 1, 1)
assert runtime.cudaLibraryLoadData(ctypes.byref(library), code, None, None, 0, None, None, 0) == 0
assert runtime.cudaLibraryGetKernel(ctypes.byref(kernel), library, b"nothing") == 0
pointers = (ctypes.c_void_p * 1)(ctypes.addressof(ctypes.c_uint64()))
print(runtime.cudaGetLastError(), runtime.cudaLaunchKernel(kernel, one, one, pointers, ctypes.c_size_t(0), None), runtime.cudaGetLastError())
print(runtime.cudaSetDevice(99), runtime.cudaLaunchKernel(kernel, one, one, pointers, ctypes.c_size_t(0), None), runtime.cudaGetLastError())
"""


def test_looking_at_a_launch_leaves_no_error_behind(tmp_path):
    """PyTorch asks for the last error after each launch."""
    assert rehearse(tmp_path, LAUNCH).out.splitlines() == ["0 0 0", "101 0 101"]


FILL = """
import torch
kept = []
try:
    while True:
        kept.append(torch.full((64 << 20,), 1, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as error:
    print(len(kept), "GiB" in str(error))
kept.clear()
torch.cuda.empty_cache()
print(torch.ones(1 << 20, device="cuda:1").sum().item())
"""


def test_the_host_s_memory_bounds_all_devices_together(rehearse):
    outcome = rehearse(FILL, trace=False, env={"DEVTRACE_SIM_HOST_MEMORY": "1GiB", "DEVTRACE_SIM_VALUES": "all"})
    assert outcome.code == 0, outcome.err
    filled, text = outcome.out.splitlines()[0].split()
    assert 10 <= int(filled) <= 16 and text == "True"
    assert outcome.out.splitlines()[1] == "1048576.0"
    lines = [line for line in outcome.err.splitlines() if "the host is full, not the simulated device" in line]
    assert len(lines) == 1 and lines[0].startswith("devtrace: out of memory:") and "64 MiB" in lines[0], outcome.err


def test_what_fits_is_given_without_a_word(rehearse):
    outcome = rehearse("import torch; print(torch.zeros(1 << 20, device='cuda').sum().item())", trace=False)
    assert (outcome.out, outcome.err) == ("0.0\n", "")


def test_more_than_the_host_has_is_refused_by_what_it_says(rehearse):
    """Without the variable, by MemAvailable: a device of 1 TiB."""
    outcome = rehearse(
        """
        import torch
        available = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemAvailable")) << 10
        kept = []
        try:
            for _ in range(available // (2 << 30) + 2):
                kept.append(torch.empty(2 << 30, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError:
            print("refused")
        """,
        trace=False, env={"DEVTRACE_SIM_MEMORY": "1024GiB", "DEVTRACE_SIM_VALUES": "all"},
    )  # fmt: skip
    assert outcome.out == "refused\n" and outcome.err.count("the host is full, not the simulated device") == 1, outcome.err


def test_a_pool_larger_than_the_host_takes_what_is_written_to(rehearse):
    """As programs take that serve models: nearly the whole device, zeroed."""
    outcome = rehearse(
        """
        import torch
        def kilobytes(file, name):
            return next(int(line.split()[1]) for line in open(file) if line.startswith(name))
        size = (kilobytes("/proc/meminfo", "MemAvailable") << 10) + (4 << 30)
        pool = [torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(2)]
        pool[1][size // 2 : size // 2 + (8 << 20)] = 3
        print(pool[1][size // 2 - 1 : size // 2 + 2].tolist(), pool[1][-1].item())
        pool[1].zero_()
        print(pool[1][size // 2 : size // 2 + (8 << 20)].any().item())
        few = torch.full((9 << 20,), 7, dtype=torch.uint8, device="cuda")
        few[1:].zero_()
        print(few[:3].tolist(), few.sum().item(), kilobytes("/proc/self/status", "VmHWM") < 3 << 20)
        """,
        trace=False, env={"DEVTRACE_SIM_MEMORY": "1024GiB"},
    )  # fmt: skip
    assert outcome.out == "[0, 3, 3] 0\n0\n[7, 0, 0] 7 True\n", outcome.err
    assert outcome.err.count("it takes what is written to") == 1 and "full" not in outcome.err
