"""A finding of the log as objects. `record` holds all that the log says (docs/reference/log.md); what is not known is None or empty."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .rendering import rendered

Record = dict[str, Any]


@dataclass(frozen=True)
class Frame:
    """A line of Python that ran."""

    file: str
    line: int  # from 1
    function: str
    source: str = ""  # the statement's text
    project: bool = False  # the user's own code, neither the standard library nor an installed package


@dataclass(frozen=True)
class Operand:
    """A tensor, or other memory, that an operation was given."""

    name: str  # as the program calls it: a parameter's path, a variable, an expression
    device: str
    odd: bool  # the one that the operation stumbled over
    role: str = ""
    dtype: str = ""
    shape: tuple[int, ...] | None = None
    created: Frame | None = None  # the user's line that made it
    moved: Frame | None = None  # ... and that moved it last to another device


@dataclass(frozen=True)
class Edit:
    """The statement that begins at a line, and what is to stand there."""

    file: str
    line: int  # from 1
    fix: str  # code, not indented


@dataclass(frozen=True)
class Cause:
    """Why it happened, and the line that repairs it."""

    category: str  # as in the log
    confidence: str  # "high", "medium", "low"
    because: str  # a sentence or two
    fix: str = ""  # code
    file: str = ""
    line: int = 0  # of the line to change; 0 where it is not known
    also: tuple[Edit, ...] = ()  # the same mistake in other lines, which the fix alone leaves

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All that is to be changed; empty where no code is known."""
        return (Edit(self.file, self.line, self.fix), *self.also) if self.fix else ()


def frame(record: Record) -> Frame:
    return Frame(record["file"], record.get("line", 0), record.get("function", ""), record.get("source", ""), record.get("project", False))


def innermost(frames: Iterable[Record]) -> Frame | None:
    """The user's own innermost line, or the innermost of all."""
    listed = [frame(each) for each in frames if each.get("file")]
    return next((each for each in listed if each.project), listed[0] if listed else None)


def _operand(record: Record) -> Operand:
    shape = record.get("shape")
    return Operand(
        name=record.get("name") or record.get("expression", ""),
        device=record.get("device", ""),
        odd=record.get("odd", False),
        role=record.get("role", ""),
        dtype=record.get("dtype", ""),
        shape=None if shape is None else tuple(shape),
        created=innermost(record.get("created", {}).get("python", [])),
        moved=innermost(record.get("moved", {}).get("python", [])),
    )


def _cause(record: Record) -> Cause | None:
    if not record:
        return None
    text: dict[str, Any] = {key: record.get(key, "") for key in ("category", "confidence", "because", "fix", "file")}
    also = tuple(Edit(each["file"], each["line"], each["fix"]) for each in record.get("also", []))
    return Cause(line=record.get("line", 0), also=also, **text)


@dataclass(frozen=True)
class Finding:
    """What devtrace found once: str() is the report as on stderr, and a notebook shows it as HTML."""

    id: int  # 1, 2, ... in this process
    kind: str  # "refused-op", "remote-access", ...
    severity: str  # "error", or "note": no fault
    operation: str  # "aten::index_select", a kernel's name, ...
    message: str  # PyTorch's own
    devices: tuple[str, ...]  # that were mixed
    operands: tuple[Operand, ...]  # in the order of the arguments
    frames: tuple[Frame, ...]  # Python's, innermost first
    cause: Cause | None
    fingerprint: str  # the same for the same fault in another run
    suppressed: bool  # by an entry of the suppressions
    record: Record = field(repr=False, compare=False)
    lines: tuple[bytes, bytes] = field(repr=False, compare=False)  # the log's, on its process and on this

    @classmethod
    def read(cls, line: bytes, process: bytes) -> Finding:
        """Of a line of the log, and the line on its process."""
        record: Record = json.loads(line)
        text: dict[str, Any] = {key: record.get(key, "") for key in ("kind", "severity", "operation", "message", "fingerprint")}
        return cls(
            id=record["id"],
            devices=tuple(record.get("devices", [])),
            operands=tuple(_operand(each) for each in record.get("operands", [])),
            frames=tuple(frame(each) for each in record.get("python", []) if each.get("file")),
            cause=_cause(record.get("cause", {})),
            suppressed="suppressed" in record,
            record=record,
            lines=(process, line),
            **text,
        )

    @property
    def where(self) -> Frame | None:
        """The user's own line at which it happened."""
        return innermost(self.record.get("python", []))

    def _rendered(self, form: str) -> str:
        process, line = self.lines
        return rendered(form, process, [line])

    def __str__(self) -> str:
        return self._rendered("text")

    def _repr_markdown_(self) -> str:
        return self._rendered("markdown")

    def _repr_html_(self) -> str:
        return shown_as_html(self)


_STYLE = (
    "border-left:4px solid #d1495b;padding:.4em 1em;margin:.4em 0;font-size:13px;line-height:1.4;overflow-x:auto;"
    "background:rgba(209,73,91,.06);color:inherit"
)


def shown_as_html(finding: Finding, text: str | None = None, repaired: Iterable[tuple[str, str]] = (), title: str = "") -> str:
    """Static HTML, for viewers that run no scripts. `text`: the report, if another than str(finding); `repaired`: texts with the fix, each with its name."""
    quoted = html.escape(str(finding) if text is None else text)
    shown = f'<div class="devtrace" style="{_STYLE}"><b>devtrace</b>: {html.escape(title or finding.kind)}'
    shown += f'<pre style="margin:.4em 0;white-space:pre;background:none;color:inherit">{quoted}</pre>'
    # Where scripts run the button copies; elsewhere the text can be selected.
    copy = "navigator.clipboard.writeText(this.closest('details').querySelector('pre').textContent);this.textContent='copied'"
    for name, code in repaired:
        shown += (
            f'<details open><summary>{html.escape(name)} <button onclick="{html.escape(copy)}">copy</button></summary>'
            '<pre style="margin:.4em 0;white-space:pre;color:inherit;border:1px solid rgba(128,128,128,.4);padding:.5em">'
            f"{html.escape(code)}</pre></details>"
        )
    return shown + "</div>"
