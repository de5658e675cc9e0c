# EXPECT {"kind":"refused-op","operation":"sub","devices":["cuda:0","cpu"],"operands":["x|features|points","data\\[|shift|scale"],"category":"state not registered|cached state","line":["points = (points - self.data[","points = points * self.data[","self.data = {"],"error":"on the same device","thread":"https://github.com/pytorch/pytorch/issues/43815","hard":"the tensors are registered; the dict still holds what they were before .to(), which replaces buffers"}
# FIX points = (points - self.data["shift"]) -> points = points - self.data_shift
# FIX points = points * self.data["scale"] -> points = points * self.data_scale
import torch
import torch.nn as nn


class Whiten(nn.Module):
    def __init__(self, shift, scale):
        super().__init__()
        self.data = {"shift": torch.tensor(shift), "scale": torch.tensor(scale)}
        for name in self.data:
            self.register_buffer("data_" + name, self.data[name])

    def forward(self, points):
        points = (points - self.data["shift"])
        points = points * self.data["scale"]
        return points


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.whiten = Whiten([0.5, 0.5, 1.0], [2.0, 2.0, 1.0])
        self.mlp = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, points):
        return self.mlp(self.whiten(points)).amax(dim=1)


torch.manual_seed(1)
m = PointNet()
cloud = torch.rand(2, 30, 3)
with torch.no_grad():
    on_cpu = m(cloud)
    m.cuda()
    on_gpu = m(cloud.cuda())
print("same on both:", torch.allclose(on_cpu, on_gpu.cpu(), atol=1e-5))
