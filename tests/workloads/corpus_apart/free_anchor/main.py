# EXPECT {"kind":"refused-op","operation":"mul|sub|add","devices":["cuda:0","cuda:1"],"operands":["sizes|anchors|centers|priors","deltas|bbox"],"category":"default or current device","line":["head.py: anchors = self.get_anchors(","head.py: iou = overlaps("],"error":"on the same device","thread":"https://github.com/open-mmlab/mmdetection/pull/7521","hard":"the device is a default argument that another file's default argument hides"}
# FIX head.py: anchors = self.get_anchors([tuple(score.shape[-2:]) for score in cls_scores]) -> anchors = self.get_anchors([tuple(score.shape[-2:]) for score in cls_scores], device=cls_scores[0].device)
import torch

from head import FreeAnchorHead


def train(cfg):
    torch.manual_seed(cfg["seed"])
    device = torch.device("cuda", cfg["gpu_id"])
    head = FreeAnchorHead(in_channels=4, num_classes=2, strides=[4, 8]).to(device)
    optimizer = torch.optim.SGD(head.parameters(), lr=cfg["lr"])
    pyramid = [torch.rand(1, 4, 4, 4), torch.rand(1, 4, 2, 2)]
    gt_boxes = torch.tensor([[2.0, 2.0, 9.0, 8.0], [6.0, 5.0, 15.0, 15.0]])
    for _ in range(cfg["iters"]):
        losses = head.loss(*head([level.to(device) for level in pyramid]), gt_boxes.to(device))
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
    return {name: round(value.item(), 4) for name, value in losses.items()}


print(train({"seed": 7521, "gpu_id": 1, "lr": 0.01, "iters": 2}))
