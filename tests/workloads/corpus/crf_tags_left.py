# EXPECT {"kind":"refused-op","operation":"index|where|mul|gather","devices":["cpu","cuda:0"],"operands":["tags|mask"],"category":"input not moved","line":["loss = -crf(emissions, tags)","tokens, tags = batch"],"error":"on the same device|indices should be|device","thread":"https://github.com/kmkurn/pytorch-crf/pull/101","hard":"what is refused is made from the tags inside the layer, as a mask"}
# FIX loss = -crf(emissions, tags) -> loss = -crf(emissions, tags.to(emissions.device))
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class CRF(nn.Module):
    def __init__(self, num_tags):
        super().__init__()
        self.start_transitions = nn.Parameter(torch.linspace(-0.1, 0.1, num_tags))
        self.transitions = nn.Parameter(torch.linspace(-0.1, 0.1, num_tags * num_tags).view(num_tags, num_tags))

    def forward(self, emissions, tags, mask=None):
        if mask is None:
            mask = torch.ones_like(tags, dtype=torch.float)
        return (self._score(emissions, tags, mask) - self._normalizer(emissions, mask)).mean()

    def _normalizer(self, emissions, mask):
        score = self.start_transitions + emissions[:, 0]
        for i in range(1, emissions.size(1)):
            following = (score.unsqueeze(2) + self.transitions + emissions[:, i].unsqueeze(1)).logsumexp(1)
            score = torch.where(mask[:, i].unsqueeze(1) > 0, following, score)
        return score.logsumexp(1)

    def _score(self, emissions, tags, mask):
        score = self.start_transitions.sum() * mask[:, 0]
        for i in range(emissions.size(1)):
            score = score + emissions[:, i].gather(1, tags[:, i : i + 1]).squeeze(1) * mask[:, i]
        return score


class Tagger(nn.Module):
    def __init__(self, vocabulary, num_tags):
        super().__init__()
        self.embedding, self.head = nn.Embedding(vocabulary, 8), nn.Linear(8, num_tags)

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


torch.manual_seed(0)
device = torch.device("cuda:0")
tagger, crf = Tagger(30, 4).to(device), CRF(4).to(device)
optimizer = torch.optim.SGD([*tagger.parameters(), *crf.parameters()], lr=0.1)
data = DataLoader(TensorDataset(torch.randint(0, 30, (8, 5)), torch.randint(0, 4, (8, 5))), batch_size=4)
for batch in data:
    tokens, tags = batch
    emissions = tagger(tokens.to(device))
    loss = -crf(emissions, tags)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 3))
