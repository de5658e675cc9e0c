"""What programs look for before they ask CUDA: the files of NVIDIA's driver, its other switches, a handle of cuDNN (JAX, TensorFlow)."""

import sys

from conftest import DEVTRACE, environment, execute

FILES = """
    import os, stat, subprocess
    for name in ("0", "1", "2", "01", "ctl", "-uvm", "x", ""):
        path = "/dev/nvidia" + name
        print(name, os.path.exists(path), os.access(path, os.R_OK), subprocess.call(["test", "-c", path]) == 0)
    print(stat.S_ISCHR(os.stat("/dev/nvidia0").st_mode), open("/dev/nvidia1", "rb").read(), os.open("/dev/nvidiactl", os.O_RDWR) > 2)
    made = os.open("made", os.O_CREAT | os.O_WRONLY, 0o640)
    print(oct(os.fstat(made).st_mode & 0o777 | 0o40), os.path.exists("made"), os.path.exists("/dev/nowhere"))
    """


def test_the_drivers_files_are_there_and_no_others(rehearse):
    outcome = rehearse(FILES)
    assert outcome.out.splitlines() == [
        "0 True True True", "1 True True True", "2 False False False", "01 False False False", "ctl True True True", "-uvm True True True",
        "x False False False", " False False False", "True b'' True", "0o640 True False",
    ], outcome.err  # fmt: skip


def test_a_pool_that_takes_most_of_the_memory_is_off_unless_it_is_asked_for(tmp_path):
    program = "import os; print(os.environ['XLA_PYTHON_CLIENT_PREALLOCATE'], os.environ['TF_FORCE_GPU_ALLOW_GROWTH'])"
    for given, said in (({}, "false true\n"), ({"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}, "true true\n")):
        outcome = execute([DEVTRACE, "rehearse", "--", sys.executable, "-c", program], tmp_path, environment(None, given))
        assert outcome.out == said, outcome.err


def test_cudnn_has_handles_and_computes_nothing(rehearse):
    outcome = rehearse("""
        import ctypes
        import torch
        cudnn, handle, stream = ctypes.CDLL("libcudnn.so.9"), ctypes.c_void_p(), ctypes.c_void_p()
        print(cudnn.cudnnCreate(ctypes.byref(handle)), cudnn.cudnnSetStream(handle, ctypes.c_void_p(64)), cudnn.cudnnGetStream(handle, ctypes.byref(stream)), stream.value)
        print(cudnn.cudnnBackendCreateDescriptor(0, ctypes.byref(stream)), cudnn.cudnnDestroy(handle), cudnn.cudnnDestroy(handle) != 0)
        x, w = torch.randn(1, 3, 8, 8), torch.randn(2, 3, 3, 3)
        print(torch.allclose(torch.conv2d(x.cuda(), w.cuda()).cpu(), torch.conv2d(x, w), atol=1e-5))
        try:
            torch.cudnn_convolution(x.cuda(), w.cuda(), [0, 0], [1, 1], [1, 1], 1, False, False, False)
        except RuntimeError as error:
            print("cuDNN is not simulated" in str(error))
        """)
    assert outcome.out.splitlines() == ["0 0 0 64", "3000 0 True", "True", "True"], outcome.err


def test_switches_of_nvml_that_are_off(rehearse):
    outcome = rehearse("""
        import ctypes
        nvml, device, a, b = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.c_uint(7), ctypes.c_uint(7)
        nvml.nvmlInit_v2(); nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
        print(nvml.nvmlDeviceGetMigMode(device, ctypes.byref(a), ctypes.byref(b)), a.value, b.value)
        room = (ctypes.c_uint * 64)(*[7] * 64)
        print(nvml.nvmlDeviceGetFieldValues(device, 1, room), 3 in room, nvml.nvmlDeviceGetFieldValues(None, 1, room))
        print(nvml.nvmlSystemGetConfComputeState(room), room[0], nvml.nvmlDeviceGetGpuFabricInfoV(device, room))
        """)
    assert outcome.out.splitlines() == ["0 0 0", "0 True 2", "0 0 0"] and "not simulated" not in outcome.err, outcome.err
