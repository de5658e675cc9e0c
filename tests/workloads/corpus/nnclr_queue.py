# EXPECT {"kind":"refused-op","operation":"mm|matmul","devices":["cuda:0","cpu"],"operands":["support|support_norm","query|query_norm|projection"],"category":"module split|state not registered","line":["shared_queues[self.key] = OrderedQueue(","query_norm @ support_norm.T","support = shared_queues["],"error":"on the same device","thread":"https://github.com/galilai-group/stable-pretraining/issues/379","hard":"the queue is made after the model was moved, in a table that no module holds"}
# FIX shared_queues[self.key] = OrderedQueue(self.size, self.width) -> shared_queues[self.key] = OrderedQueue(self.size, self.width).to(next(module.parameters()).device)
import torch
from torch import nn

shared_queues = {}


class OrderedQueue(nn.Module):
    """The last `size` embeddings."""

    def __init__(self, size, width):
        super().__init__()
        self.register_buffer("rows", torch.zeros(size, width))
        self.register_buffer("pointer", torch.tensor(0))

    @torch.no_grad()
    def append(self, rows):
        where = (self.pointer + torch.arange(len(rows), device=self.rows.device)) % len(self.rows)
        self.rows[where] = rows.to(self.rows.device)
        self.pointer.add_(len(rows))

    def get(self):
        return self.rows


class OnlineQueue:
    """A callback that keeps what the model gave in a queue that others may read."""

    def __init__(self, key, size, width):
        self.key, self.size, self.width = key, size, width

    def setup(self, module):
        if self.key not in shared_queues:
            shared_queues[self.key] = OrderedQueue(self.size, self.width)

    def on_batch_end(self, projection):
        shared_queues[self.key].append(projection.detach())


def nearest(query, key):
    """For each row the embedding of the queue that is most like it."""
    support = shared_queues[key].get()
    query_norm = nn.functional.normalize(query, dim=1)
    support_norm = nn.functional.normalize(support, dim=1)
    return support[(query_norm @ support_norm.T).argmax(dim=1)]


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4)).to("cuda:0")
queue = OnlineQueue("nnclr", 16, 4)
queue.setup(model)
for _ in range(3):
    views = torch.randn(2, 4, 6).to("cuda:0")
    projection, other = model(views[0]), model(views[1])
    queue.on_batch_end(other)
    loss = (projection - nearest(other, "nnclr")).square().mean()
print("loss", round(loss.item(), 4))
