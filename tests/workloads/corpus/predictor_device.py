# EXPECT {"kind":"refused-op","operation":"conv","devices":["cuda:0","cuda:1"],"operands":["image|x|input","stem.weight|weight"],"category":"cached state|default or current device|module split","line":["if self.predictor is None:","return image.float().to(self.device)","self.device = torch.device("],"error":"on the same device","thread":"https://github.com/ultralytics/ultralytics/issues/4556","hard":"the first prediction moves the model by itself; the second, after the same .to(), fails"}
# FIX return image.float().to(self.device) -> return image.float().to(next(self.model.parameters()).device)
import torch
from torch import nn


class DetectionModel(nn.Module):
    def __init__(self, classes=2, width=6):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.body = nn.Sequential(nn.BatchNorm2d(width), nn.SiLU(), nn.Conv2d(width, width, 3, stride=2, padding=1), nn.SiLU())
        self.detect = nn.Conv2d(width, 4 + classes, 1)

    def forward(self, image):
        return self.detect(self.body(self.stem(image))).flatten(2).transpose(1, 2)


class Predictor:
    """Images in, boxes out; knows its model once it has been set up."""

    def __init__(self, conf):
        self.conf, self.model = conf, None

    def setup_model(self, model, device=None):
        self.device = torch.device(device or "cuda:0")
        self.model = model.eval().to(self.device)

    def preprocess(self, image):
        return image.float().to(self.device)

    @torch.inference_mode()
    def __call__(self, image):
        found = self.model(self.preprocess(image))[0]
        return found[found[:, 4:].sigmoid().amax(1) > self.conf].cpu()


class YOLO:
    def __init__(self):
        self.model, self.predictor = DetectionModel(), None

    def to(self, device):
        self.model.to(device)

    def __call__(self, source, conf=0.25):
        if self.predictor is None:
            self.predictor = Predictor(conf)
            self.predictor.setup_model(self.model)
        return self.predictor(source)


torch.manual_seed(0)
model = YOLO()
frames = torch.rand(2, 1, 3, 16, 16).to("cuda:1")
boxes = []
for frame in frames:
    model.to("cuda:1")
    boxes.append(model(frame, conf=0.3))
print("boxes", [(len(found), round(found.sum().item(), 3)) for found in boxes])
