import torch


def xywh2xyxy(x):
    return torch.cat((x[:, :2] - x[:, 2:4] / 2, x[:, :2] + x[:, 2:4] / 2), 1)


def non_max_suppression(prediction, conf_thres):
    """Rows of (x1, y1, x2, y2, confidence, class) for every image; no two that overlap, as the cells do not."""
    candidates = prediction[..., 4] > conf_thres
    output = [torch.zeros(0, 6)] * len(prediction)
    for xi, x in enumerate(prediction):
        x = x[candidates[xi]]
        if not x.shape[0]:
            continue
        conf, j = (x[:, 5:] * x[:, 4:5]).max(1, keepdim=True)
        output[xi] = torch.cat((xywh2xyxy(x), conf, j.float()), 1)
    return output


class Detections:
    """The result for a batch, in pixels and in parts of the image."""

    def __init__(self, pred, shapes):
        d = pred[0].device
        gn = [torch.tensor([w, h, w, h, 1.0, 1.0], device=d) for h, w in shapes]
        self.xyxy = pred
        self.xyxyn = [x / g for x, g in zip(self.xyxy, gn)]
