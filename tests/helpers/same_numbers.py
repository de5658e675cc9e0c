"""What a program computes on simulated devices, beside what it computes on the CPU."""

import pytest

CLOSE = dict(rel=2e-5, abs=2e-6)


def same(found, expected, close=CLOSE):
    """Equal in shape, and numbers within PyTorch's own tolerance for float32."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            same(found[key], expected[key], close)
    elif isinstance(expected, str):
        assert found == expected
    elif isinstance(expected, list) and any(isinstance(each, (list, dict, str)) for each in expected):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            same(one, other, close)
    else:
        assert found == pytest.approx(expected, **close)
