import torch
from torch import nn


class QFunction(nn.Module):
    def __init__(self, encoder, hidden_size, action_size):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(hidden_size, action_size)

    def forward(self, x):
        return self.head(self.encoder(x))


@torch.no_grad()
def compute_output_size(shapes, encoder, device):
    """A batch of one goes through it: what comes out says how wide it is."""
    inputs = [torch.rand(1, *shape, device=device) for shape in shapes]
    return encoder(*inputs).shape[1]


def create_discrete_q_function(observation_size, action_size, factory, device):
    encoder = factory.create(observation_size)
    hidden_size = compute_output_size([(observation_size,)], encoder, device)
    q_function = QFunction(encoder, hidden_size, action_size)
    q_function.to(device)
    return q_function
