"""What kernels are linked with for a PyTorch that is not installed (simulate/tools/torch_release.py)."""

import subprocess
import sys

from conftest import TOP

sys.path.insert(0, str(TOP / "simulate" / "tools"))
import torch_release  # noqa: E402

LIBRARY = """
int number = 7;
__thread int of_a_thread = 3;
int answer(void) { return number; }
__attribute__((visibility("hidden"))) int own(void) { return 1; }
"""
USER = "extern int number; extern __thread int of_a_thread; int answer(void);\nint use(void) { return answer() + number + of_a_thread; }\n"


def compiled(folder, name, source, *flags):
    (folder / f"{name}.c").write_text(source)
    out = folder / name
    return subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-z,defs", "-o", out, folder / f"{name}.c", *flags], capture_output=True, text=True)


def test_names_are_enough_to_link_with(tmp_path):
    real, names = tmp_path / "real", tmp_path / "names"
    real.mkdir()
    names.mkdir()
    assert compiled(real, "libtried.so", LIBRARY, "-Wl,-soname,libtried.so").returncode == 0
    torch_release.write_names(real / "libtried.so", names, "gcc")
    linked = compiled(tmp_path, "user.so", USER, f"-L{names}", "-ltried")
    assert linked.returncode == 0, linked.stderr
    # It then runs beside the real one.
    ask = f"import ctypes; ctypes.CDLL({str(real / 'libtried.so')!r}, ctypes.RTLD_GLOBAL); print(ctypes.CDLL({str(tmp_path / 'user.so')!r}).use())"
    assert subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True).stdout == "17\n"
    # What the library keeps to itself, or does not have, is missing when it is linked, not when it is loaded.
    for missing in ("own", "nothing"):
        assert f"undefined reference to `{missing}'" in compiled(tmp_path, "wrong.so", f"int {missing}(void); int use(void) {{ return {missing}(); }}\n", f"-L{names}", "-ltried").stderr
