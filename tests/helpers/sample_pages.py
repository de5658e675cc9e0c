"""Pages of logs that tests of the page look at."""

import json

import pytest
from conftest import TOP
from pages import render
from synthetic_log import synthetic_log

DATA = TOP / "tests" / "data"
SIZES = [(1280, 800), (390, 844)]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    return {name: render(DATA / f"{name}.jsonl", folder) for name in ("private_gpt", "petals", "hostile")}


@pytest.fixture(scope="module")
def thousand(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thousand")
    log = folder / "thousand.jsonl"
    log.write_text(synthetic_log(1000))
    return render(log, folder)


HOME = json.loads((DATA / "private_gpt.jsonl").read_text().splitlines()[0])["cwd"]


def moved(id, source, target, bytes, copies, function="step", **more):
    frame = {"file": f"{HOME}/main.py", "line": id, "function": function, "source": "b = a.to(there)", "project": True}
    return {"record": "traffic", "id": id, "from": source, "to": target, "bytes": bytes, "copies": copies, "python": [frame], **more}


def traffic_page(folder, findings=1, records=()):
    process, finding, end = (DATA / "private_gpt.jsonl").read_text().splitlines()
    log = folder / "traffic.jsonl"
    log.write_text("\n".join([process] + [finding] * findings + [json.dumps(record) for record in records] + [end]) + "\n")
    return render(log, folder)


TRAFFIC = [
    moved(1, "cpu", "cuda:0", 1 << 20, 1),
    moved(2, "cuda:0", "cuda:1", 3 << 30, 300, staged=True),
    moved(3, "cuda:0", "cuda:1", 1 << 30, 1, staged=False),
    moved(1, "cpu", "cuda:0", 8 << 20, 8),
    moved(4, "cuda:10", "cuda:2", 1, 1, staged=True, other=True),
]
