import torch


class AnchorGenerator:
    def __init__(self, strides, scale=2.0):
        self.strides = strides
        self.scale = scale

    def grid_anchors(self, featmap_sizes, device="cuda"):
        """All levels' anchors, (center x, center y, width, height)."""
        levels = []
        for (h, w), stride in zip(featmap_sizes, self.strides):
            ys = (torch.arange(h, device=device) + 0.5) * stride
            xs = (torch.arange(w, device=device) + 0.5) * stride
            centers = torch.cartesian_prod(ys, xs).flip(1)
            levels.append(torch.cat([centers, torch.full_like(centers, self.scale * stride)], dim=1))
        return torch.cat(levels)


def delta2bbox(anchors, deltas):
    sizes = anchors[:, 2:]
    centers = anchors[:, :2] + sizes * deltas[:, :2]
    halves = sizes * deltas[:, 2:].exp() / 2
    return torch.cat([centers - halves, centers + halves], dim=1)


def overlaps(boxes, others):
    left_top = torch.maximum(boxes[:, None, :2], others[:, :2])
    sides = (torch.minimum(boxes[:, None, 2:], others[:, 2:]) - left_top).clamp(min=0)
    area = lambda b: (b[:, 2:] - b[:, :2]).prod(dim=1)
    shared = sides.prod(dim=2)
    return shared / (area(boxes)[:, None] + area(others) - shared)
