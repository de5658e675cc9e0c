# EXPECT {"kind":"refused-op","operation":"randperm|random","devices":["cuda:0","cpu"],"operands":["generator"],"category":"generator|default or current device","line":["train_set, test_set = random_split(","torch.set_default_device("],"error":"Expected a 'cuda' device type for generator but found 'cpu'","thread":"https://github.com/hcnoh/knowledge-tracing-collection-pytorch/issues/1","hard":"the generator is a default argument of torch.utils.data; no tensor of the program is wrong"}
# FIX train_set, test_set = random_split(dataset, [6, 2]) -> train_set, test_set = random_split(dataset, [6, 2], generator=torch.Generator(device="cuda"))
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

if torch.cuda.is_available():
    torch.set_default_device("cuda")


class Answers(Dataset):
    """Which questions a student was asked, and whether the answers were right."""

    def __init__(self, n_students, n_questions, length):
        rng = np.random.RandomState(1)
        self.q_seqs = rng.randint(0, n_questions, (n_students, length))
        self.r_seqs = rng.randint(0, 2, (n_students, length))

    def __getitem__(self, index):
        return self.q_seqs[index], self.r_seqs[index]

    def __len__(self):
        return len(self.q_seqs)


class DKT(nn.Module):
    def __init__(self, n_questions, dim):
        super().__init__()
        self.n_questions = n_questions
        self.register_buffer("difficulty", torch.arange(n_questions) / n_questions)
        self.half_life = nn.Parameter(torch.full((dim,), 0.5))

    def forward(self, q, r):
        right = (r - self.difficulty[q]).cumsum(dim=1)
        return torch.sigmoid(right * self.half_life.mean())


def collate(batch):
    q, r = zip(*batch)
    return torch.tensor(np.stack(q)), torch.tensor(np.stack(r))


def evaluate(model, loader):
    with torch.no_grad():
        return sum(((model(q, r) > 0.5).long() == r).sum().item() for q, r in loader)


dataset = Answers(n_students=8, n_questions=10, length=7)
train_set, test_set = random_split(dataset, [6, 2])
model = DKT(10, dim=4)
hits = [evaluate(model, DataLoader(part, batch_size=2, collate_fn=collate)) for part in (train_set, test_set)]
print("students", len(train_set) + len(test_set), "answers told rightly", sum(hits))
