import torch
from torch.nn.utils.rnn import pad_sequence

DTYPES = {"code": torch.long, "value": torch.float32}


def collate_values(samples, key, device):
    tensors = pad_sequence([torch.tensor(each[key], dtype=DTYPES[key]) for each in samples], batch_first=True)
    tensors.to(device)
    return tensors


def collate_triplets(samples, device=None):
    """{"early_fusion": {"code", "value", "length"}}, padded."""
    early = {key: collate_values(samples, key, device) for key in ("code", "value")}
    early["length"] = torch.tensor([len(each["code"]) for each in samples]).to(device)
    return {"early_fusion": early}
