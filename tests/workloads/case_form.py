"""The form of a case: a small program and, in comments above it, what is right to say of it. cases/, corpus/, corpus_apart/, causes/,
rehearsed.py and device_errors/programs/ are in it.

A file is one program, or several, each below a line of its own; what stands above the first of these is put in front of each program:

    # === NAME
    # KEY: VALUE             what is right to say; a key that stands again has another value
    #   …                    a value goes on
    import torch             the program
    # --- FILE               a further file of the program, which is then called main.py

| key | |
|---|---|
| thread, about | the public thread's address; what goes wrong, or what is hard about it |
| kind | of the finding, if it is no refusal |
| operation | `NAME on DEVICES`; the name is a regular expression, as are the next two |
| operands | their names; `NAME DEVICE` in cases/ |
| error | of the message, if it does not say "on the same device" |
| category, confidence, repairs | of the verdict; any of several categories, with a bar between them |
| says | words of the verdict's reason |
| fails, fix | the line that fails; the verdict's fix, a key for each of its lines |
| also | … the same mistake in other lines: what these should say |
| line | part of a line that is right to change, the true one first: `[FILE: ]TEXT` |
| repair | how the thread repaired it: `[FILE: ]LINE -> REPLACEMENT` |
| message, cut | of device_errors/, whose programs are functions called as their case: the row of messages.jsonl, if it is not the dispatcher's "on the same device"; `yes`: PyTorch writes a device's index as a character, and that of device 0 ends the text |
| silent, alone | `yes`: PyTorch lets it pass; it needs a process of its own |"""

import re
from dataclasses import dataclass
from pathlib import Path

KEYS = {
    "thread", "about", "kind", "operation", "error", "operands", "category", "confidence", "repairs", "says", "fails", "fix", "also", "line", "repair",
    "silent", "alone", "message", "cut",
}  # fmt: skip
SAYS = re.compile(r"# (\w+):(?: (.*))?")


IN_FILE = re.compile(r"(?:([\w/]+\.py): )?(.*)")


@dataclass(frozen=True)
class Place:
    """A line of a case, or a part of one."""

    file: str
    text: str

    @staticmethod
    def parse(text: str, main: str) -> "Place":
        file, text = IN_FILE.fullmatch(text).groups()
        return Place(file or main, text)


@dataclass(frozen=True)
class Repair:
    place: Place
    replacement: str

    def applied(self, source: str) -> str:
        """`source` with the one line that is the place's replaced, its indentation kept."""
        lines = source.split("\n")
        found = [i for i, line in enumerate(lines) if line.strip() == self.place.text]
        if len(found) != 1:
            raise ValueError(f"{len(found)} lines of {self.place.file} are: {self.place.text}")
        line = lines[found[0]]
        lines[found[0]] = line[: len(line) - len(line.lstrip())] + self.replacement
        return "\n".join(lines)


@dataclass(frozen=True)
class Case:
    name: str
    main: str  # the file to run
    files: dict[str, str]  # every file's text, by its name
    says: dict[str, list[str]]
    header: int  # lines of the main file until the program begins

    def first(self, key: str, otherwise: str = "") -> str:
        return self.says.get(key, [otherwise])[0]

    @property
    def program(self) -> str:
        """The main file from below the header on."""
        return "\n".join(self.files[self.main].split("\n")[self.header :])

    @property
    def operation(self) -> str:
        return self.first("operation").partition(" on ")[0]

    @property
    def devices(self) -> list[str]:
        devices = self.first("operation").partition(" on ")[2]
        return devices.split(", ") if devices else []

    @property
    def error(self) -> str:
        return self.first("error", "on the same device")

    def list_of(self, key: str) -> list[str]:
        """The parts of a value that has commas between them."""
        return [part for part in self.first(key).split(", ") if part]

    @property
    def fix(self) -> str:
        return "\n".join(self.says["fix"])

    @property
    def lines(self) -> list[Place]:
        return [Place.parse(line, self.main) for line in self.says["line"]]

    def lines_at(self, place: Place) -> list[int]:
        """Numbers, from 1, of the file's lines that hold the place's text; the header is none of them."""
        above = self.header if place.file == self.main else 0
        return [number for number, line in enumerate(self.files[place.file].split("\n"), 1) if place.text in line and number > above]

    @property
    def repairs(self) -> list[Repair]:
        pairs = [text.split(" -> ") for text in self.says.get("repair", [])]
        return [Repair(Place.parse(old, self.main), new) for old, new in pairs]

    def copy(self, folder: Path, repaired: bool = False) -> Path:
        """Writes its files into `folder`; returns the one to run. Lines keep their numbers."""
        files = dict(self.files)
        for repair in self.repairs if repaired else []:
            files[repair.place.file] = repair.applied(files[repair.place.file])
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder / self.main


def header_of(text: str, name: str) -> tuple[dict[str, list[str]], int]:
    """What the first lines say, and how many they are."""
    says, last, count = {}, None, 0
    for line in text.split("\n"):
        if last and line.startswith("#   "):
            last[-1] += " " + line[4:]
        elif match := SAYS.fullmatch(line):
            if match[1] not in KEYS:
                raise ValueError(f"{name}: no key is called {match[1]}")
            last = says.setdefault(match[1], [])
            last.append(match[2] or "")
        else:
            break
        count += 1
    return says, count


def split(text: str, mark: str) -> tuple[str, list[tuple[str, str]]]:
    """What stands above the first mark, and what stands below each, with what the mark names."""
    above, *parts = re.split(rf"^# {mark} (.+)\n", text, flags=re.MULTILINE)
    return above, [(name, body.strip("\n") + "\n") for name, body in zip(parts[::2], parts[1::2])]


def case_of(name: str, text: str, above: str = "") -> Case:
    main, others = split(text, "---")
    says, header = header_of(main, name)
    file = "main.py" if others else f"{name}.py"
    return Case(name, file, {file: above + main.rstrip("\n") + "\n", **dict(others)}, says, header + above.count("\n"))


def cases_in(path: Path) -> dict[str, Case]:
    """The cases of a file, or of all files of a folder, by name. Of a folder that is not there none: all that was kept apart may be opened."""
    cases = {}
    for file in [path] if path.suffix else sorted(path.glob("*.py")):
        above, parts = split(file.read_text(encoding="utf-8"), "===")
        for name, text in parts or [(file.stem, above)]:
            if name in cases:
                raise ValueError(f"two cases are called {name}")
            cases[name] = case_of(name, text, above if parts else "")
    return cases
