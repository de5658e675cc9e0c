import torch
from torch import nn


class Downsampling:
    def __init__(self, ratio, device):
        self.ratio, self._device = ratio, device
        self.number_of_points_seen = 0

    def init_downsampler(self):
        raise NotImplementedError

    def count(self):
        return max(1, int(self.ratio * self.number_of_points_seen))


class RHOLossDownsampling(Downsampling):
    """Points whose loss is still high, though it need not be: a model that was trained on other data has it low."""

    def __init__(self, ratio, holdout_model, device):
        super().__init__(ratio, device)
        self.holdout_model = holdout_model
        self.per_sample_loss = nn.CrossEntropyLoss(reduction="none")

    def init_downsampler(self):
        self.rho_loss = torch.tensor([])
        self.number_of_points_seen = 0

    @torch.no_grad()
    def inform_samples(self, forward_output, data, target):
        training_loss = self.per_sample_loss(forward_output, target)
        irreducible_loss = self.per_sample_loss(self.holdout_model(data), target)
        self.rho_loss = torch.cat([self.rho_loss, training_loss - irreducible_loss])
        self.number_of_points_seen += len(target)

    def select_points(self):
        return torch.topk(self.rho_loss, self.count()).indices
