"""cuSOLVER's dense functions and cuSPARSE's products set against numpy: says a line for each that differs. Run by test_computed_libraries.py."""

import ctypes

import numpy as np
from device_arrays import LOWER, TYPES, UPPER, Array, C, Library, N, T, check, numbers, op, random

solver, sparse = Library("libcusolver.so.12"), Library("libcusparse.so.12")
handle = solver.handle("cusolverDnCreate")
R_32F, R_64F, C_32F, C_64F = 0, 1, 4, 5


def one_int(value=7):
    return Array(np.full(1, value, np.int32))


def permuted(pivots, rows):
    order = np.arange(rows)
    for step, other in enumerate(pivots - 1):
        order[[step, other]] = order[[other, step]]
    return order


def dense(letter, kind):
    n, real = 6, np.zeros(1, kind).real.dtype
    work, info = Array(np.zeros(4096, kind)), one_int()
    a, b = numbers(kind, n, n), numbers(kind, n, 2)
    da, pivots = Array(a), Array(np.zeros(n, np.int32))
    getattr(solver, f"cusolverDn{letter}getrf")(handle, n, n, da, n, work, pivots, info)
    lu = da.get()
    check(f"{letter}getrf", (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu), a[permuted(pivots.get(), n)], 1e-4)
    check(f"{letter}getrf, info", info.get(), [0])
    for which in (N, T, C):
        x = Array(b)
        getattr(solver, f"cusolverDn{letter}getrs")(handle, which, n, 2, da, n, pivots, x, n, info)
        check(f"{letter}getrs {which}", op(which, a) @ x.get(), b, 1e-3)
    singular = a.copy()
    singular[:, 3] = 0
    getattr(solver, f"cusolverDn{letter}getrf")(handle, n, n, Array(singular), n, work, pivots, info)
    check(f"{letter}getrf, singular", info.get(), [4])
    positive = a @ a.conj().T + n * np.eye(n, dtype=kind)
    for fill in (LOWER, UPPER):
        da = Array(positive)
        getattr(solver, f"cusolverDn{letter}potrf")(handle, fill, n, da, n, work, 4096, info)
        factor = np.tril(da.get()) if fill == LOWER else np.triu(da.get()).conj().T
        check(f"{letter}potrf {fill}", factor @ factor.conj().T, positive, 1e-3)
        x = Array(b)
        getattr(solver, f"cusolverDn{letter}potrs")(handle, fill, n, 2, da, n, x, n, info)
        check(f"{letter}potrs {fill}", positive @ x.get(), b, 1e-3)
        getattr(solver, f"cusolverDn{letter}potri")(handle, fill, n, da, n, work, 4096, info)
        side = np.tril if fill == LOWER else np.triu
        check(f"{letter}potri {fill}", side(da.get()), side(np.linalg.inv(positive)), 1e-3)
    getattr(solver, f"cusolverDn{letter}potrf")(handle, LOWER, n, Array(np.diag([1, 1, -1, 1, 1, 1]).astype(kind)), n, work, 4096, info)
    check(f"{letter}potrf, not positive", info.get(), [3])
    tall, c = numbers(kind, 7, 3), numbers(kind, 7, 2)
    da, tau = Array(tall), Array(np.zeros(3, kind))
    getattr(solver, f"cusolverDn{letter}geqrf")(handle, 7, 3, da, 7, tau, work, 4096, info)
    r = np.triu(da.get()[:3])
    q = Array(da.get())
    o, kind_of_q = ("or", T) if letter in "SD" else ("un", C)
    getattr(solver, f"cusolverDn{letter}{o}gqr")(handle, 7, 3, 3, q, 7, tau, work, 4096, info)
    check(f"{letter}{o}gqr", q.get() @ r, tall, 1e-4)
    dc = Array(c)
    getattr(solver, f"cusolverDn{letter}{o}mqr")(handle, 0, kind_of_q, 7, 2, 3, da, 7, tau, dc, 7, work, 4096, info)
    check(f"{letter}{o}mqr", dc.get()[:3], q.get().conj().T @ c, 1e-4)
    hermitian, values = a + a.conj().T, Array(np.zeros(n, real))
    name = "syevd" if letter in "SD" else "heevd"
    for fill in (LOWER, UPPER):
        da = Array(np.tril(hermitian) if fill == LOWER else np.triu(hermitian))
        getattr(solver, f"cusolverDn{letter}{name}")(handle, 1, fill, n, da, n, values, work, 4096, info)
        check(f"{letter}{name} {fill}", values.get(), np.linalg.eigvalsh(hermitian), 1e-4)
        check(f"{letter}{name} {fill}, vectors", hermitian @ da.get(), da.get() * values.get(), 1e-3)
    values, u, v = Array(np.zeros(3, real)), Array(np.zeros((7, 7), kind)), Array(np.zeros((3, 3), kind))
    getattr(solver, f"cusolverDn{letter}gesvd")(handle, ord("A"), ord("A"), 7, 3, Array(tall), 7, values, u, 7, v, 3, work, 4096, None, info)
    check(f"{letter}gesvd", values.get(), np.linalg.svd(tall, compute_uv=False), 1e-4)
    check(f"{letter}gesvd, vectors", u.get()[:, :3] @ np.diag(values.get()) @ v.get(), tall, 1e-3)


def products(kind, code):
    matrix = numbers(kind, 5, 4) * (random.random((5, 4)) < 0.5)
    x, y, alpha, beta = numbers(kind, 4), numbers(kind, 5), kind(1.5), kind(0.5)
    at = sparse.handle("cusparseCreate")
    wide = ctypes.c_int64
    for base in (0, 1):
        lines, places = np.nonzero(matrix)
        offsets = np.concatenate([[0], np.cumsum((matrix != 0).sum(axis=1))])
        by_column = np.concatenate([[0], np.cumsum((matrix != 0).sum(axis=0))])
        transposed = matrix.T[np.nonzero(matrix.T)]
        count, ints = len(lines), lambda v: Array((v + base).astype(np.int32))  # noqa: B023
        stored = Array(matrix[lines, places])
        descriptors = {
            "Csr": sparse.handle("cusparseCreateCsr", wide(5), wide(4), wide(count), ints(offsets), ints(places), stored, 2, 2, base, code),
            "Csc": sparse.handle("cusparseCreateCsc", wide(5), wide(4), wide(count), ints(by_column), ints(np.nonzero(matrix.T)[1]), Array(transposed), 2, 2, base, code),
            "Coo": sparse.handle("cusparseCreateCoo", wide(5), wide(4), wide(count), ints(lines), ints(places), stored, 2, base, code),
        }
        for name, a in descriptors.items():
            for which in (N, T, C):
                given, before = (x, y) if which == N else (y, x)
                dx, dy = Array(given), Array(before)
                vx, vy = sparse.handle("cusparseCreateDnVec", wide(len(given)), dx, code), sparse.handle("cusparseCreateDnVec", wide(len(before)), dy, code)
                sparse.cusparseSpMV(at, which, alpha, a, vx, beta, vy, code, 0, None)
                check(f"SpMV {name} {base} {which} {kind}", dy.get(), alpha * op(which, matrix) @ given + beta * before)
            b = numbers(kind, 4, 3)
            for order, stride in ((1, 4), (2, 3)):
                held = b if order == 1 else np.ascontiguousarray(b).ravel()
                db, dc = Array(held), Array(np.zeros((5, 3) if order == 1 else 15, kind))
                mb = sparse.handle("cusparseCreateDnMat", wide(4), wide(3), wide(stride), db, code, order)
                mc = sparse.handle("cusparseCreateDnMat", wide(5), wide(3), wide(5 if order == 1 else 3), dc, code, order)
                sparse.cusparseSpMM(at, N, N, alpha, a, mb, kind(0), mc, code, 0, None)
                check(f"SpMM {name} {base} {order} {kind}", dc.get().reshape((5, 3)), alpha * matrix @ b)
    other = Array(np.arange(1, count + 1).astype(kind))
    sparse.cusparseSpMatSetValues(descriptors["Coo"], other)
    dx, dy = Array(x), Array(np.zeros(5, kind))
    vx, vy = sparse.handle("cusparseCreateDnVec", wide(4), dx, code), sparse.handle("cusparseCreateDnVec", wide(5), dy, code)
    sparse.cusparseSpMV(at, N, alpha, descriptors["Coo"], vx, kind(0), vy, code, 0, None)
    changed = np.zeros_like(matrix)
    changed[lines, places] = np.arange(1, count + 1)
    check("SpMV of other values", dy.get(), alpha * changed @ x)


def triangles(letter, kind, code):
    n, at, wide = 6, sparse.handle("cusparseCreate"), ctypes.c_int64
    matrix = numbers(kind, n, n) * (random.random((n, n)) < 0.6) + n * np.eye(n, dtype=kind)
    lines, places = np.nonzero(matrix)
    offsets = np.concatenate([[0], np.cumsum((matrix != 0).sum(axis=1))]).astype(np.int32)
    count, alpha, x = len(lines), kind(1.5), numbers(kind, n)
    line_ends, columns, values = Array(offsets), Array(places.astype(np.int32)), Array(matrix[lines, places])
    for fill in (LOWER, UPPER):
        for unit in (0, 1):
            a = sparse.handle("cusparseCreateCsr", wide(n), wide(n), wide(count), line_ends, columns, values, 2, 2, 0, code)
            for attribute, value in ((0, fill), (1, unit)):
                sparse.cusparseSpMatSetAttribute(a, attribute, np.array([value], np.int32), ctypes.c_size_t(4))
            whole = np.tril(matrix) if fill == LOWER else np.triu(matrix)
            if unit:
                np.fill_diagonal(whole, 1)
            for which in (N, T, C):
                dx, dy, plan = Array(x), Array(np.zeros(n, kind)), sparse.handle("cusparseSpSV_createDescr")
                vx, vy = sparse.handle("cusparseCreateDnVec", wide(n), dx, code), sparse.handle("cusparseCreateDnVec", wide(n), dy, code)
                sparse.cusparseSpSV_analysis(at, which, alpha, a, vx, vy, code, 0, plan, None)
                sparse.cusparseSpSV_solve(at, which, alpha, a, vx, vy, code, 0, plan)
                check(f"SpSV {fill} {unit} {which} {kind}", op(which, whole) @ dy.get(), alpha * x, 1e-3)
    form, info = sparse.handle("cusparseCreateMatDescr"), sparse.handle("cusparseCreateCsrilu02Info")
    getattr(sparse, f"cusparse{letter}csrilu02")(at, n, count, form, values, line_ends, columns, info, 0, None)
    made = np.zeros_like(matrix)
    made[lines, places] = values.get()
    product = (np.tril(made, -1) + np.eye(n)) @ np.triu(made)
    check(f"{letter}csrilu02", np.where(matrix != 0, product, 0), matrix, 1e-4)


for letter, kind in TYPES.items():
    dense(letter, kind)
for kind, code in ((np.float32, R_32F), (np.float64, R_64F), (np.complex64, C_32F), (np.complex128, C_64F)):
    products(kind, code)
for (letter, kind), code in zip(TYPES.items(), (R_32F, R_64F, C_32F, C_64F)):
    triangles(letter, kind, code)
print("done")
