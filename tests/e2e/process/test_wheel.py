"""`make wheel`, as somebody installs it: into an environment of its own, without this folder."""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bare_root import BareRoot
from conftest import BUILD, TOP, environment, execute
from interpreters import READABLE, READABLE_FREE_THREADED
from nightly import first

MIXED = "import torch\ntorch.ones(3, device='cuda:0') + torch.ones(3, device='cuda:1')\n"
# The program copies 16 bytes of a device's memory as if they were the host's.
MISTAKEN = """
import ctypes
runtime = ctypes.CDLL("libcudart.so.13")
own, host = ctypes.c_void_p(), ctypes.create_string_buffer(16)
runtime.cudaMalloc(ctypes.byref(own), ctypes.c_size_t(16))
runtime.cudaMemcpy(own, host, ctypes.c_size_t(16), 2)
"""
RECIPE = (TOP / "recipes/Containerfile").read_text()


def make(out, umask=0o022):
    env = {**os.environ, "BUILD": str(BUILD.relative_to(TOP)), "PYTHON": sys.executable}
    for inherited in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):
        env.pop(inherited, None)
    done = subprocess.run(["scripts/make-wheel", str(out)], cwd=TOP, env=env, capture_output=True, text=True, umask=umask)
    assert done.returncode == 0, done.stderr + done.stdout
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return make(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder of an environment into which pip put the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin/python"), "install", "--quiet",
                    "--no-index", "--no-deps", str(wheel)], check=True)
    return folder


def test_its_name_says_what_it_runs_on(wheel):
    """As PyTorch's own wheels: RHEL 8 has glibc 2.28."""
    assert re.fullmatch(r"devtrace-[\d.]+-py3-none-manylinux_2_28_x86_64\.whl", wheel.name)


def test_an_index_would_take_it(wheel):
    """With the readme that is shown, and the same plugin for pytest as `make install` has."""
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel], capture_output=True, text=True)
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stdout + done.stderr
    with zipfile.ZipFile(wheel) as archive:
        (entry_points,) = [archive.read(name).decode() for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
    assert entry_points == (TOP / "python/devtrace_pytest-0.dist-info/entry_points.txt").read_text()


def test_no_file_asks_for_a_newer_c_library(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    read = 0
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            asked = subprocess.run(["objdump", "-T", str(path)], capture_output=True, text=True, check=True).stdout
            newer = {found for found in re.findall(r"GLIBC_2\.(\d+)", asked) if int(found) > 28}
            # GCC 8's libstdc++ and unwinder, which came with that glibc.
            newer |= {found for found in re.findall(r"GLIBCXX_3\.4\.(\d+)", asked) if int(found) > 25}
            assert not newer, path.name
            read += 1
    assert read > 10


def test_no_file_names_a_folder_of_this_machine(wheel):
    """Another folder's build would not be the same."""
    site = sysconfig.get_path("purelib")
    folders = {os.path.realpath(folder).encode() for folder in (TOP, TOP / ".cache", sys.prefix, site)} | {bytes(TOP)}
    with zipfile.ZipFile(wheel) as archive:
        named = {name for name in archive.namelist() for folder in folders if folder + b"/" in archive.read(name)}
    assert named == set()


@pytest.mark.slow
def test_what_differs_between_two_builds_is_named(wheel, tmp_path):
    def compare(other):
        return subprocess.run(["scripts/check-wheel", wheel, other], cwd=TOP, env={**os.environ, "PYTHON": sys.executable}, capture_output=True, text=True)

    done = compare(wheel)
    assert done.returncode == 0 and "in both folders" in done.stdout, done.stderr
    with zipfile.ZipFile(wheel) as archive, zipfile.ZipFile(tmp_path / "other.whl", "w") as other:
        for entry in archive.infolist():
            content = archive.read(entry)
            if entry.filename.endswith("/libdevtrace.so"):
                content = content[:-1] + bytes([content[-1] ^ 1])
            if not entry.filename.endswith("/overlay.so"):
                other.writestr(entry, content)
    done = compare(tmp_path / "other.whl")
    assert done.returncode == 1
    library, overlay = sorted(done.stderr.splitlines()[1:], reverse=True)
    assert library.endswith("lib/devtrace/libdevtrace.so: CRC") and overlay.endswith("fix/overlay.so: in one of them only")


# The oldest and the newest first.
PYTHONS = [path for _, path in [READABLE[0], READABLE[-1], *READABLE[1:-1], *READABLE_FREE_THREADED]]


@pytest.mark.parametrize("interpreter", first(2, PYTHONS), ids=lambda path: Path(path).name)
def test_every_python_installs_it_and_needs_nothing_else(wheel, interpreter, tmp_path):
    folder = tmp_path / "environment"
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "--quiet", "--no-index", "--no-deps", wheel], check=True)
    (tmp_path / "program.py").write_text(MISTAKEN)
    command = [folder / "bin/python", "-m", "devtrace", "rehearse", "--gpus", "2", "--", folder / "bin/python", "program.py"]
    done = execute(command, tmp_path, environment(None, {"PATH": str(folder / "bin")}))
    assert done.code == 0 and done.finding["kind"] == "copy-mismatch", done.out + done.err
    assert "SUMMARY: devtrace: copy-mismatch program.py:6 in <module>: own on cuda:0, host" in done.err


def test_what_a_fix_needs_is_in_it(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition(".data/data/")[2] for name in archive.namelist()}
    ours = {f"lib/devtrace/fix/edits/{path.name}" for path in (TOP / "fix/edits").glob("*.py")}
    assert {"lib/devtrace/fix/overlay.so", *ours} <= names


def test_licences_go_with_it_as_a_short_list(wheel):
    with zipfile.ZipFile(wheel) as archive:
        licences = {name.rpartition("/")[2]: archive.read(name).decode() for name in archive.namelist() if "/licenses/" in name}
    assert set(licences) == {"LICENSE", "third-party"} and len(licences["third-party"]) < 20_000
    for holder in ("Hewlett-Packard", "University of Cincinnati", "Victor Zverovich", "Niels Lohmann", "Yann Collet", "The libbacktrace library", "From PyTorch"):
        assert holder in licences["third-party"]


def test_whatever_is_linked_has_its_licence_there():
    done = subprocess.run([TOP / "scripts/third-party-licences", "--check", BUILD], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_is_small(wheel):
    assert wheel.stat().st_size < 8_000_000


def test_the_same_files_give_the_same_bytes_though_two_make_it_at_once(wheel, tmp_path):
    with ThreadPoolExecutor() as two:
        made = list(two.map(make, [tmp_path / "one", tmp_path / "other"], [0o077, 0o022]))
    assert [one.read_bytes() for one in made] == [wheel.read_bytes()] * 2


def test_the_libraries_for_cuda_12_are_in_it(wheel):
    if not (BUILD / "simulate/cuda12/preload.list").exists():
        pytest.skip("make simulate-cuda12 was not run")
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition(".data/data/lib/devtrace/simulate/")[2] for name in archive.namelist()}
    assert {"cuda12/libcudart.so.12", "cuda12/preload.list", "libcudart.so.13", "preload.list"} <= names


def test_the_quick_kernels_of_every_release_that_was_built_are_in_it(wheel):
    built = {path.name for path in (BUILD / "simulate/torch").glob("libcuda_values-*.so")}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name.rpartition("/")[2] for name in archive.namelist() if "/simulate/torch/libcuda_values-" in name}
    assert packed == built and built


def test_stand_ins_find_the_driver_beside_themselves(installed):
    """Nobody has preloaded it for who opens one by its path."""
    library = next(installed.rglob("simulate/libcudart.so.13"))
    ask = f"import ctypes; print(ctypes.CDLL({str(library)!r}).cudaDriverGetVersion(ctypes.byref(ctypes.c_int())))"
    done = subprocess.run([installed / "bin/python", "-c", ask], capture_output=True, text=True)
    assert done.stdout == "0\n", done.stderr


def test_the_version_stands_in_one_place(tmp_path):
    """Also that of the pytest plugin of `make install`."""
    done = subprocess.run(["make", "-s", "install", f"DESTDIR={tmp_path}", "PREFIX=/p", f"BUILD={BUILD.relative_to(TOP)}"], cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    version = re.search(r'kVersion = "(.*)"', (TOP / "common/version.h").read_text())[1]
    (metadata,) = tmp_path.rglob("devtrace_pytest-*/METADATA")
    assert metadata.parent.name == f"devtrace_pytest-{version}.dist-info" and f"\nVersion: {version}\n" in metadata.read_text()


def test_the_command_finds_its_parts(installed, tmp_path):
    (tmp_path / "program.py").write_text(MIXED)
    command = [installed / "bin/devtrace", "rehearse", "--gpus", "2", "--", sys.executable, "program.py"]
    done = execute(command, tmp_path, environment(None))
    assert done.code == 1 and done.finding["operation"] == "aten::add" and done.finding["devices"] == ["cuda:0", "cuda:1"]
    assert done.finding["native"], "the stripped library walks native stacks, too"
    assert "SUMMARY: devtrace: refused-op program.py:2" in done.err and len(done.pages) == 1


@pytest.mark.slow
def test_uv_installs_and_runs_it(wheel, tmp_path):
    """PyTorch by way of a .pth file: nothing is downloaded."""
    (tmp_path / "program.py").write_text(MIXED)
    uv = [Path(sys.executable).with_name("uv"), "--offline", "--no-config", "--cache-dir", tmp_path / "cache"]
    env = environment(None)
    for words in (["venv", "--python", sys.executable], ["pip", "install", "--no-index", "--no-deps", wheel]):
        done = subprocess.run([*uv, "--quiet", *words], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    packages = next(tmp_path.glob(".venv/lib/python3*/site-packages"))
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run = [*uv, "run", "--no-project"]
    for words in ([*run, "devtrace", "rehearse", "--", "python", "program.py"], [next(tmp_path.glob(".venv/bin/devtrace")), "rehearse", "--", *run, "program.py"]):
        done = execute(words, tmp_path, env)
        assert done.code == 1 and "SUMMARY: devtrace: refused-op program.py:2" in done.err, done.out + done.err


def test_pytest_finds_the_plugin(installed, tmp_path):
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    {MIXED.replace(chr(10), chr(10) + '    ').rstrip()}\n")
    env = environment(None, {"PYTHONPATH": sysconfig.get_path("purelib"), "PATH": os.defpath})
    env.pop("DEVTRACE", None)
    command = [installed / "bin/python", "-m", "pytest", "-p", "no:cacheprovider", "--devtrace", "--devtrace-gpus", "2"]
    done = execute(command, tmp_path, env)
    assert done.code == 1 and "SUMMARY: devtrace: refused-op test_it.py:3" in done.out, done.out + done.err


@pytest.mark.slow
def test_it_runs_in_a_container_without_a_distribution(installed, tmp_path):
    """Neither a shell, nor /etc, nor a tool: what devtrace asks of a system is the C library. With the settings of recipes/Containerfile."""
    torch = Path(sysconfig.get_path("purelib"))
    root = BareRoot(tmp_path / "root", [installed, torch])
    (root.root / "tmp" / "program.py").write_text(MIXED)
    logs = root.root / re.search(r"^VOLUME /(.*)$", RECIPE, re.M)[1]
    logs.mkdir()
    settings = {"DEVTRACE_OPTIONS": re.search(r"^ENV DEVTRACE_OPTIONS=(.*)$", RECIPE, re.M)[1]}
    command = [installed / "bin/devtrace", "rehearse", "--gpus", "2", "--", installed / "bin/python", "program.py"]
    done = execute(root.command(command, {"PYTHONPATH": str(torch), **settings}), logs, environment(None))
    assert done.code == 1 and done.finding["operation"] == "aten::add" and done.finding["native"], done.out + done.err
    assert "SUMMARY: devtrace: refused-op program.py:2" in done.err and len(done.pages) == 1
    check = [installed / "bin/python", "-m", "devtrace", "check", "/" + logs.name]
    checked = execute(root.command(check, {}), logs, environment(None))
    assert checked.code == 1 and "program.py:2" in checked.out, checked.out + checked.err
    assert not (root.root / "bin").exists() and not (root.root / "etc").exists()


@pytest.mark.slow
def test_a_containers_recipe_installs_it(wheel, tmp_path):
    """The same words, with an environment's Python."""
    words = re.search(r"^RUN python3 (-m pip install .*?) /tmp/devtrace/devtrace-\*.whl", RECIPE, re.M)[1].split()
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    done = subprocess.run([tmp_path / "bin/python3", *words, wheel], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "bin/devtrace", "--version"]).returncode == 0
