import contextlib
from dataclasses import dataclass

import torch


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def rotate_cos_sin(inv_freq: torch.Tensor, selected: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What turns keys from where they stood to where they stand once the others have gone."""
    delta_pos = torch.arange(selected.shape[1], device=selected.device) - selected
    freqs = delta_pos.float().unsqueeze(-1) * inv_freq.float()
    angles = torch.cat((freqs, freqs), dim=-1)
    return angles.cos(), angles.sin()


@dataclass
class FinchLikePress:
    ratio: float

    def compress(self, module, keys: torch.Tensor) -> torch.Tensor:
        n_kept = int(keys.shape[1] * (1 - self.ratio))
        selected = keys.norm(dim=-1).topk(n_kept, dim=1).indices.sort(dim=1).values
        keys = keys.gather(1, selected.unsqueeze(-1).expand(-1, -1, keys.shape[-1]))
        cos, sin = rotate_cos_sin(module.rotary_emb.inv_freq, selected)
        return keys * cos + rotate_half(keys) * sin

    def forward_hook(self, module, args, output):
        module.cache = self.compress(module, module.cache)
        return output

    @contextlib.contextmanager
    def __call__(self, model):
        hooks = []
        for layer in model.layers:
            object.__setattr__(layer, "rotary_emb", model.rotary_emb)
            hooks.append(layer.register_forward_hook(self.forward_hook))
        yield
        for hook in hooks:
            hook.remove()
