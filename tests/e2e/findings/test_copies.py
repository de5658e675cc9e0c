"""Copies whose caller says something of their ends that is not so: found before the copy, and nothing else is."""

import textwrap

import pytest
from conftest import findings_of, line_of, start_snippets
from golden import compare

RUNTIME = """
import ctypes, torch
cudart = ctypes.CDLL("libcudart.so.13")
P, S = ctypes.c_void_p, ctypes.c_size_t
TO_DEVICE, TO_HOST, BETWEEN, DEFAULT = 1, 2, 3, 4
here, there, last = (torch.ones(1024, device=f"cuda:{n}") for n in (0, 1, 2))
host, other = torch.ones(1024), torch.ones(1024)
def copy(to, from_, kind):
    code = cudart.cudaMemcpy(P(to.data_ptr()), P(from_.data_ptr()), S(4096), kind)
    cudart.cudaGetLastError()  # else PyTorch's next call would raise it
    return code
def copy_peer(to, to_device, from_, from_device):
    return cudart.cudaMemcpyPeer(P(to.data_ptr()), to_device, P(from_.data_ptr()), from_device, S(4096))
"""

WRONG = {  # statement, the end that is elsewhere, the cause
    "copy(host, other, TO_DEVICE)": ("destination", "copy-direction-misstated"),
    "copy(host, other, TO_HOST)": ("source", "copy-direction-misstated"),
    "copy(here, there, TO_HOST)": ("destination", "copy-direction-misstated"),
    "copy(here, host, TO_HOST)": ("source and destination", "copy-direction-misstated"),
    "copy(here, host, BETWEEN)": ("source", "copy-direction-misstated"),
    "copy_peer(there, 1, last, 0)": ("source", "copy-device-misstated"),
    "copy_peer(here, 1, last, 2)": ("destination", "copy-device-misstated"),
    "copy_peer(here, 1, there, 0)": ("source and destination", "copy-devices-exchanged"),
}
RIGHT = [
    "copy(here, host, TO_DEVICE)",
    "copy(host, there, TO_HOST)",
    "copy(here, there, BETWEEN)",
    "copy(here, there, DEFAULT)",
    "copy(host, other, DEFAULT)",
    "copy_peer(here, 0, there, 1)",
    "copy_peer(there, 1, there, 1)",
]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copies")
    snippets = {f"copy {n}": f"{RUNTIME}{call}\n" for n, call in enumerate(WRONG)}
    snippets |= {f"wrong {n}": f"{RUNTIME}for _ in range(3):\n    {call}  # HERE\n" for n, call in enumerate(WRONG)}
    snippets |= {f"right {n}": f"{RUNTIME}{call}\n" for n, call in enumerate(RIGHT)}
    return start_snippets(snippets, folder, gpus=3)[0]


@pytest.mark.parametrize("call", WRONG)
def test_what_is_not_so_is_found_once(outcome, call):
    argument, category = WRONG[call]
    found = findings_of(outcome, f"wrong {list(WRONG).index(call)}")
    assert len(found) == 1, outcome.err
    finding = found[0]
    assert finding["kind"] == "copy-mismatch" and finding["argument"] == argument and finding["cause"]["category"] == category
    assert finding["operation"] == finding["copy"]["function"] == ("cudaMemcpyPeer" if "peer" in call else "cudaMemcpy")
    assert finding["copy"]["bytes"] == 4096
    assert [one["role"] for one in finding["operands"]] == ["source", "destination"]
    assert {one["role"] for one in finding["operands"] if one.get("odd")} == set(argument.split(" and "))
    assert all("created" in one for one in finding["operands"]), "both ends are known with where they were made"
    name = f"wrong-{list(WRONG).index(call)}.py"
    assert line_of(outcome, "# HERE", name) in [frame["line"] for frame in finding["python"] if frame.get("project")]
    assert finding["native"]
    counts = [record["count"] for record in outcome.records if record["record"] == "count" and record["id"] == finding["id"]]
    assert max(counts) == 3


def test_their_records_are_what_they_were(outcome):
    compare("copies", [finding for n in range(len(WRONG)) for finding in findings_of(outcome, f"copy {n}")], outcome.folder)


@pytest.mark.parametrize("call", RIGHT)
def test_what_is_so_is_not(outcome, call):
    assert findings_of(outcome, f"right {RIGHT.index(call)}") == []


def test_is_on_disk_before_the_copy(rehearse):
    outcome = rehearse(
        RUNTIME
        + textwrap.dedent("""
        import glob, json, os
        def findings():
            return sum('"record":"finding"' in line for log in glob.glob("devtrace-*.jsonl") for line in open(log))
        before = findings()
        code = copy(host, other, TO_DEVICE)
        print("code", code, "findings", before, findings())
        """),
        gpus=3,
    )
    assert outcome.out == "code 1 findings 0 1\n", "the copy itself fails"
    assert "cudaMemcpy from host to device: its destination is on the host and not on a device" in outcome.err


def test_can_be_switched_off(rehearse):
    outcome = rehearse(RUNTIME + "copy(host, other, TO_DEVICE)", gpus=3, options="copies=0")
    assert outcome.findings == [] and outcome.code == 0


PYTORCH = """
import torch, torch.cuda.comm
here, there = torch.device("cuda:0"), torch.device("cuda:1")
a = torch.randn(300, 300)
b = a.to(here)
c = b.to(there)
d = c.cpu()
assert torch.equal(a, d)
pinned = a.pin_memory()
e = pinned.to(there, non_blocking=True)
f = torch.empty(300, 300, pin_memory=True)
f.copy_(e, non_blocking=True)
torch.cuda.synchronize()
b.copy_(c); c.copy_(b.t()); c[::2].copy_(b[1::2]); b[:, 3].copy_(a[3])
c.copy_(b.to(torch.float64)); d.copy_(c.half()); torch.empty(300, 300, dtype=torch.complex64, device=there).copy_(b)
half = b.to(there, torch.float16, non_blocking=True)
g = torch.cat([b, c.to(here)]).split(100)
model = torch.nn.Linear(300, 300).to(here)
model.to(there); model.cpu(); model.to(here)
state = {key: value.cpu() for key, value in model.state_dict().items()}
model.load_state_dict(state)
torch.save(b, "b.pt"); torch.load("b.pt", map_location="cuda:1")
torch.cuda.comm.broadcast(b, [0, 1]); torch.cuda.comm.scatter(b, [0, 1]); torch.cuda.comm.gather([b, c], destination=1)
x = torch.ones(4, device=here, requires_grad=True)
(x.to(there) * 2).sum().cpu().backward()
b.item if False else b[0, 0].item(); b.tolist(); c.numpy(force=True)
torch.tensor([1.0, 2.0], device=there); torch.as_tensor([[1]], device=here)
big = torch.empty(5 * 1024 * 1024, device=here); big.to(there); big[7:].cpu()
stream = torch.cuda.Stream(there)
with torch.cuda.stream(stream):
    c.copy_(pinned, non_blocking=True)
stream.synchronize()
"""


@pytest.mark.parametrize("allocator", ["", "expandable_segments:True", "backend:cudaMallocAsync"])
def test_pytorchs_own_copies_are_no_finding(rehearse, allocator):
    outcome = rehearse(PYTORCH, env={"PYTORCH_CUDA_ALLOC_CONF": allocator, "PYTORCH_ALLOC_CONF": allocator})
    assert outcome.code == 0, outcome.err
    assert outcome.findings == [], outcome.err
