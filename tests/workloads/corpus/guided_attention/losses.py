import torch
from torch import nn


class GuidedAttentionLoss(nn.Module):
    """Attention far from the diagonal costs."""

    def __init__(self, sigma=0.4):
        super().__init__()
        self.sigma = sigma

    def _make_ga_masks(self, ilens, olens):
        B = len(ilens)
        max_ilen = max(ilens)
        max_olen = max(olens)
        ga_masks = torch.zeros((B, max_olen, max_ilen))
        for idx, (ilen, olen) in enumerate(zip(ilens, olens)):
            ga_masks[idx, :olen, :ilen] = self._make_ga_mask(ilen, olen, self.sigma)
        return ga_masks

    @staticmethod
    def _make_ga_mask(ilen, olen, sigma):
        grid_x, grid_y = torch.meshgrid(torch.arange(olen).to(olen), torch.arange(ilen).to(ilen), indexing="ij")
        grid_x, grid_y = grid_x.float(), grid_y.float()
        return 1.0 - torch.exp(-((grid_y / ilen - grid_x / olen) ** 2) / (2 * sigma**2))

    def forward(self, att_ws, ilens, olens):
        ga_masks = self._make_ga_masks(ilens, olens)
        return (ga_masks * att_ws).mean()


class TacotronLoss(nn.Module):
    def __init__(self, ga_alpha):
        super().__init__()
        self.ga_alpha = ga_alpha
        self.criterion_ga = GuidedAttentionLoss()

    def forward(self, alignments, output_lens, input_lens):
        ga_loss = self.criterion_ga(alignments, input_lens, output_lens)
        return {"loss": ga_loss * self.ga_alpha, "ga_loss": ga_loss}
