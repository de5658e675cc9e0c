"""A PyTorch that calls something otherwise than all that are known: one line names what is missing, and what is not seen for that reason."""

import re
from pathlib import Path

from c_programs import WITH_CUDA, build
from conftest import DEVTRACE, TOP, environment, execute

ROWS = (TOP / "interpose/pytorch/expected_symbols.cpp").read_text()
ERROR = "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
REPORT = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
USES_CUDA = "int main(int argc, char** argv) { void* p; return cudaMalloc(&p, 4096); }\nint cudaMalloc(void**, unsigned long);\n"


def library(folder: Path, name: str, without: set[str]) -> Path:
    """All that is expected of that library, less some."""
    names = re.findall(r'"(_Z\w+|aoti_\w+|[A-Z]\w+Class)"', ROWS)
    assert without <= set(names) and len(names) > 20
    return build(folder, name, "".join(f"int {one}() {{ return 0; }}\n" for one in names if one not in without))


def run(folder: Path, program: Path, *arguments):
    return execute([DEVTRACE, "rehearse", "--gpus", "1", "--", program, *arguments], folder, environment("html=0"))


def lines(outcome) -> list[str]:
    return [line for line in outcome.err.splitlines() if "PyTorch" in line]


def process(outcome) -> dict:
    (record,) = [one for one in outcome.records if one["record"] == "process"]
    return record


def spellings(stem: str) -> set[str]:
    return set(re.findall(rf'"(\w*{stem}\w*)"', ROWS))


def test_a_renamed_function_is_named_once(tmp_path):
    fake = library(tmp_path / "lib", "libc10.so", spellings("3c105ErrorC") | {"_ZTVN3c1010TensorImplE"})
    outcome = run(tmp_path, build(tmp_path, "program", USES_CUDA, fake, *WITH_CUDA))
    assert outcome.code == 0, outcome.err
    (line,) = lines(outcome)
    assert "PyTorch has no c10::Error::Error: what it refuses is not seen; no vtable for c10::TensorImpl: the devices" in line
    missing = process(outcome)["missing_symbols"]
    assert [(one["library"], one["symbol"]) for one in missing] == [("libc10.so", ERROR), ("libc10.so", "_ZTVN3c1010TensorImplE")]
    assert missing[0]["effect"] == "what it refuses is not seen"


def test_one_spelling_of_several_is_enough(tmp_path):
    older = spellings("reportMemoryUsageToProfiler") - {REPORT}
    assert older
    fake = library(tmp_path / "lib", "libc10.so", {REPORT})
    outcome = run(tmp_path, build(tmp_path, "program", USES_CUDA, fake, *WITH_CUDA))
    assert (outcome.code, lines(outcome)) == (0, []) and "missing_symbols" not in process(outcome)
    fake = library(tmp_path / "lib2", "libc10.so", {REPORT, *older})
    outcome = run(tmp_path, build(tmp_path, "program2", USES_CUDA, fake, *WITH_CUDA))
    assert "no c10::reportMemoryUsageToProfiler: where its tensors were made and moved is not known." in outcome.err


def test_what_shares_an_effect_is_told_together(tmp_path):
    gone = {"aoti_torch_get_dim", "aoti_torch_get_sizes"}
    fake = library(tmp_path / "lib", "libtorch_cpu.so", gone)
    (line,) = lines(run(tmp_path, build(tmp_path, "program", USES_CUDA, fake, *WITH_CUDA)))
    assert "has no aoti_torch_get_sizes, aoti_torch_get_dim: the devices, shapes and origins of operands are not read." in line


def test_without_pytorch_nothing_is_missed(tmp_path):
    other = library(tmp_path / "lib", "libc10_of_somebody.so", spellings("3c105ErrorC"))
    outcome = run(tmp_path, build(tmp_path, "program", USES_CUDA, other, *WITH_CUDA))
    assert (outcome.code, lines(outcome)) == (0, []) and "missing_symbols" not in process(outcome)


def test_the_pytorch_here_has_all_of_it(rehearse):
    outcome = rehearse("import torch\ntorch.ones(3, device='cuda:0')\n")
    assert outcome.code == 0 and lines(outcome) == [] and "missing_symbols" not in process(outcome)


def test_a_pytorch_that_is_loaded_when_cuda_is_in_use(tmp_path):
    """As Python loads torch._C: its function is looked up when the libraries are there."""
    fake = library(tmp_path / "lib", "libtorch_python.so", {"ParameterClass"})
    source = "int PyInit__C() { return 0; }\n"
    extension = build(tmp_path, "_C.so", source, fake)
    program = USES_CUDA.replace("4096);", '4096) || !dlsym(dlopen(argv[1], RTLD_NOW), "PyInit__C");')
    outcome = run(tmp_path, build(tmp_path, "program", program, *WITH_CUDA), extension)
    assert outcome.code == 0
    (line,) = lines(outcome)
    assert "has no ParameterClass: parameters in Python's variables are not found." in line
