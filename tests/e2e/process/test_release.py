"""What a release says of itself: one version, a source distribution that is the same twice, a text that an index shows whole."""

import json
import os
import re
import subprocess
import sys
import tarfile

import pytest
from conftest import BUILD, DEVTRACE, TOP, environment
from readme_renderer import markdown
from trove_classifiers import classifiers

sys.path.insert(0, str(TOP / "scripts/packaging"))
import metadata  # noqa: E402

VERSION = re.search(r'kVersion = "(.*)"', (TOP / "common/version.h").read_text())[1]


def sdist(out, **variables):
    words = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, TOP]
    done = subprocess.run(words, env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return sdist(tmp_path_factory.mktemp("sdist"))


def test_the_version_stands_in_one_place():
    """And in nothing else that git knows, but for what was recorded and for other packages' own."""
    listed = subprocess.run(["git", "grep", "-nIF", VERSION, "--", ":!tests/data", ":!CHANGELOG.md", ":!recipes/fleet/grafana.json"], cwd=TOP, capture_output=True, text=True).stdout
    found = [line.split(":", 2) for line in listed.splitlines()]
    own = {file for file, _, text in found if re.search(rf"(?<![\w.=]){re.escape(VERSION)}(?![\w.])", text)}
    assert own == {"common/version.h"}, own


def test_everything_says_that_version(tmp_path):
    said = lambda *words: subprocess.run([*map(str, words)], cwd=tmp_path, env=environment(None, {"PYTHONPATH": str(TOP / "python")}), capture_output=True, text=True).stdout
    assert said(DEVTRACE, "--version") == f"devtrace {VERSION}\n"
    assert json.loads(said(DEVTRACE, "--version", "--json"))["devtrace"] == VERSION
    assert f"devtrace {VERSION}" in said(DEVTRACE, "--man")
    assert said(sys.executable, "-c", "import devtrace; print(devtrace.__version__)") == f"{VERSION}\n"
    own = f"import ctypes; f = ctypes.CDLL({str(BUILD / 'libdevtrace.so')!r}).devtrace_version; f.restype = ctypes.c_char_p; print(f().decode())"
    assert said(sys.executable, "-c", own) == f"{VERSION}\n"
    said(DEVTRACE, "check", "--quiet", "--sarif", "s.sarif", TOP / "tests/data/private_gpt.jsonl")
    assert json.loads((tmp_path / "s.sarif").read_text())["runs"][0]["tool"]["driver"]["version"] == VERSION


def test_the_changelog_begins_with_it():
    """Or with what has come since."""
    headings = re.findall(r"^## (.*)$", (TOP / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [each for each in headings if each != "Unreleased"]
    assert headings.index(released[0]) <= 1 and re.fullmatch(rf"{re.escape(VERSION)} \(\d{{4}}-\d\d-\d\d\)", released[0]), headings[:2]


def test_a_source_distribution_is_the_same_twice(source, tmp_path):
    again = sdist(tmp_path, TZ="Asia/Tokyo", LANG="C")
    assert again.name == f"devtrace-{VERSION}.tar.gz" and again.read_bytes() == source.read_bytes()
    dated = tmp_path / "dated"
    dated.mkdir()
    with tarfile.open(sdist(dated, SOURCE_DATE_EPOCH="1000000000")) as archive:
        assert {entry.mtime for entry in archive} == {1000000000}


def test_it_has_what_git_knows(source):
    with tarfile.open(source) as archive:
        top = f"devtrace-{VERSION}/"
        assert all(entry.name.startswith(top) and not entry.uname and not entry.uid for entry in archive)
        names = {entry.name.removeprefix(top) for entry in archive}
        script = archive.getmember(top + "scripts/setup")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, text=True).stdout.split("\0")
    assert names == {"PKG-INFO", *(path for path in listed if path and (TOP / path).exists())} and script.mode == 0o755


def test_an_index_would_take_it(source):
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", source], capture_output=True, text=True)
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stdout + done.stderr
    unknown = set(metadata.PROJECT["classifiers"]) - classifiers
    assert not unknown
    pythons = {each.rpartition(" ")[2] for each in metadata.PROJECT["classifiers"] if re.search(r"Python :: 3\.", each)}
    first, last = re.search(r"CPython 3\.(\d+) to 3\.(\d+)", (TOP / "README.md").read_text()).groups()
    assert pythons == {f"3.{minor}" for minor in range(int(first), int(last) + 1)}


def test_its_text_is_shown_whole():
    """As PyPI renders it. Each link and each picture is absolute, and leads to a file of this release."""
    shown = markdown.render(metadata.readme(), variant="GFM")
    assert shown and "<img" in shown and "<picture" not in shown
    addresses = re.findall(r'(?:href|src)="([^"]*)"', shown)
    assert len(addresses) > 20
    prefixes = [metadata.address("", kind) for kind in ("page", "picture")]
    for address in addresses:
        if address.startswith("#"):
            continue
        (path,) = [address.removeprefix(prefix) for prefix in prefixes if address.startswith(prefix)]
        assert (TOP / path.partition("#")[0]).exists(), address
    (picture,) = re.findall(r'<img[^>]*src="([^"]*)"', shown)
    assert picture == metadata.address("docs/guide/report.png", "picture")


def test_a_clone_is_needed_for_it(source, tmp_path):
    """An unpacked one has no git; who builds one from it is told."""
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    words = [sys.executable, "-m", "build", "--sdist", "--no-isolation", tmp_path / f"devtrace-{VERSION}"]
    done = subprocess.run(words, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode != 0 and "a source distribution is made in a clone" in done.stdout + done.stderr
