import torch


class MatchCumulativeEnergy:
    """How far a response's decay of energy is from that of a recorded one, in a compressed scale."""

    def __init__(self, target, power=0.3):
        self.target = target
        self.power = power
        self._reference = None
        self._scale = None

    def _surface(self, response):
        return response.square().flip(0).cumsum(0).flip(0)

    def _compressed(self, surface):
        return (surface / self._scale).clamp(min=1e-8) ** self.power

    def _prepare(self, response):
        """Aligns the target to the first response there is: its length, type and device."""
        target = torch.as_tensor(self.target[: len(response)]).to(response)
        surface = self._surface(target)
        self._scale = surface.max().item()
        self._reference = self._compressed(surface)

    def __call__(self, response):
        if self._reference is None:
            self._prepare(response.detach())
        difference = self._compressed(self._surface(response)) - self._reference
        return difference.square().mean().sqrt()
