#!/usr/bin/env python3
"""The driver's symbols, out of the public headers: no wheel carries libcuda.so.1.

Writes NAMES: 'symbol [symbol of the same ABI]', one a line. TABLE: the C++ initialisers of cuGetProcAddress's table,
{"cuMemAlloc", first CUDA version, "cuMemAlloc_v2"}, oldest first, by which a caller's CUDA version picks the ABI it was compiled for.
"""
import argparse
import pathlib
import re

DECLARATION = re.compile(r"^[ \t]*(?:__CUDA_DEPRECATED[ \t]+)?CUresult[ \t]+CUDAAPI\s+(cu\w+)[ \t]*\(([^;]*?)\);", re.M | re.S)
DEFINE = re.compile(r"^[ \t]*#define[ \t]+(cu[A-Z]\w*)[ \t]+(?:__CUDA_API_(PTDS|PTSZ)\()?(cu[A-Z]\w*)\)?[ \t]*$", re.M)
TYPEDEF = re.compile(r"PFN_(cu[A-Z]\w*?)_v(\d+)(_ptds|_ptsz)?\)")
HEADERS = ("cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cudaProfiler.h")
TYPEDEFS = ("cudaTypedefs.h", "cudaGLTypedefs.h", "cudaEGLTypedefs.h", "cudaVDPAUTypedefs.h", "cudaProfilerTypedefs.h")


def arguments_of(text):
    """The types of a parameter list, names and spaces removed, so that two declarations can be compared."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return [re.sub(r"\s+", "", re.sub(r"\b\w+(\s*\[\d*\])?$", "", part.strip())) for part in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("include", type=pathlib.Path)
    parser.add_argument("--names", required=True, type=pathlib.Path)
    parser.add_argument("--table", required=True, type=pathlib.Path)
    options = parser.parse_args()

    def read(names):
        return "\n".join((options.include / n).read_text() for n in names if (options.include / n).exists())

    text = read(HEADERS)
    newest = {}
    for name, _, target in DEFINE.findall(text):
        newest.setdefault(name, target)
    # The public part of a header declares the newest ABI under the plain name, which a #define maps to cuX_vN. The internal part
    # declares every older ABI under its true symbol.
    public, _, internal = text.partition("#if defined(__CUDA_API_VERSION_INTERNAL)\n")
    signature = {}
    for name, args in DECLARATION.findall(internal):
        signature[name] = arguments_of(args)
    for name, args in DECLARATION.findall(public):
        signature[newest.get(name, name)] = arguments_of(args)
        signature.setdefault(name, None)
    names = set(signature) | set(newest.values()) | {"cuProfilerStart", "cuProfilerStop", "cuProfilerInitialize", "cuGetExportTable"}
    for _, suffix, target in DEFINE.findall(text):
        if suffix:
            names.add(target + "_" + suffix.lower())

    lines = []
    for name in sorted(names):
        twin = newest.get(re.sub(r"_v\d+$", "", name))
        same = twin and twin != name and signature.get(name) and signature.get(name) == signature.get(twin)
        lines.append(f"{name} {twin}" if same else name)
    options.names.write_text("\n".join(lines) + "\n")

    versions = {}
    for name, version, suffix in TYPEDEF.findall(read(TYPEDEFS)):
        if not suffix:
            versions.setdefault(name, set()).add(int(version))
    rows = []
    for name in sorted({re.sub(r"_v\d+$", "", n) for n in names if not n.endswith(("_ptsz", "_ptds"))} | set(versions)):
        abis = sorted((n for n in names if re.fullmatch(re.escape(name) + r"(_v\d+)?", n)), key=lambda n: (len(n), n))
        since = sorted(versions.get(name, ()))
        if not abis:
            continue
        if len(abis) == len(since):
            rows += [(name, v, a) for v, a in zip(since, abis)]
        else:
            # The header does not tell which version brought which ABI: everyone gets the newest.
            rows.append((name, since[0] if since else 2000, newest.get(name, abis[-1])))
    options.table.write_text("".join(f'{{"{n}", {v}, "{a}"}},\n' for n, v, a in rows))


if __name__ == "__main__":
    main()
