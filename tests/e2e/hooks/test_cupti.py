"""Events from CUPTI in the hooks' place: the same findings and the same sums, times of copies, and living with other tools and forks."""

import subprocess
import textwrap

import pytest
from c_programs import build
from conftest import BUILD, LIBRARY, by_line, environment, execute, line_of, start, traffic
from kernel_programs import TRITON
from nightly import first
from test_matrix import without

CUPTI = "backend=cupti"
SILENT = TRITON + """
moved = here.to("cuda:1")  # MOVED
for _ in range(3):
    again = here.to("cuda:1")  # AGAIN
add[(1,)](here, there, torch.empty_like(here), 64)  # HERE
print("went on")
"""
OF_A_RUN = {"pid", "time", "thread", "address", "stream", "cause"}


def one(outcome, record):
    return next(r for r in outcome.records if r["record"] == record)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same program by hooks and by CUPTI."""
    return {
        backend: start(SILENT, tmp_path_factory.mktemp(backend), options=f"backend={backend}:native=0", env={"DEVTRACE_SIM_NO_FAULTS": "1"})
        for backend in ("interpose", "cupti")
    }


def test_the_same_is_found(both):
    hooks, cupti = both["interpose"].finding, both["cupti"].finding
    assert hooks["kind"] == "remote-access" and line_of(both["cupti"], "# HERE") in [frame["line"] for frame in cupti["python"]]
    files = {key: {**finding} for key, finding in (("hooks", hooks), ("cupti", cupti))}
    plain = {key: str(without(finding, OF_A_RUN)).replace(str(both[key if key == "cupti" else "interpose"].folder), "") for key, finding in files.items()}
    assert plain["hooks"] == plain["cupti"]
    assert both["cupti"].out == both["interpose"].out and both["cupti"].out.endswith("went on\n")
    assert [one(outcome, "process")["backend"] for outcome in both.values()] == ["interpose", "cupti"]


def test_nothing_is_counted_twice_and_copies_have_their_times(both):
    hooks, cupti = both["interpose"], both["cupti"]
    assert by_line(hooks) == by_line(cupti) and ("AGAIN", "cuda:0", "cuda:1") in by_line(cupti)
    assert not any("timed" in record for record in traffic(hooks))
    for record in traffic(cupti):
        timed = record["timed"]
        assert (timed["copies"], timed["bytes"]) == (record["copies"], record["bytes"]) and timed["nanoseconds"] > 0
    assert one(cupti, "end")["findings"] == 1
    assert "measured" in subprocess.run([BUILD / "devtrace", "report", cupti.logs[0]], capture_output=True, text=True, check=True).stdout


def injected(program, folder, options=None, env=None):
    """Without LD_PRELOAD: CUDA itself opens the library."""
    return start(program, folder, options, trace=False, env={"CUDA_INJECTION64_PATH": str(LIBRARY), **(env or {})})


def test_a_process_that_is_not_preloaded(tmp_path, both):
    outcome = injected(SILENT, tmp_path, options="native=0", env={"DEVTRACE_SIM_NO_FAULTS": "1"})
    finding = outcome.finding
    assert (finding["kind"], finding["devices"]) == ("remote-access", both["cupti"].finding["devices"])
    assert line_of(outcome, "# HERE") in [frame["line"] for frame in finding["python"]]
    assert {operand["name"] for operand in finding["operands"] if "name" in operand} >= {"here", "there"}
    assert by_line(outcome) == by_line(both["cupti"])
    assert one(outcome, "process")["backend"] == "cupti" and one(outcome, "end")["findings"] == 1
    said = [line for line in outcome.err.splitlines() if line.startswith("devtrace: loaded through CUDA_INJECTION64_PATH")]
    assert len(said) == 1 and "PyTorch's own refusals" in said[0]


def test_hooks_need_the_library_before_cuda(tmp_path):
    outcome = injected("import torch; torch.ones(3, device='cuda:0'); print('went on')", tmp_path, options="backend=interpose")
    assert outcome.out == "went on\n" and outcome.logs == []
    assert "backend=interpose, but the library was loaded through CUDA_INJECTION64_PATH" in outcome.err


def test_a_refusal_is_explained_as_ever(rehearse):
    outcome = rehearse("""
        import torch
        table = torch.ones(3, 3, device="cuda:1")
        ids = torch.tensor([1], device="cuda:0")
        try:
            table.index_select(0, ids)
        except RuntimeError:
            print("refused")
    """, options=CUPTI)
    assert outcome.out == "refused\n" and outcome.finding["kind"] == "refused-op"
    assert {operand["name"]: operand["device"] for operand in outcome.finding["operands"]} == {"table": "cuda:1", "ids": "cuda:0"}


OTHER_FIRST = """
import ctypes
cupti = ctypes.CDLL("libcupti.so.13")
called = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)(lambda *_: None)
handle = ctypes.c_void_p()
print("subscribed", cupti.cuptiSubscribe(ctypes.byref(handle), called, None))
"""


def test_whoever_came_first_keeps_the_seat(rehearse):
    outcome = rehearse(OTHER_FIRST + SILENT, options=CUPTI, env={"DEVTRACE_SIM_NO_FAULTS": "1"})
    assert outcome.out.startswith("subscribed 0\n") and outcome.out.endswith("went on\n")
    assert outcome.finding["kind"] == "remote-access" and one(outcome, "process")["backend"] == "interpose"
    said = [line for line in outcome.err.splitlines() if "CUPTI" in line]
    assert len(said) == 1 and said[0].startswith("devtrace: CUPTI's only seat is taken by ")
    assert "going on with interposition; what is lost are the times of copies" in said[0]
    assert not any("timed" in record for record in traffic(outcome))


def test_without_a_seat_and_without_hooks_nothing_can_be_seen(tmp_path):
    outcome = injected(OTHER_FIRST + "import torch; torch.ones(3, device='cuda:0'); print('went on')", tmp_path)
    assert outcome.out.endswith("went on\n") and outcome.logs == []
    assert "nothing will be seen; start the program with 'devtrace run'" in outcome.err


REFUSES = r"""
#include <dlfcn.h>
#include <string.h>
int cuptiGetCallbackName(int, unsigned, const char**);
int cuptiEnableCallback(unsigned enable, void* subscriber, int domain, unsigned id) {
  static int (*real)(unsigned, void*, int, unsigned);
  if (!real) real = dlsym(RTLD_NEXT, "cuptiEnableCallback");
  const char* name = "";
  cuptiGetCallbackName(domain, id, &name);
  return strncmp(name, "cudaMemcpyPeerAsync", 19) ? real(enable, subscriber, domain, id) : 14;
}
"""


def test_what_cupti_does_not_deliver_is_said_once(tmp_path):
    """By a library that stands before libcupti and has its name."""
    shim = build(tmp_path / "shim", "libcupti.so.0", REFUSES, "-D_GNU_SOURCE", BUILD / "simulate/libcupti.so.13")
    program = build(tmp_path, "program", 'int cudaFree(void*); int main() { printf("%d\\n", cudaFree(0)); return 0; }', BUILD / "simulate/libcudart.so.13")
    env = {"LD_PRELOAD": str(shim), "LD_LIBRARY_PATH": str(BUILD / "simulate"), "CUDA_INJECTION64_PATH": str(LIBRARY)}
    outcome = execute([program], tmp_path, environment(None, env))
    assert outcome.out == "0\n", outcome.err
    said = [line for line in outcome.err.splitlines() if "CUPTI does not deliver" in line]
    assert said == ["devtrace: CUPTI does not deliver calls of cudaMemcpyPeerAsync (CUPTI_ERROR_NOT_COMPATIBLE): what the program does through them is not seen"], outcome.err


def test_where_cupti_has_several_seats_one_is_taken(rehearse):
    outcome = rehearse(
        OTHER_FIRST.replace("cuptiSubscribe(ctypes.byref(handle), called, None)", "cuptiSubscribe_v2(ctypes.byref(handle), called, None, None)") + SILENT,
        options=CUPTI, env={"DEVTRACE_SIM_NO_FAULTS": "1", "DEVTRACE_SIM_CUPTI_SUBSCRIBERS": "2"},
    )
    assert outcome.finding["kind"] == "remote-access" and one(outcome, "process")["backend"] == "cupti", outcome.err
    assert "seat" not in outcome.err


PROFILED = """
import torch
from torch.profiler import ProfilerActivity, profile
a = torch.ones(8, 8, device="cuda:0")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    b = (a @ a).to("cuda:1")  # MOVED
print(any("mm" in event.key for event in profiler.key_averages()), b.sum().item())
"""


@pytest.mark.parametrize("backend", first(1, ["cupti", "auto", "interpose"]))
def test_torch_profiler_in_the_same_process(rehearse, backend):
    outcome = rehearse(PROFILED, options=f"backend={backend}")
    assert (outcome.code, outcome.out) == (0, "True 512.0\n"), outcome.err
    assert by_line(outcome)[("MOVED", "cuda:0", "cuda:1")] == (256, 1)
    assert outcome.findings == []


def test_forks_are_left_alone(rehearse):
    outcome = rehearse("""
        import os, torch
        a = torch.ones(4, device="cuda:0").to("cuda:1")  # MOVED
        children = []
        for child in range(20):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if torch.ones(3).sum().item() == 3 else 9)
            children.append(pid)
        print({os.waitpid(pid, 0)[1] for pid in children})
        b = a.to("cuda:0")  # BACK
    """, options=CUPTI)
    assert (outcome.code, outcome.out) == (0, "{0}\n"), outcome.err
    assert len(outcome.logs) == 1 and ("BACK", "cuda:1", "cuda:0") in by_line(outcome)
    assert all("timed" in record for record in traffic(outcome))


def test_workers_that_use_cuda_themselves(rehearse):
    outcome = rehearse("""
        import os, torch, torch.multiprocessing as mp
        def work(rank):
            total = torch.ones(4, device=f"cuda:{rank}").to(f"cuda:{1 - rank}").sum().item()  # MOVED
            os.write(1, f"{rank} {total}\\n".encode())
        if __name__ == "__main__":
            mp.spawn(work, nprocs=2)
    """, options=CUPTI)
    assert outcome.code == 0 and sorted(outcome.out.splitlines()) == ["0 4.0", "1 4.0"], outcome.err
    logs = [r for r in outcome.records if r["record"] == "process"]
    assert len(logs) == 2 and {r["backend"] for r in logs} == {"cupti"}


@pytest.mark.parametrize("leave", first(1, ["os._exit(3)", "sys.exit(3)", "os.kill(os.getpid(), 15)"]))
def test_however_the_process_ends(rehearse, leave):
    outcome = rehearse(f"import os, sys, torch\na = torch.ones(4, device='cuda:0').to('cuda:1')\n{leave}", options=CUPTI)
    assert outcome.code == (3 if "exit" in leave else 143), outcome.err
    if "exit" in leave:
        assert outcome.records[-1]["record"] == "end"
        assert all("timed" in record for record in traffic(outcome))


def test_an_unknown_backend_is_said(rehearse):
    outcome = rehearse("import torch; torch.ones(3, device='cuda:0')", options="backend=both")
    assert outcome.code == 0
    assert "devtrace: DEVTRACE_OPTIONS: backend=both: must be auto, interpose or cupti; the default stands" in outcome.err


def test_without_a_libcupti(tmp_path):
    """A C++ process with the stub driver and no CUPTI anywhere near."""
    source = tmp_path / "program.cpp"
    source.write_text(textwrap.dedent("""
        #include <cstdio>
        extern "C" int cudaSetDevice(int);
        int main() { std::printf("%d\\n", cudaSetDevice(1)); }
    """))
    folder = tmp_path / "libraries"
    folder.mkdir()
    for name in ("libcudart.so.13", "libcuda.so.1"):
        (folder / name).symlink_to(BUILD / "simulate" / name)
    subprocess.run(["g++", source, folder / "libcudart.so.13", folder / "libcuda.so.1", "-o", tmp_path / "program"], check=True)
    env = environment(CUPTI, {"LD_PRELOAD": str(LIBRARY), "LD_LIBRARY_PATH": str(folder), "DEVTRACE_SIM_GPUS": "2"})
    outcome = execute([tmp_path / "program"], tmp_path, env)
    assert (outcome.code, outcome.out) == (0, "0\n")
    assert "there is no libcupti.so" in outcome.err or "CUPTI refuses" in outcome.err  # an installed toolkit has one, and no driver for it
