# EXPECT {"kind":"refused-op","operation":"scatter","devices":["cuda:0","cuda:1"],"operands":["one_hot|self","labels|index"],"category":"default or current device","line":["dice.py: one_hot = torch.zeros("],"error":"on the same device","thread":"https://github.com/yassouali/pytorch-segmentation/issues/80"}
# FIX dice.py: one_hot = torch.zeros(n, classes, h, w).cuda() -> one_hot = torch.zeros(n, classes, h, w).cuda(labels.device)
import argparse

import torch
import torch.nn as nn

from dice import CE_DiceLoss


def batches(n_batches, n_classes):
    gen = torch.Generator().manual_seed(80)
    for _ in range(n_batches):
        yield torch.rand(2, 3, 6, 6, generator=gen), torch.randint(n_classes, (2, 6, 6), generator=gen)


def main(opt):
    device = torch.device('cuda:%d' % opt.gpu)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, opt.classes, 1)).to(device)
    criterion = CE_DiceLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    for i, (image, target) in enumerate(batches(2, opt.classes)):
        output = model(image.to(device))
        loss = criterion(output, target.to(device).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print('epoch 0: loss = %.4f' % loss.item())


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--gpu', type=int, default=1)
    parser.add_argument('--classes', type=int, default=4)
    main(parser.parse_args())
