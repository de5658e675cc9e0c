"""Every way to launch × every way to allocate × every place of a pointer, by a plain C++ program that is linked to the CUDA runtime
(tests/programs/matrix). Every pointer to the other device's memory is found, rightly named, and before the launch; where there is none, nothing.
The whole of it once for each way to come by CUDA's functions, and the findings are the same."""

import re
import subprocess
from dataclasses import dataclass, field

import pytest
from conftest import BUILD, LIBRARY, TOP, environment, execute

MATRIX = BUILD / "matrix"
PLACES = {"first": (0, 0), "struct": (1, 8), "list": (2, 8 + 8 * 17)}  # parameter, offset
COLUMNS = ("launch", "allocation", "place", "injected", "log grew before the original", "result", "originals")


@dataclass
class Pass:
    """How the program comes by CUDA's functions, and how devtrace comes by their calls. `differs`: the fields of a finding that name
    the way, and so may differ from those of the first pass."""

    way: str
    mode: str = "inject"
    options: str = ""
    env: dict = field(default_factory=dict)
    program: str = "matrix"
    differs: frozenset = frozenset()


PASSES = {
    "linked": Pass("linked"),
    # The runtime is inside the program, and its functions were sent to the stand-in runtime.
    "static": Pass("linked", program="static/matrix"),
    "dlsym": Pass("dlsym"),
    "cuGetProcAddress_v2": Pass("cuGetProcAddress_v2"),
    "cudaGetDriverEntryPointByVersion": Pass("cudaGetDriverEntryPointByVersion"),
    # CUPTI tells from within the original, which therefore has to be called: it must not mind what it is given. That its callbacks come
    # before anything is launched is shown by test_stub_cupti.py, and that devtrace tells then by the unit tests of cupti_tracer.
    "cupti": Pass("linked", mode="inject-through", options=":backend=cupti", env={"DEVTRACE_SIM_NO_FAULTS": "1"}),
}
# Of a run, not of what was found.
OF_A_RUN = {"pid", "time", "thread", "address", "stream"}


def run(name, mode, folder):
    """The program's cases and the findings. libdevtrace.so, the shim, the stubs: in this order, so that the shim sees each original
    as it is entered."""
    one = PASSES[name]
    libraries = [LIBRARY, BUILD / "matrix-shim.so", *(BUILD / "simulate" / name for name in (BUILD / "simulate/preload.list").read_text().split())]
    options = "dedupe=0:max_findings=100000:html=0:text=0:native=0" + one.options
    env = environment(options, {"LD_PRELOAD": ":".join(map(str, libraries)), "DEVTRACE_SIM_GPUS": "2", "DEVTRACE_SIM_KERNELS": "0", **one.env})
    outcome = execute([BUILD / one.program, one.mode if mode == "inject" else mode, one.way], folder, env)
    assert outcome.code == 0 and outcome.out.endswith("done\n"), outcome.out[-500:] + outcome.err[-2000:]
    cases = [dict(zip(COLUMNS, line.split()[1:])) for line in outcome.out.splitlines() if line.startswith("case ")]
    for case in cases:
        case |= {key: int(case[key]) for key in COLUMNS[3:]}
    return cases, outcome.findings


@pytest.fixture(scope="module")
def injected(tmp_path_factory):
    """name of a pass → its cases and findings; each runs once."""
    known = {}

    def of(name):
        if name not in known:
            known[name] = run(name, "inject", tmp_path_factory.mktemp(name))
        return known[name]

    return of


def without(record, keys):
    if isinstance(record, dict):
        return {key: without(value, keys) for key, value in record.items() if key not in keys}
    return [without(one, keys) for one in record] if isinstance(record, list) else record


def test_every_way_of_the_program_is_a_pass():
    ways = subprocess.run([MATRIX, "ways"], capture_output=True, text=True, check=True).stdout.split()
    assert len(ways) > 3 and set(ways) == {one.way for one in PASSES.values()}


@pytest.fixture(scope="module")
def listed():
    return subprocess.run([MATRIX, "list"], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("name", PASSES)
def test_every_injected_pointer_is_found_and_named_before_the_launch(injected, name):
    cases, findings = injected(name)
    wanted = [case for case in cases if case["injected"]]
    assert len(wanted) > 2000 and len({case["launch"] for case in wanted}) > 40
    assert [case for case in cases if case["result"] != 0 or case["originals"] != 1] == []
    assert [case for case in cases if case["log grew before the original"] != case["injected"]] == []
    assert len(findings) == len(wanted)
    wrong = []
    for case, finding in zip(wanted, findings):
        launch = finding["launch"]
        right = (
            finding["kind"] == "remote-access" and finding["devices"] == ["cuda:0", "cuda:1"] and finding["current_device"] == "cuda:0"
            and launch["kernel"] == "touch" and (launch["parameter"], launch["offset"]) == PLACES[case["place"]]
            and launch["grid"] == [1, 1, 1] and launch["block"] == [1, 1, 1]
            and launch.get("graph", False) == ("Graph" in case["launch"] or "captured" in case["launch"])
            and [one["device"] for one in finding["operands"]].count("cuda:1") == 1
        )
        if not right:
            wrong.append((case, finding))
    assert wrong[:3] == []


@pytest.mark.parametrize("name", list(PASSES)[1:])
def test_every_way_finds_the_same(injected, name):
    first, other = (injected(one)[1] for one in (next(iter(PASSES)), name))
    keys = OF_A_RUN | PASSES[name].differs
    assert len(first) > 2000 and [without(one, keys) for one in other] == [without(one, keys) for one in first]


@pytest.mark.parametrize("name", PASSES)
def test_where_all_is_where_it_belongs_nothing_is_found(tmp_path, name):
    cases, findings = run(name, "clean", tmp_path)
    assert len(cases) > 2000 and [case for case in cases if case["result"] != 0 or case["injected"] or case["originals"] != 1] == []
    assert findings == [] and [case for case in cases if case["log grew before the original"]] == []


def test_every_launch_of_the_table_is_in_the_matrix(listed):
    rows = set(re.findall(r'^HOOK\("libcu\w+\.so", (\w+)\)$', (TOP / "interpose/linking/hooks.inc").read_text(), re.M))
    done = {name.split(":")[0] for name in listed}
    launches = {
        row for row in rows
        if "ChildGraph" not in row  # what is in it was looked at when it was added
        and re.search(r"^(__)?cu(da)?(Launch)|KernelNode|Graph(Add|Exec|)(Node|ExecNode)(SetParams)?(_v2)?$", row)
    }
    # Only CUDA 12's runtime has these, and the matrix is linked to CUDA 13's.
    assert sorted(launches - done) == ["cudaGraphAddNode_v2", "cudaLaunchCooperativeKernelMultiDevice"]
    shimmed = set(re.findall(r"^\w+_LAUNCH\((\w+)\)$", (TOP / "tests/programs/matrix/functions.inc").read_text(), re.M))
    assert sorted(launches - shimmed) == ["cudaGraphAddNode_v2", "cudaLaunchCooperativeKernelMultiDevice"]


# Allocations that the matrix cannot make: another process's or another API's memory, and two functions of before CUDA 4.
ELSEWHERE = {
    "cudaIpcOpenMemHandle", "cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2", "cudaMemPoolImportPointer", "cuMemPoolImportPointer",
    "cudaExternalMemoryGetMappedBuffer", "cuExternalMemoryGetMappedBuffer", "cuMemAllocHost", "cuMemHostRegister",
}


def test_every_allocation_of_the_table_is_in_the_matrix(listed):
    rows = set(re.findall(r'^HOOK\("libcu\w+\.so", (\w+)\)$', (TOP / "interpose/linking/hooks.inc").read_text(), re.M))
    done = {name.split(":")[0] for name in listed}
    allocations = {row for row in rows if re.search(r"Alloc|Malloc|HostRegister|MemMap$|OpenMem|ImportPointer|MappedBuffer", row)}
    assert sorted(allocations - done - ELSEWHERE) == []
    assert sorted(ELSEWHERE - rows) == []
