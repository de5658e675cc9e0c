"""What the command makes of a log's lines: text, Markdown. The words are its own, so that a finding reads the same everywhere."""

import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from .installation import command, plain_environment


def rendered(form: str, process: bytes, findings: Iterable[bytes]) -> str:
    """`devtrace report --format FORM` of a process's line and those of findings."""
    with tempfile.TemporaryDirectory(prefix="devtrace-") as folder:
        log = Path(folder) / "devtrace.jsonl"
        log.write_bytes(b"".join([process or b'{"record":"process","schema":1}\n', *findings, b'{"record":"end"}\n']))
        words = [command(), "report", "--findings-only", "--format", form, str(log)]
        done = subprocess.run(words, env=plain_environment(), capture_output=True, text=True, errors="replace")
    return done.stdout.strip("\n") or f"devtrace report failed: {done.stderr}"
