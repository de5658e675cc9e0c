"""From folders of sources to the rows of the catalogue: every message once, who raises it, in which versions."""

import re
from bisect import bisect_right
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from . import cpp_raises, placement, python_raises
from .raises import HOLE, Raise, pattern, pieces, shown

CPP = {".cpp", ".cu", ".h", ".cuh", ".hpp", ".cc", ".c"}
# What strings of a library are looked through for, where a version came without its sources.
STRINGS = ".strings"
# A file without both of these has nothing to find, and need not be parsed.
RAISES = re.compile(r"\b(raise|assert|_check\w*|throw|TORCH_\w+|AT_\w+|PyErr_\w+|CAFFE_ENFORCE)\b")
PLACES = re.compile(r"device|cuda|cpu|gpu|meta|pinned|host|offload", re.IGNORECASE)


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


@dataclass
class Found:
    """One message of one project."""

    project: str
    layer: str
    message: str
    versions: set[str] = field(default_factory=set)
    places: dict[str, set[tuple[str, str]]] = field(default_factory=dict)  # of a version: (file, function)
    exceptions: set[str] = field(default_factory=set)
    only_in_sources: bool = False  # the compiler took its text apart: libraries do not say in which versions it is


def raises_in(folder: Path) -> list[tuple[str, Raise]]:
    found = []
    for path in sorted(folder.rglob("*")):
        layer = "Python" if path.suffix == ".py" else "C++" if path.suffix in CPP else None
        if layer is None:
            continue
        source = path.read_text(encoding="utf-8", errors="replace")
        if not RAISES.search(source) or not PLACES.search(source):
            continue
        file = str(path.relative_to(folder)).replace("torch/include/", "")
        reader = python_raises if layer == "Python" else cpp_raises
        found += [(layer, one) for one in reader.raises_of(source, file) if placement.why_not(one) is None]
    return found


class LibraryStrings:
    """Of all versions together, each string once: most of them stay the same for years."""

    def __init__(self):
        self.versions: dict[str, set[str]] = {}  # of a line

    def add(self, version: str, folder: Path) -> None:
        for path in sorted(folder.rglob(f"*{STRINGS}")):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                self.versions.setdefault(line.replace("\\n", "\n"), set()).add(version)

    def join(self) -> None:
        self.text = "\0".join(self.versions)
        self.begins, at = [], 0
        for line in self.versions:
            self.begins.append(at)
            at += len(line) + 1
        self.lines = list(self.versions)

    def versions_with(self, piece: str) -> set[str]:
        found: set[str] = set()
        at = self.text.find(piece)
        while at >= 0:
            index = bisect_right(self.begins, at) - 1
            found |= self.versions[self.lines[index]]
            at = self.text.find(piece, self.begins[index] + len(self.lines[index]))
        return found

    def versions_of(self, message: str) -> set[str]:
        """Compilers shorten strings that share an end, and put short ones into code: the long pieces decide."""
        long = [piece for piece in pieces(message) if len(piece.strip()) >= 12] or [max(pieces(message), key=len)]
        return set.intersection(*(self.versions_with(piece) for piece in long))


def search(sources: list[tuple[str, str, Path]]) -> list[Found]:
    """`sources`: project, version, folder; several folders of one version are one."""
    found: dict[tuple[str, str, str], Found] = {}
    strings: dict[str, LibraryStrings] = {}
    in_order = sorted(sources, key=lambda one: (one[0], version_key(one[1])))
    with ProcessPoolExecutor() as pool:
        all_raises = list(pool.map(raises_in, [folder for _, _, folder in in_order]))
    for (project, version, folder), raises in zip(in_order, all_raises):
        for layer, one in raises:
            row = found.setdefault((project, layer, one.message), Found(project, layer, one.message))
            row.versions.add(version)
            row.places.setdefault(version, set()).add((one.file, one.function))
            row.exceptions.add(one.exception)
        if any(folder.rglob(f"*{STRINGS}")):
            strings.setdefault(project, LibraryStrings()).add(version, folder)
    for project, message in newer_messages() if strings else ():
        row = found.setdefault((project, "C++", message), Found(project, "C++", message))
        row.exceptions.add("RuntimeError")
    for known in strings.values():
        known.join()
    for row in found.values():
        if row.layer == "C++" and row.project in strings:
            held = strings[row.project].versions_of(row.message)
            row.versions |= held
            row.only_in_sources = not held
    for row in found.values():
        if not row.places and row.versions:
            row.places[min(row.versions, key=version_key)] = {("libtorch", "")}
    return [row for row in found.values() if row.versions]


def newer_messages() -> list[tuple[str, str]]:
    lines = (Path(__file__).parent / "newer_messages.txt").read_text(encoding="utf-8").splitlines()
    return [("torch", line.replace("…", HOLE)) for line in lines if line and not line.startswith("#")]


def identifier(row: Found, taken: set[str]) -> str:
    """Words of the message, as many as make it the only one; it stays the same when a function is renamed."""
    words = [word.lower() for word in re.findall(r"[A-Za-z][A-Za-z_.']*[A-Za-z]|[A-Za-z]", row.message.replace(HOLE, " "))]
    words = [re.sub(r"[^a-z_]", "", word) for word in words]
    for count in range(min(7, len(words)), len(words) + 1):
        name = "-".join([row.project, *words[:count]])
        if name not in taken:
            return name
    return next(f"{name}-{number}" for number in range(2, 1000) if f"{name}-{number}" not in taken)


def rows(found: list[Found], newest: dict[str, str], oldest: dict[str, str]) -> list[dict]:
    taken: set[str] = set()
    made = []
    for row in sorted(found, key=lambda one: (one.project, one.layer, one.message)):
        latest = max(row.places, key=version_key)
        versions = sorted(row.versions, key=version_key)
        name = identifier(row, taken)
        taken.add(name)
        made.append({
            "id": name,
            "project": row.project,
            "layer": row.layer,
            "text": shown(row.message),
            "pattern": pattern(row.message),
            "raises": sorted(row.exceptions),
            "raised_by": sorted(f"{file}:{function}".rstrip(":") for file, function in row.places[latest]),
            "since": versions[0],
            "before": versions[0] == oldest[row.project] or row.only_in_sources,  # it may be older than what was searched
            "until": None if versions[-1] == newest[row.project] or row.only_in_sources else versions[-1],
        })
    return made


def table(sources: list[tuple[str, str, Path]]) -> list[dict]:
    versions: dict[str, list[str]] = {}
    for project, version, _ in sources:
        versions.setdefault(project, []).append(version)
    newest = {project: max(known, key=version_key) for project, known in versions.items()}
    oldest = {project: min(known, key=version_key) for project, known in versions.items()}
    return rows(search(sources), newest, oldest)
