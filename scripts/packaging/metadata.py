"""What pip and indexes know of devtrace, out of pyproject.toml, common/version.h and README.md: in the form of a wheel's METADATA.

usage: scripts/packaging/metadata.py version | metadata LICENCE_FILE... | entry-points; its caller is scripts/make-wheel."""

import re
import sys
from pathlib import Path

try:
    import tomllib
except ImportError:  # before 3.11
    import tomli as tomllib

TOP = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, PUBLIC = SETTINGS["project"], SETTINGS["tool"]["devtrace"]
EXTRAS = PROJECT.get("optional-dependencies", {})


def version() -> str:
    return re.search(r'kVersion = "(.*)"', (TOP / "common/version.h").read_text(encoding="utf-8"))[1]


def address(path: str, kind: str = "page") -> str:
    """Where that file of this release is shown."""
    return PUBLIC[kind].format(version=version(), path=path)


def readme() -> str:
    """README.md as it is shown where nothing lies beside it. An index knows no <picture>, and so the one for the light."""
    text = (TOP / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"<picture>.*?(<img [^>]*>).*?</picture>", r"\1", text, flags=re.DOTALL)
    text = re.sub(r'(<img [^>]*src=")(?!https?:)([^"]+)', lambda found: found[1] + address(found[2], "picture"), text)
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:)([^)]+)", lambda found: found[1] + address(found[2], "picture"), text)
    return re.sub(r"((?<!!)\[[^]]*\]\()(?!https?:|#)([^)]+)", lambda found: found[1] + address(found[2]), text)


def metadata(licence_files: list[str]) -> str:
    extras = PROJECT["optional-dependencies"]
    urls = {"Homepage": PUBLIC["home"], **{name: address(path) for name, path in PUBLIC["urls"].items()}}
    fields = [
        ("Metadata-Version", "2.4"),
        ("Name", PROJECT["name"]),
        ("Version", version()),
        ("Summary", PROJECT["description"]),
        ("License-Expression", PROJECT["license"]),
        *(("License-File", each) for each in licence_files),
        ("Requires-Python", PROJECT["requires-python"]),
        *(("Provides-Extra", extra) for extra in extras),
        *(("Requires-Dist", f'{each}; extra == "{extra}"') for extra, wanted in extras.items() for each in wanted),
        ("Keywords", ",".join(PROJECT["keywords"])),
        *(("Classifier", each) for each in PROJECT["classifiers"]),
        *(("Provides-Extra", extra) for extra in EXTRAS),
        *(("Requires-Dist", f"{each}; extra == '{extra}'") for extra, packages in EXTRAS.items() for each in packages),
        *(("Project-URL", f"{name}, {url}") for name, url in urls.items()),
        ("Description-Content-Type", "text/markdown; charset=UTF-8; variant=GFM"),
    ]
    return "".join(f"{name}: {value}\n" for name, value in fields) + "\n" + readme()


def entry_points() -> str:
    groups = PROJECT["entry-points"].items()
    return "".join(f"[{group}]\n" + "".join(f"{name} = {where}\n" for name, where in each.items()) for group, each in groups)


if __name__ == "__main__":
    what, *files = sys.argv[1:]
    print({"version": version, "metadata": lambda: metadata(files), "entry-points": entry_points}[what](), end="")
