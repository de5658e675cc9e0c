# EXPECT {"kind":"refused-op","operation":"rand|uniform","devices":["cpu","cuda:0"],"operands":["generator|self.generator"],"category":"generator","line":["change = torch.rand(","optimizer = TopQGradient("],"error":"Expected a 'cpu' device type for generator but found 'cuda'","thread":"https://github.com/mit-ll-responsible-ai/responsible-ai-toolbox/pull/64","hard":"inside the step of an optimizer: nothing of its state is at fault"}
# FIX change = torch.rand(1, generator=self.generator) * 2 - 1 -> change = torch.rand(1, generator=self.generator, device=self.generator.device) * 2 - 1
import torch


class TopQGradient(torch.optim.Optimizer):
    """A step along the largest part of the gradient; how large a part is drawn anew each time."""

    def __init__(self, params, lr, q, dq, generator=None):
        super().__init__(params, dict(lr=lr, q=q, dq=dq))
        self.generator = generator if generator is not None else torch.default_generator

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                change = torch.rand(1, generator=self.generator) * 2 - 1
                q = min(1.0, max(0.0, group["q"] + group["dq"] * change.item()))
                size = p.grad.abs().flatten()
                keep = max(1, int(round(q * size.numel())))
                threshold = size.topk(keep).values[-1]
                p.sub_(group["lr"] * p.grad.sign() * (p.grad.abs() >= threshold))


torch.manual_seed(0)
generator = torch.Generator(device="cuda:0").manual_seed(3)
image = torch.rand(12, device="cuda:0", requires_grad=True)
optimizer = TopQGradient([image], lr=0.1, q=0.5, dq=0.2, generator=generator)
losses = []
for _ in range(3):
    loss = (image - 0.5).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print("smaller", losses[-1] < losses[0], "within", bool(image.isfinite().all()))
