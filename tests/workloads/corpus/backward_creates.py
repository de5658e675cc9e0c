# EXPECT {"kind":"refused-op","operation":"mul","devices":["cuda:0","cpu"],"operands":["grad","slope"],"category":"created without device|default or current device","line":["slope = torch.linspace("],"error":"on the same device","thread":"https://github.com/pytorch/pytorch/issues/172798","hard":"the default device holds in one thread; autograd calls backward in another"}
# FIX slope = torch.linspace(1.0, 2.0, x.shape[-1]) -> slope = torch.linspace(1.0, 2.0, x.shape[-1], device=x.device)
import torch


class SurrogateSpike(torch.autograd.Function):
    """A step whose gradient is that of something smoother, steeper from channel to channel."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).float()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        slope = torch.linspace(1.0, 2.0, x.shape[-1])
        steep = grad * slope
        return steep / (1 + x.abs()).square()


class SpikingMLP(torch.nn.Module):
    def __init__(self, n_in, n_hidden, n_out):
        super().__init__()
        self.fc1 = torch.nn.Linear(n_in, n_hidden)
        self.fc2 = torch.nn.Linear(n_hidden, n_out)

    def forward(self, x):
        return self.fc2(SurrogateSpike.apply(self.fc1(x)))


torch.manual_seed(0)
weights = SpikingMLP(4, 6, 2).state_dict()

with torch.device("cuda:0"):
    model = SpikingMLP(4, 6, 2)
    model.load_state_dict(weights)
    x = torch.arange(12.0).reshape(3, 4) / 12
    loss = model(x).square().sum()
    loss.backward()

print("gradient", round(model.fc1.weight.grad.norm().item(), 4))
