"""An edit that may repair the finding: what is replaced by what, and what kind of change that is."""

import ast
import re
from dataclasses import dataclass, field

from source import Source, names_for_torch, names_of_module


@dataclass
class Candidate:
    kind: str  # a key of kinds.KINDS
    title: str  # what is changed, in words, for a table
    prior: float  # the likeliest is tried first: smaller is sooner
    edits: list = field(default_factory=list)  # (Source, start, end, new text)
    names_device: bool = False  # says "cuda:1" itself: another machine may want another
    says: str = ""  # the expression that stands for the device, where it is one of several ways to say it
    wanted: str = ""  # the device that it stands for

    def replace(self, source, node, text):
        self.edits.append((source, *source.span(node), text))
        return self

    def insert(self, source, offset, text):
        self.edits.append((source, offset, offset, text))
        return self

    def before(self, source, statement, *lines):
        """Lines in front of a statement, as far in as it is."""
        indent = source.indent(statement)
        if indent is None:
            return None
        text = "".join(f"{line}{source.newline}{indent}" for line in lines)
        return self.insert(source, source.span(statement)[0], text)

    def after(self, source, statement, *lines):
        indent = source.indent(statement)
        if indent is None:
            return None
        text = "".join(f"{source.newline}{indent}{line}" for line in lines)
        return self.insert(source, source.span(statement)[1], text)

    def texts(self):
        """path: new text. None when the edits overlap, change nothing, name torch where the file has none, or leave no Python."""
        by_source = {}
        for source, start, end, text in self.edits:
            if (text := with_its_torch(source, text)) is None:
                return None
            by_source.setdefault(source.path, (source, []))[1].append((start, end, text.encode("utf-8")))
        out = {}
        for path, (source, edits) in by_source.items():
            data, limit = source.bytes, len(source.bytes) + 1
            for start, end, text in sorted(set(edits), reverse=True):
                if end > limit:
                    return None
                data, limit = data[:start] + text + data[end:], start
            if data == source.bytes:
                continue
            try:
                ast.parse(data)
            except (SyntaxError, ValueError):
                return None
            out[path] = data.decode("utf-8")
        return out or None

    def identity(self, code):
        """The same for this edit in a text that other edits have changed elsewhere: no number of a line."""
        source, line = self.place()
        at = source.lines[line - 1].strip()
        before = sum(each.strip() == at for each in source.lines[: line - 1])
        return repr((self.kind, source.path, at, before, code))

    def asks(self):
        """The object that is asked for its device, and the function in which; empty for a device that is written out."""
        if not self.says or self.names_device:
            return ""
        source, line = self.place()
        statement = source.statement(line)
        scopes = [statement and source.class_of(statement), statement and source.function(statement)]
        return repr((source.path, [each and each.name for each in scopes], self.says))

    def alternatives(self):
        """The same for two edits that differ only in how they say the device; empty where there is one way only."""
        if not self.says:
            return ""
        said = re.compile(rf"(?<![\w.]){re.escape(self.says)}(?![\w.=])")
        parts = [(source.path, start, end, said.sub("…", text)) for source, start, end, text in self.edits]
        return repr((self.kind, self.wanted, sorted(parts)))

    def place(self):
        """File, line and the statement's new text, of the first edit."""
        source, start, _, _ = self.edits[0]
        return source, source.line_at(start)


TORCH = re.compile(r"""(?<![\w."'])torch(?=\.)""")


def with_its_torch(source, text):
    """The text with the file's name for torch; None for a file that has none."""
    if not TORCH.search(text) or "torch" in names_of_module(source):
        return text
    others = names_for_torch(source.tree)
    return TORCH.sub(others[0], text) if others else None


def grouped(source, node):
    """The node's text as something a dot may follow."""
    text = source.of(node)
    plain = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
    already = source.bytes[source.span(node)[0] - 1 : source.span(node)[0]] == b"(" and text.startswith("(")
    return text if plain or already else f"({text})"


__all__ = ["Candidate", "Source", "grouped"]
