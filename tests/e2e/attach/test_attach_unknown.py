"""What was before attaching and nobody can know is said to be unknown, and makes no finding."""

from kernel_programs import TRITON
from running import Running, command, python_server, running, wait_for  # noqa: F401

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
