#!/usr/bin/env python3
"""Writes the many functions of a mathematics library out of its headers: what none of its hand-written files defines.

A function is written by the first rule of its library that fits its name; one without a rule is left to the not-supported stub.
Definitions repeat the header's own declarations, so the compiler checks them.
"""
import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from stub_library import implemented  # noqa: E402

# What a rule writes into the parameters it finds, by name; see body().
MAKE = "make"        # the first parameter is a new object's handle
DESTROY = "destroy"  # the first parameter dies
SET = "set"          # keep nothing, succeed
SIZE = "size"        # a workspace is asked for: answer with a plausible size
COMPUTE = "compute"  # work on the handle's stream

# What is computed, a row each: the functions by their names, and the C++ function that is given the same parameters but for the handle. The
# first row that fits counts.
BLAS = [
    (r"[SDCZ]scal|Csscal|Zdscal", "scal"), (r"ScalEx", "scal_ex"),
    (r"[SDCZ]axpy", "axpy"), (r"AxpyEx", "axpy_ex"),
    (r"[SDCZ]copy", "copy"), (r"CopyEx", "copy_ex"),
    (r"[SDCZ]swap", "swap"), (r"SwapEx", "swap_ex"),
    (r"[SD]dot|[CZ]dotu", "dot"), (r"[CZ]dotc", "dotc"), (r"DotEx", "dot_ex"), (r"DotcEx", "dotc_ex"),
    (r"[SD]nrm2|Scnrm2|Dznrm2", "nrm2"), (r"Nrm2Ex", "nrm2_ex"),
    (r"[SD]asum|Scasum|Dzasum", "asum"), (r"AsumEx", "asum_ex"),
    (r"I[sdcz]amax", "amax"), (r"IamaxEx", "amax_ex"), (r"I[sdcz]amin", "amin"), (r"IaminEx", "amin_ex"),
    (r"[SDCZ]rot|Csrot|Zdrot", "rot"), (r"RotEx", "rot_ex"),
    (r"[SDCZ]rotg", "rotg"), (r"[SD]rotm", "rotm"), (r"[SD]rotmg", "rotmg"),
    (r"[SDCZ]gemvBatched|(HSH|HSS|TST|TSS)gemvBatched", "gemv_batched"),
    (r"[SDCZ]gemvStridedBatched|(HSH|HSS|TST|TSS)gemvStridedBatched", "gemv_strided"),
    *((rf"[SDCZ]{name}", name) for name in ("gemv gbmv trmv trsv tpmv tpsv tbmv tbsv symv syr syr2 symm syrk syr2k syrkx trmm trsm geam dgmm "
                                            "tpttr trttp").split()),
    *((rf"[SD]{name}", name) for name in "spmv sbmv spr spr2".split()),
    *((rf"[CZ]{name}", name) for name in "hemv hpmv hbmv her her2 hpr hpr2 hemm herk her2k herkx gerc".split()),
    (r"[SD]ger|[CZ]geru", "ger"),
    (r"[SDCZH]gemm|[CZ]gemm3m", "gemm"),
    (r"[SDCZH]gemmBatched|[CZ]gemm3mBatched", "gemm_batched"),
    (r"[SDCZH]gemmStridedBatched|[CZ]gemm3mStridedBatched", "gemm_strided"),
    (r"SgemmEx|CgemmEx|Cgemm3mEx", "gemm_of_types"),
    (r"GemmEx", "gemm_ex"), (r"GemmBatchedEx", "gemm_batched_ex"), (r"GemmStridedBatchedEx", "gemm_strided_ex"),
    (r"[SDCZ]trsmBatched", "trsm_batched"),
    *((rf"[SDCZ]{name}Batched", f"{name}_batched") for name in "getrf getri getrs matinv geqrf gels".split()),
]

SOLVER = [
    *((rf"[SDCZ]{name}", name) for name in "getrf getrs potrf potrs potri geqrf gesvd gesvdj".split()),
    (r"[SDCZ]potrfBatched", "potrf_batched"), (r"[SDCZ]potrsBatched", "potrs_batched"),
    (r"[SD]orgqr|[CZ]ungqr", "orgqr"), (r"[SD]ormqr|[CZ]unmqr", "ormqr"),
    (r"[SD]syevd|[CZ]heevd", "syevd"), (r"[SD]syevj|[CZ]heevj", "syevj"),
    *((rf"X{name}", f"{name}_x") for name in "getrf getrs potrf potrs geqrf syevd gesvd".split()),
]

SPARSE = [
    (r"SpMV", "spmv"), (r"SpMM", "spmm"), (r"SpSV_solve", "spsv"), (r"SpSM_solve", "spsm"), (r"[SDCZ]csrilu02", "csrilu02"),
    (r"SpM[VM]_preprocess|SpS[VM]_analysis|[SDCZ]csrilu02_analysis", "preprocess"),
]

LIBRARIES = {
    "cublas": {
        "headers": ["cublas_v2.h", "cublasXt.h"],
        "parse": ["cublas_api.h", "cublasXt.h"],
        "status": "cublasStatus_t",
        "ok": "CUBLAS_STATUS_SUCCESS", "dead": "CUBLAS_STATUS_NOT_INITIALIZED", "failed": "CUBLAS_STATUS_EXECUTION_FAILED",
        "computed": ("simulate/cublas/computed.h", "devtrace::simulate::cublas", [(rf"cublas(Xt)?({names})(_v2)?(_64)?", name) for names, name in BLAS]),
        "by_handle": True,  # work is done on the device of the handle, whichever is current
        "rules": [(r"cublas\w*(Get|Set|Logger|Create|Destroy|Alloc|Free|Init|Shutdown)\w*|cublasXt(DeviceSelect|MaxBoards|[SDCZ]spmm)", None),
                  (r"cublas[A-Z]\w*", COMPUTE)],
    },
    "cublasLt": {
        "headers": ["cublasLt.h"],
        "status": "cublasStatus_t",
        "ok": "CUBLAS_STATUS_SUCCESS", "dead": "CUBLAS_STATUS_NOT_INITIALIZED", "failed": "CUBLAS_STATUS_EXECUTION_FAILED",
        "rules": [],
    },
    "cusolver": {
        "headers": ["cusolverDn.h", "cusolverSp.h", "cusolverRf.h"],
        "computed": ("simulate/cusolver/computed.h", "devtrace::simulate::cusolver", [(rf"cusolverDn({names})", name) for names, name in SOLVER]),
        "status": "cusolverStatus_t",
        "ok": "CUSOLVER_STATUS_SUCCESS", "dead": "CUSOLVER_STATUS_NOT_INITIALIZED", "failed": "CUSOLVER_STATUS_EXECUTION_FAILED",
        "rules": [
            (r"cusolver(Dn|Sp)(Create|CreateParams|Create\w+Info)", MAKE),
            (r"cusolver(Dn|Sp)(Destroy|DestroyParams|Destroy\w+Info)", DESTROY),
            (r"cusolver\w+_bufferSize\w*", SIZE),
            (r"cusolverDnX(gesvdj|syevj)Set\w+", SET),
            (r"cusolverDnSet\w+", SET),
            (r"cusolver\w+Get\w+", None),
            (r"cusolverDn(S|D|C|Z|SS|DD|CC|ZZ|DS|ZC|X)[a-z]\w*", COMPUTE),
        ],
    },
    "cusparse": {
        "headers": ["cusparse.h"],
        "computed": ("simulate/cusparse/computed.h", "devtrace::simulate::cusparse", [(rf"cusparse({names})", name) for names, name in SPARSE]),
        "status": "cusparseStatus_t",
        "ok": "CUSPARSE_STATUS_SUCCESS", "dead": "CUSPARSE_STATUS_NOT_INITIALIZED", "failed": "CUSPARSE_STATUS_EXECUTION_FAILED",
        "rules": [
            (r"cusparse(Logger)\w*", None),
            (r"cusparse(CreateIdentityPermutation)", COMPUTE),
            (r"cusparse(Create\w*|\w+_createDescr)", MAKE),
            (r"cusparse(Destroy\w*|\w+_destroyDescr)", DESTROY),
            (r"cusparse\w+_(bufferSize|workEstimation|bufferSizeExt)\w*", SIZE),
            (r"cusparse\w*Set\w+", SET),
            (r"cusparse\w*Get\w+", None),
            (r"cusparse[A-Z]\w*", COMPUTE),
        ],
    },
    "cufft": {"headers": ["cufftXt.h"], "status": "cufftResult", "ok": "CUFFT_SUCCESS", "dead": "CUFFT_INVALID_PLAN",
              "failed": "CUFFT_EXEC_FAILED", "rules": []},
}

INFO = re.compile(r"^(info|devInfo|d_info|infoArray|dinfo|devInfoArray|hinfo)$")
COUNT = re.compile(r"^(batchSize|batchCount)$")
SIZE_NAMES = re.compile(
    r"(?i)^(lwork|l_?work|p?bufferSize\w*|workspaceInBytes\w*|size\w*InBytes|bufferSize\d?|internalDataInBytes|pBuffer\w*Bytes|size|niters)$"
)


def declarations(text, status):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    text = re.sub(r"^\s*#[^\n]*(\\\n[^\n]*)*", "", text, flags=re.M)
    for match in re.finditer(rf"\b{status}\s+[A-Z]\w*\s+(\w+)\s*\(([^;{{}}]*?)\)\s*;", text, flags=re.S):
        parameters = []
        for part in match.group(2).split(","):
            part = re.sub(r"\s+", " ", part.split("=")[0]).strip()
            if part and part != "void":
                parameters.append(part)
        yield match.group(1), parameters


def name_of(parameter):
    return re.search(r"(\w+)\s*(\[\w*\])*$", parameter).group(1)


def is_written(parameter):
    """Whether the function writes to what this pointer points to; an array of pointers it only reads."""
    return "const" not in parameter and parameter.count("*") + parameter.count("[") == 1 and not INFO.match(name_of(parameter))


def leads_on(parameter):
    """Whether it points to pointers to what the function writes to."""
    return "const" not in parameter.split("*")[0] and parameter.count("*") + parameter.count("[") == 2


def is_pointer(parameter):
    return re.search(r"[*\]]", parameter)


def memory_of(function, parameters, by_handle):
    """Lines that gather what the function works on, and launch it. Outside of the handle's context nothing is asked of what it reads."""
    pointers = [p for p in parameters[1:] if is_pointer(p)]
    written, leading_on = [p for p in pointers if is_written(p)], [p for p in pointers if leads_on(p)]
    read = [p for p in pointers if p not in written and p not in leading_on] if by_handle else []
    lines = [f"  lib::Memory memory{{{', '.join('{' + ', '.join(map(name_of, part)) + '}' for part in (read, leading_on, written))}}};"]
    lines += [f"  memory.describe({name_of(p)});" for p in parameters[1:] if re.match(r"cusparse(Sp|Dn)(Vec|Mat)Descr_t \w+$", p)]
    return lines, f'{"lib::launch" if by_handle else "lib::launch_in_current"}("{function}", {name_of(parameters[0])}, memory)'


def computed(library, function):
    """The C++ function that computes it; none."""
    _, namespace, rows = library.get("computed", (None, "", []))
    return next((f"{namespace}::{name}" for pattern, name in rows if re.fullmatch(pattern, function)), None)


def body(library, function, rule, parameters):
    ok, dead, failed = library["ok"], library["dead"], library["failed"]
    names = [name_of(p) for p in parameters]
    described = ", ".join(name_of(p) for p in parameters[1:] if re.match(r"(const )?void *\* *\w+$", p))
    lines = []
    if rule == MAKE:
        lines.append(f"  *{names[0]} = reinterpret_cast<std::remove_pointer_t<decltype({names[0]})>>(lib::make());")
        if described:
            lines.append(f"  if (*{names[0]}) lib::object(*{names[0]})->describe({{{described}}});")
        lines.append(f"  return *{names[0]} ? {ok} : {dead};")
    elif rule == DESTROY:
        lines.append(f"  return lib::destroy({names[0]}) ? {ok} : {dead};")
    elif rule == SET and described:
        lines.append(f"  if (!lib::alive({names[0]})) return {dead};")
        lines.append(f"  lib::object({names[0]})->describe({{{described}}});")
        lines.append(f"  return {ok};")
    elif rule == SET:
        lines.append(f"  return lib::alive({names[0]}) ? {ok} : {dead};")
    else:
        if names and re.search(r"[hH]andle", parameters[0]):
            lines.append(f"  if (!lib::alive({names[0]})) return {dead};")
            if rule == COMPUTE:
                gathered, call = memory_of(function, parameters, library.get("by_handle"))
                lines += gathered
                if computes := computed(library, function):
                    call = f'{computes.rpartition("::")[0]}::Call{{"{function}", {names[0]}, std::move(memory){", true" if "Xt" in function else ""}}}'
                    return "\n".join([*lines, f"  return {computes}({', '.join([call, *names[1:]])});"])
                lines.append(f"  if ({call}) return {failed};")
        if rule in (SIZE, COMPUTE):
            for parameter, name in zip(parameters, names):
                if "*" in parameter and "const" not in parameter and re.match(r"(int|size_t|int64_t)\b", parameter) and SIZE_NAMES.match(name):
                    lines.append(f"  if ({name}) *{name} = kWorkspace;")
        if rule == COMPUTE:
            count = next((n for n in names if COUNT.match(n)), "1")
            for parameter, name in zip(parameters, names):
                if name == "position":  # of a zero pivot: none
                    lines.append("  *position = -1;")
                elif name == "nnzTotalDevHostPtr":
                    lines.append(f"  *{name} = 0;")
                elif INFO.match(name) and re.match(r"int\s*\*", parameter):
                    # Factorisations write one code a matrix; gels writes a host code and an array of device codes; getrs one host code.
                    single = name == "info" and ("Array" in "".join(names) or "getrs" in function)
                    many = "1" if single else count
                    lines.append(f"  lib::succeed({name}, {many});")
        lines.append(f"  return {ok};")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("--include", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--objects", nargs="*", default=[])
    options = parser.parse_args()
    library = LIBRARIES[options.library]
    done = implemented(options.objects)
    out = ["// Generated by simulate/tools/library.py.", '#include "simulate/common/library.h"', "#pragma GCC visibility push(default)"]
    out += [f"#include <{h}>" for h in library["headers"]]
    out += ["#pragma GCC visibility pop", "#include <type_traits>", "#include <utility>"]
    out += [f'#include "{library["computed"][0]}"'] if "computed" in library else []
    out += [ '#pragma GCC diagnostic ignored "-Wunused-parameter"',
            '#pragma GCC diagnostic ignored "-Wdeprecated-declarations"', "namespace lib = devtrace::simulate::library;",
            "// Elements or bytes, as the library counts: enough to be allocated, too small to matter.",
            "[[maybe_unused]] static constexpr int kWorkspace = 1024;", 'extern "C" {']
    seen = set()
    for header in library.get("parse", library["headers"]):
        for function, parameters in declarations((options.include / header).read_text(), library["status"]):
            if function in done or function in seen:
                continue
            rule = next((r for pattern, r in library["rules"] if re.fullmatch(pattern, function)), None)
            if rule is None:
                continue
            seen.add(function)
            out.append(f"{library['status']} {function}({', '.join(parameters)}) {{\n{body(library, function, rule, parameters)}\n}}")
    out.append("}")
    options.out.write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
