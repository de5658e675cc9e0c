"""Whether a series of samples grows: the median of all pairs' slopes (Theil–Sen) over the second half, which a single peak cannot move,
against what is allowed."""

from dataclasses import dataclass
from statistics import median

MOST = 400  # samples that are compared pair by pair; of more every n-th is taken


@dataclass(frozen=True)
class Allowed:
    """Growth that is no growth: what a program's numbers wander by however short it runs, and what may come on top in an hour."""

    wander: float
    per_hour: float


@dataclass(frozen=True)
class Growth:
    per_hour: float
    hours: float  # that were judged

    def over(self, allowed: Allowed) -> bool:
        return self.per_hour * self.hours > allowed.wander + allowed.per_hour * self.hours


def growth(samples: list[tuple[float, float]]) -> Growth:
    """Of (seconds, value), in the order of time."""
    middle = (samples[0][0] + samples[-1][0]) / 2 if samples else 0
    half = [sample for sample in samples if sample[0] >= middle]
    half = half[:: -(-len(half) // MOST)] if half else half
    if len(half) < 3:
        raise ValueError(f"{len(half)} samples in the second half: too few to say whether they grow")
    slopes = [(b - a) / (t - s) for at, (s, a) in enumerate(half) for t, b in half[at + 1 :] if t > s]
    return Growth(median(slopes) * 3600, (half[-1][0] - half[0][0]) / 3600)
