# EXPECT {"kind":"refused-op","operation":"mm|matmul|mv|addmm|addmv|bmm","devices":["cuda:0","cpu"],"operands":["cross|test_train|covariance","mean_cache|self.mean_cache|weights"],"category":"cached state|state not registered","line":["exact_gp.py: if self.prediction_strategy is None:","prediction.py: return cross @ self.mean_cache","main.py: model.cuda()"],"error":"on the same device","thread":"https://github.com/cornellius-gp/gpytorch/issues/1619","hard":"the model moves its training data itself; what was solved from it lies in an object that is no module"}
# FIX exact_gp.py: if self.prediction_strategy is None: -> if self.prediction_strategy is None or self.prediction_strategy.mean_cache.device != x.device:
import torch

from exact_gp import ExactGP

x = torch.linspace(-1, 1, 12).unsqueeze(-1)
y = torch.sin(3 * x).squeeze(-1)

model = ExactGP(x, y)
model.eval()
with torch.no_grad():
    checked = model(torch.tensor([[0.25], [0.5]]))
    assert (checked - torch.sin(3 * torch.tensor([0.25, 0.5]))).abs().max() < 0.1

    model.cuda()
    grid = torch.linspace(-1, 1, 200, device="cuda").unsqueeze(-1)
    mean = model(grid)
print("the mean goes from", round(mean.min().item(), 3), "to", round(mean.max().item(), 3))
