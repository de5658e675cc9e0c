"""The decision on series of which it is known whether they grow."""

import random

import pytest
from slope import Allowed, growth

MEMORY = Allowed(wander=4 << 20, per_hour=4 << 20)


def series(seconds, value, noise=1 << 20, step=2.0):
    chance = random.Random(7)
    return [(at * step, value(at * step) + chance.uniform(-noise, noise)) for at in range(int(seconds / step))]


def test_flat_with_noise():
    assert not growth(series(3600, lambda at: 1e9)).over(MEMORY)


def test_a_leak_of_16_mib_an_hour():
    found = growth(series(3600, lambda at: 1e9 + at / 3600 * (16 << 20)))
    assert found.over(MEMORY) and found.per_hour == pytest.approx(16 << 20, rel=0.1) and found.hours == pytest.approx(0.5, rel=0.01)


def test_what_a_program_takes_at_its_start_is_no_growth():
    assert not growth(series(600, lambda at: min(at, 200) * 1e7)).over(MEMORY)


def test_peaks_are_no_growth():
    """A tenth of the samples fell into a step that holds a gigabyte, all of them late."""
    samples = series(600, lambda at: 1e9 + (1 << 30) * (at > 500 and at % 20 < 10))
    assert not growth(samples).over(MEMORY)


def test_growth_that_begins_late():
    assert growth(series(3600, lambda at: 1e9 + max(0, at - 2000) * 1e6)).over(MEMORY)


def test_one_descriptor_a_minute():
    assert growth(series(3600, lambda at: 40 + at // 60, noise=0)).over(Allowed(wander=4, per_hour=4))
    assert not growth(series(3600, lambda at: 40 + (at // 60) % 2, noise=0)).over(Allowed(wander=4, per_hour=4))


def test_more_samples_than_are_compared():
    found = growth(series(7200, lambda at: at * 1e4, step=0.5))
    assert found.over(MEMORY) and found.per_hour == pytest.approx(3.6e7, rel=0.1)


def test_too_few_samples_are_no_verdict():
    with pytest.raises(ValueError, match="too few"):
        growth([(0, 1), (1, 1), (2, 1)])
    with pytest.raises(ValueError, match="too few"):
        growth([])
