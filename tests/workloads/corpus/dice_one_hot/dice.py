import torch
import torch.nn as nn
import torch.nn.functional as F


def make_one_hot(labels, classes):
    n, _, h, w = labels.size()
    one_hot = torch.zeros(n, classes, h, w).cuda()
    return one_hot.scatter_(1, labels.data, 1)


class DiceLoss(nn.Module):
    def __init__(self, smooth=1.):
        super(DiceLoss, self).__init__()
        self.smooth = smooth

    def forward(self, output, target):
        target = make_one_hot(target.unsqueeze(dim=1), classes=output.size()[1])
        output_flat = F.softmax(output, dim=1).contiguous().view(-1)
        target_flat = target.contiguous().view(-1)
        intersection = (output_flat * target_flat).sum()
        return 1 - (2. * intersection + self.smooth) / (output_flat.sum() + target_flat.sum() + self.smooth)


class CE_DiceLoss(nn.Module):
    def __init__(self):
        super(CE_DiceLoss, self).__init__()
        self.dice = DiceLoss()
        self.cross_entropy = nn.CrossEntropyLoss()

    def forward(self, output, target):
        return self.cross_entropy(output, target) + self.dice(output, target)
