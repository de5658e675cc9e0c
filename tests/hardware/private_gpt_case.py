"""private_gpt on a device that is named: private_gpt_case.py DEVICE [--fixed]. The token ids go to the first GPU unless they follow the model."""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "workloads/private_gpt"))
import private_gpt

private_gpt.EmbeddingSettings = partial(private_gpt.EmbeddingSettings, device=sys.argv.pop(1))
private_gpt.main()
