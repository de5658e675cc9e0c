# EXPECT {"kind":"refused-op","operation":"sub","devices":["cuda:0","cpu"],"operands":["image|x","self.mean|mean"],"category":"tied weights|cached state|input not moved","line":["def __init__(self, image, normalize=Normalize()):","image = self.normalize("],"error":"on the same device","thread":"https://github.com/pytorch/pytorch/issues/58140","hard":"a default argument is made once: the first object took it to the GPU with it"}
# FIX def __init__(self, image, normalize=Normalize()): -> def __init__(self, image, normalize=None):
# FIX self.normalize = normalize -> self.normalize = normalize or Normalize()
import torch


class Normalize(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1))

    def forward(self, x):
        return (x - self.mean) / self.std

    def inverse(self, x):
        return x * self.std + self.mean


class NaturalImage(torch.nn.Module):
    """An image to be optimized, kept normalized."""

    def __init__(self, image, normalize=Normalize()):
        super().__init__()
        self.normalize = normalize
        image = self.normalize(image)
        self.image = torch.nn.Parameter(image)

    def forward(self):
        return self.normalize.inverse(self.image).clamp(0, 1)


def visualize(start, steps=2):
    image = NaturalImage(start).cuda()
    optimizer = torch.optim.SGD(image.parameters(), lr=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        (-image().mean()).backward()
        optimizer.step()
    return image().mean().item()


results = [visualize(torch.full((3, 4, 4), value)) for value in (0.2, 0.6)]
print("brighter", [round(value, 4) for value in results])
