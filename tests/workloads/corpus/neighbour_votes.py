# EXPECT {"kind":"refused-op","operation":"scatter","devices":["cuda:0","cpu"],"operands":["one_hot|retrieval_one_hot","retrieved|neighbours|index"],"category":"default or current device","line":["one_hot = torch.zeros(k, classes).cuda()","one_hot.resize_("],"error":"on the same device","thread":"https://github.com/facebookresearch/dino/issues/135","hard":"the other way round: all else is on the CPU, as asked"}
# FIX one_hot = torch.zeros(k, classes).cuda() -> one_hot = torch.zeros(k, classes).to(train_features.device)
import argparse

import torch
from torch import nn


@torch.no_grad()
def extract(model, images, use_cuda):
    features = model(images.cuda()) if use_cuda else model(images.cuda()).cpu()
    return nn.functional.normalize(features, dim=1)


@torch.no_grad()
def classify(train_features, train_labels, test_features, test_labels, k, temperature, classes, chunk=4):
    """Votes of the k most similar training images, weighted by how similar they are."""
    right = 0
    one_hot = torch.zeros(k, classes).cuda()
    for start in range(0, len(test_features), chunk):
        features, targets = test_features[start : start + chunk], test_labels[start : start + chunk]
        distances, indices = (features @ train_features.T).topk(k, largest=True, sorted=True)
        retrieved = train_labels[indices]
        one_hot.resize_(len(features) * k, classes).zero_()
        one_hot.scatter_(1, retrieved.view(-1, 1), 1)
        votes = one_hot.view(len(features), k, classes) * distances.div(temperature).exp().unsqueeze(-1)
        right += (votes.sum(1).argmax(1) == targets).sum().item()
    return right / len(test_features)


parser = argparse.ArgumentParser()
parser.add_argument("--use_cuda", action="store_true")
options = parser.parse_args([])
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 6)).cuda().eval()
labels = torch.arange(24) % 3
images = torch.randn(24, 10) + 3 * nn.functional.one_hot(labels, 10)
features = extract(model, images, options.use_cuda)
score = classify(features[:16], labels[:16], features[16:], labels[16:], k=3, temperature=0.07, classes=3)
print("right", score)
