# EXPECT {"kind":"refused-op","operation":"conv","devices":["cuda:0","cpu"],"operands":["x|input","weight"],"category":"state not registered","line":["plain_net.py: self.block_list = ["],"error":"Input type \\(torch.cuda.FloatTensor\\) and weight type \\(torch.FloatTensor\\) should be the same|on the same device","thread":"https://github.com/Adlik/zen_nas/issues/7","hard":"the list is made in a base class; the model was moved, most of it"}
# FIX plain_net.py: self.block_list = [block(text) for text in structure.split("|")] -> self.block_list = nn.ModuleList(block(text) for text in structure.split("|"))
import torch

from plain_net import PlainNet


class MasterNet(PlainNet):
    def __init__(self, structure, num_classes):
        super().__init__(structure)
        self.fc_linear = torch.nn.Linear(self.out_channels, num_classes)

    def forward(self, x):
        x = super().forward(x)
        return self.fc_linear(x.mean(dim=(2, 3)))


def zen_score(model, resolution, gpu, repeat=2):
    """How much the outputs differ where the inputs do, without any training."""
    if gpu is not None:
        torch.cuda.set_device(gpu)
        model = model.cuda(gpu)
    scores = []
    for i in range(repeat):
        grid = torch.linspace(-1, 1, 3 * resolution**2).view(1, 3, resolution, resolution)
        x = (grid + 0.1 * i).cuda(gpu)
        with torch.no_grad():
            scores.append((model(x + 0.01) - model(x)).abs().sum().item())
    return sum(scores) / repeat


if __name__ == "__main__":
    torch.manual_seed(1)
    net = MasterNet("conv:3,8,3|conv:8,8,1", num_classes=4)
    print("score", round(zen_score(net, resolution=8, gpu=0), 5))
