"""Random numbers: a function of the CUDA generator's seed and of how far it is, so that a seed repeats them.

The real kernel moves the generator on; the numbers themselves are the CPU generator's, seeded from both.
"""

import threading

import torch

_own = threading.local()


def seed_for(device, generator=None):
    """A seed that changes with every draw of the device's generator (or the given one)."""
    if not isinstance(generator, torch.Generator):
        generator = torch.cuda.default_generators[device.index]
    seed, offset = (int(word) for word in generator.get_state().view(torch.int64)[-2:])
    return (seed + offset * 0x9E3779B97F4A7C15) & 0x7FFFFFFFFFFFFFFF


def generator_for(device, generator=None):
    """A CPU generator to draw from now; this thread's next call seeds it anew."""
    if isinstance(generator, torch.Generator) and generator.device.type == "cpu":
        return generator
    draw = getattr(_own, "draw", None)
    if draw is None:
        draw = _own.draw = torch.Generator(device="cpu")
    return draw.manual_seed(seed_for(device, generator))


def device_of(value):
    """The first CUDA device among an operator's results."""
    if isinstance(value, torch.Tensor):
        return value.device if value.is_cuda else None
    if isinstance(value, (list, tuple)):
        return next((d for d in map(device_of, value) if d is not None), None)
    return None


def call(plan, args, kwargs, device):
    index = plan.parameters.index(plan.generator) if plan.generator else -1
    given = args[index] if 0 <= index < len(args) else kwargs.get(plan.generator)
    draw = generator_for(device, given)
    if plan.generator:
        if 0 <= index < len(args):
            args[index] = draw
        else:
            kwargs[plan.generator] = draw
        return plan.cpu(*args, **kwargs)
    # Without a parameter for it the operator draws from the default one.
    default = torch.default_generator
    before = default.get_state()
    default.set_state(draw.get_state())
    try:
        return plan.cpu(*args, **kwargs)
    finally:
        default.set_state(before)
