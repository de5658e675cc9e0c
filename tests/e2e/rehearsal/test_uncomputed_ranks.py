"""What a rank has not computed is told where another one reads what it was given, or what was made of it."""

import re

from forked_ranks import FORKED
from kernel_programs import LAUNCH

# The last half of what rank 0 gives is computed by nobody.
HEAD = FORKED + LAUNCH + """
def given(rank, name):
    both = torch.ones(2000, device="cuda")
    if rank == 0:
        made = torch.ones(1000, device="cuda")
        launch(name, both.data_ptr(), made.data_ptr())
        both[1000:] = made
    return both
"""

READ = HEAD + """
def work(rank, world):
    x, y, z = given(rank, "summed"), given(rank, "broadcast"), given(rank, "sent")
    parts, part, again = [torch.empty(2000, device="cuda") for _ in range(2)], torch.empty(1000, device="cuda"), torch.zeros(2000, device="cuda")
    dist.all_reduce(x)
    dist.broadcast(y, 0)
    dist.all_gather(parts, given(rank, "gathered"))
    dist.reduce_scatter_tensor(part, given(rank, "scattered"))
    if rank == 0:
        dist.send(z, 1)
        dist.recv(again, 1)
        part.tolist(), parts[1].tolist(), again[:1000].tolist()
    else:
        dist.recv(z, 0)
        dist.send(x, 0)
        x[:1000].tolist(), y[:1000].tolist(), z[:1000].tolist(), parts[1].tolist()
        x.tolist()
        y.tolist()
        z.tolist()
        parts[0].tolist()
        part.tolist()
    dist.barrier()

end("job", begin("job", work, 2))
"""


def reads(outcome) -> list[tuple[int, str]]:
    """Line and source of each read that is told."""
    found = re.findall(r"^devtrace: .*program\.py:(\d+): the host reads what (.*) should have written", outcome.err, re.MULTILINE)
    return [(int(line), what) for line, what in found]


def test_what_another_rank_has_not_computed_is_told_where_it_is_read(rehearse):
    outcome = rehearse(READ)
    assert outcome.code == 0 and outcome.out.split("\n")[0] == "job [0, 0]", outcome.err
    first = READ.count("\n", 0, READ.index("        x.tolist()")) + 1
    names = ("summed", "broadcast", "sent", "gathered", "scattered")
    assert reads(outcome) == [(first + i, f"kernel {name} of rank 0") for i, name in enumerate(names)], outcome.err


def test_strict_ends_the_rank_that_reads_it(rehearse):
    source = HEAD + """
def work(rank, world):
    x = given(rank, "summed")
    dist.all_reduce(x)
    if rank == 1:
        x.tolist()

ranks = begin("job", work, 2)
end("job", ranks)
"""
    outcome = rehearse(source, env={"DEVTRACE_SIM_STRICT": "1"})
    assert "job [0, 65]" in outcome.out, outcome.out + outcome.err
