# EXPECT {"kind":"refused-op","operation":"lerp","devices":["cuda:0","cpu"],"operands":["ema_v","model_v|end"],"category":"input not moved|state not registered","line":["ema_v.lerp_(","model_ema = ModelEmaV3(","self.module.to(device=device)"],"error":"on the same device","thread":"https://github.com/huggingface/pytorch-image-models/issues/2127","hard":"the average is on the CPU on purpose"}
# FIX ema_v.lerp_(model_v, weight=1. - decay) -> ema_v.lerp_(model_v.to(ema_v.device), weight=1. - decay)
from copy import deepcopy

import torch
import torch.nn as nn
import torch.nn.functional as F


class ModelEmaV3(nn.Module):
    """ Model Exponential Moving Average. Keeping it on 'cpu' saves memory of the GPU. """

    def __init__(self, model, decay: float = 0.9999, update_after_step: int = 0, device=None):
        super().__init__()
        self.module = deepcopy(model)
        self.module.eval()
        self.decay = decay
        self.update_after_step = update_after_step
        self.device = device
        if device is not None:
            self.module.to(device=device)

    def get_decay(self, step):
        return 0. if step <= self.update_after_step else self.decay

    @torch.no_grad()
    def update(self, model, step):
        decay = self.get_decay(step)
        if decay == 0.:
            self.module.load_state_dict(model.state_dict())
            return
        for ema_v, model_v in zip(self.module.state_dict().values(), model.state_dict().values()):
            if ema_v.is_floating_point():
                ema_v.lerp_(model_v, weight=1. - decay)
            else:
                ema_v.copy_(model_v)


def train_one_epoch(model, loader, optimizer, model_ema, epoch=0):
    for i, (x, target) in enumerate(loader):
        loss = F.cross_entropy(model(x.cuda()), target.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model_ema.update(model, step=epoch * len(loader) + i)


torch.manual_seed(42)
net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(96, 4)).cuda()
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
model_ema = ModelEmaV3(net, decay=0.8, update_after_step=1, device='cpu')
images = [(torch.rand(4, 3, 6, 6), torch.tensor([0, 1, 2, 3])) for _ in range(4)]
train_one_epoch(net, images, sgd, model_ema)
norm = sum(p.detach().square().sum().item() for p in model_ema.module.parameters()) ** 0.5
print(f'{norm:.3f} after {model_ema.module[1].num_batches_tracked.item()} steps')
