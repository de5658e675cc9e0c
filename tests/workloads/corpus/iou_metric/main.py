# EXPECT {"kind":"refused-op","operation":"add","devices":["cuda:0","cpu"],"operands":["self.confmat|confmat","bins"],"category":"input not moved|state not registered","line":["main.py: iou = IoU(","main.py: iou(model(","metric.py: self.confmat += bins"],"error":"on the same device","thread":"https://github.com/Lightning-AI/torchmetrics/issues/275","hard":"the metric can be moved, but nobody did; it is no part of the model"}
# FIX main.py: iou = IoU(num_classes=3) -> iou = IoU(num_classes=3).to(device)
import torch

from metric import IoU

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(275)

model = torch.nn.Conv2d(2, 3, kernel_size=1).to(device).eval()
iou = IoU(num_classes=3)

with torch.no_grad():
    for _ in range(2):
        image = torch.randn(2, 2, 5, 5).to(device)
        target = torch.randint(0, 3, (2, 5, 5)).to(device)
        iou(model(image).argmax(dim=1), target)

print(f"IoU: {iou.compute().item():.4f}")
