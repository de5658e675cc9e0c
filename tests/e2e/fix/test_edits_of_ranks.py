"""The edits that are tried where ranks ask for different things."""


import pytest
from asked_edits import asked, line_with, operand, program

# program, with the line of the collective that one rank calls, and what becomes of it; None: nothing
BY_ALL = {
    "first": ("if rank == 0:\n    dist.barrier()\n    print(1)\n", "dist.barrier()\nif rank == 0:\n    print(1)\n"),
    "alone": ("if rank == 0:\n    dist.barrier()\n", "dist.barrier()\n"),
    "last": ("if rank == 0:\n    save()\n    dist.barrier()\n", "if rank == 0:\n    save()\ndist.barrier()\n"),
    "between": ("if rank == 0:\n    save()\n    dist.barrier()\n    load()\n", "if rank == 0:\n    save()\ndist.barrier()\nif rank == 0:\n    load()\n"),
    "before another branch": ("if rank == 0:\n    dist.barrier()\nelse:\n    pass\n", "dist.barrier()\nif rank == 0:\n    pass\nelse:\n    pass\n"),
    "behind another branch": ("if rank == 0:\n    save()\n    dist.barrier()\nelse:\n    pass\n", "if rank == 0:\n    save()\nelse:\n    pass\ndist.barrier()\n"),
    "within another branch": ("if rank == 0:\n    save()\n    dist.barrier()\n    load()\nelse:\n    pass\n", None),
    "its value": ("if is_main_process():\n    n = 1\n    total = dist.all_reduce(x)\n", "if is_main_process():\n    n = 1\ntotal = dist.all_reduce(x)\n"),
    "in an expression": (
        "if get_rank() == 0:\n    n = 1\n    print(n, dist.all_reduce(x))\n",
        "if get_rank() == 0:\n    n = 1\nfrom_all_ranks = dist.all_reduce(x)\nif get_rank() == 0:\n    print(n, from_all_ranks)\n",
    ),
    "not always evaluated": ("if rank == 0:\n    print(n and dist.all_reduce(x))\n", None),
    "a name for the rank's": ("main = rank == 0\nif main:\n    dist.barrier()\n", "main = rank == 0\ndist.barrier()\n"),
    "another condition, too": ("if rank == 0 and step % 2 == 0:\n    dist.barrier()\n", "if step % 2 == 0:\n    dist.barrier()\n"),
    "no condition of ranks": ("if loss < limit:\n    dist.barrier()\n", None),
    "through a function": ("def save():\n    dist.barrier()\nif rank == 0:\n    save()\n", "def save():\n    dist.barrier()\nsave()\n"),
    "behind a return": (
        "def save():\n    if rank != 0:\n        return\n    write()\n    dist.barrier()\nsave()\n",
        "def save():\n    if rank == 0:\n        write()\n    dist.barrier()\nsave()\n",
    ),
    "behind a return, with more": (
        "def save():\n    if not is_main():\n        return None\n    write()\n    dist.barrier()\n    tell()\nsave()\n",
        "def save():\n    if is_main():\n        write()\n    dist.barrier()\n    if not is_main():\n        return None\n    tell()\nsave()\n",
    ),
    "behind an end": ("dist.barrier(1)\nif not work:\n    sys.exit()\ndist.barrier()\n", "dist.barrier(1)\ndist.barrier()\n"),
}  # fmt: skip


@pytest.mark.parametrize("shape", BY_ALL)
def test_a_collective_of_some_ranks_becomes_that_of_all(tmp_path, shape):
    text, wanted = BY_ALL[shape]
    path = program(tmp_path, text)
    line = line_with(path, "all_reduce(" if "all_reduce(" in text else "barrier()")
    ranks = [operand("rank 0", "cuda:0", role="rank", created=[(path, line, "")])]
    if "barrier(1)" in text:
        ranks.insert(0, operand("rank 1", "cuda:1", role="rank", odd=True, created=[(path, line_with(path, "barrier(1)"), "")]))
    found = asked(tmp_path, [(path, line, "")], ranks, kind="collective-stalled" if "barrier(1)" in text else "collective-mismatch")
    assert [each["texts"][str(path)] for each in found] == ([wanted] if wanted else []), found


def test_what_a_group_has_no_backend_for_goes_to_the_current_device(tmp_path):
    """Of rank 0 that is cuda:0, and of the others another."""
    path = program(tmp_path, "import torch\ndef f(loss):\n    mine = torch.tensor([loss])\n    dist.all_reduce(mine)\n")
    found = asked(tmp_path, [(path, 4, "f")], [operand("mine", "cpu", created=[(path, 3, "f")])], current_device="cuda:0",
                  operation="torch.distributed.all_reduce", message="No backend type associated with device type cpu")
    assert found[0]["code"] == 'mine = torch.tensor([loss], device="cuda")' and not found[0]["names_device"]


def test_a_collective_of_one_rank_that_was_taken_for_another(tmp_path):
    """The finding is at the next one: NCCL pairs them by their number."""
    path = program(tmp_path, "if is_main_process():\n    dist.all_reduce(x)\ny = torch.gather(x, 0, i)\ndist.barrier()\n")
    ranks = [operand("rank 1", "cuda:1", role="rank", odd=True), operand("rank 0", "cuda:0", role="rank", created=[(path, 4, "<module>")])]
    (found,) = asked(tmp_path, [(path, 4, "<module>")], ranks, kind="collective-stalled")
    assert found["texts"][str(path)].startswith("dist.all_reduce(x)\ny = ")


def test_ranks_are_moved_nowhere(tmp_path):
    """They lie on devices as operands do."""
    path = program(tmp_path, "def join(group, comm):\n    group.start(comm)\n")
    ranks = [operand(f"rank {rank}", f"cuda:{rank}", role="rank", created=[(path, 2, "join")]) for rank in range(2)]
    assert asked(tmp_path, [(path, 2, "join")], ranks, kind="collective-mismatch") == []
