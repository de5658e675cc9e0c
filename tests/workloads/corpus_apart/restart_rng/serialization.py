import io

import torch


def create_state(model, optimizer, epoch):
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "torch_rng_state": torch.random.get_rng_state(),
    }


def save_checkpoint(state):
    file = io.BytesIO()
    torch.save(state, file)
    return io.BytesIO(file.getvalue())


def load_checkpoint(file, map_location=None):
    return torch.load(file, map_location=map_location)


def restore_checkpoint(state, model, optimizer):
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.random.set_rng_state(state["torch_rng_state"])
    return state["epoch"]
