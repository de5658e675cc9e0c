# EXPECT {"kind":"refused-op","operation":"mse_loss|sub|broadcast|binary","devices":["cuda:1","cuda:0"],"operands":["target|filled|label"],"category":"default or current device","line":["filled = torch.tensor(label).cuda()","return filled.expand_as(logits)"],"error":"on the same device","thread":"https://github.com/Project-MONAI/GenerativeModels/pull/371","hard":"the target is a view of a scalar on the first device"}
# FIX filled = torch.tensor(label).cuda() -> filled = torch.tensor(label).to(logits.device)
import torch
from torch import nn


class PatchAdversarialLoss(nn.Module):
    """Least squares between what the discriminator says of each patch and what it should have said."""

    def __init__(self, real=1.0, fake=0.0):
        super().__init__()
        self.real, self.fake = real, fake
        self.distance = nn.MSELoss()

    def target_of(self, logits, is_real):
        label = self.real if is_real else self.fake
        if logits.is_cuda:
            filled = torch.tensor(label).cuda()
        else:
            filled = torch.tensor(label)
        return filled.expand_as(logits)

    def forward(self, scales, is_real):
        losses = []
        for logits in scales:
            target = self.target_of(logits, is_real)
            losses.append(self.distance(logits, target))
        return torch.stack(losses).mean()


torch.manual_seed(0)
device = torch.device("cuda:1")
discriminator = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.LeakyReLU(0.2), nn.Conv2d(4, 1, 3)).to(device)
loss = PatchAdversarialLoss().to(device)
images = torch.rand(2, 1, 16, 16).to(device)
scales = [discriminator(images), discriminator(nn.functional.avg_pool2d(images, 2) + 0.1)]
print("adversarial", round((loss(scales, True) + loss(scales, False)).item(), 4))
