"""What was there before devtrace was attached: PyTorch's live blocks, and where modules lie. What nobody can know of it is said to be unknown, and
makes no finding."""

from conftest import operand
from kernel_programs import TRITON
from running import command, python_server, running  # noqa: F401

SOURCE = """
import gc, os, sys, torch


class Finalized:
    def __del__(self):
        finalized.append("collected")


finalized = []
weight = torch.ones(1000, 100, device="cuda:0")
other = torch.ones(300_000, device="cuda:1")
gone = [torch.ones(5000, device="cuda:1") for _ in range(50)]
stream = torch.cuda.Stream("cuda:0")
with torch.cuda.stream(stream):
    aside = torch.ones(700, device="cuda:0")
model = torch.nn.Sequential(torch.nn.Linear(4, 4, device="cuda:0"), torch.nn.Linear(4, 4, device="cuda:1"))
text = torch.ones(100)


def refuse(left, right):
    try:
        left + right
    except RuntimeError as error:
        return str(error)[:8]


def moved():
    return other[:100].to("cuda:0")  # MOVED


def cycle():
    one = Finalized()
    one.self = one


print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    order = line.split()[0]
    if order == "end":
        break
    if order == "cycle":
        gc.disable()
        cycle()
        gc.enable()
        gc.set_threshold(1)
    if order == "refuse":
        refuse(weight[0], other[:100])
    if order == "aside":
        try:
            aside * other[:700]
        except RuntimeError:
            pass
    if order == "moved":
        refuse(moved(), other[:100])
    if order == "again":
        # Blocks from before end, and others take their place.
        gone.clear()
        new = torch.ones(5000, device="cuda:1")
        refuse(weight.view(-1)[:5000], new)
    print("answer", len(finalized), gc.isenabled(), flush=True)
print("ended", flush=True)
"""


def attached(tmp_path, running, *options):  # noqa: F811
    running.append(python_server(tmp_path, SOURCE))
    done = command("attach", "--no-wait", *options, running[0].pid)
    assert done.returncode == 0, done.stderr
    return running[0], done.stderr


def test_blocks_of_pytorchs_allocator_are_known(tmp_path, running):  # noqa: F811
    server, said = attached(tmp_path, running)
    # Three of tensors, 50 of the list, four of the modules' parameters.
    assert "57 blocks of PyTorch's memory were there before" in said, said
    server.ask("refuse")
    server.ask("aside")
    assert server.end() == 0
    refused, aside = server.findings
    for finding, device in ((refused, "cuda:0"), (refused, "cuda:1"), (aside, "cuda:0")):
        one = operand(finding, device)
        assert one["before_attach"] is True and "created" not in one and "moved" not in one
    assert "left was there before devtrace was attached" in server.err
    assert "unknown place" not in server.err


def test_what_was_moved_since_was_made_before(tmp_path, running):  # noqa: F811
    server, _ = attached(tmp_path, running)
    server.ask("moved")
    assert server.end() == 0
    one = operand(server.findings[0], "cuda:0")
    assert one["moved"]["from"] == "cuda:1" and one["moved"]["python"][0]["function"] == "moved"
    assert one["before_attach"] is True and "created" not in one
    assert "created before devtrace was attached" in server.err


def test_what_takes_the_place_of_such_a_block_has_its_own_origin(tmp_path, running):  # noqa: F811
    server, _ = attached(tmp_path, running)
    server.ask("again")
    assert server.end() == 0
    new = operand(server.findings[0], "cuda:1")
    assert "before_attach" not in new and new["created"]["python"][0]["line"] > 0


def test_without_origins_the_allocator_is_not_asked(tmp_path, running):  # noqa: F811
    _, said = attached(tmp_path, running, "--option", "provenance=0")
    assert "blocks of PyTorch" not in said and "what was before is not known" in said


def test_placements_are_looked_at_when_it_is_attached(tmp_path, running):  # noqa: F811
    server, _ = attached(tmp_path, running)
    placements = [record for record in server.records if record["record"] == "placement"]
    assert [record["root"] for record in placements] == ["Sequential"]
    assert {entry["name"]: entry["device"] for entry in placements[0]["entries"]} == {
        "0.weight": "cuda:0", "0.bias": "cuda:0", "1.weight": "cuda:1", "1.bias": "cuda:1",
    }  # fmt: skip
    assert server.end() == 0


def test_no_finalizer_of_the_programs_runs_for_it(tmp_path, running):  # noqa: F811
    """The allocator's list is thousands of objects, for which the collector would come."""
    running.append(python_server(tmp_path, SOURCE.replace("gc.set_threshold(1)", "gc.set_threshold(1); print('answer 0 True', flush=True); sys.stdin.readline()")))
    server = running[0]
    assert server.ask("cycle") == ["0", "True"]
    done = command("attach", "--no-wait", server.pid)
    assert "blocks of PyTorch's memory" in done.stderr, done.stderr
    server.ask("look")
    assert server.end() == 0


LAUNCH = """
import ctypes, os, sys
cudart = ctypes.CDLL("libcudart.so.13")
torch.cuda.synchronize()
PERMIT
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    if line.startswith("end"):
        break
    try:
        add[(1,)](here, there, torch.empty_like(here), 64)
        torch.cuda.synchronize()
    except RuntimeError as error:
        pass
    here_too = there.to("cuda:0")
    print("answer launched", flush=True)
print("ended", flush=True)
os._exit(0)
"""
PERMITTED = "assert cudart.cudaDeviceEnablePeerAccess(1, 0) in (0, 704)"


def test_a_kernel_whose_access_was_permitted_before_is_a_note(tmp_path, running):  # noqa: F811
    running.append(python_server(tmp_path, TRITON + LAUNCH.replace("PERMIT", PERMITTED)))
    server = running[0]
    assert command("attach", "--no-wait", server.pid).returncode == 0
    server.ask("launch")
    assert server.end() == 0
    finding = server.findings[0]
    assert (finding["kind"], finding["severity"]) == ("remote-access", "note")
    assert finding["note"] == "it is not known whether the program enabled peer access from cuda:0 to cuda:1 before devtrace was attached"
    assert finding["cause"]["category"] != "declared-access"
    traffic = [record for record in server.records if record["record"] == "traffic" and record["from"] == "cuda:1"]
    assert traffic and not any(record.get("staged") for record in traffic)


def test_where_devices_cannot_reach_each_other_it_is_a_finding(tmp_path, running):  # noqa: F811
    source = TRITON + LAUNCH.replace("PERMIT", "").replace('here_too = there.to("cuda:0")', "")
    running.append(python_server(tmp_path, source, options=["--peer", "none"]))
    server = running[0]
    assert command("attach", "--no-wait", server.pid).returncode == 0
    server.ask("launch")
    assert server.end() == 0
    assert [(one["kind"], one["severity"]) for one in server.findings] == [("remote-access", "error")]


def test_a_thread_that_chose_no_device_since_is_not_said_to_have_the_default(tmp_path, running):  # noqa: F811
    source = TRITON + LAUNCH.replace("PERMIT", PERMITTED).replace("(here, there,", "(there, there_too,").replace(
        "empty_like(here)", "empty_like(there)"
    )
    running.append(python_server(tmp_path, source))
    server = running[0]
    assert command("attach", "--no-wait", server.pid).returncode == 0
    server.ask("launch")
    assert server.end() == 0
    assert [one["kind"] for one in server.findings] == ["wrong-current-device"]
    assert not server.findings[0].get("device_choice", {}).get("by_default")
