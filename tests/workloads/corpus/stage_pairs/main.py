# EXPECT {"kind":"refused-op","operation":"conv","devices":["cuda:0","cuda:1"],"operands":["x|images|input","weight|bias"],"category":"data parallel","line":["backbone.py: x = stage(x)","backbone.py: self.stages_and_names.append("],"error":"on the same device","thread":"https://github.com/facebookresearch/detectron2/issues/1105","hard":"a list of (module, name) holds the modules that were replicated, not the replicas"}
# FIX backbone.py: x = stage(x) -> x = getattr(self, name)(x)
import torch
from backbone import ResNetLike


class ProposalHead(torch.nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.objectness = torch.nn.Conv2d(in_channels, 3, kernel_size=1)

    def forward(self, features):
        return self.objectness(features["res3"])


class Detector(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = ResNetLike([3, 6, 8])
        self.proposals = ProposalHead(8)

    def forward(self, images):
        return self.proposals(self.backbone(images))


torch.manual_seed(1105)
detector = torch.nn.DataParallel(Detector().to("cuda:0"), device_ids=[0, 1])
images = torch.rand(4, 3, 16, 16, device="cpu")
logits = detector(images)
print(tuple(logits.shape), f"{logits.sum().item():.3f}")
