import contextlib
from dataclasses import dataclass

import torch


@dataclass
class SmallNormPress:
    """Drops the keys of least norm after the prefill, and turns the others to their new positions."""

    compression_ratio: float = 0.0

    @contextlib.contextmanager
    def __call__(self, model):
        hooks = []
        try:
            for layer in model.model.layers:
                layer.self_attn.rotary_emb = model.model.rotary_emb
                hooks.append(layer.self_attn.register_forward_hook(self.forward_hook, with_kwargs=True))
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def forward_hook(self, module, args, kwargs, output):
        cached = kwargs["past_key_values"].layers[module.layer_idx]
        cached.keys, cached.values = self.compress(module, cached.keys, cached.values)
        return output

    def compress(self, module, keys, values):
        n_kept = int(keys.shape[2] * (1 - self.compression_ratio))
        indices = keys.norm(dim=-1).topk(n_kept, dim=-1).indices.sort(dim=2).values
        keys = self.turn_keys(module, indices, keys)
        return keys, values.gather(2, indices[..., None].expand(-1, -1, -1, values.shape[-1]))

    @staticmethod
    def turn_keys(module, old_positions, keys):
        inv_freq = module.rotary_emb.inv_freq
        cos, sin = SmallNormPress.angles(inv_freq, old_positions)
        keys = keys.gather(2, old_positions[..., None].expand(-1, -1, -1, keys.shape[-1]))
        half = keys.shape[-1] // 2
        return keys * cos + torch.cat((-keys[..., half:], keys[..., :half]), dim=-1) * sin

    @staticmethod
    def angles(inv_freq, old_positions):
        wanted = torch.arange(old_positions.shape[2], device=old_positions.device)
        delta_pos = (wanted - old_positions)[..., None].float()
        freqs = delta_pos * inv_freq.float()
        freqs = torch.cat((freqs, freqs), dim=-1)
        return freqs.cos(), freqs.sin()
