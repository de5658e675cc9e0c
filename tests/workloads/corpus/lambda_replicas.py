# EXPECT {"kind":"refused-op","operation":"addmm|linear|mm","devices":["cuda:1","cuda:0"],"operands":["x","weight|bias|.*fc.*\\.weight|.*fc.*\\.bias"],"category":"data parallel","line":["two = lambda x: self.fc2(self.fc1(x).relu())","one = lambda x: self.fc(x)","self.fc_forward = ","return self.fc_forward(x)"],"error":"on the same device","thread":"https://github.com/pytorch/pytorch/issues/30324","hard":"a replica copies the attribute, and the lambda in it still means the original by self"}
# FIX return self.fc_forward(x) -> return self.fc2(self.fc1(x).relu())
import torch
from torch import nn


class DummyModel(nn.Module):
    def __init__(self, in_dim, n_classes, fc_type):
        super().__init__()
        self.fc_type = fc_type
        if fc_type == 1:
            self.fc = nn.Linear(in_dim, n_classes)
        else:
            self.fc1, self.fc2 = nn.Linear(in_dim, in_dim), nn.Linear(in_dim, n_classes)
        self._set_fc_forward()

    def _set_fc_forward(self):
        one = lambda x: self.fc(x)
        two = lambda x: self.fc2(self.fc1(x).relu())
        self.fc_forward = one if self.fc_type == 1 else two

    def forward(self, x):
        return self.fc_forward(x)


torch.manual_seed(0)
model = nn.DataParallel(DummyModel(10, 2, fc_type=2).to("cuda:0"), device_ids=[0, 1])
x = torch.rand(6, 10).to("cuda:0")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), torch.tensor([0, 1, 0, 1, 1, 0]).to("cuda:0"))
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
