# EXPECT {"kind":"refused-op","operation":"mul","devices":["cpu","cuda:0"],"operands":["shift","sides"],"category":"cached state","line":["anchors.py: if self.cells is not None:","anchors.py: for feature, cell in zip(","detector.py: middles, sides = self.anchor_generator("],"error":"on the same device","thread":"https://github.com/pytorch/vision/issues/1738","hard":"trained on the GPU, then moved to the CPU; the shapes of the anchors were made at the first step, and everything made of them follows them"}
# FIX anchors.py: if self.cells is not None: -> if self.cells is not None and self.cells[0].device == device:
import torch

from detector import RegionProposals


def train(model, device, steps=2):
    model.train().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    images = torch.rand(2, 3, 32, 32).to(device)
    for _ in range(steps):
        boxes, scores = model(images)
        loss = scores.sigmoid().mean() + (boxes - 16).abs().mean() / 32
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def export(model):
    """What is shipped runs without a GPU."""
    model.eval().to("cpu")
    with torch.no_grad():
        boxes, scores = model(torch.rand(1, 3, 32, 32))
    return boxes[0, scores[0].argmax()].tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = RegionProposals()
    loss = train(model, "cuda:0")
    print("loss", round(loss, 3), "best box", [round(side, 1) for side in export(model)])
