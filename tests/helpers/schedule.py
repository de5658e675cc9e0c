"""What takes longest starts first, so that no worker ends alone: by the costs of files in tests/costs.json, which
`make e2e COSTS=1` writes anew. Tests marked slow are left to the nightly run."""

import json
import os
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from torch_server import TorchServer

TESTS = Path(__file__).resolve().parent.parent
COSTS = TESTS / "costs.json"
USUAL = 10  # seconds, of a file that nobody measured
measured: Counter = Counter()
spent = 0.0  # seconds of a processor, at the last report


def file_of(item_or_report) -> str:
    return item_or_report.nodeid.split("::")[0].removeprefix("tests/")


def shares_something(item: pytest.Item) -> bool:
    """A program that ran for several tests of the file: they stay with one worker."""
    return any(each[-1].scope in ("module", "class") for each in item._fixtureinfo.name2fixturedefs.values())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow, left to the nightly run: make e2e SLOW=1"))
    costs = json.loads(COSTS.read_text())
    of_file = defaultdict(list)
    for item in items:
        of_file[file_of(item)].append(item)
    cost = {}
    for file, those in of_file.items():
        each = costs.get(file, USUAL) / len(those)
        together = [item for item in those if shares_something(item)]
        for item in together:
            # What pytest-xdist 3.8 makes of its mark; it writes to a place that pytest 9.2 does not read, and nothing would stay together.
            item._id = item.id.parse(f"{item.nodeid}@{file}")
        cost |= dict.fromkeys(those, each) | dict.fromkeys(together, each * len(together))
    items.sort(key=lambda item: -cost[item])


def processor_seconds() -> float:
    """Of this process and what it has started, user and system: what else the machine does is not in it."""
    per_second = os.sysconf("SC_CLK_TCK")
    return sum(os.times()[:4]) + sum(sum(server.ticks()) for server in TorchServer.running) / per_second


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    global spent
    report = yield
    before, spent = spent, processor_seconds()
    report.processor_seconds = spent - before
    return report


def pytest_runtest_logreport(report) -> None:
    measured[file_of(report)] += report.processor_seconds


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("write_costs") and not hasattr(session.config, "workerinput"):
        costs = json.loads(COSTS.read_text()) | {file: round(seconds) for file, seconds in measured.items()}
        costs = {file: seconds for file, seconds in sorted(costs.items()) if (TESTS / file).exists()}
        COSTS.write_text(json.dumps(costs) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-costs", action="store_true", help="into tests/costs.json: seconds of a processor of each file that runs")
    parser.addoption("--slow", action="store_true", help="the tests that are marked slow, too")
