"""`%load_ext devtrace`: each finding under the cell in which it occurred, above the traceback, with the cell's name and its changed text.

Works in IPython's terminal, too, as text. The magics: `%devtrace off` and `%devtrace on`; `%%devtrace` watches one cell;
`%devtrace_rehearse N` starts the kernel again on N simulated devices.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import warnings
from typing import Any

from . import session
from .cells import TIMED, Cells
from .finding import Finding, shown_as_html
from .installation import DevtraceError, command, plain_environment

try:
    from IPython.core.displaypub import CapturingDisplayPublisher
    from IPython.display import display
except ImportError:
    raise DevtraceError("devtrace: there is no IPython here; devtrace.start() watches without it") from None


def without_command_lines(report: str) -> str:
    """The report without what only a terminal's reader needs: the pid, the line to suppress it, the summary."""
    lines = [line for line in report.split("\n") if not line.startswith(("  suppress: ", "SUMMARY: "))]
    return re.sub(r"^==\d+==devtrace: ", "", "\n".join(lines)).rstrip("\n")


class Shown:
    """A finding, as it is shown under a cell: HTML, or text in a terminal."""

    def __init__(self, finding: Finding, cells: Cells) -> None:
        # The cell that was run: what it has called may stand in others, and what its magics run in files of their own.
        within = [frame for frame in reversed(finding.frames) if frame.file in TIMED or cells.number(frame.file) is not None]
        running = cells.number(within[0].file) if within else None
        shown = next((place for frame in within if cells.inner(frame.file, running) and (place := cells.place(frame.file, frame.line, running))), None)
        if shown is None and within:
            shown = cells.place(within[0].file, within[0].line, running)
        self.finding = finding
        self.title = f"Cell In[{shown[0]}], line {shown[1]}" if shown else ""
        edits = finding.cause.edits if finding.cause is not None else ()
        files = {frame["file"] for frame in _frames(finding.record)} | {edit.file for edit in edits}
        self.text = cells.named(without_command_lines(str(finding)), files, running)
        by_cell: dict[int, list[tuple[str, int, str]]] = {}
        for edit in edits:
            if place := cells.place(edit.file, edit.line, running):
                by_cell.setdefault(place[0], []).append((edit.file, edit.line, edit.fix))
        self.repaired = [(f"Cell In[{number}] with the fix", text) for number, its in by_cell.items() if (text := cells.repaired(number, its))]

    def _repr_html_(self) -> str:
        return shown_as_html(self.finding, self.text, self.repaired, self.title)

    def _repr_markdown_(self) -> str:
        return f"```\n{self.text}\n```"

    def __repr__(self) -> str:
        return self.text


def _frames(record: Any) -> list[dict[str, Any]]:
    """All frames of a record, wherever they stand."""
    if isinstance(record, list):
        return [frame for each in record for frame in _frames(each)]
    if not isinstance(record, dict):
        return []
    own = [record] if isinstance(record.get("file"), str) and "function" in record else []
    return own + [frame for each in record.values() for frame in _frames(each)]


class Extension:
    """What is hooked into one shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.cells = Cells(shell)
        self.mark = session.Mark()
        self.showtraceback = shell.showtraceback

    def begin(self, info: Any = None) -> None:
        self.cells.begin(getattr(info, "raw_cell", None) or "")
        self.mark = session.Mark()

    def show(self, result: Any = None) -> None:
        if isinstance(self.shell.display_pub, CapturingDisplayPublisher):
            return  # by %%capture, behind which it will be shown
        found = self.mark.findings()
        self.mark = session.Mark()
        for finding in found:
            if not finding.suppressed:
                display(Shown(finding, self.cells))  # type: ignore[no-untyped-call]

    def show_and_trace(self, *arguments: Any, **named: Any) -> Any:
        try:
            self.show()
        except Exception as error:  # the program's own error is to be seen, whatever becomes of ours
            warnings.warn(f"devtrace: the finding cannot be shown: {error}", stacklevel=1)
        return self.showtraceback(*arguments, **named)

    def magic(self, line: str, cell: str | None = None) -> None:
        """%devtrace off and %devtrace on; %%devtrace watches this cell alone, where it is off. Options as in DEVTRACE_OPTIONS: %%devtrace dedupe=0."""
        words = line.split()
        if cell is not None and all("=" in word for word in words):
            with session.watch(text=False, **dict(word.split("=", 1) for word in words)):
                self.begin()
                self.shell.run_cell(cell)
        elif words == ["off"]:
            session.stop()
        elif words == ["on"]:
            start_quietly()
        else:
            print("devtrace: the magics are %devtrace on, %devtrace off, and %%devtrace KEY=VALUE… above a cell", file=sys.stderr)

    def rehearse_magic(self, line: str) -> None:
        """%devtrace_rehearse N: starts the kernel again, on N simulated devices; what it holds is gone."""
        count = line.strip() or "2"
        if not count.isdecimal() or int(count) < 1:
            print(f"devtrace: %devtrace_rehearse takes a number of devices, not '{count}'", file=sys.stderr)
            return
        restart(self.shell, int(count))


def restart(shell: Any, count: int) -> None:
    """This very process, on simulated devices: the same pid and connection, and everything else anew."""
    own = getattr(sys, "orig_argv", None) or [sys.executable, *sys.argv]
    extension = [] if "--ext=devtrace" in own else ["--ext=devtrace"]
    program = [command(), "rehearse", "--gpus", str(count), "--", sys.executable, *own[1:], *extension]
    kernel = getattr(shell, "kernel", None)
    print(f"The kernel starts again, on {count} simulated device{'s' if count > 1 else ''}; variables are gone.")

    def become() -> None:
        # ipykernel reads what is written to these itself; the one that comes needs those that it was started with.
        for number, stream in ((1, sys.stdout), (2, sys.stderr)):
            if isinstance(original := getattr(stream, "_original_stdstream_copy", None), int):
                os.dup2(original, number)
        os.execve(program[0], program, plain_environment())

    if kernel is None:
        shell.atexit_operations()
        become()
    else:  # after the reply, for which the notebook waits
        kernel.io_loop.call_later(0.5, become)


def leave_the_groups_signals() -> None:
    """A kernel under the devtrace command: who interrupts their group would interrupt it twice, as the command hands signals on."""
    with contextlib.suppress(OSError), open(f"/proc/{os.getppid()}/comm") as name:
        if name.read().strip() == "devtrace" and os.getpgrp() != os.getpid():
            os.setpgid(0, 0)


_loaded: dict[int, Extension] = {}


def can_write(folder: str) -> bool:
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def start_quietly() -> None:
    """What is found is shown under its cell; the log lies in the notebook's folder, if it can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.start(None if can_write(".") else os.path.join(tempfile.gettempdir(), "devtrace-%p.jsonl"), text=False)


def load(shell: Any) -> None:
    """Twice is once."""
    if id(shell) in _loaded:
        return
    start_quietly()
    if getattr(shell, "kernel", None) is not None:
        leave_the_groups_signals()
    extension = _loaded[id(shell)] = Extension(shell)
    shell.events.register("pre_run_cell", extension.begin)
    shell.events.register("post_run_cell", extension.show)
    shell.showtraceback = extension.show_and_trace
    shell.register_magic_function(extension.magic, "line_cell", "devtrace")
    shell.register_magic_function(extension.rehearse_magic, "line", "devtrace_rehearse")
    if nothing := session.nothing_to_watch():
        print(f"devtrace: {nothing.replace('`devtrace rehearse --gpus 2 -- …`', '%devtrace_rehearse 2')}")


def unload(shell: Any) -> None:
    """The shell is as it was, and the process no longer watched."""
    extension = _loaded.pop(id(shell), None)
    if extension is None:
        return
    shell.events.unregister("pre_run_cell", extension.begin)
    shell.events.unregister("post_run_cell", extension.show)
    shell.showtraceback = extension.showtraceback
    for kind, name in (("line", "devtrace"), ("cell", "devtrace"), ("line", "devtrace_rehearse")):
        shell.magics_manager.magics[kind].pop(name, None)
    session.stop()
