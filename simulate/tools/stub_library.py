#!/usr/bin/env python3
"""Writes what makes a stub library complete: a version script with every symbol of the real library, and a stub for each one that nobody implemented.

The real library's own dynamic symbol table is the list, read at build time, so a new wheel needs no edit here. The driver has no
library in any wheel; its names come from the headers (driver_symbols.py).
"""
import argparse
import pathlib
import re
import subprocess

SUFFIXES = ("_ptsz", "_ptds")
# How CUPTI's names of the callback ids of a domain begin, the header of these, and that of the parameters' structures.
DOMAINS = {
    "Driver": ("CUPTI_DRIVER_TRACE_CBID_", "cupti_driver_cbid.h", "generated_cuda_meta.h"),
    "Runtime": ("CUPTI_RUNTIME_TRACE_CBID_", "cupti_runtime_cbid.h", "generated_cuda_runtime_api_meta.h"),
}


def exported(library):
    """{symbol: version node or ''} of the functions a shared object exports; also out of a list of them, 'symbol version' a line."""
    if str(library).endswith(".symbols"):
        rows = (line.split(" ") for line in pathlib.Path(library).read_text().splitlines())
        return dict(rows)
    out = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    symbols = {}
    for line in out.splitlines():
        kind, name = line.split()[-2:]
        if kind not in "TWVi":
            continue
        name, _, version = name.partition("@")
        if name not in ("_init", "_fini"):
            symbols[name] = version.lstrip("@")
    return symbols


def implemented(objects):
    """Functions that the compiled objects define for export. A hidden one counts as missing, and its stub then fails the link: a
    definition without its header's declaration would otherwise be lost in silence."""
    if not objects:
        return set()
    out = subprocess.run(["readelf", "-sW", *objects], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in out.splitlines())
    return {r[7] for r in rows if len(r) == 8 and r[4] == "GLOBAL" and r[5] == "DEFAULT" and r[6] != "UND"}


def split(name):
    """('cudaMemAdvise', '_ptsz', 2) of cudaMemAdvise_v2_ptsz: what is one function to its users, by age."""
    name, suffix = next(((name[: -len(s)], s) for s in SUFFIXES if name.endswith(s)), (name, ""))
    plain, _, number = name.rpartition("_v")
    return (plain, suffix, int(number)) if plain and number.isdigit() else (name, suffix, 1)


def callback_ids(header, prefix, symbols):
    """{symbol: name of its callback id}. The driver's ids are called as its symbols are. Those of the runtime have the version that
    brought the function, cudaMemAdvise_v8000 and cudaMemAdvise_v12020, and a library exports the last of them under one name each."""
    names = re.findall(rf"\b{prefix}(\w+)\s*=", header.read_text())
    if "DRIVER" in prefix:
        return {name: name for name in names if name in symbols}
    versions, found = {}, {}
    for name in names:
        plain, _, version = name.rpartition("_v")
        if plain and version.isdigit():
            versions.setdefault(plain, []).append((int(version), name))
    families = {}
    for symbol in symbols:
        plain, suffix, age = split(symbol)
        if symbol in versions and age > 1:  # an id of its own
            found[symbol] = max(versions[symbol])[1]
        else:
            families.setdefault(plain + suffix, []).append((age, symbol))
    for name, family in families.items():
        for (_, symbol), (_, callback) in zip(sorted(family, reverse=True), sorted(versions.get(name, ()), reverse=True)):
            found[symbol] = callback
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="stem of the files written: .stubs.S, .map, .missing, and .per_thread.inc for "
                        "functions that _ptsz symbols stand before (common/per_thread.cpp)")
    parser.add_argument("--real", help="the real library")
    parser.add_argument("--names", help="instead of --real: a file of 'name [same-ABI name]', one a line; with neither, what the objects define")
    parser.add_argument("--code", required=True, type=int, help="the API's not-supported code")
    parser.add_argument("--also", metavar="FILE", help="functions of newer releases that the library at hand lacks, one a line: under its version as well")
    parser.add_argument("--twins", metavar="PREFIX", help="each function exists once more with this before its name, for who stands in front of the first")
    parser.add_argument("--extra", nargs="*", action="extend", default=[], help="symbols of our own to export")
    parser.add_argument("--alias", help="also export every symbol under this prefix: how our own libraries call it unseen by interposers; "
                        "with quiet_ behind it, unseen by profilers as well")
    parser.add_argument("--callbacks", nargs=2, metavar=("DOMAIN", "INCLUDE"),
                        help="also write .callbacks.inc (common/callbacks.cpp) and .rename (for objcopy): CUPTI's domain of the library's "
                        "calls, Driver or Runtime, and the folder of its headers")
    parser.add_argument("--objects", nargs="*", default=[])
    arguments = parser.parse_args()

    same = {}
    done = implemented(arguments.objects)
    if arguments.real:
        symbols = exported(arguments.real)
    elif not arguments.names:
        symbols = dict.fromkeys(done, "")
    else:
        symbols = {}
        for line in pathlib.Path(arguments.names).read_text().splitlines():
            name, *twin = line.split()
            symbols[name] = ""
            if twin:
                same[name] = twin[0]
    of_headers = dict(symbols)
    if arguments.also:
        newest = max(symbols.values())
        symbols |= dict.fromkeys(pathlib.Path(arguments.also).read_text().split(), newest)
    if arguments.twins:
        twins = {arguments.twins + name: name for name in symbols if not name.startswith(arguments.twins)}
        symbols = {twin: symbols[name] for twin, name in twins.items()} | symbols
        same |= twins
    lines = ['#include "simulate/common/stub_instructions.inc"']
    missing = []
    per_thread = set()
    told = {}
    callbacks = {}
    if arguments.callbacks:
        domain, include = arguments.callbacks
        prefix, ids, structures = DOMAINS[domain]
        told = callback_ids(pathlib.Path(include, ids), prefix, of_headers)
        structures = set(re.findall(r"\} (\w+)_params;", pathlib.Path(include, structures).read_text()))

    def add_callback(name, like):
        structure = f"{told[name]}_params" if told[name] in structures else "None"
        callbacks[name] = f"CALLBACK({name}, {like}, {prefix}{told[name]}, {structure})\n"
        lines.append(f"entry {name}")

    def body(name):
        return f"devtrace_impl_{name}" if name in told else name

    for name in sorted(symbols):
        if name in done:
            if name in told:
                add_callback(name, name)
            continue
        base = next((name[: -len(s)] for s in SUFFIXES if name.endswith(s)), None)
        target = next((t for t in (base, same.get(name), same.get(base)) if t in done), None)
        if target and name in told:
            add_callback(name, target)
        if target and name.endswith("_ptsz"):
            lines.append(f"held {body(name)}, devtrace_per_thread_{target}")
            per_thread.add(target)
        elif target:
            lines.append(f"same {body(name)}, {body(target)}")
        else:
            lines.append(f"unsupported {name}, {arguments.code}")
            missing.append(name)
    if arguments.alias:
        for name in sorted(set(symbols) | ({"devtrace_simulation"} & done)):
            alias = arguments.alias + name
            if name in callbacks:
                lines.append(f"held {alias}, devtrace_entry_{name}")
                lines.append(f"same {arguments.alias}quiet_{name}, devtrace_impl_{name}")
            else:
                lines.append(f"same {alias}, {name}")
    lines.append('.section .note.GNU-stack,"",@progbits\n')
    arguments.out.with_name(arguments.out.name + ".stubs.S").write_text("\n".join(lines))
    arguments.out.with_name(arguments.out.name + ".missing").write_text("\n".join(missing) + "\n")

    if per_thread:
        arguments.out.with_name(arguments.out.name + ".per_thread.inc").write_text("".join(f"PER_THREAD({name})\n" for name in sorted(per_thread)))

    if arguments.callbacks:
        arguments.out.with_name(arguments.out.name + ".callbacks.inc").write_text("".join(callbacks.values()))
        arguments.out.with_name(arguments.out.name + ".rename").write_text(
            "".join(f"{name} devtrace_impl_{name}\n" for name in sorted(told) if name in done))

    nodes = {}
    for name, version in symbols.items():
        nodes.setdefault(version, []).append(name)
    extra = arguments.extra + ([f"{arguments.alias}*"] if arguments.alias else [])
    script = ""
    if list(nodes) == [""]:
        script = "{ global: " + " ".join(f"{n};" for n in sorted(nodes[""]) + extra) + " local: *; };\n"
    else:
        for version, names in nodes.items():
            script += f"{version or 'DEVTRACE_SIM_PLAIN'} {{ global: " + " ".join(f"{n};" for n in sorted(names)) + " };\n"
        script += "DEVTRACE_SIM { global: " + " ".join(f"{n};" for n in extra) + " local: *; };\n"
    arguments.out.with_name(arguments.out.name + ".map").write_text(script)


if __name__ == "__main__":
    main()
