import torch


class Fabric:
    """Takes a training loop to a device and leaves the rest of it as it is."""

    def __init__(self, accelerator="gpu"):
        self.device = torch.device("cuda", 0) if accelerator == "gpu" else torch.device("cpu")

    def setup(self, module, optimizer):
        module.to(self.device)
        return module, optimizer

    def setup_dataloader(self, loader):
        for batch in loader:
            yield batch.to(self.device)

    def backward(self, loss):
        loss.backward()
