"""Two machines, which one plays: `devtrace rehearse --hosts 2`."""

import json
import os
import socket

import pytest
from conftest import DEVTRACE, PYTHON, environment, execute
from nightly import first

RANKS = """
import json, os, platform, socket, subprocess
import torch, torch.distributed as dist, torch.multiprocessing.reductions
rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group("nccl", device_id=torch.device("cuda", local))
x = torch.ones(4, device="cuda") * (rank + 1)
dist.all_reduce(x)
facts = [rank, os.environ["GROUP_RANK"], local, torch.cuda.device_count(), socket.gethostname(), platform.node(), str(torch.cuda.get_device_properties(local).uuid), x.tolist()]
every = [None] * dist.get_world_size()
dist.all_gather_object(every, torch.multiprocessing.reductions.reduce_tensor(x))
rebuild, arguments = every[0]
try:
    facts.append(rebuild(*arguments).tolist() if rank else None)
except Exception as error:
    facts.append(str(error).splitlines()[0])
dist.all_gather_object(every, facts)
if rank == 0:
    print(json.dumps(every))
dist.destroy_process_group()
"""


def on_two_hosts(folder, *command, gpus=2):
    return execute([DEVTRACE, "rehearse", "--gpus", gpus, "--hosts", 2, "--", *command], folder, environment(None, {"OMP_NUM_THREADS": "1"}))


@pytest.mark.parametrize("each", first(1, (2, 4)))
def test_ranks_of_two_hosts_meet(each, tmp_path):
    (tmp_path / "ranks.py").write_text(RANKS)
    outcome = on_two_hosts(tmp_path, PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", each, "ranks.py", gpus=each)
    assert outcome.code == 0, outcome.err
    names = [socket.gethostname() + f"-{host}" for host in (0, 1)]
    ranks = json.loads(next(line for line in outcome.out.splitlines() if line.startswith("[[")))
    for rank, (number, host, local, devices, name, node, _, reduced, opened) in enumerate(ranks):
        assert (number, host, local, devices) == (rank, str(rank // each), rank % each, each)
        assert name == node == names[rank // each]
        assert reduced == [each * (2 * each + 1.0)] * 4
        assert opened == ([None] + [reduced] * (each - 1) + ["CUDA error: invalid argument"] * each)[rank]
    assert len({facts[6] for facts in ranks}) == 2 * each, "each device has its own UUID"
    assert outcome.findings == [], outcome.err
    assert {record["host"] for record in outcome.records if record["record"] == "process"} == set(names)


@pytest.mark.parametrize("first, second", [(0, 0), (0, 7), (5, 7)])
def test_the_exit_code_is_that_of_the_first_host_that_fails(tmp_path, first, second):
    outcome = on_two_hosts(tmp_path, "sh", "-c", f"test $NODE_RANK = 0 && exit {first}; exit {second}")
    assert outcome.code == (first or second), outcome.err


def test_hosts_end_with_the_command(tmp_path):
    outcome = on_two_hosts(tmp_path, "sh", "-c", "echo $$ >> pids; test $NODE_RANK = 1 && exec sleep 100; while [ $(wc -l < pids) -lt 2 ]; do :; done; kill -9 $$")
    assert outcome.code == 137, outcome.err
    for pid in (tmp_path / "pids").read_text().split():
        assert not os.path.exists(f"/proc/{pid}"), pid


def test_a_number_of_hosts_is_one_that_there_can_be(tmp_path):
    outcome = execute([DEVTRACE, "rehearse", "--hosts", 9, "--", "true"], tmp_path, environment(None))
    assert outcome.code == 2 and "--hosts" in outcome.err, outcome.err
