"""Debian's archive: packages and sources of any suite and machine, from where this system's packages come. Nothing is installed."""

import hashlib
import lzma
import re
import subprocess
import tempfile
import urllib.request
from pathlib import Path


def mirror() -> str:
    """Where this system's Debian packages come from."""
    for file in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]:
        for line in file.read_text().splitlines() if file.is_file() else ():
            found = re.match(r"(?:URIs:|deb(?: \[.*?\])?)\s+(https?://\S+/debian)/?(?:\s|$)", line)
            if found:
                return found[1]
    return "http://deb.debian.org/debian"


class Suite:
    """The index of a suite's packages or sources."""

    def __init__(self, name: str, index: str):
        self.records = {}
        text = lzma.decompress(fetched(f"dists/{name}/main/{index}.xz")).decode()
        for block in text.split("\n\n"):
            fields = dict(re.findall(r"^([\w-]+): ?(.*(?:\n .*)*)", block, re.M))
            if "Package" in fields:
                self.records[fields["Package"]] = fields


def fetched(path: str) -> bytes:
    with urllib.request.urlopen(f"{mirror()}/{path}", timeout=300) as answer:
        return answer.read()


def checked(path: str, sha256: str) -> bytes:
    content = fetched(path)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise SystemExit(f"{path} is not what the index says")
    return content


def unpack(suite: Suite, names: list[str], folder: Path) -> None:
    for name in names:
        record = suite.records[name]
        with tempfile.NamedTemporaryFile(suffix=".deb") as file:
            file.write(checked(record["Filename"], record["SHA256"]))
            file.flush()
            subprocess.run(["dpkg-deb", "-x", file.name, folder], check=True)


def depends(suite: Suite, packages: list[str], left_out: set[str] = frozenset()) -> list[str]:
    """These and what they need."""
    found, open_ones = [], list(packages)
    while open_ones:
        name = open_ones.pop()
        if name in found or name in left_out or name not in suite.records:
            continue
        found.append(name)
        wanted = suite.records[name].get("Depends", "")
        open_ones += [re.split(r"[ :(|]", one.strip())[0] for one in wanted.split(",") if one.strip()]
    return found
