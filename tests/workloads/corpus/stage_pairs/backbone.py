from torch import nn


class ResNetLike(nn.Module):
    """Stages, each of half the resolution; gives back what every stage makes."""

    def __init__(self, channels):
        super().__init__()
        self.stages_and_names = []
        for i, (c_in, c_out) in enumerate(zip(channels, channels[1:])):
            name = "res" + str(i + 2)
            stage = nn.Sequential(nn.Conv2d(c_in, c_out, 3, stride=2, padding=1), nn.ReLU())
            self.add_module(name, stage)
            self.stages_and_names.append((stage, name))

    def forward(self, x):
        outputs = {}
        for stage, name in self.stages_and_names:
            x = stage(x)
            outputs[name] = x
        return outputs
