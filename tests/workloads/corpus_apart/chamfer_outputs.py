# EXPECT {"kind":"refused-op","operation":"add|minimum|min|copy","devices":["cuda:0","cuda:1"],"operands":["dist1|dist","best|nearest.*|values"],"category":"default or current device","line":["dist1 = torch.zeros(","dist2 = torch.zeros("],"error":"Expected all tensors to be on the same device, but found at least two devices","thread":"https://github.com/otaheri/chamfer_distance/pull/5","hard":"outputs are made for an extension to fill in, which is where they are refused"}
# FIX dist1 = torch.zeros(batch, n).cuda() -> dist1 = torch.zeros(batch, n).to(xyz1.device)
# FIX dist2 = torch.zeros(batch, m).cuda() -> dist2 = torch.zeros(batch, m).to(xyz1.device)
# FIX idx1 = torch.zeros(batch, n, dtype=torch.long).cuda() -> idx1 = torch.zeros(batch, n, dtype=torch.long).to(xyz1.device)
# FIX idx2 = torch.zeros(batch, m, dtype=torch.long).cuda() -> idx2 = torch.zeros(batch, m, dtype=torch.long).to(xyz1.device)
import torch
from torch import nn


class ext:
    """What the compiled extension does: its outputs are the caller's."""

    @staticmethod
    def nearest(points, others, dist, idx):
        squared = (points.unsqueeze(2) - others.unsqueeze(1)).square().sum(-1)
        best, where = squared.min(dim=2)
        dist += best
        idx += where

    @staticmethod
    def forward(xyz1, xyz2, dist1, dist2, idx1, idx2):
        ext.nearest(xyz1, xyz2, dist1, idx1)
        ext.nearest(xyz2, xyz1, dist2, idx2)


class ChamferDistanceFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, xyz1, xyz2):
        batch, n, _ = xyz1.shape
        m = xyz2.shape[1]
        xyz1, xyz2 = xyz1.contiguous(), xyz2.contiguous()
        dist1 = torch.zeros(batch, n).cuda()
        dist2 = torch.zeros(batch, m).cuda()
        idx1 = torch.zeros(batch, n, dtype=torch.long).cuda()
        idx2 = torch.zeros(batch, m, dtype=torch.long).cuda()
        ext.forward(xyz1, xyz2, dist1, dist2, idx1, idx2)
        ctx.save_for_backward(xyz1, xyz2, idx1, idx2)
        return dist1, dist2

    @staticmethod
    def backward(ctx, grad_dist1, grad_dist2):
        xyz1, xyz2, idx1, idx2 = ctx.saved_tensors
        grad1, grad2 = torch.zeros_like(xyz1), torch.zeros_like(xyz2)
        for from_, to, idx, grad, grad_from, grad_to in (
            (xyz1, xyz2, idx1, grad_dist1, grad1, grad2),
            (xyz2, xyz1, idx2, grad_dist2, grad2, grad1),
        ):
            rows = idx.unsqueeze(-1).expand(-1, -1, 3)
            pull = 2 * grad.unsqueeze(-1) * (from_ - to.gather(1, rows))
            grad_from += pull
            grad_to.scatter_add_(1, rows, -pull)
        return grad1, grad2


class ChamferDistance(nn.Module):
    def forward(self, xyz1, xyz2):
        return ChamferDistanceFunction.apply(xyz1, xyz2)


torch.manual_seed(5)
device = torch.device("cuda:1")
hands = torch.rand(2, 10, 3).to(device)
template = nn.Parameter(torch.rand(2, 6, 3).to(device))
distance, optimizer = ChamferDistance(), torch.optim.SGD([template], lr=0.5)
for _ in range(3):
    to_template, to_hands = distance(hands, template)
    loss = to_template.mean() + to_hands.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))
