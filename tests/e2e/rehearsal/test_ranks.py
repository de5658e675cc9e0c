"""Mistakes of many ranks, told by one of them with the others' part, and the same programs repaired, of which nothing is told."""

import json
import re
import textwrap

import pytest

# Ranks as torchrun starts them, but forked from one process that has imported PyTorch.
RANKS = """
import os, multiprocessing, time
import torch, torch.distributed as dist

def begin(rank, world):
    torch.set_num_threads(1)
    os.environ["LOCAL_RANK"] = str(rank)
    main(os.path.abspath("store"), rank, world)

def start(world=2):
    ranks = [multiprocessing.get_context("fork").Process(target=begin, args=(rank, world)) for rank in range(world)]
    for each in ranks: each.start()
    until = time.monotonic() + 60
    while time.monotonic() < until and any(each.exitcode is None for each in ranks):
        time.sleep(0.02)
        if any(each.exitcode for each in ranks): until = min(until, time.monotonic() + 10)  # one that waits for it waits for ever
    print([each.exitcode for each in ranks], flush=True)
    for each in ranks: each.kill()
"""

INIT = 'dist.init_process_group("nccl", store=dist.FileStore(store, world), rank=rank, world_size=world)\n'


def ranks(body: str, world: int = 2) -> str:
    return RANKS + "def main(store, rank, world):\n" + textwrap.indent(body, "    ") + f"start({world})\n"


def repaired(program: str, finding: dict) -> str:
    """The program with the line that the verdict gives in the place of the one that it names."""
    lines = program.split("\n")
    at = finding["cause"]["line"] - 1
    indentation = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    lines[at] = textwrap.indent(finding["cause"]["fix"], indentation)
    return "\n".join(lines)


DEFAULT = ranks(INIT + "x = torch.ones(4).cuda()\ndist.all_reduce(x)\nassert x.tolist() == [world] * 4\ndist.destroy_process_group()\n")
CHOSEN = ranks('local_rank = int(os.environ["LOCAL_RANK"])\ntorch.cuda.set_device(0)\n' + INIT +
               'x = torch.ones(4, device="cuda")\ndist.all_reduce(x)\ndist.destroy_process_group()\n')


# As torch.multiprocessing.spawn's, of which no launcher says what each is on its machine.
UNLAUNCHED = DEFAULT.replace('os.environ["LOCAL_RANK"] = str(rank)', 'os.environ.pop("LOCAL_RANK", None)')


@pytest.mark.parametrize("program, category, fix, does", [
    (DEFAULT, "missing-set-device", 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n' + INIT.strip(), "chose no device"),
    (CHOSEN, "device-chosen-twice", "torch.cuda.set_device(local_rank)", "chose its device"),
    (UNLAUNCHED, "missing-set-device", "torch.cuda.set_device(rank % torch.cuda.device_count())\n" + INIT.strip(), "chose no device"),
], ids=["default", "chosen", "without a launcher"])
def test_ranks_of_one_device(rehearse, program, category, fix, does, tmp_path):
    outcome = rehearse(program)
    assert outcome.out == "[1, 1]\n", outcome.err
    finding = outcome.finding  # one rank tells for both
    assert finding["kind"] == "duplicate-device" and finding["devices"] == ["cuda:0"]
    assert [(each["name"], each["device"], each["created"]["call"]) for each in finding["operands"]] == [("rank 0", "cuda:0", does), ("rank 1", "cuda:0", does)]
    cause = finding["cause"]
    assert (cause["category"], cause["confidence"], cause["fix"]) == (category, "high", fix)
    assert next(frame for frame in finding["python"] if frame.get("project"))["source"].strip() == "dist.all_reduce(x)"
    assert "ranks 0 and 1 of 2 came with one device, cuda:0" in outcome.err
    again = tmp_path / "again"
    again.mkdir()
    outcome = rehearse(repaired(program, finding), folder=again)
    assert outcome.out == "[0, 0]\n" and outcome.findings == [], outcome.err


def test_the_line_that_chose_is_said(rehearse):
    finding = rehearse(CHOSEN).finding
    assert [each["created"]["python"][0]["source"].strip() for each in finding["operands"]] == ["torch.cuda.set_device(0)"] * 2


def test_more_ranks_than_devices(rehearse):
    outcome = rehearse(ranks("torch.cuda.set_device(rank % 2)\n" + INIT + "dist.all_reduce(torch.ones(1).cuda())\n", 3))
    finding = outcome.finding
    assert [each["name"] for each in finding["operands"]] == ["rank 0", "rank 2"] and finding["devices"] == ["cuda:0"]
    assert finding["communicator"]["size"] == 3 and finding["cause"]["category"] == ("more-ranks-than-devices" if finding["communicator"]["rank"] == 2 else "device-chosen-twice")


def test_without_the_command_each_rank_tells_of_itself(rehearse):
    outcome = rehearse(DEFAULT.replace("    torch.set_num_threads(1)\n", '    os.environ.pop("DEVTRACE_RANKS")\n'))
    assert sorted(finding["communicator"]["rank"] for finding in outcome.findings) == [0, 1], outcome.err
    assert all(len(finding["operands"]) == 1 for finding in outcome.findings)


TORCHRUN = """
import os
import torch, torch.distributed as dist

local_rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group("nccl")
dist.all_reduce(torch.ones(1).cuda())
dist.destroy_process_group()
"""


def test_a_program_of_torchrun(rehearse, tmp_path):
    (tmp_path / "train.py").write_text(TORCHRUN)
    outcome = rehearse(["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"])
    cause = outcome.finding["cause"]
    assert outcome.code == 1 and cause["fix"] == 'torch.cuda.set_device(local_rank)\ndist.init_process_group("nccl")', outcome.err
    assert re.search(r"fix train\.py:6 \(repairs the cause\)", outcome.err)


GROUP = INIT.replace("world_size=world)", "world_size=world, device_id=torch.device(\"cuda\", local_rank))")


@pytest.mark.parametrize("made, category, fix", [
    ('loss = torch.ones(4, device="cuda:0")', "device-of-another-rank", 'loss = torch.ones(4, device=torch.device("cuda", local_rank))'),
    ("loss = torch.ones(4).cuda()", "missing-set-device", "torch.cuda.set_device(local_rank)\n" + GROUP.strip()),
], ids=["number", "default"])
def test_a_tensor_on_another_ranks_device(rehearse, made, category, fix, tmp_path):
    program = ranks('local_rank = int(os.environ["LOCAL_RANK"])\n' + GROUP + made + "\ndist.all_reduce(loss)\nassert loss.tolist() == [world] * 4\ndist.destroy_process_group()\n")
    outcome = rehearse(program)
    finding = outcome.finding
    assert (finding["kind"], finding["operation"], finding["wanted_device"]) == ("refused-op", "torch.distributed.all_reduce", "cuda:1"), outcome.err
    assert [(each["name"], each["device"], each["odd"]) for each in finding["operands"]] == [("loss", "cuda:0", True)]
    assert (finding["cause"]["category"], finding["cause"]["fix"]) == (category, fix)
    again = tmp_path / "again"
    again.mkdir()
    outcome = rehearse(repaired(program, finding), folder=again)
    assert outcome.out == "[0, 0]\n" and outcome.findings == [], outcome.err


def test_one_page_of_all_ranks(rehearse):
    program = ranks("torch.cuda.set_device(rank)\n" + INIT + "x = torch.ones(4).cuda()\ndist.all_reduce(x)\ny = x + torch.ones(4)\n")
    outcome = rehearse(program, fresh=True)
    assert len(outcome.findings) == 2 and len({finding["fingerprint"] for finding in outcome.findings}) == 1, outcome.err
    (page,) = (page for page in outcome.pages if page.name.startswith("devtrace-job-"))
    assert outcome.err.splitlines()[-1] == f"devtrace: report of 2 ranks: {page}"
    (told,) = re.findall(r' class="record" data-row="[^"]*">(.*)</script>', page.read_text())
    told = json.loads(told.replace("<\\/", "</"))
    assert told["count"] == 2 and len(told["witnesses"]) == 2


def test_no_page_of_ranks_without_a_finding_or_by_option(rehearse, tmp_path):
    right = ranks("torch.cuda.set_device(rank)\n" + INIT + "x = torch.ones(4).cuda()\ndist.all_reduce(x)\ndist.destroy_process_group()\n")
    assert rehearse(right, fresh=True).pages == []
    wrong = right.replace("dist.destroy_process_group()", "x + torch.ones(4)")
    (tmp_path / "again").mkdir()
    outcome = rehearse(wrong, options="html=0", folder=tmp_path / "again", fresh=True)
    assert len(outcome.findings) == 2 and outcome.pages == []


JOB = "torch.cuda.set_device(rank)\n" + INIT + "x = torch.ones(4).cuda()\ndist.all_reduce(x)\n"


@pytest.mark.parametrize("body, category, asked", [
    ("if rank == 0:\n    dist.all_reduce(x)\nelse:\n    dist.broadcast(x, 0)\n", "different-collectives", ["AllReduce of 4 float32 (sum)", "Broadcast of 4 float32 from rank 0"]),
    ("y = torch.ones(4 + rank).cuda()\ndist.all_reduce(y)\n", "different-sizes", ["AllReduce of 4 float32 (sum)", "AllReduce of 5 float32 (sum)"]),
    ("y = torch.ones(4).cuda().to(torch.float64 if rank else torch.int64)\ndist.all_reduce(y)\n", "different-types", ["AllReduce of 4 int64 (sum)", "AllReduce of 4 float64 (sum)"]),
    ("dist.broadcast(x, rank)\n", "different-roots", ["Broadcast of 4 float32 from rank 0", "Broadcast of 4 float32 from rank 1"]),
    ("x = [dist.all_reduce, lambda x: dist.broadcast(x, 0)][rank](x)\nx = [lambda x: dist.broadcast(x, 0), dist.all_reduce][rank](torch.ones(4).cuda())\n",
     "different-collectives", ["AllReduce of 4 float32 (sum)", "Broadcast of 4 float32 from rank 0"]),
], ids=["kinds", "sizes", "types", "roots", "order"])
def test_ranks_that_ask_for_different_things(rehearse, body, category, asked):
    outcome = rehearse(ranks(JOB + body + "os._exit(0)\n"))
    finding = outcome.finding
    assert finding["kind"] == "collective-mismatch" and finding["cause"]["category"] == category, outcome.err
    assert sorted((each["name"], each["created"]["call"]) for each in finding["operands"]) == [(f"rank {rank}", f"calls {call}") for rank, call in enumerate(asked)]
    assert "as their number 2" in finding["message"]
    for each in finding["operands"]:
        assert "all_reduce(" in each["created"]["python"][0]["source"] or "broadcast(" in each["created"]["python"][0]["source"]


def test_the_rank_that_differs_is_told_first(rehearse):
    body = JOB + "dist.all_reduce(torch.ones(5 if rank == 1 else 4).cuda())\nos._exit(0)\n"
    finding = rehearse(ranks(body, 3), gpus=3).finding
    assert finding["kind"] == "collective-mismatch"
    if len(finding["operands"]) == 3:  # else the finding is of the first two that came
        assert [(each["name"], each.get("odd", False)) for each in finding["operands"]] == [("rank 1", True), ("rank 0", False), ("rank 2", False)]


LEGAL = JOB + """
dist.all_gather([torch.empty(4, device="cuda") for _ in range(world)], x)
work = [dist.all_reduce(torch.ones(n + 1).cuda(), async_op=True) for n in range(200)]
for each in work: each.wait()
dist.reduce_scatter_tensor(torch.empty(2, device="cuda"), x)
dist.all_to_all_single(torch.empty(4, device="cuda"), x)
dist.all_gather_object([None] * world, {"rank": rank, "more": "x" * rank})
if rank == 0:
    dist.send(x, 1)
else:
    dist.recv(x, 0)
dist.all_reduce(x, op=dist._make_nccl_premul_sum(1.0 + rank))
half = dist.new_group([rank])
dist.all_reduce(torch.ones(4 + rank).cuda(), group=half)
with dist._coalescing_manager(device=torch.device("cuda", rank)):
    dist.all_reduce(x)
    dist.all_reduce(torch.ones(3).cuda())
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("init", [INIT, GROUP.replace("local_rank", "rank")], ids=["lazy", "split"])
def test_what_ranks_may_do_is_no_finding(rehearse, init):
    outcome = rehearse(ranks(LEGAL.replace(INIT, init)))
    assert outcome.out == "[0, 0]\n" and outcome.findings == [], outcome.err


def test_ranks_of_a_group_that_was_split_off(rehearse):
    body = JOB.replace(INIT, GROUP.replace("local_rank", "rank")) + "group = dist.new_group([0, 1])\ndist.all_reduce(torch.ones(4 + rank).cuda(), group=group)\nos._exit(0)\n"
    finding = rehearse(ranks(body)).finding
    assert finding["kind"] == "collective-mismatch" and finding["cause"]["category"] == "different-sizes"
    assert "as their number 1" in finding["message"]  # of that group


# What of a job would wait for ever is ended by itself, when the finding has been written.
END = "import threading; threading.Timer({}, os._exit, [0]).start()\n"


@pytest.mark.parametrize("body, category, severity, said", [
    ("if rank == 1:\n    time.sleep(4)  # evaluates\n    os._exit(0)\ndist.all_reduce(x)\nx.tolist()\n", "rank-elsewhere", "note", ["has not come, and is", "waits in AllReduce of 4 float32 (sum)"]),
    ("if rank == 1:\n    os._exit(0)\ndist.all_reduce(x)\ntime.sleep(5)\n", "rank-ended", "error", ["has ended; its last collective was", "waits in AllReduce of 4 float32 (sum)"]),
    ("for group in (a, b) if rank == 0 else (b, a):\n    dist.broadcast(x, 0, group=group)\n    x.tolist()\n", "groups-in-another-order", "error",
     ["waits in Broadcast of 4 float32 from rank 0 of another group", "waits in Broadcast of 4 float32 from rank 0"]),
], ids=["elsewhere", "ended", "groups"])
def test_a_rank_that_does_not_come(rehearse, body, category, severity, said):
    groups = "import time\na, b = dist.new_group([0, 1]), dist.new_group([0, 1])\nfor group in (a, b): dist.broadcast(x, 0, group=group)\n"
    outcome = rehearse(ranks(JOB + groups + END.format(6) + body), options="collective_wait=1")
    # Of two groups that wait for each other there is one finding a group.
    findings = outcome.findings[:1] if category == "groups-in-another-order" else [outcome.finding]
    (finding,) = findings
    assert (finding["kind"], finding["severity"], finding["cause"]["category"]) == ("collective-stalled", severity, category), outcome.err
    assert [each["created"]["call"] for each in finding["operands"]] == said
    sources = [each["created"]["python"] for each in finding["operands"]]
    own = [next(frame for frame in stack if frame.get("project"))["source"].strip() for stack in sources]
    if category == "rank-elsewhere":
        assert own[0].startswith("time.sleep(4)") and own[1] == "dist.all_reduce(x)"
    elif category == "groups-in-another-order":
        assert own == ["dist.broadcast(x, 0, group=group)"] * 2


def test_a_wait_after_a_mismatch_is_no_second_finding(rehearse):
    """One rank has ended meanwhile, and the other one goes on: PyTorch's watchdog, which would end it, may be late or off."""
    body = "import time\nos.environ['TORCH_NCCL_ASYNC_ERROR_HANDLING'] = '0'\n" + JOB + END.format(6)
    body += "if rank == 0:\n    dist.reduce(x, 0)\ndist.broadcast(x, 0)\nif rank == 1:\n    os._exit(0)\ntime.sleep(5)\n"
    outcome = rehearse(ranks(body), options="collective_wait=1")
    assert [finding["kind"] for finding in outcome.findings] == ["collective-mismatch"], outcome.err


def test_a_rank_that_comes_in_time_or_with_the_option_off(rehearse, tmp_path):
    late = ranks(JOB + "import time\nif rank == 1:\n    time.sleep(1.5)\ndist.all_reduce(x)\nx.tolist()\ndist.destroy_process_group()\n")
    outcome = rehearse(late, options="collective_wait=3")
    assert outcome.out == "[0, 0]\n" and outcome.findings == [], outcome.err
    (tmp_path / "again").mkdir()
    outcome = rehearse(late, options="collective_wait=0", folder=tmp_path / "again")
    assert outcome.out == "[0, 0]\n" and outcome.findings == [], outcome.err


def test_a_rank_that_does_not_come_to_a_group(rehearse, tmp_path):
    body = "import time\ntorch.cuda.set_device(rank)\n" + INIT + END.format(4) + "if rank == 1:\n    time.sleep(9)\ndist.all_reduce(torch.ones(4).cuda())\n"
    finding = rehearse(ranks(body), options="collective_wait=1").finding
    assert (finding["kind"], finding["severity"], finding["cause"]["category"]) == ("collective-stalled", "note", "rank-elsewhere")
    assert finding["message"] == "rank 1 has not come to a group of 2, whose rank 0 waits for 1 s"
    (waiting,) = finding["operands"]
    assert waiting["name"] == "rank 0" and waiting["created"]["python"][0]["source"].strip() == "dist.all_reduce(torch.ones(4).cuda())"
    (tmp_path / "again").mkdir()
    several_machines = 'os.environ.update(WORLD_SIZE="2", LOCAL_WORLD_SIZE="1")\n' + body
    assert rehearse(ranks(several_machines), options="collective_wait=1", folder=tmp_path / "again").findings == []
