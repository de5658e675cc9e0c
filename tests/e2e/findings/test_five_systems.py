"""Systems of public threads, broken as their users met them (privateGPT: test_demo.py): one finding that names operands, line and the repair
that the thread ended with. The repair is then taken at its word: the line is replaced by it, and the program runs."""

import importlib.util
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import TOP, environment, execute, operand, start
from golden import compare
from same_numbers import same

WORKLOADS = TOP / "tests/workloads"


@dataclass
class System:
    name: str
    folder: str
    program: str
    operation: str
    names: dict[str, str]  # device: name of the operand there
    users_line: tuple[str, str]  # file and text of the innermost line of the user's own
    category: str
    repaired_file: str
    fixes: list[str]  # one a finding: the second shows when the first is repaired
    package: str | None = None  # installed, and its file is the one to repair


SYSTEMS = [
    System(
        "ChatGLM3-6B-128K", "chatglm3", "chat.py", "aten::cat", {"cuda:0": "presents", "cuda:1": "kv_cache"},
        ("modeling_chatglm.py", "presents = torch.cat((presents, kv_cache), dim=0)"), "cached-state-elsewhere",
        "modeling_chatglm.py", ["presents = torch.cat((presents.to(kv_cache.device), kv_cache), dim=0)"],
    ),
    System(
        "Petals", "petals", "server.py", "aten::cat", {"cpu": "past_key_value[0]", "cuda:0": "key_states"},
        ("block.py", "key_states = torch.cat([past_key_value[0], key_states], dim=2)"), "cached-state-elsewhere",
        "memory_cache_v2_3.py", ["self.buffers[handle] = torch.zeros(shape, device=self.device)"],  # as the older version has it
    ),
    System(
        "LLMs-from-scratch", "llms_from_scratch", "sample_text.py", "aten::index_select", {"cpu": "in_idx", "cuda:0": "tok_emb.weight"},
        ("sample_text.py", "token_ids = generate(\n    model=model,\n    idx=text_to_token_ids(\"Every effort moves you\", tokenizer),"),
        "input-not-moved", "sample_text.py", ['idx=text_to_token_ids("Every effort moves you", tokenizer).to(device),'],
    ),
    System(
        "Outlines", "outlines", "choices.py", "aten::add", {"cuda:0": "sequence_weights"},
        ("choices.py", "for state in states:"), "default-or-current-device", "samplers.py",
        ["weights = sequence_weights.to(logprobs.device) + torch.gather(logprobs, 1, next_token_ids).squeeze()"], package="outlines",
    ),
]


@pytest.fixture(scope="module", params=SYSTEMS, ids=lambda system: system.folder)
def system(request):
    return request.param


@pytest.fixture(scope="module")
def broken(system, tmp_path_factory):
    """A copy, whose first fix test_the_fix_makes_it_run puts there."""
    folder = tmp_path_factory.mktemp("broken")
    return start([shutil.copytree(WORKLOADS / system.folder, folder / system.folder) / system.program], folder)


def numbers(outcome) -> dict:
    """What the program printed, without the devices it ran on."""
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out.splitlines()[-1])
    return {key: value for key, value in found.items() if not key.startswith("device")}


@pytest.fixture(scope="module")
def on_the_cpu(system, tmp_path_factory):
    program = WORKLOADS / system.folder / system.program
    return numbers(execute([sys.executable, program, "--cpu"], tmp_path_factory.mktemp("cpu"), environment(None)))


def test_it_fails_as_users_saw_it(system, broken):
    assert broken.code == 1
    assert "Expected all tensors to be on the same device" in broken.err
    assert broken.finding["kind"] == "refused-op" and broken.finding["operation"] == system.operation
    compare(f"system {system.name}", broken.findings, broken.folder)


def test_operands(system, broken):
    assert set(system.names) <= set(broken.finding["devices"])
    for device, name in system.names.items():
        one = operand(broken.finding, device)
        assert one["name"] == name
        assert one["created"]["python"], name


def test_the_users_line(system, broken):
    mine = [frame for frame in broken.finding["python"] if frame.get("project")]
    file, text = system.users_line
    assert Path(mine[0]["file"]).name == file
    assert mine[0]["source"].strip().startswith(text)


def test_the_verdict(system, broken):
    cause = broken.finding["cause"]
    assert cause["category"] == system.category
    assert cause["fix"] == system.fixes[0]
    assert Path(cause["file"]).name == system.repaired_file and cause["line"] > 0
    for name in system.names.values():
        assert name in cause["because"]
    assert all(line in broken.err for line in system.fixes[0].split("\n"))
    assert len(broken.pages) == 1


def apply(fix: dict, file: Path) -> None:
    """The line that the verdict names, replaced by its fix, each of the fix's lines as far in as the line was."""
    lines = file.read_text().split("\n")
    old = lines[fix["line"] - 1]
    indent = old[: len(old) - len(old.lstrip())]
    lines[fix["line"] - 1 : fix["line"]] = [indent + line for line in fix["fix"].split("\n")]
    file.write_text("\n".join(lines))


def test_the_fix_makes_it_run(system, broken, tmp_path, on_the_cpu):
    program, env, outcome = broken.folder / system.folder / system.program, {}, broken
    if system.package:
        home = tmp_path / "site-packages"
        shutil.copytree(Path(importlib.util.find_spec(system.package).origin).parent, home / system.package)
        env["PYTHONPATH"] = str(home)
        outcome = start([program], tmp_path, env=env)
    for count, fix in enumerate(system.fixes):
        found = outcome.finding["cause"]
        assert found["fix"] == fix
        assert Path(found["file"]).is_relative_to(home if system.package else program.parent)
        apply(found, Path(found["file"]))
        folder = tmp_path / f"run-{count}"
        folder.mkdir()
        outcome = start([program], folder, env=env)
    assert outcome.findings == [], outcome.err
    same(numbers(outcome), on_the_cpu)


def test_the_fixed_form_has_no_finding(system, tmp_path, on_the_cpu):
    outcome = start([WORKLOADS / system.folder / system.program, "--fixed"], tmp_path)
    assert outcome.findings == [], outcome.err
    same(numbers(outcome), on_the_cpu)


def test_the_release_before_is_fine(tmp_path):
    """petals#575 came with a release: the cache of the one before lies with the blocks."""
    program = WORKLOADS / "petals/server.py"
    expected = numbers(execute([sys.executable, program, "--cpu", "--version", "2.2"], tmp_path, environment(None)))
    outcome = start([program, "--version", "2.2"], tmp_path)
    assert outcome.findings == [], outcome.err
    same(numbers(outcome), expected)


def test_accelerate_spread_the_model(tmp_path):
    outcome = start([WORKLOADS / "chatglm3/chat.py", "--fixed"], tmp_path)
    assert json.loads(outcome.out.splitlines()[-1])["devices"] == ["cuda:0", "cuda:1"]
