import torch


def apply_deltas(deltas, anchors):
    """Boxes (center, size) that the deltas make of the anchors."""
    centers, sizes = anchors.split(2, dim=-1)
    new_centers = deltas[..., :2] * sizes + centers
    new_sizes = deltas[..., 2:].exp() * sizes
    return torch.cat((new_centers, new_sizes), dim=-1)
