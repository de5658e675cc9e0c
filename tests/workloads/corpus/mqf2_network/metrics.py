from torch import nn


class Metric:
    def __init__(self, name=None):
        self.name = name or type(self).__name__

    def __call__(self, prediction, target):
        return self.loss(prediction, target).mean()


class QuantileFunctionLoss(Metric):
    """A distribution as the gradient of a convex network."""

    def __init__(self, hidden_size, layers=2):
        super().__init__()
        dims = [hidden_size] * layers + [1]
        self.picnn = nn.Sequential(*(nn.Sequential(nn.Linear(a, b), nn.Softplus()) for a, b in zip(dims, dims[1:])))

    def map_x_to_distribution(self, hidden_state):
        return self.picnn(hidden_state).squeeze(-1)

    def loss(self, prediction, target):
        return (self.map_x_to_distribution(prediction) - target).square()


def weights_of(metric):
    return [p for each in vars(metric).values() if isinstance(each, nn.Module) for p in each.parameters()]
