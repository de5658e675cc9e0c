import numpy as np
import torch


def get_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def sinusoid(length, width):
    """Sine in the even columns, cosine in the odd ones."""
    position, column = np.arange(length)[:, None], np.arange(width)[None, :]
    angles = position / np.power(10000, 2 * (column // 2) / width)
    angles[:, 0::2], angles[:, 1::2] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])
    return torch.from_numpy(angles).float()
