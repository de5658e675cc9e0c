# thread: https://github.com/lyhue1991/torchkeras/issues/20
# about: the model and the features are on the GPU, the labels are not.
# category: input-not-moved
# operands: labels cpu, predictions cuda:0
# fails: loss = loss_func(predictions, labels)
# fix: loss = loss_func(predictions, labels.to(predictions.device))


import torch
from torch import nn


def train_step(model, features, labels):
    predictions = model(features)
    loss_func = nn.CrossEntropyLoss()
    loss = loss_func(predictions, labels)
    loss.backward()
    return loss.item()


net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3)).cuda()
train_step(net, torch.randn(12, 10).cuda(), torch.randint(0, 3, (12,)))
