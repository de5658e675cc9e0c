"""NVML in a rehearsal: what monitors ask for. Used memory is what CUDA says; readings are plausible and do not change."""

import json

READINGS = """
import ctypes, json, os
import torch

nvml = ctypes.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0

class Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]

class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong), ("gpu", ctypes.c_uint), ("compute", ctypes.c_uint)]

def device(index):
    handle = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
    return handle

def memory(index):
    value = Memory()
    assert nvml.nvmlDeviceGetMemoryInfo(device(index), ctypes.byref(value)) == 0
    return value.used, value.total - value.free

def number(function, *arguments, index=0):
    value = ctypes.c_uint()
    code = getattr(nvml, function)(device(index), *arguments, ctypes.byref(value))
    assert code == 0, (function, code)
    return value.value

def processes(index):
    count, room = ctypes.c_uint(8), (Process * 8)()
    assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(device(index), ctypes.byref(count), room) == 0
    return [(room[i].pid == os.getpid(), room[i].memory) for i in range(count.value)]

def text(function, *arguments):
    value = ctypes.create_string_buffer(80)
    code = getattr(nvml, function)(*arguments, value, 80)
    assert code == 0, (function, code)
    return value.value.decode()

def between(function, *arguments):
    value = ctypes.c_int()
    code = getattr(nvml, function)(device(0), device(1), *arguments, ctypes.byref(value))
    assert code == 0, (function, code)
    return value.value

nvml.nvmlErrorString.restype = ctypes.c_char_p
board = {
    "error": nvml.nvmlErrorString(3).decode(), "driver": text("nvmlSystemGetDriverVersion"), "serials": [text("nvmlDeviceGetSerial", device(i)) for i in (0, 1)],
    "pcie": [number(f"nvmlDeviceGet{name}") for name in ("CurrPcieLinkGeneration", "MaxPcieLinkGeneration", "CurrPcieLinkWidth", "Architecture")],
    "throughput": number("nvmlDeviceGetPcieThroughput", 0), "topology": between("nvmlDeviceGetTopologyCommonAncestor"),
    "peers": [between("nvmlDeviceGetP2PStatus", what) for what in (0, 1, 2)],
}
before = memory(0), processes(0)
x = torch.ones(100 << 20, dtype=torch.uint8, device="cuda:0")
free, total = torch.cuda.mem_get_info(0)
affinity = (ctypes.c_ulong * 16)()
assert nvml.nvmlDeviceGetCpuAffinity(device(0), 16, affinity) == 0
def readings():
    return {
        "celsius": number("nvmlDeviceGetTemperature", 0), "milliwatts": number("nvmlDeviceGetPowerUsage"),
        "limit": number("nvmlDeviceGetPowerManagementLimit"), "clock": number("nvmlDeviceGetClockInfo", 1), "memory_clock": number("nvmlDeviceGetClockInfo", 2),
    }
print(json.dumps({
    "board": board,
    "before": before, "used": memory(0), "cuda": total - free, "other": memory(1), "processes": processes(0), "readings": readings(),
    "constant": readings() == readings(), "cpus": sum(bin(word).count("1") for word in affinity), "machine": os.cpu_count(),
    "bad": nvml.nvmlDeviceGetTemperature(ctypes.c_void_p(99), 0, ctypes.byref(ctypes.c_uint())), "bad_sensor": nvml.nvmlDeviceGetTemperature(device(0), 7, ctypes.byref(ctypes.c_uint())),
}))
"""


def test_what_monitors_ask_for(rehearse):
    outcome = rehearse(READINGS, trace=False, env={"DEVTRACE_SIM_PART": "a100"})
    assert outcome.code == 0 and outcome.err == "", outcome.err
    said = json.loads(outcome.out)
    assert said["board"] == {
        "error": "Not Supported", "driver": "580.65.06", "serials": ["0000000000000", "0000000000001"], "pcie": [4, 4, 16, 7], "throughput": 0,
        "topology": 10, "peers": [0, 0, 5],
    }  # fmt: skip
    assert said["before"] == [[0, 0], []]
    used = said["used"][0]
    assert said["used"] == [used, used] and used >= 100 << 20 and said["other"] == [0, 0]
    assert abs(said["cuda"] - used) < 2 << 20  # a device's last part of 2 MiB is none
    assert said["processes"] == [[True, used]]
    assert said["readings"] == {"celsius": 42, "milliwatts": 50_000, "limit": 400_000, "clock": 1410, "memory_clock": 1593} and said["constant"]
    assert said["cpus"] == said["machine"]
    assert said["bad"] == said["bad_sensor"] == 2
