"""Which of a test's parameters are left to the nightly run."""

import pytest


def first(count: int, parameters) -> list:
    """The parameters of a parametrize, of which all behind the first `count` are marked slow."""
    parameters = list(parameters)
    rest = [each if isinstance(each, tuple) else (each,) for each in parameters[count:]]
    return parameters[:count] + [pytest.param(*each, marks=pytest.mark.slow) for each in rest]
