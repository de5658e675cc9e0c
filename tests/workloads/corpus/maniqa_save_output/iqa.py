import torch
import torch.nn as nn

from hooks import SaveOutput


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class MANIQA(nn.Module):
    """Scores images from what several depths of a transformer see."""

    def __init__(self, patch_dim, embed_dim, depth):
        super().__init__()
        self.embed = nn.Linear(patch_dim, embed_dim)
        self.blocks = nn.Sequential(*[Block(embed_dim) for _ in range(depth)])
        self.save_output = SaveOutput()
        for layer in self.blocks:
            layer.register_forward_hook(self.save_output)
        self.fc_score = nn.Linear(depth * embed_dim, 1)

    def forward(self, patches):
        self.blocks(self.embed(patches))
        feats = torch.cat(self.save_output.outputs, dim=-1)
        return self.fc_score(feats).mean(dim=1)
