# EXPECT {"kind":"refused-op","operation":"index","devices":["cpu","cuda:0"],"operands":["val_blocks"],"category":"created without device","line":["val_blocks = torch.linspace(","val_blocks = val_blocks["],"error":"indices should be either on cpu or on the same device as the indexed tensor \\(cpu\\)","thread":"https://github.com/monniert/differentiable-blocksworld/issues/2","hard":"the message names the table's device; the mask is a comparison that has no name"}
# FIX val_blocks = torch.linspace(0, 1, self.n_blocks + 1)[1:] -> val_blocks = torch.linspace(0, 1, self.n_blocks + 1, device=self.bkg.device)[1:]
# FIX values = torch.cat([torch.zeros(n_env), val_blocks.repeat_interleave(self.block_faces)]) -> values = torch.cat([torch.zeros(n_env, device=self.bkg.device), val_blocks.repeat_interleave(self.block_faces)])
import torch
from torch import nn


class BlocksWorld(nn.Module):
    """A scene of a background and some blocks, each of which can fade away."""

    env_faces, block_faces = 3, 4

    def __init__(self, n_blocks=6):
        super().__init__()
        self.n_blocks = n_blocks
        self.bkg = nn.Parameter(torch.rand(self.env_faces, 3))
        self.textures = nn.Parameter(torch.rand(n_blocks, self.block_faces, 3))
        self.alpha_logit = nn.Parameter(torch.linspace(-3, 3, n_blocks))

    def get_opacities(self):
        return torch.sigmoid(self.alpha_logit)

    def forward(self):
        alpha = self.get_opacities()
        blocks = self.textures * alpha[:, None, None]
        return torch.cat([self.bkg, blocks.flatten(0, 1)]).mean()

    @torch.no_grad()
    def get_scene_face_colors(self, filter_transparent=False, with_env=True):
        val_blocks = torch.linspace(0, 1, self.n_blocks + 1)[1:]
        if filter_transparent:
            val_blocks = val_blocks[self.get_opacities() > 0.5]
        n_env = self.env_faces if with_env else 0
        values = torch.cat([torch.zeros(n_env), val_blocks.repeat_interleave(self.block_faces)])
        colors = torch.stack([values, 1 - values, 0.5 + 0 * values], dim=1)
        return colors.to(self.bkg.device)


torch.manual_seed(2)
model = BlocksWorld().to("cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = (model() - 0.2).square()
    loss.backward()
    optimizer.step()

colors = model.get_scene_face_colors(filter_transparent=True)
print(len(colors), "faces, colors", [round(v, 3) for v in colors.mean(dim=0).tolist()])
