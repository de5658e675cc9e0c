"""A training step and an inference captured into CUDA graphs and replayed with new data; with `cpu` the same steps by themselves. Prints
losses and outputs as JSON."""

import json
import sys

import torch
from torch import nn


def make(device):
    torch.manual_seed(13)
    return nn.Sequential(nn.Linear(10, 24), nn.SiLU(), nn.Linear(24, 3)).to(device)


def main():
    torch.set_num_threads(1)
    cpu = "cpu" in sys.argv
    device = "cpu" if cpu else "cuda:1"
    torch.manual_seed(17)
    batches = [(torch.randn(6, 10), torch.randn(6, 3)) for _ in range(5)]
    if not cpu:
        torch.cuda.set_device(device)
    model = make(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.zeros(6, 10, device=device), torch.zeros(6, 3, device=device)

    def step():
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def fill(batch):
        x.copy_(batch[0])
        y.copy_(batch[1])

    run = step
    fill(batches[0])
    for _ in range(2):  # warm-up, as PyTorch asks for: the momentum buffers come into being
        side = None if cpu else torch.cuda.Stream()
        if side is None:
            step()
        else:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                step()
            torch.cuda.current_stream().wait_stream(side)
    if not cpu:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = step()

        def run():
            graph.replay()
            return captured

    losses = []
    for batch in batches:
        fill(batch)
        losses.append(run().item())
    with torch.no_grad():
        if cpu:
            call = model
        else:
            call = torch.cuda.make_graphed_callables(make(device).eval(), (torch.zeros(6, 10, device=device),))
            call.load_state_dict(model.state_dict())
        outputs = [call(batch[0].to(device)).sum(dim=1).tolist() for batch in batches[:2]]
    print(json.dumps({"losses": losses, "outputs": outputs}))


if __name__ == "__main__":
    main()
