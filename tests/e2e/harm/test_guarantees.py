"""docs/evidence/guarantees.md names a test in every line, and each is there."""

import re

from conftest import TOP

PAGE = (TOP / "docs/evidence/guarantees.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| devtrace |")]


def test_every_line_names_tests_that_are_there():
    units = {f"{suite}.{name}" for path in (TOP / "tests/unit").rglob("*.cpp") for suite, name in re.findall(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", path.read_text(encoding="utf-8"), re.M)}
    assert len(ROWS) > 30
    for row in ROWS:
        names = re.findall(r"`([\w/]+\.py::\w+|[A-Z]\w+\.[A-Z]\w+)`", row.split("|")[2])
        assert names, row
        for name in names:
            if "::" not in name:
                assert name in units, row
                continue
            file, function = name.split("::")
            assert f"\ndef {function}(" in (TOP / "tests/e2e" / file).read_text(encoding="utf-8"), row
