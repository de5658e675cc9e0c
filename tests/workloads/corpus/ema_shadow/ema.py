import torch


def flatten(model):
    return torch.cat([p.detach().view(-1) for p in model.parameters()])


class ExponentialMovingAverage:
    def __init__(self, model, decay):
        self.decay = decay
        self.param = flatten(model)

    def update(self, model):
        with torch.no_grad():
            new_param = flatten(model)
            diff = self.param - new_param
            diff *= 1 - self.decay
            self.param -= diff
