"""The first workload: privateGPT with its embedding model on cuda:1 and its token ids on cuda:0."""

import shutil
import subprocess
import sys

import pytest
from conftest import BUILD, TOP, all_names, environment, execute, operand, start
from golden import compare

FOLDER = TOP / "tests/workloads/private_gpt"
PROGRAM = FOLDER / "private_gpt.py"


def line_in(file: str, text: str) -> int:
    numbers = [number for number, line in enumerate((FOLDER / file).read_text().splitlines(), 1) if text in line]
    assert len(numbers) == 1
    return numbers[0]


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("broken")
    return start([shutil.copytree(FOLDER, folder / FOLDER.name) / PROGRAM.name], folder)


def test_it_fails_as_users_saw_it(broken):
    assert broken.code == 1
    assert broken.finding["operation"] == "aten::index_select"
    assert set(broken.finding["devices"]) == {"cuda:0", "cuda:1"}
    compare("system privateGPT", broken.findings, broken.folder)


def test_operands(broken):
    ids = operand(broken.finding, "cuda:0")
    weight = operand(broken.finding, "cuda:1")
    assert ids["name"] == "input_ids"
    assert 'encoded["input_ids"]' in all_names(ids)
    assert ids["dtype"] == "int64" and len(ids["shape"]) == 2 and ids["shape"][0] == 8
    assert weight["name"] == weight["module_path"] == "embeddings.word_embeddings.weight"
    assert weight["role"] == "parameter" and weight["module_class"] == "Embedding"
    assert weight["root_class"] == "BertModel"
    assert weight["shape"] == [30522, 384] and weight["dtype"] == "float32" and weight["bytes"] == 30522 * 384 * 4


def test_the_users_line(broken):
    mine = [frame for frame in broken.finding["python"] if frame.get("project")]
    assert mine[0]["file"].endswith("embedding_component.py")
    assert mine[0]["line"] == line_in("embedding_component.py", "self.model(**encoded)")
    assert mine[0]["source"].strip() == "tokens = self.model(**encoded).last_hidden_state"
    assert [frame["function"] for frame in mine][-1] == "<module>"


def test_origins(broken):
    ids = operand(broken.finding, "cuda:0")
    weight = operand(broken.finding, "cuda:1")
    for one, text, devices in (
        (ids, "value.to(self.device)", ("cpu", "cuda:0")),
        (weight, "self.model.to(settings.device)", ("cpu", "cuda:1")),
    ):
        moved = one["moved"]
        assert (moved["from"], moved["to"]) == devices
        mine = [frame for frame in moved["python"] if frame.get("project")]
        assert mine[0]["line"] == line_in("embedding_component.py", text)
        assert moved["time"] <= broken.finding["time"]
    # The weights' first memory is the file that from_pretrained mapped.
    for one, text in ((ids, "self.tokenizer("), (weight, "AutoModel.from_pretrained(folder)")):
        created = one["created"]
        assert created["device"] == "cpu" and created["time"] <= one["moved"]["time"]
        assert any(text in frame.get("source", "") for frame in created["python"])


def test_the_verdict_says_what_to_change(broken):
    cause = broken.finding["cause"]
    assert cause["category"] == "input-not-moved"
    assert cause["file"].endswith("embedding_component.py")
    assert "input_ids" in cause["because"] and "cuda:0" in cause["because"] and "cuda:1" in cause["because"]
    assert cause["fix"]


def test_text_and_page_tell_the_same(broken):
    page = broken.pages[0].read_text()
    for fact in ("input_ids", "embeddings.word_embeddings.weight", "cuda:0", "cuda:1", "embedding_component.py", "index_select"):
        assert fact in broken.err, fact
        assert fact in page, fact
    # the report stands before PyTorch's own traceback
    assert broken.err.index("embeddings.word_embeddings.weight") < broken.err.index("Traceback (most recent call last)")


@pytest.fixture(scope="module")
def repaired(tmp_path_factory):
    return start([PROGRAM, "--fixed"], tmp_path_factory.mktemp("repaired"))


def test_repaired_has_no_finding(repaired):
    assert repaired.code == 0, repaired.err
    assert "Question: " in repaired.out
    assert repaired.findings == []


def test_it_finds_the_true_nearest_passages(repaired, tmp_path):
    expected = execute([sys.executable, PROGRAM, "--cpu"], tmp_path, environment(None)).out.splitlines()
    found = repaired.out.splitlines()
    assert found[0] == expected[0].replace("on cpu", "on cuda:1")
    assert len(found) == 5 and found[1:] == expected[1:]


def test_on_the_cpu_the_nearest_passage_is_the_right_one(tmp_path):
    """The program itself works: what the other variants are measured against."""
    outcome = start([PROGRAM, "--cpu"], tmp_path)
    assert outcome.code == 0, outcome.err
    best = outcome.out.splitlines()[2]
    assert "house.txt" in best and "a pump keeps it dry" in best
    assert outcome.findings == []


def test_make_demo():
    """Under make test everything is built; the script is what `make demo` runs."""
    done = subprocess.run([TOP / "scripts/demo", BUILD], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 finding before the repair, none after it." in done.stdout
    html = [line.split()[-1] for line in done.stdout.splitlines() if line.startswith("HTML: ")]
    assert len(html) == 1 and "embeddings.word_embeddings.weight" in open(html[0]).read()
