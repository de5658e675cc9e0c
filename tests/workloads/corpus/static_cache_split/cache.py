import torch


class StaticCache:
    """Keys and values of a fixed length, so that a compiled step always sees the same shapes."""

    def __init__(self, num_layers, shape, device, layer_devices=None):
        self.key_cache, self.value_cache = [], []
        for layer in range(num_layers):
            where = (layer_devices or {}).get(layer, device)
            self.key_cache.append(torch.zeros(shape, device=where))
            self.value_cache.append(torch.zeros(shape, device=where))

    def update(self, key_states, value_states, layer_idx, cache_position):
        keys, values = self.key_cache[layer_idx], self.value_cache[layer_idx]
        keys.index_copy_(2, cache_position, key_states)
        values.index_copy_(2, cache_position, value_states)
        return keys, values
