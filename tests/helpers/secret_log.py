"""A log that says "acme" wherever a log can tell something of somebody's program: what --redact has to keep out of every output."""

import re

from conftest import TOP

LOG = TOP / "tests" / "data" / "secret.jsonl"


def assert_nothing_is_told(output: str | bytes) -> None:
    """Of an output that was asked for with --redact: no name, path, host, command, string or comment of the program's."""
    text = output.decode("utf-8", "replace") if isinstance(output, bytes) else output
    found = re.search(r".{0,40}(acme|/home|/venv).{0,40}", text, re.IGNORECASE | re.DOTALL)
    assert not found, found[0]
