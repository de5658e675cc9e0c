import torch


class Bridge:
    """A model whose activations can be looked at."""

    def __init__(self, model):
        self.model = model

    def __call__(self, tokens):
        with torch.no_grad():
            return self.model(tokens)

    def run_with_cache(self, tokens, device=None):
        """`device`: where to keep the activations."""
        cache, handles = {}, []
        for name, part in self.model.named_children():
            handles.append(part.register_forward_hook(lambda _, __, output, name=name: cache.update({name: output.to(device)})))
        if device is not None:
            self.model.to(device)
        with torch.no_grad():
            logits = self.model(tokens.to(device))
        for handle in handles:
            handle.remove()
        return logits, cache
