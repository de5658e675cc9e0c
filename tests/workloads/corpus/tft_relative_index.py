# EXPECT {"kind":"refused-op","operation":"cat","devices":["cuda:0","cpu"],"operands":["self.relative_index|relative_index|tensors"],"category":"cached state|state not registered","line":["if len(x) != self.batch_size_last:","x = torch.cat([x, self.relative_index]"],"error":"on the same device","thread":"https://github.com/unit8co/darts/issues/3052","hard":"made anew only for another batch size; the model went back to the CPU after the training"}
# FIX if len(x) != self.batch_size_last: -> if len(x) != self.batch_size_last or self.relative_index.device != x.device:
import math

import torch
from torch import nn


class TFTModule(nn.Module):
    """Forecasts a series from its past and from where in the window a value stands."""

    def __init__(self, n_variables: int, hidden: int, output_chunk_length: int):
        super().__init__()
        self.lstm = nn.LSTM(n_variables + 1, hidden, batch_first=True)
        self.output_layer = nn.Linear(hidden, output_chunk_length)
        self.batch_size_last = -1
        self.relative_index = None

    @staticmethod
    def get_relative_index(length, batch_size, device):
        index = torch.arange(-length + 1, 1, dtype=torch.float32, device=device) / length
        return index.reshape(1, -1, 1).expand(batch_size, -1, -1)

    def forward(self, x):
        if len(x) != self.batch_size_last:
            self.relative_index = self.get_relative_index(x.shape[1], len(x), x.device)
            self.batch_size_last = len(x)
        x = torch.cat([x, self.relative_index], dim=2)
        _, (hidden, _) = self.lstm(x)
        return self.output_layer(hidden[-1])


class Model:
    def fit(self, windows, targets, n_epochs=1):
        self.module = TFTModule(1, 8, targets.shape[1]).cuda()
        optimizer = torch.optim.Adam(self.module.parameters())
        for _ in range(n_epochs):
            loss = nn.functional.l1_loss(self.module(windows.cuda()), targets.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        self.module.cpu()
        return self

    def predict(self, windows):
        with torch.no_grad():
            return self.module.eval()(windows)


torch.manual_seed(3052)
series = torch.tensor([math.sin(i / 3) for i in range(20)])
windows = series.unfold(0, 6, 2)[..., None]
model = Model().fit(windows[:, :4], windows[:, 4:, 0], n_epochs=2)
print("forecast", [round(value, 3) for value in model.predict(windows[:, 2:])[-1].tolist()])
