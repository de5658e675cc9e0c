"""What libdevtrace.so asks of a process and what it adds to it; what all that is shipped asks of the C library, which may have less than this system's."""

import ctypes
import re
import subprocess
import sysconfig
from pathlib import Path

from conftest import BUILD, DEVTRACE, LIBRARY, TOP

SITE = Path(sysconfig.get_path("purelib"))
# What PyTorch calls these functions in its different versions; the wheel here has one spelling of each.
PYTORCH = re.compile(
    r"^(c10::impl::common_device_check_failure\(|c10::detail::torchCheckFail\(|c10::detail::torchInternalAssertFail\(|c10::Error::Error\("
    r"|c10::(Index|Type|Value|NotImplemented|Linalg|OutOfMemory)\w*Error::|c10::reportMemoryUsageToProfiler\(|at::MapAllocator::~?MapAllocator\(|c10::cuda::)"
)


def dynamic_section() -> str:
    return subprocess.run(["readelf", "--dynamic", "--wide", LIBRARY], capture_output=True, text=True, check=True).stdout


def symbols(library, *flags) -> set[str]:
    out = subprocess.run(["nm", "--dynamic", *flags, library], capture_output=True, text=True, check=True).stdout
    return {line.split(maxsplit=2)[-1].split("@")[0] for line in out.splitlines()}


def test_needs_no_library_of_the_program():
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic_section())
    assert needed
    assert [name for name in needed if re.match(r"lib(cudart|cuda|cupti|nccl|python|torch|c10|unwind|fmt|boost)", name)] == []


def test_exports_what_it_intercepts_and_its_own_names_only():
    real = set()
    for library in [
        *SITE.glob("torch/lib/libc10*.so"), SITE / "torch/lib/libtorch_cpu.so", *SITE.glob("nvidia/cu13/lib/libcudart.so*"),
        *(file for name in ("cublas", "cublasLt", "cufft", "curand", "cusolver", "cusparse") for file in SITE.glob(f"nvidia/cu13/lib/lib{name}.so*")),
        *SITE.glob("nvidia/cudnn/lib/libcudnn.so*"), *SITE.glob("nvidia/nccl/lib/libnccl.so*"),
        *Path("/lib/x86_64-linux-gnu").glob("libc.so.6"), *Path("/lib/x86_64-linux-gnu").glob("libstdc++.so.6"),
    ]:
        real |= symbols(library, "--defined-only")
    own = symbols(LIBRARY, "--defined-only")
    nodes = {"devtrace", *re.findall(r"libcudart\.so\.[\d.]+", (TOP / "interpose/linking/cudart_versions.inc").read_text())}
    rest = {name for name in own - nodes if name not in real and name != "InitializeInjection" and not name.startswith(("devtrace_", "PyInit_devtrace_"))}
    named = subprocess.run(["c++filt"], input="\n".join(sorted(rest)), capture_output=True, text=True, check=True).stdout.splitlines()
    assert [name for name in named if not PYTORCH.match(name) and not re.match(r"cu(da)?[A-Z]\w+$", name)] == []
    assert "InitializeInjection" in own


def test_c_interface():
    """The library can be opened by a process that was not started with it, and says that nothing was found."""
    library = ctypes.CDLL(str(LIBRARY))
    library.devtrace_finding_count.restype = ctypes.c_uint64
    assert library.devtrace_finding_count() == 0


def test_c_interface_counts(rehearse):
    outcome = rehearse(
        """
        import ctypes, os
        import torch
        library = ctypes.CDLL(None)
        library.devtrace_finding_count.restype = ctypes.c_uint64
        library.devtrace_log_path.restype = ctypes.c_char_p
        print(library.devtrace_finding_count())
        for _ in range(3):
            try:
                torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")
            except RuntimeError:
                pass
        print(library.devtrace_finding_count())
        print(os.path.samefile(library.devtrace_log_path().decode(), f"devtrace-{os.getpid()}.jsonl"))
        """
    )
    assert (outcome.code, outcome.out) == (0, "0\n3\nTrue\n"), outcome.err


# As before glibc 2.35, whose _dl_find_object GCC's unwinder asks for.
WITHOUT_FIND_OBJECT = """
#include <stdlib.h>
#include <unistd.h>
void* dlvsym(void* handle, const char* name, const char* version) {
  write(1, name, 15);
  return NULL;
}
"""


def test_exceptions_are_caught_without_dl_find_object(tmp_path):
    source, library = tmp_path / "older.c", tmp_path / "older.so"
    source.write_text(WITHOUT_FIND_OBJECT)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    done = subprocess.run([DEVTRACE, "report", "no such file"], env={"LD_PRELOAD": str(library)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "_dl_find_object"), "it was asked for, and did without"
    assert done.stderr == "devtrace report: no such file: no such file or folder\n"
    wrong = subprocess.run([DEVTRACE, "rehearse", "--gpus"], env={"LD_PRELOAD": str(library)}, capture_output=True, text=True)
    assert wrong.returncode == 2 and "--gpus" in wrong.stderr


def test_constructors_run_once():
    """The program brings along what runs them up to glibc 2.33; later ones would do it themselves."""
    asked = subprocess.run(["objdump", "-T", DEVTRACE], capture_output=True, text=True, check=True).stdout
    assert [line.split()[-2] for line in asked.splitlines() if line.endswith(" __libc_start_main")] == ["(GLIBC_2.2.5)"]
    # The options are objects that constructors make.
    assert "rehearse" in subprocess.run([DEVTRACE, "--help"], capture_output=True, text=True, check=True).stdout


def test_everything_built_runs_on_glibc_2_28():
    built = [DEVTRACE, BUILD / "libdevtrace.so", BUILD / "fix" / "overlay.so", *(BUILD / "simulate").rglob("*.so*")]
    assert len(built) > 10
    for file in built:
        asked = subprocess.run(["objdump", "-T", file], capture_output=True, text=True, check=True).stdout
        newer = [line for line in asked.splitlines() if re.search(r"GLIBC_2\.(29|[3-9]\d)\b", line)]
        assert newer == [], file
