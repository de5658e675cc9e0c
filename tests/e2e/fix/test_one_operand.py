"""devtrace fix for refusals of one operand, and for those that Python code raises: a patch with which the program runs."""

import sys
import textwrap

import pytest
from conftest import DEVTRACE, environment, execute

FAULTS = {
    "asarray": ("import numpy as np", "x = torch.ones(4, device='cuda:0')", "print(np.asarray(x).sum())"),
    "asarray of a result": ("import numpy as np", "x = torch.ones(4, device='cuda:0')", "print(np.asarray(x * 2).sum())"),
    "rows": ("import numpy as np", "rows = [torch.ones(4, device='cuda:0') for _ in range(3)]", "print(np.stack(rows).shape)"),
    "pinned": ("x = torch.ones(4, device='cuda:0')", "print(x.pin_memory().shape)"),
    "lengths": (
        "from torch.nn.utils.rnn import pack_padded_sequence",
        "batch = {k: v.to('cuda:0') for k, v in dict(x=torch.ones(2, 3, 4), n=torch.tensor([3, 2])).items()}",
        "print(pack_padded_sequence(batch['x'], batch['n'], batch_first=True).data.shape)",
    ),
    "load": ("torch.save(torch.ones(3, device='cuda:1'), 'x.pt')", "torch.cuda.device_count = lambda: 1", "print(torch.load('x.pt').shape)"),
    "data parallel": ("model = torch.nn.DataParallel(torch.nn.Linear(3, 3).to('cuda:1'))", "print(model(torch.ones(2, 3)).shape)"),
    "meta": ("model = torch.nn.Linear(3, 3, device='meta')", "model = model.to('cuda:0')", "print(model(torch.ones(2, 3, device='cuda:0')).shape)"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_patch_makes_it_run(tmp_path, name):
    (tmp_path / "program.py").write_text(textwrap.dedent("import torch\n") + "\n".join(FAULTS[name]) + "\n")
    command = [DEVTRACE, "fix", "--gpus", 2, "--", sys.executable, "program.py"]
    outcome = execute(command, tmp_path, environment("html=0"), 280)
    assert outcome.code == 0, outcome.err[-3000:]
    assert "ran to its end" in outcome.err
    assert (tmp_path / "devtrace.patch").read_text().count("\n+") >= 2
