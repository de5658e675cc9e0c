"""Which operation was refused: told apart on one line, counted in a loop and of many threads, none lost; and the native stack that says so."""

START = """
import torch
left, right = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
def refused(call, times=1):
    for _ in range(times):
        try:
            call()
        except RuntimeError:
            continue
        raise SystemExit("nothing was refused")
"""


def last_counts(outcome) -> dict[int, int]:
    """A finding's id → how often it was seen."""
    return {record["id"]: record["count"] for record in outcome.records if record["record"] in ("finding", "count")}


def test_operations_on_one_line_are_findings_of_their_own(rehearse):
    """Their messages are the same, word for word."""
    outcome = rehearse(START + "def both(name): getattr(left, name)(right)\nfor name in ('sub', 'div', 'sub', 'maximum', 'sub'): refused(lambda: both(name))\n")
    assert (outcome.code, outcome.out) == (0, ""), outcome.err
    counts = last_counts(outcome)
    by_name = [(finding["operation"], counts[finding["id"]]) for finding in outcome.findings]
    assert by_name == [("aten::sub", 3), ("aten::div", 1), ("aten::maximum", 1)]


def test_a_loop_is_one_finding_and_cheap(rehearse):
    outcome = rehearse(START + "import time\nrefused(lambda: left + right)\nbegan = time.perf_counter()\nrefused(lambda: left + right, 20000)\n"
                               "print((time.perf_counter() - began) / 20000 * 1e6)\n")
    assert outcome.code == 0, outcome.err
    assert last_counts(outcome) == {1: 20001}
    assert float(outcome.out) < 1000  # microseconds; gathering the evidence anew takes several thousand


def test_our_own_frames_are_not_in_the_native_stack(rehearse):
    outcome = rehearse(START + "refused(lambda: torch.cat([left, right]))\nrefused(lambda: left + right)\n")
    assert len(outcome.findings) == 2
    for finding in outcome.findings:
        assert finding["native"], outcome.err
        assert [frame for frame in finding["native"] if "libdevtrace" in frame.get("module", "")] == []
        assert "libtorch" in finding["native"][0]["module"] or "libc10" in finding["native"][0]["module"]


def test_a_jitted_kernel_has_the_name_that_its_source_gives_it(rehearse):
    """No operator of PyTorch's dispatcher is at work."""
    outcome = rehearse(START + 'kernel = torch.cuda.jiterator._create_jit_fn("template <typename T> T leaky(T x, T y) { return x > 0 ? x : x * y; }")\n'
                               "refused(lambda: kernel(left, right))\n")
    assert outcome.finding["operation"] == "jiterator::leaky", outcome.err
    assert "overload" not in outcome.finding
    assert [(one["name"], one["device"]) for one in outcome.finding["operands"]] == [("left", "cuda:0"), ("right", "cuda:1")]


def test_what_calls_python_is_not_the_operation(rehearse):
    """aten::neg calls the mode in Python, and Python what is refused."""
    outcome = rehearse(
        START
        + """
from torch.utils._python_dispatch import TorchDispatchMode
kernel = torch.cuda.jiterator._create_jit_fn("template <typename T> T leaky(T x, T y) { return x * y; }")
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return kernel(left, right)
def negate():
    with Mode():
        left.neg()
refused(negate)
"""
    )
    assert outcome.finding["operation"] == "jiterator::leaky", outcome.err


REFUSED = {  # by kernels whose results have a size that only values tell
    "an index in a list": "left[torch.zeros(3, dtype=torch.long, device='cuda:1')]",
    "a mask without dimensions": "torch.masked_select(left, torch.tensor(True, device='cuda:1'))",
    "a mask without dimensions, on the CPU": "torch.masked_select(left, torch.tensor(True))",
    "another device, and then another": "torch.ops.aten._unsafe_masked_index(left, torch.ones(3, dtype=torch.bool, device='cuda:1'), [torch.zeros(3, dtype=torch.long, device='cuda:1')], 0)",
}


def test_a_refusal_is_raised_and_found_once(rehearse):
    """Computing the values on the CPU, where a rehearsal does, must not take a refusal back."""
    source = START + "".join(f"refused(lambda: {code})\n" for code in REFUSED.values())
    outcome = rehearse(source, options="text=0:dedupe=0")
    assert (outcome.code, outcome.out) == (0, ""), outcome.err
    assert len(outcome.findings) == len(REFUSED), [finding["message"] for finding in outcome.findings]


# All are refused at once.
MANY_THREADS = """
    import sys, threading
    import torch

    THREADS, TIMES = 64, 4
    sys.setswitchinterval(1e-5)
    left, right = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
    gate = threading.Barrier(THREADS)
    refused = [0] * THREADS

    def work(number):
        mine = torch.ones(3, device=f"cuda:{number % 2}")
        gate.wait()
        for _ in range(TIMES):
            torch.empty(1 << 12, device=f"cuda:{number % 2}")  # the allocator's lock is wanted by all
            try:
                left + right
            except RuntimeError:
                refused[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(sum(refused))
"""


def test_none_of_many_threads_is_lost(rehearse):
    outcome = rehearse(MANY_THREADS, "dedupe=0:max_findings=0:text=0:html=0")
    assert (outcome.code, outcome.out) == (0, f"{64 * 4}\n"), outcome.err
    assert len(outcome.findings) == 64 * 4
    assert sorted(finding["id"] for finding in outcome.findings) == list(range(1, 64 * 4 + 1))
    assert len({finding["thread"] for finding in outcome.findings}) == 64
    for finding in outcome.findings:
        assert finding["operation"] == "aten::add" and finding["devices"] == ["cuda:0", "cuda:1"]
        assert finding["python"][0]["source"].strip() == "left + right"


def test_the_same_fault_of_many_threads_is_written_once_and_counted(rehearse):
    outcome = rehearse(MANY_THREADS)
    assert (outcome.code, outcome.out) == (0, f"{64 * 4}\n"), outcome.err
    assert len(outcome.findings) == 1
    assert max(record["count"] for record in outcome.records if record["record"] == "count") == 64 * 4
    end = [record for record in outcome.records if record["record"] == "end"]
    assert [(record["findings"], record["dropped"]) for record in end] == [(64 * 4, 0)]
