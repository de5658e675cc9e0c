# EXPECT {"kind":"refused-op","operation":"nll_loss","devices":["cuda:0","cuda:1"],"operands":["target|b_y","output|input|log_probs|self"],"category":"module split|input not moved","line":["b_y = labels.to(","loss = loss_func(output, b_y)"],"error":"on the same device","thread":"https://github.com/sksq96/pytorch-summary/issues/178"}
# FIX b_y = labels.to('cuda:0') -> b_y = labels.to('cuda:1')
import torch
import torch.nn as nn
from torch import optim
from torch.utils.data import DataLoader, TensorDataset

num_classes = 2
num_epochs = 2


class CNN(nn.Module):
    def __init__(self):
        super(CNN, self).__init__()
        self.seq1 = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ).to('cuda:0')
        self.seq2 = nn.Sequential(
            nn.Conv2d(4, 4, 3, padding=1),
            nn.AdaptiveAvgPool2d(1),
        ).to('cuda:1')
        self.fc = nn.Linear(4, num_classes).to('cuda:1')

    def forward(self, x):
        x = self.seq2(self.seq1(x).to('cuda:1'))
        return self.fc(x.view(x.size(0), -1))


def train(num_epochs, cnn, loaders):
    cnn.train()
    for epoch in range(num_epochs):
        for i, (images, labels) in enumerate(loaders['train']):
            b_x = images.to('cuda:0')
            b_y = labels.to('cuda:0')
            output = cnn(b_x)
            loss = loss_func(output, b_y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


torch.manual_seed(3)
data = TensorDataset(torch.randn(8, 1, 8, 8), torch.arange(8) % num_classes)
loaders = {'train': DataLoader(data, batch_size=4)}
cnn = CNN()
loss_func = nn.CrossEntropyLoss()
optimizer = optim.Adam(cnn.parameters(), lr=0.01)
print('loss: {:.3f}'.format(train(num_epochs, cnn, loaders)))
