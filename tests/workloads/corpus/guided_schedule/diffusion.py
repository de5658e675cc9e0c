import torch


def schedule(steps):
    return torch.linspace(0.1, 0.95, steps)


def _i(tensor, t, x):
    """A value for each sample, to be used with x."""
    shape = (x.size(0),) + (1,) * (x.ndim - 1)
    return tensor[t].view(shape).to(x)


class Diffusion:
    def __init__(self, sigmas):
        self.sigmas, self.alphas = sigmas, (1 - sigmas**2).sqrt()
        self.steps = len(sigmas)

    def denoise(self, model, xt, t):
        sigmas, alphas = _i(self.sigmas, t, xt), _i(self.alphas, t, xt)
        return alphas * xt - sigmas * model(xt, t)

    @torch.no_grad()
    def sample(self, model, noise, steps):
        xt = noise
        for step in torch.linspace(self.steps - 1, 0, steps).long().tolist():
            t = torch.full((len(xt),), step, dtype=torch.long, device=xt.device)
            xt = self.denoise(model, xt, t)
        return xt
