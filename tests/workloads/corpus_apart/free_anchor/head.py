import torch
from torch import nn

from anchors import AnchorGenerator, delta2bbox, overlaps


class FreeAnchorHead(nn.Module):
    """Learns which anchors stand for an object: the best of a bag."""

    def __init__(self, in_channels, num_classes, strides, bag=3):
        super().__init__()
        self.cls = nn.Conv2d(in_channels, num_classes, 3, padding=1)
        self.reg = nn.Conv2d(in_channels, 4, 3, padding=1)
        self.prior_generator = AnchorGenerator(strides)
        self.bag = bag

    def forward(self, feats):
        return [self.cls(feat) for feat in feats], [self.reg(feat) for feat in feats]

    def get_anchors(self, featmap_sizes, device="cuda"):
        return self.prior_generator.grid_anchors(featmap_sizes, device=device)

    def loss(self, cls_scores, bbox_preds, gt_boxes):
        anchors = self.get_anchors([tuple(score.shape[-2:]) for score in cls_scores])
        scores = torch.cat([score[0].flatten(1).T for score in cls_scores]).sigmoid()
        deltas = torch.cat([pred[0].flatten(1).T for pred in bbox_preds])
        iou = overlaps(delta2bbox(anchors, deltas), gt_boxes)
        bag = iou.topk(self.bag, dim=0)
        positive = (bag.values * scores.amax(1)[bag.indices]).mean(dim=0)
        negative = (scores * (1 - iou.amax(1, keepdim=True))).square().mean()
        return {"positive_bag_loss": -positive.clamp(min=1e-6).log().mean(), "negative_bag_loss": negative}
