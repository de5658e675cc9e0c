# EXPECT {"kind":"refused-op","operation":"sub","devices":["cuda:0","cuda:1"],"operands":["pi_logratios","ref_logratios"],"category":"input not moved|module split","line":["dpo.py: logits = pi_logratios - ref_logratios","dpo.py: return self.sequence_logps(","main.py: model_ref = load("],"error":"on the same device","thread":"https://github.com/rui-ye/OpenFedLLM/issues/51","hard":"each model is in order by itself; both come from one function, which gave them different maps"}
# FIX dpo.py: logits = pi_logratios - ref_logratios -> logits = pi_logratios - ref_logratios.to(pi_logratios.device)
import torch
from torch.utils.data import DataLoader

from dpo import DPOTrainer, PreferenceCollator
from models import load

PAIRS = [
    {"prompt": [3, 9, 4], "chosen": [11, 2], "rejected": [7, 7, 2]},
    {"prompt": [5, 1], "chosen": [8, 6, 2], "rejected": [2]},
    {"prompt": [12, 13, 3, 4], "chosen": [10, 2], "rejected": [14, 1, 2]},
]


def main():
    torch.manual_seed(0)
    model = load("tiny", reserved={})
    model_ref = load("tiny", reserved={"cuda:0": 2})  # what the first one has filled
    model_ref.load_state_dict(model.state_dict())
    trainer = DPOTrainer(model, model_ref, beta=0.1, lr=1e-2)
    loader = DataLoader(PAIRS, batch_size=3, collate_fn=PreferenceCollator(pad=0))
    losses = [round(trainer.training_step(batch), 4) for _ in range(3) for batch in loader]
    print("losses", losses)


main()
