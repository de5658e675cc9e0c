#!/usr/bin/env python3
"""Writes what makes a stand-in complete: a version script with every symbol of the real library, and a stub for each one that nobody implemented.

The real library's own dynamic symbol table is the list, read at build time, so a new wheel needs no edit here. The driver has no
library in any wheel; its names come from the headers (driver_symbols.py).
"""
import argparse
import pathlib
import re
import subprocess

SUFFIXES = ("_ptsz", "_ptds")


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


def stub(name, code):
    return (f"\t.globl {name}\n\t.type {name}, @function\n{name}:\n\tlea .Lname_{name}(%rip), %rdi\n\tlea .Lsaid_{name}(%rip), %rsi\n"
            f"\tmovl ${code}, %edx\n\tjmp devtrace_sim_unsupported\n\t.size {name}, . - {name}\n"
            f"\t.section .rodata\n.Lname_{name}: .asciz \"{name}\"\n\t.bss\n.Lsaid_{name}: .byte 0\n\t.text\n")


def jump(name, target):
    return f"\t.globl {name}\n\t.type {name}, @function\n{name}:\n\tjmp {target}\n\t.size {name}, . - {name}\n"


def jump_per_thread(name, target):
    return f"\t.globl {name}\n\t.type {name}, @function\n{name}:\n\tjmp *devtrace_per_thread_{target}(%rip)\n\t.size {name}, . - {name}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="stem of the files written: .stubs.S, .map, .missing")
    parser.add_argument("--real", help="the real library")
    parser.add_argument("--names", help="instead of --real: a file of 'name [same-ABI name]', one a line; with neither, what the objects define")
    parser.add_argument("--code", required=True, type=int, help="the API's not-supported code")
    parser.add_argument("--extra", nargs="*", default=[], help="symbols of our own to export")
    parser.add_argument("--alias", help="also export every symbol under this prefix: how our own libraries call it unseen by interposers")
    parser.add_argument("--per-thread", type=pathlib.Path, help="file for the functions that _ptsz symbols stand before (see common/per_thread.cpp)")
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
    lines = ["\t.text\n"]
    missing = []
    per_thread = set()
    for name in sorted(symbols):
        if name in done:
            continue
        base = next((name[: -len(s)] for s in SUFFIXES if name.endswith(s)), None)
        target = next((t for t in (base, same.get(name), same.get(base)) if t in done), None)
        if target and arguments.per_thread and name.endswith("_ptsz"):
            lines.append(jump_per_thread(name, target))
            per_thread.add(target)
        elif target:
            lines.append(jump(name, target))
        else:
            lines.append(stub(name, arguments.code))
            missing.append(name)
    if arguments.alias:
        lines += [jump(arguments.alias + name, name) for name in sorted(set(symbols) | ({"devtrace_simulation"} & done))]
    lines.append('\t.section .note.GNU-stack,"",@progbits\n')
    arguments.out.with_name(arguments.out.name + ".stubs.S").write_text("".join(lines))
    arguments.out.with_name(arguments.out.name + ".missing").write_text("\n".join(missing) + "\n")

    if arguments.per_thread:
        arguments.per_thread.write_text("".join(f"PER_THREAD({name})\n" for name in sorted(per_thread)))

    nodes = {}
    for name, version in symbols.items():
        nodes.setdefault(version, []).append(name)
    extra = [name for name in arguments.extra if re.fullmatch(r"[\w*]+", name)]
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
