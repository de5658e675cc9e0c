"""What becomes of the fix that a report has when it is tried."""

from asked_edits import asked, codes, operand, program


def test_a_reported_fix_is_said_in_the_words_of_its_file(tmp_path):
    operands = [operand("x", "cuda:0"), operand("w", "cpu")]
    for imports, fix, wanted in (
        ("from torch import nn", "self.parts = torch.nn.ModuleList(parts)", "self.parts = nn.ModuleList(parts)"),
        ("import torch as th", "made = torch.zeros(3, device=x.device)", "made = th.zeros(3, device=x.device)"),
        ("import torch", "made = torch.zeros(3, device=x.device)", "made = torch.zeros(3, device=x.device)"),
    ):
        path = program(tmp_path, f"{imports}\ny = x + w\n")
        found = asked(tmp_path, [(path, 2, "<module>")], operands, cause={"file": str(path), "line": 2, "fix": fix})
        assert codes(found, "reported-fix") == [wanted]


def test_a_reported_fix_replaces_its_whole_statement(tmp_path):
    path = program(tmp_path, "import torch\nmade = torch.zeros(\n    3,\n    4,\n)\ny = x + made\n")
    cause = {"file": str(path), "line": 2, "fix": "made = torch.zeros(\n    3,\n    4,\n    device=x.device)"}
    found = asked(tmp_path, [(path, 6, "<module>")], [operand("x", "cuda:0"), operand("made", "cpu")], cause=cause)
    texts = [each["texts"][str(path)] for each in found if each["kind"] == "reported-fix"]
    assert texts == ["import torch\n" + cause["fix"] + "\ny = x + made\n"]


def test_a_reported_fix_changes_all_lines_with_the_mistake(tmp_path):
    path = program(tmp_path, "import torch\nt.to(x.device)\nw.to(x.device)\ny = x + t + w\n")
    cause = {"file": str(path), "line": 2, "fix": "t = t.to(x.device)", "also": [{"file": str(path), "line": 3, "fix": "w = w.to(x.device)"}]}
    found = asked(tmp_path, [(path, 4, "<module>")], [operand("x", "cuda:0"), operand("t", "cpu")], cause=cause)
    texts = [each["texts"][str(path)] for each in found if each["kind"] == "reported-fix"]
    assert texts == ["import torch\nt = t.to(x.device)\nw = w.to(x.device)\ny = x + t + w\n"]


def test_a_name_in_the_working_folder_is_a_file(tmp_path):
    """A program that `runpy` was given by its name alone, as who starts ranks does."""
    path = program(tmp_path, "import torch\ny = x + w\n")
    cause = {"file": path.name, "line": 2, "fix": "y = x.cuda() + w"}
    found = asked(tmp_path, [(path.name, 2, "<module>")], [operand("x", "cpu"), operand("w", "cuda:0")], cause=cause)
    assert [each["file"] for each in found if each["kind"] == "reported-fix"] == [str(path)]
    assert {name for each in found for name in each["texts"]} == {str(path)}


def test_what_makes_the_line_run_is_told_from_what_changes_the_origin(tmp_path):
    text = "import torch\ndef f(m, w):\n    x = torch.zeros(3)\n    h = w.exp()\n    return m(x + h)\ndef g(w):\n    h = w.exp()\n    return h + 1\n"
    path = program(tmp_path, text)
    cause = {"file": str(path), "line": 5, "fix": "return m(x.to(h.device) + h)", "repairs": "cause", "category": "input-not-moved"}

    def with_made(made):
        operands = [operand("x", "cpu", created=[(path, 3, "f")]), operand("h", "cuda:0", created=[made])]
        return {(each["kind"], each["line"]): each["at_use"] for each in asked(tmp_path, [(path, 5, "f")], operands, cause=cause)}

    running, over = with_made((path, 4, "f")), with_made((path, 8, "g"))
    assert running["reported-fix", 5] and running["move-at-use", 5] and not running["device-at-creation", 3]
    assert not running["move-result", 4] and over["move-result", 8]


def test_a_number_where_the_verdict_misses_one_is_not_new(tmp_path):
    path = program(tmp_path, "def f(x, w):\n    x = x.cuda()\n    return x + w\n")
    operands = [operand("x", "cuda:0", moved=[(path, 2, "f")]), operand("w", "cuda:1")]
    cause = {"file": str(path), "line": 2, "fix": 'x = x.to("cuda:1")', "repairs": "cause", "category": "default-or-current-device"}
    assert [not each["names_new_device"] for each in asked(tmp_path, [(path, 3, "f")], operands, cause=cause) if each["kind"] == "reported-fix"] == [True]
    other = {**cause, "category": "input-not-moved"}
    assert [each["names_new_device"] for each in asked(tmp_path, [(path, 3, "f")], operands, cause=other) if each["kind"] == "reported-fix"] == [True]


def test_a_reported_fix_of_the_failing_line_may_be_where_it_was_made(tmp_path):
    path = program(tmp_path, "import torch\nx = g()\ny = f(x, torch.zeros(3))\n")
    made = operand("", "cpu", frames=(), created=[(path, 3, "<module>")])
    for fix, at_use in (("y = f(x, torch.zeros(3, device=x.device))", False), ("y = f(x.cpu(), torch.zeros(3))", True)):
        cause = {"file": str(path), "line": 3, "fix": fix, "repairs": "cause"}
        found = asked(tmp_path, [(path, 3, "<module>")], [operand("x", "cuda:0"), made], cause=cause)
        assert [each["at_use"] for each in found if each["kind"] == "reported-fix"] == [at_use]


def test_the_verdict_comes_first(tmp_path):
    text = "import torch\ndef f(a, w):\n    x = torch.zeros(3)\n    y = g(a)\n    return x + w\n"
    path = program(tmp_path, text)
    operands = [operand("x", "cpu", created=[(path, 3, "f")]), operand("w", "cuda:0", moved=[(path, 4, "f")])]
    found = asked(tmp_path, [(path, 5, "f")], operands)
    assert found[0]["kind"] == "device-at-creation"
    cause = {"category": "input-not-moved", "confidence": "medium", "file": str(path), "line": 5}
    assert asked(tmp_path, [(path, 5, "f")], operands, cause=cause)[0]["code"] == "return x.to(w.device) + w"
    guess = {**cause, "confidence": "low"}
    assert asked(tmp_path, [(path, 5, "f")], operands, cause=guess) == found
