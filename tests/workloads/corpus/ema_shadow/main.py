# EXPECT {"kind":"refused-op","operation":"sub","devices":["cuda:1","cpu"],"operands":["self.param|param","new_param"],"category":"state not registered|cached state|input not moved","line":["main.py: self.ema = ExponentialMovingAverage(","main.py: self.model = self.model.to("],"error":"on the same device","thread":"https://github.com/dptech-corp/Uni-Core/issues/42","hard":"one flat tensor of all parameters was made before the model was moved"}
# FIX main.py: self.ema = ExponentialMovingAverage(self.model, decay=0.9) -> self.ema = ExponentialMovingAverage(self.model.to(self.device), decay=0.9)
import torch

from ema import ExponentialMovingAverage


class Trainer(object):
    def __init__(self, model, device_id):
        self.device = torch.device("cuda", device_id)
        self.model = model
        self.ema = ExponentialMovingAverage(self.model, decay=0.9)
        self.model = self.model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def train_step(self, sample):
        self.optimizer.zero_grad()
        loss = self.model(sample.to(self.device)).square().mean()
        loss.backward()
        self.optimizer.step()
        self.ema.update(self.model)
        return loss.item()


def cli_main():
    torch.manual_seed(42)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    trainer = Trainer(model, device_id=1)
    for _ in range(3):
        trainer.train_step(torch.rand(6, 4))
    print("averaged norm: {:.4f}".format(trainer.ema.param.norm().item()))


if __name__ == "__main__":
    cli_main()
