# EXPECT {"kind":"refused-op","operation":"div","devices":["cuda:0","cpu"],"operands":["x|xyxy|pred","g|gn"],"category":"created without device","line":["nms.py: output = [","nms.py: self.xyxyn = [x / g"],"error":"on the same device","thread":"https://github.com/ultralytics/yolov5/issues/1617","hard":"an image in which nothing was found keeps the placeholder, and the first image says where the scales go"}
# FIX nms.py: output = [torch.zeros(0, 6)] * len(prediction) -> output = [torch.zeros(0, 6, device=prediction.device)] * len(prediction)
import torch
import torch.nn as nn

from nms import Detections, non_max_suppression


class Detect(nn.Module):
    """Looks for bright spots; gives back rows of (x, y, w, h, objectness, class scores)."""

    def __init__(self, nc=2, cell=4):
        super().__init__()
        self.nc, self.cell = nc, cell
        self.pool = nn.AvgPool2d(cell)

    def forward(self, imgs):
        objectness = self.pool(imgs)[:, 0]
        ys, xs = torch.meshgrid(*(torch.arange(n, device=imgs.device) for n in objectness.shape[1:]), indexing="ij")
        centers = torch.stack((xs, ys), -1).expand(len(imgs), -1, -1, 2) * self.cell + self.cell / 2
        sizes = torch.full_like(centers, float(self.cell))
        scores = torch.stack((objectness, 1 - objectness), -1)
        return torch.cat((centers, sizes, objectness[..., None], scores), -1).flatten(1, 2)


model = Detect().to("cuda:0").eval()
imgs = torch.zeros(2, 1, 16, 16)
imgs[1, :, 4:8, 8:12] = 0.9  # the first picture is empty
shapes = [tuple(img.shape[1:]) for img in imgs]
with torch.no_grad():
    pred = non_max_suppression(model(imgs.to("cuda:0")), conf_thres=0.5)
det = Detections(pred, shapes)
print([len(p) for p in det.xyxyn], [round(v, 3) for v in det.xyxyn[1][0].tolist()])
