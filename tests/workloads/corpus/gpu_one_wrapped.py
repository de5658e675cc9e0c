# EXPECT {"kind":"refused-op","operation":"","devices":["cuda:0","cuda:1"],"operands":[],"category":"data parallel|default or current device","line":["predictor.net = nn.DataParallel(","torch.cuda.set_device("],"error":"module must have its parameters and buffers on device cuda:0 \\(device_ids\\[0\\]\\) but found one of them on device: cuda:1","thread":"https://github.com/replicate/cog/issues/971","hard":"raised in Python, by DataParallel's own check"}
# FIX predictor.net = nn.DataParallel(predictor.net) -> predictor.net = nn.DataParallel(predictor.net, device_ids=[1])
import torch
import torch.nn as nn


class Predictor:
    def setup(self, device):
        """Load the model into memory"""
        torch.manual_seed(42)
        self.device = device
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
        self.net.to(device)

    @torch.inference_mode()
    def predict(self, image):
        return self.net(image.to(self.device)).softmax(dim=1)


if torch.cuda.is_available():
    device = "cuda"
    torch.cuda.set_device("cuda:1")
else:
    device = "cpu"

predictor = Predictor()
predictor.setup(device)
predictor.net = nn.DataParallel(predictor.net)
probabilities = predictor.predict(torch.ones(2, 3, 8, 8))
print("probabilities", [[round(p, 4) for p in row] for row in probabilities.tolist()])
