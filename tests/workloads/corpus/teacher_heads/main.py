# EXPECT {"kind":"refused-op","operation":"addmm|linear","devices":["cuda:1","cpu"],"operands":["weight|bias","images|x|input"],"category":"state not registered","line":["distiller.py: self.teachers = [","distiller.py: outputs = [teacher(images)","main.py: distiller ="],"error":"on the same device","thread":"https://github.com/JDAI-CV/fast-reid/issues/690","hard":"the teachers stand in a plain list so that they are not saved with the student"}
# FIX distiller.py: outputs = [teacher(images) for teacher in self.teachers] -> outputs = [teacher.to(images.device)(images) for teacher in self.teachers]
import torch

from distiller import Distiller

torch.manual_seed(0)
distiller = Distiller(width=8, classes=5, teachers=2)
distiller.to("cuda:1")
optimizer = torch.optim.SGD(distiller.parameters(), lr=0.1)
for step in range(2):
    images, targets = torch.randn(6, 8).to("cuda:1"), torch.randint(5, (6,)).to("cuda:1")
    losses = distiller(images, targets)
    optimizer.zero_grad()
    sum(losses.values()).backward()
    optimizer.step()
print({name: round(value.item(), 3) for name, value in losses.items()})
