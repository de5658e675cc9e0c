from torch import nn


def block(text):
    kind, sizes = text.split(":")
    assert kind == "conv", kind
    c_in, c_out, kernel = map(int, sizes.split(","))
    layer = nn.Conv2d(c_in, c_out, kernel, padding=kernel // 2)
    layer.block_name = text
    return layer


class PlainNet(nn.Module):
    """A network written as a string; searching is to change the string."""

    def __init__(self, structure):
        super().__init__()
        self.structure = structure
        self.block_list = [block(text) for text in structure.split("|")]
        self.out_channels = self.block_list[-1].out_channels

    def forward(self, x):
        for layer in self.block_list:
            x = layer(x).relu()
        return x
