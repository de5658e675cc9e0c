"""What is shipped, where the C library has less than this system's."""

import re
import subprocess

from conftest import BUILD, DEVTRACE

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
