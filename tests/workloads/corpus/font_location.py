# EXPECT {"kind":"refused-op","operation":"rand|uniform","devices":["cpu","cuda:0"],"operands":["generator"],"category":"generator|created without device","line":["unit = torch.rand(","augment = Compose("],"error":"Expected a 'cpu' device type for generator but found 'cuda'","thread":"https://github.com/torchfont/torchfont/pull/327","hard":"one of the two is no tensor; the generator comes from far away, in an attribute of a transform"}
# FIX unit = torch.rand(len(axes), generator=generator) -> unit = torch.rand(len(axes), generator=generator, device=generator.device if generator is not None else None)
from typing import NamedTuple

import torch


class Axis(NamedTuple):
    tag: str
    minimum: float
    maximum: float


def random_location(axes, *, generator=None):
    """A point of a variable font's design space, as {tag: value}."""
    unit = torch.rand(len(axes), generator=generator)
    lowest = torch.tensor([axis.minimum for axis in axes], device=unit.device)
    highest = torch.tensor([axis.maximum for axis in axes], device=unit.device)
    values = torch.lerp(lowest, highest, unit).tolist()
    return {axis.tag: value for axis, value in zip(axes, values)}


class RandomInstance:
    """A transform: draws the glyph at another weight and width each time."""

    def __init__(self, axes, generator=None):
        self.axes = axes
        self.generator = generator

    def __call__(self, outline):
        location = random_location(self.axes, generator=self.generator)
        return outline * (location["wdth"] / 100.0), location


class Compose:
    def __init__(self, *transforms):
        self.transforms = transforms

    def __call__(self, outline):
        notes = []
        for transform in self.transforms:
            outline, note = transform(outline)
            notes.append(note)
        return outline, notes


axes = [Axis("wght", 100.0, 900.0), Axis("wdth", 75.0, 125.0)]
generator = torch.Generator(device="cuda").manual_seed(327)
augment = Compose(RandomInstance(axes, generator))
outline = torch.rand(12, 2, device="cuda", generator=generator)
inside = [axis.minimum <= augment(outline)[1][0][axis.tag] <= axis.maximum for axis in axes for _ in range(3)]
print("inside the design space:", all(inside), len(inside))
