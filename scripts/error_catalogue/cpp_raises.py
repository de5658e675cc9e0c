"""Every place of a C++ or CUDA file that raises with a message: checks, throws, Python's C interface."""

import re
from bisect import bisect_right

from .raises import HOLE, Raise, tidy

# A call → the argument of its condition (None: it always raises), the first argument of its message, the exception.
CALLS = {
    "TORCH_CHECK": (0, 1, "RuntimeError"),
    "TORCH_CHECK_INDEX": (0, 1, "IndexError"),
    "TORCH_CHECK_VALUE": (0, 1, "ValueError"),
    "TORCH_CHECK_TYPE": (0, 1, "TypeError"),
    "TORCH_CHECK_LINALG": (0, 1, "LinAlgError"),
    "TORCH_CHECK_NOT_IMPLEMENTED": (0, 1, "NotImplementedError"),
    "TORCH_CHECK_BUFFER": (0, 1, "BufferError"),
    "TORCH_CHECK_WITH": (1, 2, "RuntimeError"),
    "TORCH_INTERNAL_ASSERT": (0, 1, "RuntimeError"),
    "TORCH_INTERNAL_ASSERT_DEBUG_ONLY": (0, 1, "RuntimeError"),
    "AT_ASSERTM": (0, 1, "RuntimeError"),
    "AT_ERROR": (None, 0, "RuntimeError"),
    "CAFFE_ENFORCE": (0, 1, "RuntimeError"),
    "C10_THROW_ERROR": (None, 1, "RuntimeError"),
    "PyErr_SetString": (None, 1, "Python's"),
    "PyErr_Format": (None, 1, "Python's"),
    "THPUtils_setError": (None, 0, "RuntimeError"),
    "TypeError": (None, 0, "TypeError"),
    "ValueError": (None, 0, "ValueError"),
    "IndexError": (None, 0, "IndexError"),
    "NotImplementedError": (None, 0, "NotImplementedError"),
    "std::runtime_error": (None, 0, "RuntimeError"),
    "std::invalid_argument": (None, 0, "ValueError"),
    "py::type_error": (None, 0, "TypeError"),
    "py::value_error": (None, 0, "ValueError"),
    "c10::Error": (None, 0, "RuntimeError"),
}
CALL = re.compile(r"(?<![\w:])(" + "|".join(re.escape(name) for name in sorted(CALLS, key=len, reverse=True)) + r")\s*\(")
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>\w*)\((?P<raw>.*?)\)(?P=mark)"|"(?P<text>(?:\\.|[^"\\])*)"'
    r"|'(?:\\.|[^'\\])+'|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comma>,)|(?P<space>\s+)|\w+|.",
    re.DOTALL,
)
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "'": "'", "\\": "\\"}
# A definition begins in the first column, or a method's in the first columns of a class; its name stands before the parenthesis.
FUNCTION = re.compile(
    r"^(?: {2})?(?![#}/\s*]|using |typedef |return |else|if|for|while|switch|throw|static_assert|alignas|"
    r"DECLARE|REGISTER|TORCH_|AT_|C10_(?!HOST|ALWAYS)|__attribute__|std::)"
    r"[^;=\n]*?([A-Za-z_~][\w:~]*)\s*\([^;]*$",
    re.MULTILINE,
)
NAMED_BY_MACRO = re.compile(r"^(?:TORCH_IMPL_FUNC|TORCH_META_FUNC2?|TORCH_PRECOMPUTE_META_FUNC2?)\s*\(\s*(\w+)(?:\s*,\s*(\w+))?", re.MULTILINE)
# printf's, in what throws through Python's C interface or a formatted exception.
PRINTF = re.compile(r"%[-+ #0-9.]*(?:l|ll|z|h)?[a-zA-Z]")


def unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: ESCAPES.get(match[1], match[1]), text, flags=re.DOTALL)


def arguments(source: str, at: int) -> tuple[list[tuple[str, str]], int]:
    """Of the call whose parenthesis ends before `at`: each argument's source text and its text with holes."""
    found, depth, raw, text, begin = [], 0, [], "", at
    while match := TOKEN.match(source, at):
        at = match.end()
        kind, token = match.lastgroup, match[0]
        if token.startswith(("//", "/*")) or kind == "space":
            raw.append(" ")
            continue
        if kind == "close":
            if depth == 0:
                if raw:
                    found.append(("".join(raw).strip(), text))
                return found, at
            depth -= 1
        elif kind == "open":
            depth += 1
        elif kind == "comma" and depth == 0:
            found.append(("".join(raw).strip(), text))
            raw, text = [], ""
            continue
        raw.append(token)
        if match["text"] is not None or match["raw"] is not None:
            text += unescape(match["text"]) if match["text"] is not None else match["raw"]
        elif not text.endswith(HOLE) and kind != "open" and kind != "close":
            text += HOLE
        if at - begin > 8000:
            break
    return [], at


def without_choices(raw: str, text: str) -> str:
    """Of `flag ? "a" : "b"` one is said, which is not known here."""
    return HOLE if re.search(r"\?[^:]", re.sub(r'"(?:\\.|[^"\\])*"', '""', raw)) else text


PLAIN_CALL = re.compile(r"(c10::|torch::|at::|::c10::)?str\s*\(|std::string\s*\(|fmt::format\s*\(")


def message_of(parts: list[tuple[str, str]], formatted: bool) -> str:
    texts = [without_choices(raw, text) for raw, text in parts]
    # c10::str( and torch::str( around the parts, and std::string( around a literal, are no values.
    texts = [text[1:] if PLAIN_CALL.match(raw) and text.startswith(HOLE) else text for (raw, _), text in zip(parts, texts)]
    if formatted and texts:
        texts = [PRINTF.sub(HOLE, texts[0])]
    message = "".join(texts)
    if any(raw.lstrip().startswith("fmt::format") for raw, _ in parts):
        message = re.sub(r"\{[^{}]*\}", HOLE, message)
    return message


STREAM = re.compile(r"\b(\w+)\.str\s*\(\s*\)")


def streamed(source: str, name: str, before: int) -> str | None:
    """What was written into the stream `name` since it was declared, just before the check that shows it."""
    begin = max(source.rfind(f"stream {name}", 0, before), before - 2000)
    text = ""
    for match in re.finditer(rf"\b{name}\s*<<", source[max(begin, 0) : before]):
        at = max(begin, 0) + match.end()
        while at < before and (token := TOKEN.match(source, at)) and token[0] != ";":
            at = token.end()
            if token["text"] is not None:
                text += unescape(token["text"])
            elif token.lastgroup != "space" and not text.endswith(HOLE):
                text += HOLE
    # `<<` between the parts
    return re.sub(f"{HOLE}+", HOLE, text) or None


class Functions:
    def __init__(self, source: str):
        names = {match.start(): match[1] for match in FUNCTION.finditer(source)}
        names |= {match.start(): match[1] for match in NAMED_BY_MACRO.finditer(source)}
        self.starts = sorted(names)
        self.names = names

    def at(self, place: int) -> str:
        index = bisect_right(self.starts, place) - 1
        return self.names[self.starts[index]] if index >= 0 else ""


def raises_of(source: str, file: str) -> list[Raise]:
    source = source.replace("\\\n", "  ")  # macros over several lines
    functions = Functions(source)
    found = []
    for match in CALL.finditer(source):
        line = source[source.rfind("\n", 0, match.start()) + 1 : match.start()]
        name = match[1]
        if "//" in line or (name[0].islower() or name.endswith("Error")) and "throw" not in source[max(0, match.start() - 30) : match.start()]:
            if name not in ("PyErr_SetString", "PyErr_Format", "THPUtils_setError") or "//" in line:
                continue
        condition, first, exception = CALLS[name]
        parts, _ = arguments(source, match.end())
        if not parts or re.match(r"#\s*define\s+" + name, line.strip() + name):
            continue
        if exception == "Python's":
            exception = parts[0][0].replace("PyExc_", "").replace("THPException_", "")
        stated = parts[condition][0] if condition is not None and condition < len(parts) else ""
        if len(parts) > first:
            formatted = name.startswith("PyErr") or name in ("TypeError", "ValueError", "IndexError", "NotImplementedError", "THPUtils_setError")
            message = message_of(parts[first:], formatted)
        elif condition is not None and not name.startswith("TORCH_INTERNAL"):
            message = "Expected " + re.sub(r"\s+", " ", stated) + " to be true, but got false."
        else:
            message = re.sub(r"\s+", " ", stated) + " INTERNAL ASSERT FAILED"
        if (stream := STREAM.search(" ".join(raw for raw, _ in parts[first:]))) and not re.search("[a-z]{2}", message):
            message = streamed(source, stream[1], match.start()) or message
        message = tidy(message)
        if re.search("[a-z]{2}", message):
            found.append(Raise(message, stated, exception, file, functions.at(match.start())))
    return found
