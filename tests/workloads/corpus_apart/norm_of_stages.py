# EXPECT {"kind":"refused-op","operation":"stack|cat","devices":["cuda:0","cuda:1"],"operands":["norms|tensors|norm"],"category":"module split","line":["norms = [torch.norm(","total_norm = torch.norm(torch.stack("],"error":"on the same device","thread":"https://github.com/pytorch/pytorch/issues/38605","hard":"elements of a list; gradients of a model that is split without fault"}
# FIX norms = [torch.norm(p.grad.detach(), norm_type) for p in parameters] -> norms = [torch.norm(p.grad.detach(), norm_type).to(parameters[0].device) for p in parameters]
import torch
import torch.nn


class MyModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = torch.nn.Linear(10, 5).to('cuda:0')
        self.layer2 = torch.nn.Linear(5, 2).to('cuda:1')

    def forward(self, x):
        a = self.layer1(x)
        b = self.layer2(a.to('cuda:1'))
        return b


def clip_grad_norm_(parameters, max_norm, norm_type=2.0):
    parameters = [p for p in parameters if p.grad is not None]
    norms = [torch.norm(p.grad.detach(), norm_type) for p in parameters]
    total_norm = torch.norm(torch.stack(norms), norm_type)
    clip_coef = max_norm / (total_norm.item() + 1e-6)
    if clip_coef < 1:
        for p in parameters:
            p.grad.detach().mul_(clip_coef)
    return total_norm


torch.manual_seed(0)
m = MyModule()
opt = torch.optim.SGD(m.parameters(), lr=0.1)
x = torch.randn(32, 10).to('cuda:0')
for i in range(3):
    opt.zero_grad()
    loss = m(x).sum()
    loss.backward()
    norm = clip_grad_norm_(m.parameters(), 1.0)
    opt.step()
print('norm before clipping: %.3f, loss: %.3f' % (norm.item(), loss.item()))
