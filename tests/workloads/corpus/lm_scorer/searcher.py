import torch
from torch import nn


class BeamSearcher(nn.Module):
    def __init__(self, vocabulary, width, scorer, steps):
        super().__init__()
        self.fc = nn.Linear(width, vocabulary)
        self.scorer = scorer
        self.steps = steps

    def forward(self, states):
        inp_tokens = torch.zeros(len(states), dtype=torch.long, device=states.device)
        chosen = []
        for step in range(self.steps):
            log_probs = self.fc(states[:, step]).log_softmax(-1)
            log_probs = log_probs + self.scorer.score(inp_tokens)
            inp_tokens = log_probs.argmax(-1)
            chosen.append(inp_tokens)
        return torch.stack(chosen, 1)
