"""Watching this very process, and what was found in it so far."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator, Mapping

from . import library
from .finding import Finding
from .installation import DevtraceError
from .log import Log

_REPLY = 4096

_log = Log()


def _option(key: str, value: object) -> str:
    text = str(int(value)) if isinstance(value, bool) else os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    return f'{key}="{text}"' if ":" in text else f"{key}={text}"


def options_text(options: Mapping[str, object]) -> str:
    """As DEVTRACE_OPTIONS has them."""
    return ":".join(_option(key, value) for key, value in options.items())


def nothing_to_watch() -> str:
    """Why nothing can be found here, as a sentence; empty where something can."""
    if not os.path.exists("/proc/driver/nvidia/version") and not os.path.exists("/dev/dxg"):
        with open("/proc/self/maps") as maps:
            if "libcuda.so" not in maps.read():
                return "there is no NVIDIA driver here, so nothing lies on a CUDA device; `devtrace rehearse --gpus 2 -- …` simulates two"
    if importlib.util.find_spec("torch") is None:
        return "there is no PyTorch here: launches and copies of CUDA's are watched alone"
    return ""


def _standard_error_is_read() -> bool:
    """Where the library has said already what it cannot write: not in a notebook, which shows what Python writes there alone."""
    try:
        return sys.stderr.fileno() == 2
    except (AttributeError, OSError, ValueError):
        return False


def start(log_path: str | os.PathLike[str] | None = None, **options: object) -> None:
    """Watches this process from here on; no LD_PRELOAD is needed, and PyTorch may be imported before or afterwards.

    log_path: the log's file, "devtrace-%p.jsonl" in the current folder unless it is said (%p: the pid).
    options: as in DEVTRACE_OPTIONS (docs/reference/options.md): `devtrace.start(text=False, max_findings=10)`.
    Warns where it is watched already (the options hold from then on), and where nothing can be found. Where the log cannot be written the
    library says so on standard error; in a notebook, where nobody reads that, this warns.
    Raises DevtraceError where the library cannot be opened.
    """
    if log_path is not None:
        options["log_path"] = os.path.abspath(os.fspath(log_path))
    reply = ctypes.create_string_buffer(_REPLY)
    process = library.load()
    answer = process.devtrace_attach(options_text(options).encode(), reply, _REPLY)
    if answer in (library.BUSY, library.FAILED):
        raise DevtraceError("devtrace: another thread is starting or stopping it" if answer == library.BUSY else "devtrace: out of memory")
    said = dict(line.split("=", 1) for line in reply.value.decode(errors="replace").splitlines() if "=" in line)
    if answer == library.UNCHANGED:
        warnings.warn(f"devtrace watches this process already{'; the options hold from now on' * bool(options)}", stacklevel=2)
    if said.get("cannot_write") and not _standard_error_is_read():
        warnings.warn(f"devtrace cannot write {said['cannot_write']}: no finding is kept; stop() and start(log_path=…) elsewhere", stacklevel=2)
    if nothing := nothing_to_watch():
        warnings.warn(f"devtrace: {nothing}", stacklevel=2)


def stop() -> None:
    """Watches no longer. What was found stays in the log; `start` goes on. Where it is not watched nothing happens."""
    process = library.loaded()
    if process is not None:
        process.devtrace_detach(None, 0)


def log_path() -> str | None:
    """Path of this process's log; None while there is none. Its page lies beside it, with the end .html."""
    process = library.loaded()
    return process.devtrace_log_path().decode() or None if process is not None else None


def findings() -> list[Finding]:
    """All findings of this process so far, each once however often it occurred; notes and suppressed ones included."""
    _log.refresh(log_path() or "")
    return list(_log.findings.values())


def last() -> Finding | None:
    """The latest one that had not been found before."""
    return next(reversed(findings()), None)


def report() -> str | None:
    """Path of the page on all findings of this process; None while there is none."""
    path = log_path()
    page = os.path.splitext(path)[0] + ".html" if path else ""
    return page if os.path.exists(page) else None


class Mark:
    """A moment of this process's, to ask what occurred since."""

    def __init__(self) -> None:
        self._process = library.loaded()
        self._total = self._process.devtrace_finding_count() if self._process is not None else 0
        self._faults = self._process.devtrace_fault_count() if self._process is not None else 0
        self._counts = {each.id: self._count(each) for each in findings()}

    def _count(self, finding: Finding) -> int:
        return self._process.devtrace_occurrences(finding.id) if self._process is not None else 0

    def findings(self) -> list[Finding]:
        """Those that occurred since, for the first time or again. With dedupe=0 each occurrence is one of its own."""
        self._process = self._process or library.loaded()
        if self._process is None or self._process.devtrace_finding_count() == self._total:
            return []
        return [each for each in findings() if each.id not in self._counts or self._count(each) > self._counts[each.id]]

    def faults(self) -> list[Finding]:
        """Of these the ones that are neither notes nor suppressed."""
        return [each for each in self.findings() if each.severity != "note" and not each.suppressed]

    def lost(self) -> bool:
        """Whether there were faults since, and the log that had them was deleted."""
        return self._process is not None and self._process.devtrace_fault_count() != self._faults and _log.lost and not self.faults()


class Watched:
    """What `watch` found."""

    def __init__(self) -> None:
        self._mark = Mark()
        self._after: list[Finding] | None = None

    @property
    def findings(self) -> list[Finding]:
        """Those that occurred in the block."""
        return self._mark.findings() if self._after is None else self._after


@contextlib.contextmanager
def watch(log_path: str | os.PathLike[str] | None = None, **options: object) -> Iterator[Watched]:
    """Watches a block: `with devtrace.watch() as watched: …`, then `watched.findings`. Arguments as of `start`.

    Where the process is watched already, it stays so.
    """
    began = not watching()
    if began:
        start(log_path, **options)
    watched = Watched()
    try:
        yield watched
    finally:
        watched._after = watched.findings
        if began:
            stop()


def watching() -> bool:
    """Whether this process is watched now."""
    process = library.loaded()
    return process is not None and bool(process.devtrace_watching())
