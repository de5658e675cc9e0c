"""folders.mk says what each folder of code may include: an include that runs against it is named with its line, and the page shows no other picture.
Three pages name a test for each promise, and each is there."""

import os
import re
import shutil
import subprocess

import pytest
from conftest import TOP


@pytest.fixture
def tree(tmp_path):
    """A copy of the code, without what is built."""
    folders = re.findall(r"^\$\(call folder,(\w+)", (TOP / "folders.mk").read_text(), re.MULTILINE)
    for name in {*folders, "scripts", "docs"}:
        shutil.copytree(TOP / name, tmp_path / name, ignore=shutil.ignore_patterns("*.png", "__pycache__"))
    shutil.copy(TOP / "folders.mk", tmp_path)
    return tmp_path


def run(tree, *command):
    return subprocess.run([tree / "scripts" / command[0], *command[1:]], cwd=tree, capture_output=True, text=True)


def test_the_tree_as_it_is(tree):
    assert (done := run(tree, "check-includes")).returncode == 0, done.stderr
    assert (done := run(tree, "draw-folders", "--check")).returncode == 0, done.stderr


def test_an_include_of_a_higher_folder(tree):
    file = tree / "tracker/memory/ownership.cpp"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:1], '#include "tracker/findings/findings.h"', *lines[1:]]) + "\n")
    done = run(tree, "check-includes")
    assert done.returncode == 1
    assert "tracker/memory/ownership.cpp:2: error: tracker/memory/ may not include tracker/findings/" in done.stderr


def test_a_permission_that_nothing_needs(tree):
    table = tree / "folders.mk"
    table.write_text(table.read_text().replace("$(call folder,report/phrasing,common report/record)", "$(call folder,report/phrasing,common common/glibc report/record)"))
    done = run(tree, "check-includes")
    assert done.returncode == 1 and "report/phrasing/ includes nothing of common/glibc/" in done.stderr
    done = run(tree, "draw-folders", "--check")
    assert done.returncode == 1 and "docs/internals/folders.md" in done.stderr + done.stdout


def test_a_folder_without_a_line(tree):
    (tree / "tracker/cellar").mkdir()
    (tree / "tracker/cellar/pump.cpp").write_text("namespace devtrace::cellar {}\n")
    done = run(tree, "check-includes")
    assert done.returncode == 1 and "tracker/cellar/ has no line" in done.stderr


def test_a_namespace_of_another_folder(tree):
    (tree / "tracker/memory/pump.h").write_text("namespace devtrace::copy {\nstruct Pump {};\n}  // namespace devtrace::copy\n")
    done = run(tree, "check-includes")
    assert done.returncode == 1
    assert "tracker/memory/pump.h:1: error: tracker/memory/ is namespace devtrace::memory, not devtrace::copy" in done.stderr


def test_a_name_that_hides_one_of_an_outer_namespace(tree):
    """Compiled with others as one file it would do so there, too, and no compiler says so."""
    file = tree / "report/check/summary.cpp"
    file.write_text(file.read_text() + "namespace devtrace::report::check {\nnamespace {\nint trimmed(int) { return 0; }\n}  // namespace\n}  // namespace devtrace::report::check\n")
    done = run(tree, "check-includes")
    assert done.returncode == 1 and re.search(r"report/check/summary.cpp:\d+: error: trimmed hides that of common/text.h", done.stderr), done.stderr


@pytest.mark.parametrize("file", ["tracker/memory/ownership.cpp", "report/verdict/rules/modules/tied_weights.cpp", "simulate/cuda/graph/graph_params.h"])
def test_a_build_checks_again_what_has_changed(file):
    """Parts of a folder, too."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    done = subprocess.run(["make", "-n", "-W", file, "build/includes-checked"], cwd=TOP, env={**env, "BUILD": "build"}, capture_output=True, text=True)
    assert done.returncode == 0 and "scripts/check-includes" in done.stdout.splitlines(), done.stdout + done.stderr


@pytest.mark.parametrize("name", ["evidence/guarantees", "guide/attach", "guide/fix"])
def test_every_line_names_tests_that_are_there(name):
    page = (TOP / f"docs/{name}.md").read_text(encoding="utf-8").split("\n## What is promised, and its tests\n")[-1]
    rows = [line for line in page.splitlines() if line.startswith("| ") and line.split(" |")[0] not in ("| devtrace", "| promise")]
    units = {f"{suite}.{name}" for path in (TOP / "tests/unit").rglob("*.cpp") for suite, name in re.findall(r"^TEST(?:_[FP])?\((\w+), (\w+)\)", path.read_text(encoding="utf-8"), re.M)}
    assert len(rows) > 20
    for row in rows:
        names = re.findall(r"`([\w/]+\.py::\w+|[A-Z]\w+\.[A-Z]\w+)`", row.split("|")[2])
        assert names, row
        for name in names:
            if "::" not in name:
                assert name in units, row
                continue
            file, function = name.split("::")
            assert f"\ndef {function}(" in (TOP / "tests/e2e" / file).read_text(encoding="utf-8"), row


def test_a_word_that_has_a_better_one_and_a_long_sentence(tree):
    long = "// " + "word " * 15 + "\n// " + "word " * 15 + "more.\n"
    pump = "int odd;  // the odd one, and look_closer()\nvoid slow_path();\nvoid say(int);\nstruct Row {};\n"
    (tree / "tracker/memory/pump.h").write_text(pump + long + "\nint y;  // short.\n")
    (tree / "docs/pump.md").write_text("It may look_closer.\n\n`look_closer()` runs.\n")
    (tree / "tracker/memory/pump.cpp").write_text('const char* s = "say(odd)";  // ' + "word " * 20 + "\n// " + "word " * 20 + "\n")
    (tree / "scripts/pump.py").write_text(f'"""{"word " * 31}"""\n\nprint(\n    """{"word " * 31}"""\n)  # told()\n\n\ndef told():\n    """{"word " * 16}\n    {"word " * 15}"""\n')
    done = run(tree, "check-words", "tracker/memory/pump.h", "tracker/memory/pump.cpp", "scripts/pump.py", "docs/pump.md")
    assert done.returncode == 1
    assert [line.partition(": error: ")[0::2] for line in done.stderr.splitlines()] == [
        ("tracker/memory/pump.h:1", "`odd`: use mismatched"),
        ("tracker/memory/pump.h:3", "`say`: use warn, or what it does"),
        ("tracker/memory/pump.h:4", "`Row`: use a name that says of what, as LinkRow"),
        ("tracker/memory/pump.h:5", "a sentence of 31 words: " + "word " * 30 + "more."),
        ("scripts/pump.py:1", "a sentence of 31 words: " + "word " * 30 + "word"),
        ("scripts/pump.py:8", "`told`: use Repetition (none, same, rephrased), or what was said"),
        ("scripts/pump.py:9", "a sentence of 31 words: " + "word " * 30 + "word"),
        ("docs/pump.md:3", "`look_closer`: use slow_path"),
    ]
