"""`devtrace fix` on programs of several ranks: mistakes from public threads (tests/workloads/ranks/), and what starts the ranks."""

import sys

import pytest
from conftest import DEVTRACE, TOP, environment, execute, start
from nightly import first

sys.path.insert(0, str(TOP / "tests/workloads"))
from case_form import cases_in  # noqa: E402

CASES = cases_in(TOP / "tests/workloads/ranks")
LAUNCHER = TOP / "tests/helpers/forked_torchrun.py"
# The first line that the patch adds. A rank is called what the program calls it; nothing is said by a number.
EDITS = {
    "only_rank_zero_reduces": "from_all_ranks = log_loss(loss)",
    "early_stop": "if work:",
    "wrapped_on_first_device": "return DistributedDataParallel(model, device_ids=[device])",
    "batch_to_first_device": 'yield batch.to("cuda")',
    "metric_on_first_device": "return torch.tensor([correct, seen], dtype=torch.float64, device=predictions.device)",
    "flag_left_on_host": "stop = torch.tensor([float(loss < limit)], device=device)",
    "checkpoint_of_rank_zero": "state = torch.load(path, map_location=device)",
    "objects_on_first_device": 'dist.broadcast_object_list(settings, src=0, device=torch.device("cuda", local_rank))',
    "set_device_forgotten": 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
    "default_gpu": 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
    "objects_first": "torch.cuda.set_device(local)",
    "barrier_before_device": 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
    "chosen_too_late": "torch.cuda.set_device(local_rank)",
    "index_of_nothing": 'local_rank = int(os.environ["LOCAL_RANK"])',
    "visible_devices_too_late": 'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
}
# What is padded, and with what, is the program's affair.
NONE = {"last_batch"}
# Of the repaired twin all ranks print.
PRINTS_ONCE = {"only_rank_zero_reduces": "mean loss 1.5\nweights [0.0, 0.0, 0.0, 0.0]\n", "early_stop": "done 1.0\n"}


def fixed(folder, out, *words):
    return execute([DEVTRACE, "fix", "--apply", "--jobs", "2", "--output", out, "--", *words], folder, environment(None, {"RANKS_END_AFTER": "60"}), 300)


def prints(main):
    ran = start([LAUNCHER, 2, main.name], main.parent)
    assert ran.code == 0 and ran.findings == [], ran.err
    return ran.out


@pytest.mark.parametrize("name", first(1, EDITS))
def test_a_mistake_of_ranks_gets_a_patch(name, tmp_path):
    case = CASES[name]
    (tmp_path / "twin").mkdir()
    (tmp_path / "tree").mkdir()
    main = case.copy(tmp_path / "tree")
    outcome = fixed(main.parent, tmp_path / "out", sys.executable, LAUNCHER, "2", main.name)
    assert outcome.code == 0, outcome.out + outcome.err
    patch = (tmp_path / "out/devtrace.patch").read_text()
    added = [line[1:].strip() for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert added[0] == EDITS[name], patch
    assert prints(main) == (PRINTS_ONCE.get(name) or prints(case.copy(tmp_path / "twin", repaired=True)))


def test_every_mistake_is_here():
    assert set(CASES) == set(EDITS) | NONE


@pytest.mark.slow
def test_ranks_of_torchrun(tmp_path):
    """Runs side by side: torchrun's own port is one that it names."""
    main = CASES["index_of_nothing"].copy(tmp_path)
    outcome = fixed(tmp_path, tmp_path / "out", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", main.name)
    assert outcome.code == 0 and EDITS["index_of_nothing"] in main.read_text(), outcome.out + outcome.err
