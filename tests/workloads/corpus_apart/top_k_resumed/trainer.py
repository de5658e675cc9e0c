import io

import torch


class Trainer:
    def __init__(self, max_epochs, callback):
        self.max_epochs, self.callback = max_epochs, callback
        self.device = torch.device("cuda", 0)
        self.callback_metrics, self.epoch = {}, 0

    def log(self, name, value):
        value = value.detach().clone()
        self.callback_metrics[name] = value

    def restore(self, model, file):
        # What is kept on the GPU would be there twice.
        checkpoint = torch.load(file, map_location="cpu")
        model.load_state_dict(checkpoint["state_dict"])
        self.callback.load_state_dict(checkpoint["callback"])
        self.epoch = checkpoint["epoch"]

    def dump(self):
        file = io.BytesIO()
        torch.save({"state_dict": self.model.state_dict(), "callback": self.callback.state_dict(), "epoch": self.epoch}, file)
        return io.BytesIO(file.getvalue())

    def fit(self, model, train_batch, val_batch, ckpt=None):
        self.model = model
        if ckpt is not None:
            self.restore(model, ckpt)
        model.to(self.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train_batch, val_batch = ([tensor.to(self.device) for tensor in batch] for batch in (train_batch, val_batch))
        while self.epoch < self.max_epochs:
            for _ in range(4):
                optimizer.zero_grad()
                model.loss(train_batch).sum().backward()
                optimizer.step()
            with torch.no_grad():
                model.validation_step(self, val_batch)
            self.callback.on_validation_end(self)
            self.epoch += 1
