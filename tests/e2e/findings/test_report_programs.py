"""Programs that hide something: no source on disk, no symbols, a notebook's cells, `python -c`, a zip application, torch.compile. The report
says what it knows, in all its forms, and invents nothing."""

import os
import subprocess
import sys
import textwrap
import zipapp

import pytest
from conftest import BUILD, DEVTRACE, all_names, environment, execute, operand
from pages import browser, page  # noqa: F401 (fixtures)

MIX = "def mix(a, b):\n    total = a + b\n    return total\n"
TENSORS = 'left, right = torch.ones(3, device="cuda:0"), torch.ones(3).to("cuda:1")\n'


def user_frame(frames):
    return next(frame for frame in frames if frame.get("project"))


def reports(outcome):
    """The text on stderr, and the log again as text and Markdown."""
    again = [subprocess.run([DEVTRACE, "report", "--format", form, outcome.logs[0]], capture_output=True, text=True, check=True).stdout for form in ("text", "markdown")]
    return [outcome.err, *again]


def told_everywhere(outcome, page, *parts):  # noqa: F811
    page.open(outcome.pages[0])
    for told in [*reports(outcome), page.text("main")]:
        for part in parts:
            assert part in told.replace("\\", ""), part


def test_without_a_source_on_disk(rehearse, page, tmp_path):  # noqa: F811
    (tmp_path / "lost.py").write_text(MIX)
    outcome = rehearse(f"import os, torch, lost\nos.remove(lost.__file__)\n{TENSORS}lost.mix(left, right)\n")
    finding = outcome.finding
    assert finding["python"][0] == {"file": str(tmp_path / "lost.py"), "line": 2, "function": "mix", "project": True}, "no source and nothing around"
    assert {one["name"] for one in finding["operands"]} == {"a", "b"} and operand(finding, "cuda:1")["moved"]["python"]
    told_everywhere(outcome, page, "mix (lost.py:2)", "cuda:1")
    assert "source of this line was not at hand" in page.text(".where")


def test_a_compiled_program_alone(rehearse, page, tmp_path):  # noqa: F811
    (tmp_path / "program.py").write_text(f"import torch\n{TENSORS}{MIX}mix(left, right)\n")
    subprocess.run([sys.executable, "-c", "import py_compile; py_compile.compile('program.py', 'only.pyc')"], cwd=tmp_path, check=True)
    (tmp_path / "program.py").unlink()
    outcome = rehearse(["only.pyc"])
    assert [frame["line"] for frame in outcome.finding["python"]] == [4, 6]
    told_everywhere(outcome, page, "mix (program.py:4)")


def test_python_c(rehearse, page):  # noqa: F811
    outcome = rehearse(["-c", f"import torch\n{TENSORS}{MIX}mix(left, right)\n"])
    finding = outcome.finding
    assert [(frame["file"], frame["line"], frame["function"]) for frame in finding["python"]] == [("<string>", 4, "mix"), ("<string>", 6, "<module>")]
    assert {one["name"] for one in finding["operands"]} == {"a", "b"}
    told_everywhere(outcome, page, "mix (<string>:4)")
    assert "-c" in page.text("#program")


@pytest.mark.parametrize("name", ["/tmp/ipykernel_4711/1234567.py", "<ipython-input-3-0a1b2c3d>"])
def test_a_notebook_cell(rehearse, page, name):  # noqa: F811
    """As IPython runs it: compiled under a name of its own, its text in Python's linecache."""
    cell = f'import torch\n{TENSORS}ümlaut = left + right  # "</script>"\n'
    outcome = rehearse(f"""
        import linecache
        cell, name = {cell!r}, {name!r}
        linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
        exec(compile(cell, name, "exec"), {{"__name__": "__main__"}})
    """)
    frame = outcome.finding["python"][0]
    assert (frame["file"], frame["line"], frame["function"], frame["project"]) == (name, 3, "<module>", True)
    assert frame["source"] == 'ümlaut = left + right  # "</script>"'
    assert frame["around"] == {"line": 1, "text": cell.rstrip("\n")}
    assert operand(outcome.finding, "cuda:1")["moved"]["python"][-2]["source"].startswith("left, right = ")
    told_everywhere(outcome, page, f"<module> ({name}:3)", "ümlaut = left + right")


@pytest.mark.parametrize("compressed", [False, True])
def test_a_zip_application(rehearse, page, tmp_path, compressed):  # noqa: F811
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "inner.py").write_text(MIX)
    (parts / "__main__.py").write_text(f"import torch, inner\n{TENSORS}inner.mix(left, right)\n")
    zipapp.create_archive(parts, tmp_path / "app.pyz", compressed=compressed)
    outcome = rehearse(["app.pyz"])
    finding = outcome.finding
    frame = finding["python"][0]
    assert (frame["file"].endswith("app.pyz/inner.py"), frame["line"], frame["function"], frame["project"]) == (True, 2, "mix", True)
    # Compressed files are not read: where it is, is known all the same.
    assert frame.get("source") == (None if compressed else "total = a + b")
    assert operand(finding, "cuda:0")["name"] == "a" and "left" in all_names(operand(finding, "cuda:0"))
    told_everywhere(outcome, page, "mix (app.pyz/inner.py:2)")


def test_code_that_came_out_of_a_pipe(rehearse, page, tmp_path):  # noqa: F811
    """Who opens the pipe again waits for a writer that never comes."""
    os.mkfifo(tmp_path / "pipe")
    outcome = rehearse(f"import torch\n{TENSORS}code = compile('left + right', 'pipe', 'exec')\ntry:\n    exec(code)\nexcept RuntimeError:\n    print('refused')\n", timeout=60)
    assert outcome.out == "refused\n"
    assert outcome.finding["python"][0] == {"file": "pipe", "line": 1, "function": "<module>", "project": True}
    told_everywhere(outcome, page, "<module> (pipe:1)")


def test_around_and_inside_of_torch_compile(rehearse, page):  # noqa: F811
    """A function that Dynamo leaves to Python, called from a compiled one: between the user's two frames stand Dynamo's own."""
    outcome = rehearse(
        """
        import torch
        left, right = torch.ones(3, device="cuda:0"), torch.ones(3).to("cuda:1")

        @torch._dynamo.disable
        def inner(a, b):
            return a + b  # HERE

        @torch.compile(backend="eager")
        def outer(a, b):
            doubled = a * 2  # MADE
            return inner(doubled, b) + 1

        outer(left, right)
        """
    )
    finding = outcome.finding
    mine = [(frame["function"], frame["source"]) for frame in finding["python"] if frame.get("project")]
    assert mine[0] == ("inner", "return a + b  # HERE") and mine[-1][0] == "<module>" and "outer" in [name for name, _ in mine]
    libraries = [frame["file"] for frame in finding["python"] if not frame.get("project")]
    assert any("/torch/_dynamo/" in file for file in libraries)
    assert "doubled" in all_names(operand(finding, "cuda:0")) or operand(finding, "cuda:0")["name"] == "a"
    told_everywhere(outcome, page, "inner (program.py:7)", "return a + b")
    assert all("mine" in frame.get_attribute("class") for frame in page.all(".stack > ol > .frame"))


def test_a_stripped_program_without_python(page, tmp_path):  # noqa: F811
    (tmp_path / "program.c").write_text(
        textwrap.dedent("""
        #include <stddef.h>
        int cudaMalloc(void**, size_t);
        int cudaMemcpy(void*, const void*, size_t, int);
        static __attribute__((noinline)) int step(void* to, void* from) { return cudaMemcpy(to, from, 4096, 1) + 1; }
        int main() {
          void *one = 0, *other = 0;
          cudaMalloc(&one, 4096);
          cudaMalloc(&other, 4096);
          return step(one, other) - 1;
        }
        """)
    )
    cudart = next((BUILD / "simulate").glob("libcudart.so.13"))
    subprocess.run(["cc", "-s", "-O1", "-o", tmp_path / "program", tmp_path / "program.c", cudart, "-Wl,--allow-shlib-undefined"], check=True)
    outcome = execute([DEVTRACE, "rehearse", "--gpus", 2, "--", tmp_path / "program"], tmp_path, environment(None))
    finding = outcome.finding
    assert finding["kind"] == "copy-mismatch" and finding["python"] == []
    own = [frame for frame in finding["native"] if frame["module"].endswith("/program")]
    assert own and all("function" not in frame and "line" not in frame for frame in own), "a stripped program has no names, and none is invented"
    told_everywhere(outcome, page, f"program+{own[0]['offset']}", "There is no debug information: built with -g")
