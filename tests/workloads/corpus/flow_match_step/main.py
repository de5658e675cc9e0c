# EXPECT {"kind":"refused-op","operation":"sub","devices":["cuda:1","cuda:0"],"operands":["self.timesteps|timesteps","timestep"],"category":"default or current device","line":["scheduler.py: timestep = timestep.cuda()","scheduler.py: index = torch.argmin("],"error":"on the same device","thread":"https://github.com/bytedance/Bernini/issues/61"}
# FIX scheduler.py: timestep = timestep.cuda() -> timestep = timestep.to(self.timesteps.device)
import argparse

import torch
from torch import nn

from scheduler import FlowMatchScheduler


class VelocityModel(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inward = nn.Linear(width + 1, 4 * width)
        self.outward = nn.Linear(4 * width, width)

    def forward(self, sample, timestep):
        time = (timestep / 1000).expand(*sample.shape[:-1], 1)
        return self.outward(nn.functional.silu(self.inward(torch.cat((sample, time), dim=-1))))


def main(args):
    torch.manual_seed(args.seed)
    noise = torch.randn(2, 5, 6)
    model = VelocityModel(6).eval().to(args.device)
    scheduler = FlowMatchScheduler(shift=3.0)
    scheduler.set_timesteps(args.steps, device=args.device)
    sample = noise.to(args.device)
    with torch.inference_mode():
        for timestep in scheduler.timesteps:
            velocity = model(sample, timestep)
            sample = scheduler.step(velocity, timestep, sample)
    print("sample", round(sample.mean().item(), 3), round(sample.std().item(), 3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:1")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    main(parser.parse_args())
