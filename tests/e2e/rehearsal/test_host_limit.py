"""Simulated memory is the host's: a program that fills an 80 GiB device gets PyTorch's error, and the host goes on."""

FILL = """
import torch
kept = []
try:
    while True:
        kept.append(torch.full((64 << 20,), 1, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as error:
    print(len(kept), "GiB" in str(error))
kept.clear()
torch.cuda.empty_cache()
print(torch.ones(1 << 20, device="cuda:1").sum().item())
"""


def test_the_host_s_memory_bounds_all_devices_together(rehearse):
    outcome = rehearse(FILL, trace=False, env={"DEVTRACE_SIM_HOST_MEMORY": "1GiB"})
    assert outcome.code == 0, outcome.err
    filled, text = outcome.out.splitlines()[0].split()
    assert 10 <= int(filled) <= 16 and text == "True"
    assert outcome.out.splitlines()[1] == "1048576.0"
    lines = [line for line in outcome.err.splitlines() if "the host is full, not the simulated device" in line]
    assert len(lines) == 1 and lines[0].startswith("devtrace: out of memory:") and "64 MiB" in lines[0], outcome.err


def test_what_fits_is_given_without_a_word(rehearse):
    outcome = rehearse("import torch; print(torch.zeros(1 << 20, device='cuda').sum().item())", trace=False)
    assert (outcome.out, outcome.err) == ("0.0\n", "")


def test_more_than_the_host_has_is_refused_by_what_it_says(rehearse):
    """Without the variable, by MemAvailable: a device of 1 TiB."""
    outcome = rehearse(
        """
        import torch
        available = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemAvailable")) << 10
        try:
            torch.empty(available + (1 << 30), dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            print("refused")
        """,
        trace=False, env={"DEVTRACE_SIM_MEMORY": "1024GiB"},
    )  # fmt: skip
    assert outcome.out == "refused\n" and outcome.err.count("the host is full, not the simulated device") == 1, outcome.err
