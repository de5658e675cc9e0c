"""`rehearse --async SEED`: streams run behind the host. A missing synchronisation gives wrong values, a correct program the right ones."""

import json
import sys

import pytest
from conftest import DEVTRACE, TOP, environment, execute, start
from same_numbers import same

sys.path.insert(0, str(TOP / "tests/workloads"))
from case_form import cases_in  # noqa: E402

CASES = cases_in(TOP / "tests/workloads/rehearsed.py")

SEEDS = [1, 2, 3, 4, 5]

# Each is told whether it synchronises, and returns what is right only if it does.
RACES = """
import json
import torch

def reads_before_the_copy_is_done(synchronised):
    value = torch.arange(1000, dtype=torch.float32, device="cuda") * 2
    host = torch.full((1000,), -1.0).pin_memory()
    host.copy_(value, non_blocking=True)
    if synchronised:
        torch.cuda.synchronize()
    return host[5].item() == 10

def writes_to_pinned_memory_too_early(synchronised):
    host, value = torch.full((1000,), 3.0).pin_memory(), torch.empty(1000, device="cuda")
    value.copy_(host, non_blocking=True)
    if synchronised:
        torch.cuda.current_stream().synchronize()
    host.fill_(7)
    return value[0].item() == 3

def frees_what_another_stream_uses(synchronised):
    side, value = torch.cuda.Stream(), torch.full((1000,), 3.0, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        result = value * 2
    if synchronised:
        value.record_stream(side)
    del value
    torch.full((1000,), 100.0, device="cuda")
    torch.cuda.synchronize()
    return result[0].item() == 6

def reads_what_another_stream_has_yet_to_write(synchronised):
    side, value = torch.cuda.Stream(), torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        value += 1
        value *= 5
    if synchronised:
        torch.cuda.current_stream().wait_stream(side)
    total = value.sum().item()
    torch.cuda.synchronize()
    return total == 5000

def waits_for_an_event_of_too_early(synchronised):
    side, value = torch.cuda.Stream("cuda:1"), torch.zeros(1000, device="cuda:1")
    torch.cuda.synchronize(1)
    done = torch.cuda.Event()
    with torch.cuda.stream(side):
        if not synchronised:
            done.record()
        value += 5
        if synchronised:
            done.record()
    with torch.cuda.device(1):
        torch.cuda.current_stream().wait_event(done)
        total = value.sum().item()
    torch.cuda.synchronize(1)
    return total == 5000

def asks(synchronised):
    value, event = torch.ones(1000, device="cuda"), torch.cuda.Event()
    for _ in range(4):
        value = value + 1
    event.record()
    if synchronised:
        event.synchronize()
    answers = [event.query()]
    while not answers[-1]:
        answers.append(event.query())
    torch.cuda.current_stream().synchronize()
    assert torch.cuda.current_stream().query() and value[0].item() == 5
    return len(answers) == 1

races = [race for race in list(globals().values()) if getattr(race, "__module__", None) == "__main__"]
print(json.dumps({race.__name__: [race(False), race(True)] for race in races}))
"""


def result(outcome):
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out.splitlines()[-1])


def behind(seed):
    return {"DEVTRACE_SIM_ASYNC": str(seed)} if seed else {}


@pytest.fixture(scope="module")
def races(tmp_path_factory):
    """What the races give, by seed."""
    folder = tmp_path_factory.mktemp("races")
    return {seed: result(start(RACES, folder, trace=False, env=behind(seed))) for seed in (None, *SEEDS)}


def test_the_option_is_the_variable(tmp_path, races):
    (tmp_path / "races.py").write_text(RACES)
    command = [DEVTRACE, "rehearse", "--no-trace", "--gpus", 2, "--async", SEEDS[0], "--", sys.executable, "races.py"]
    found = result(execute(command, tmp_path, environment(None)))
    assert {name: right for name, (_, right) in found.items()} == dict.fromkeys(races[None], True)
    assert not all(wrong for wrong, _ in found.values())


def test_what_is_missing_shows(races):
    names = races[None].keys()
    assert len(names) == 6
    assert {name: any(not races[seed][name][0] for seed in SEEDS) for name in names} == dict.fromkeys(names, True)


def test_what_is_synchronised_is_right_with_every_seed(races):
    for seed in SEEDS:
        assert {name: right for name, (_, right) in races[seed].items()} == dict.fromkeys(races[seed], True), seed


def test_without_it_all_is_done_at_once(races):
    assert all(found == [True, True] for found in races[None].values())


# Values that depend on the order of streams, printed as they come; memory that a missing synchronisation leaves wrong among them.
REPEATED = """
import torch
torch.manual_seed(0)
streams = [torch.cuda.Stream(f"cuda:{i % 2}") for i in range(6)]
shared = [torch.zeros(64, device=f"cuda:{i}") for i in range(2)]
host = torch.zeros(64).pin_memory()
for step in range(60):
    stream = streams[step * 7 % 6]
    with torch.cuda.stream(stream):
        value = shared[stream.device.index]
        value.add_(step).mul_(0.5)
        host.copy_(value, non_blocking=True)
        print(host[0].item(), stream.query(), [s.query() for s in streams])
torch.cuda.synchronize()
print([value[0].item() for value in shared], host[0].item())
"""


def test_a_seed_repeats(rehearse):
    printed = {}
    for seed in (1, 2):
        first, second = (rehearse(REPEATED, trace=False, env=behind(seed)) for _ in range(2))
        assert first.code == 0, first.err
        assert first.out == second.out
        printed[seed] = first.out
    assert printed[1] != printed[2]


# The same program of many parts, synchronised as it should be: bit for bit the same.
CORRECT = """
import json, threading
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
found = {}

def noted(name, tensor):
    found[name] = tensor.detach().double().cpu().flatten().tolist()

data = TensorDataset(torch.randn(64, 16), torch.randint(0, 4, (64,)))
model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for x, y in DataLoader(data, batch_size=16, pin_memory=True):
    loss = nn.functional.cross_entropy(model(x.cuda(non_blocking=True)), y.cuda(non_blocking=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
noted("loss", loss)
for name, parameter in model.named_parameters():
    noted(name, parameter)

# Batches are copied ahead, on a stream of their own.
side, batches, ahead = torch.cuda.Stream(), [torch.randn(1000).pin_memory() for _ in range(8)], None
total = torch.zeros(1000, device="cuda")
for batch in [*batches, None]:
    torch.cuda.current_stream().wait_stream(side)
    now, ahead = ahead, None
    if batch is not None:
        with torch.cuda.stream(side):
            ahead = batch.to("cuda", non_blocking=True)
    if now is not None:
        now.record_stream(torch.cuda.current_stream())
        total += now
noted("prefetched", total)

# Between devices, with another type and with strides.
a = torch.randn(40, 30, device="cuda:0")
for step in range(5):
    b = a.to("cuda:1", non_blocking=True)
    c = torch.empty(30, 40, dtype=torch.float64, device="cuda:1")
    c.t().copy_(b)
    a.copy_(c.t().to("cuda:0") * 0.5 + 1)
noted("peers", a)

host = [torch.empty(1000).pin_memory() for _ in range(3)]
events = [torch.cuda.Event() for _ in host]
for step in range(9):
    place, event = host[step % 3], events[step % 3]
    event.synchronize()
    if step >= 3:
        found[f"ring {step}"] = place.double().tolist()
    place.copy_(total * step, non_blocking=True)
    event.record()

static = torch.zeros(50, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    replayed = (static * 2 + 1).relu()
for step in range(3):
    static.fill_(step - 1)
    graph.replay()
    noted(f"graph {step}", replayed.clone())

values = torch.randn(1000, device="cuda")
noted("nonzero", values[values > 0.5].sort().values)
half = values.half()
noted("half", half.softmax(0, dtype=torch.float32) + (half @ half))
values.index_add_(0, torch.tensor([1, 2], device="cuda"), torch.ones(2, device="cuda"))
noted("index", values)
torch._foreach_mul_([values, total], 2.0)
noted("foreach", values + total)

results = [None] * 4
def work(i):
    with torch.cuda.stream(torch.cuda.Stream(f"cuda:{i % 2}")):
        x = torch.full((100,), float(i), device=f"cuda:{i % 2}")
        for _ in range(20):
            x = x * 1.01 + i
        torch.cuda.current_stream().synchronize()
        results[i] = x.double().cpu().tolist()
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
found["threads"] = sum(results, [])
torch.cuda.empty_cache()
print(json.dumps(found))
"""


def test_a_correct_program_gives_what_it_gives_without(rehearse):
    right = result(rehearse(CORRECT, trace=False))
    for seed in SEEDS:
        found = result(rehearse(CORRECT, trace=False, env=behind(seed)))
        assert {name for name in right if right[name] != found[name]} == set(), seed


def test_devtrace_has_nothing_to_say_of_it(rehearse):
    outcome = rehearse(CORRECT, env=behind(6))
    assert result(outcome)
    assert outcome.findings == [], outcome.err
    assert outcome.err == ""


@pytest.mark.parametrize("seed, name", list(enumerate(["training", "loader", "cuda_graph", "data_parallel", "offload"], 11)))
def test_workloads_give_what_they_give_without(rehearse, tmp_path, seed, name):
    program = [CASES[name].copy(tmp_path)]
    right, found = (result(rehearse(program, trace=False, env=behind(each))) for each in (None, seed))
    same(found, right, dict(rel=1e-6, abs=1e-6))


def test_a_bad_index_is_an_assertion_of_the_devices(rehearse):
    outcome = rehearse("""
        import torch
        table, index = torch.ones(4, 4, device="cuda"), torch.tensor([9], device="cuda")
        torch.cuda.synchronize()
        table.index_select(0, index)
        print("enqueued")
        torch.cuda.synchronize()
    """, trace=False, env=behind(1))
    assert outcome.out == "enqueued\n"
    assert "devtrace: device-side assertion: operator aten::index_select: " in outcome.err
    assert "CUDA error: device-side assert triggered" in outcome.err


# The runtime without PyTorch.
RUNTIME = """
import ctypes, sys, threading, time
cuda = ctypes.CDLL("libcudart.so.13")
NOT_READY, TO_DEVICE, TO_HOST, WITHIN = 600, 1, 2, 3

def call(name, *arguments):
    code = getattr(cuda, name)(*arguments)
    assert code == 0, (name, code)

def made(name, *arguments):
    pointer = ctypes.c_void_p()
    call(name, ctypes.byref(pointer), *arguments)
    return pointer

def value(place):
    word = ctypes.c_int(-1)
    call("cudaMemcpy", ctypes.byref(word), place, ctypes.c_size_t(4), TO_HOST)
    return word.value

four = ctypes.c_size_t(4)
place, other, pinned = made("cudaMalloc", four), made("cudaMalloc", four), made("cudaMallocHost", four)
word = ctypes.c_int.from_address(pinned.value)
blocking, free = made("cudaStreamCreate"), made("cudaStreamCreateWithFlags", 1)

# Pageable memory is read before the call returns, pinned memory when the stream comes to it.
pageable = ctypes.c_int(1)
call("cudaMemcpyAsync", place, ctypes.byref(pageable), four, TO_DEVICE, free)
word.value = 1
call("cudaMemcpyAsync", other, pinned, four, TO_DEVICE, free)
pageable.value = word.value = 2
asked = cuda.cudaStreamQuery(free)
call("cudaStreamSynchronize", free)
print("copies", value(place), value(other), asked)

# The default stream is behind blocking streams, and they behind it.
call("cudaMemsetAsync", place, 1, four, blocking)
call("cudaMemcpyAsync", other, place, four, WITHIN, None)
call("cudaMemsetAsync", place, 2, four, blocking)
call("cudaMemcpyAsync", pinned, other, four, TO_HOST, blocking)
call("cudaStreamSynchronize", blocking)
print("default", hex(word.value), hex(value(place)))

# An event that is destroyed, and recorded anew, keeps what was enqueued for it.
event = made("cudaEventCreateWithFlags", 2)
call("cudaMemsetAsync", place, 3, four, free)
call("cudaEventRecord", event, free)
call("cudaStreamWaitEvent", blocking, event, 0)
call("cudaEventRecord", event, free)
call("cudaEventDestroy", event)
call("cudaMemcpyAsync", pinned, place, four, TO_HOST, blocking)
call("cudaStreamSynchronize", blocking)
print("event", hex(word.value))

# A host function runs though nobody asks for it.
ran = threading.Event()
function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: ran.set())
call("cudaMemsetAsync", place, 4, four, free)
call("cudaLaunchHostFunc", free, function, None)
print("host function", ran.wait(60))

# Memory that is freed is not written to any more.
call("cudaMemsetAsync", other, 5, four, free)
call("cudaFree", other)
call("cudaFreeHost", pinned)
call("cudaStreamDestroy", free)
call("cudaDeviceSynchronize")
"""


def test_the_runtime_alone(rehearse):
    asked = set()
    for seed in SEEDS:
        outcome = rehearse(RUNTIME, trace=False, env={**behind(seed), "DEVTRACE_SIM_VALUES": "0"})
        assert outcome.code == 0, outcome.err
        copies, *rest = outcome.out.splitlines()
        assert rest == ["default 0x1010101 0x2020202", "event 0x3030303", "host function True"]
        early, late, answer = copies.split()[1:]
        assert early == "1"
        asked.add((late, answer))
    assert asked & {("2", "600"), ("2", "0")}, "a pinned word is read late with some seed"
    assert any(answer == "600" for _, answer in asked)


def test_a_seed_that_is_none(rehearse):
    outcome = rehearse("import ctypes; print(ctypes.CDLL('libcudart.so.13').cudaFree(None))", trace=False, env=behind("often"))
    assert (outcome.code, outcome.out) == (0, "0\n")
    assert outcome.err == "devtrace: DEVTRACE_SIM_ASYNC=often: not a number from 0 to 18446744073709551615; streams run at once\n"
