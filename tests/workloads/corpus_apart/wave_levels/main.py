# EXPECT {"kind":"refused-op","operation":"conv","devices":["cuda:1","cuda:0"],"operands":["x|input","self.filters|filters|weight"],"category":"state not registered|default or current device|module split","line":["wavelets.py: xf1 = DWTForward(","wavelets.py: xf2 = DWTForward(","wavemix.py: bands = xf1(x)","main.py: model = WaveMix("],"error":"on the same device|should be the same","thread":"https://github.com/pranavphoenix/WaveMix/pull/8","hard":"layers that belong to a file, not to the model; they are on the first device since it was imported"}
# FIX wavemix.py: self.norm = nn.BatchNorm2d(dim) -> self.norm = nn.BatchNorm2d(dim); self.xf1, self.xf2 = DWTForward(levels=1), DWTForward(levels=2)
# FIX wavemix.py: bands = xf1(x) -> bands = self.xf1(x)
# FIX wavemix.py: coarse = xf2(x) -> coarse = self.xf2(x)
# FIX wavemix.py: from wavelets import xf1, xf2 -> from wavelets import DWTForward
import torch

from wavemix import WaveMix

torch.manual_seed(8)
device = torch.device("cuda:1")
model = WaveMix(num_classes=3, dim=6, depth=2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.rand(4, 3, 16, 16).to(device), torch.tensor([0, 2, 1, 0]).to(device)
for _ in range(2):
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
