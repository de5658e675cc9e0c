"""Many threads refused at once: none lost, none deadlocked."""

SOURCE = """
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


def test_none_is_lost(rehearse):
    outcome = rehearse(SOURCE, "dedupe=0:max_findings=0:text=0:html=0", fresh=False)
    assert (outcome.code, outcome.out) == (0, f"{64 * 4}\n"), outcome.err
    assert len(outcome.findings) == 64 * 4
    assert sorted(finding["id"] for finding in outcome.findings) == list(range(1, 64 * 4 + 1))
    assert len({finding["thread"] for finding in outcome.findings}) == 64
    for finding in outcome.findings:
        assert finding["operation"] == "aten::add" and finding["devices"] == ["cuda:0", "cuda:1"]
        assert finding["python"][0]["source"].strip() == "left + right"


def test_the_same_fault_is_written_once_and_counted(rehearse):
    outcome = rehearse(SOURCE, fresh=False)
    assert (outcome.code, outcome.out) == (0, f"{64 * 4}\n"), outcome.err
    assert len(outcome.findings) == 1
    assert max(record["count"] for record in outcome.records if record["record"] == "count") == 64 * 4
    end = [record for record in outcome.records if record["record"] == "end"]
    assert [(record["findings"], record["dropped"]) for record in end] == [(64 * 4, 0)]
