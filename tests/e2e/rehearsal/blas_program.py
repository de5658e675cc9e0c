"""cuBLAS's functions set against numpy: says a line for each that differs. Run by test_computed_libraries.py."""

import ctypes

import numpy as np
from device_arrays import LOWER, TYPES, UPPER, Array, C, Library, N, T, check, numbers, op, random, runtime, table

blas = Library("libcublas.so.13")
handle = blas.handle("cublasCreate_v2")
LEFT, RIGHT = 0, 1


def part(fill, m, unit=False):
    found = np.tril(m) if fill == LOWER else np.triu(m)
    if unit:
        np.fill_diagonal(found, 1)
    return found


def spread(values, step):
    """As a vector of that step lies in memory."""
    held = np.full((len(values) - 1) * abs(step) + 1, 99, values.dtype)
    held[:: abs(step)] = values if step > 0 else values[::-1]
    return held


def level_1(letter, kind):
    n, real = 9, np.zeros(1, kind).real.dtype
    small = letter.lower()
    alpha, x, y = kind(1.5), numbers(kind, n), numbers(kind, n)
    for step in (1, 3, -2):
        dx, dy = Array(spread(x, step)), Array(spread(y, 2))
        blas.status(f"cublas{letter}axpy_v2", handle, n, alpha, dx, step, dy, 2)
        check(f"{letter}axpy, step {step}", dy.get(), np.where(spread(y, 2) == 99, 99, spread(y + alpha * x, 2)))
    dx, dy = Array(x), Array(y)
    getattr(blas, f"cublas{letter}scal_v2")(handle, n, alpha, dx, 1)
    check(f"{letter}scal", dx.get(), alpha * x)
    getattr(blas, f"cublas{letter}swap_v2")(handle, n, dx, 1, dy, 1)
    check(f"{letter}swap", dy.get(), alpha * x)
    getattr(blas, f"cublas{letter}copy_v2")(handle, n, dy, 1, dx, 1)
    check(f"{letter}copy", dx.get(), alpha * x)
    dx, dy, found = Array(x), Array(y), np.zeros(1, kind)
    for name, expected in ({"dot": x @ y} if letter in "SD" else {"dotu": x @ y, "dotc": x.conj() @ y}).items():
        getattr(blas, f"cublas{letter}{name}_v2")(handle, n, dx, 1, dy, 1, found)
        check(f"{letter}{name}", found[0], expected)
    norm, index = np.zeros(1, real), np.zeros(1, np.int32)
    prefix = {"S": "S", "D": "D", "C": "Sc", "Z": "Dz"}[letter]
    getattr(blas, f"cublas{prefix}nrm2_v2")(handle, n, dx, 1, norm)
    check(f"{letter}nrm2", norm[0], np.linalg.norm(x))
    magnitudes = abs(x.real) + abs(x.imag)
    getattr(blas, f"cublas{prefix}asum_v2")(handle, n, dx, 1, norm)
    check(f"{letter}asum", norm[0], magnitudes.sum())
    getattr(blas, f"cublasI{small}amax_v2")(handle, n, dx, 1, index)
    check(f"{letter}amax", index[0], 1 + magnitudes.argmax())
    getattr(blas, f"cublasI{small}amin_v2")(handle, n, dx, 1, index)
    check(f"{letter}amin", index[0], 1 + magnitudes.argmin())
    c, s = real.type(0.6), kind(0.8)
    getattr(blas, f"cublas{letter}rot_v2")(handle, n, dx, 1, dy, 1, c, s)
    check(f"{letter}rot, x", dx.get(), c * x + s * y)
    check(f"{letter}rot, y", dy.get(), c * y - np.conj(s) * x)
    a, b, c, s = numbers(kind, 1), numbers(kind, 1), np.zeros(1, real), np.zeros(1, kind)
    first, second = a[0], b[0]
    getattr(blas, f"cublas{letter}rotg_v2")(handle, a, b, c, s)
    check(f"{letter}rotg", [c[0] * first + s[0] * second, c[0] * second - np.conj(s[0]) * first, c[0] ** 2 + abs(s[0]) ** 2], [a[0], 0, 1])
    if letter in "SD":
        given = [real.type(v) for v in (1.5, 0.7, 2.0, 3.0)]
        d1, d2, x1, y1 = (np.array([v]) for v in given)
        five = np.zeros(5, real)
        getattr(blas, f"cublas{letter}rotmg_v2")(handle, d1, d2, x1, y1, five)
        flag, h11, h21, h12, h22 = five
        h = np.array({-1: [[h11, h12], [h21, h22]], 0: [[1, h12], [h21, 1]], 1: [[h11, 1], [-1, h22]]}[int(flag)])
        check(f"{letter}rotmg", h @ [given[2], given[3]], [x1[0], 0])
        check(f"{letter}rotmg, norm", d1[0] * x1[0] ** 2, given[0] * given[2] ** 2 + given[1] * given[3] ** 2)
        dx, dy = Array(x), Array(y)
        getattr(blas, f"cublas{letter}rotm_v2")(handle, n, dx, 1, dy, 1, five)
        check(f"{letter}rotm", [dx.get(), dy.get()], h @ [x, y])


def in_band(m, below, above):
    """LAPACK's band storage."""
    rows, columns = m.shape
    held = np.zeros((below + above + 1, columns), m.dtype, order="F")
    for j in range(columns):
        for i in range(max(0, j - above), min(rows, j + below + 1)):
            held[above + i - j, j] = m[i, j]
    return held


def packed(fill, m):
    return np.concatenate([m[j:, j] if fill == LOWER else m[: j + 1, j] for j in range(len(m))])


def level_2(letter, kind):
    m, n, k = 5, 4, 2
    a, alpha, beta = numbers(kind, m, n), numbers(kind, 1)[0], numbers(kind, 1)[0]
    for which in (N, T, C):
        x, y = numbers(kind, n if which == N else m), numbers(kind, m if which == N else n)
        dx, dy = Array(spread(x, -1)), Array(y)
        getattr(blas, f"cublas{letter}gemv_v2")(handle, which, m, n, alpha, Array(a), m, dx, -1, beta, dy, 1)
        check(f"{letter}gemv {which}", dy.get(), alpha * op(which, a) @ x + beta * y)
        dy = Array(y)
        band = np.triu(np.tril(a, 2), -1)
        getattr(blas, f"cublas{letter}gbmv_v2")(handle, which, m, n, 1, 2, alpha, Array(in_band(band, 1, 2)), 4, Array(x), 1, beta, dy, 1)
        check(f"{letter}gbmv {which}", dy.get(), alpha * op(which, band) @ x + beta * y)
    for name, expected in ({"ger": np.outer} if letter in "SD" else {"geru": np.outer, "gerc": lambda x, y: np.outer(x, y.conj())}).items():
        x, y, da = numbers(kind, m), numbers(kind, n), Array(a)
        getattr(blas, f"cublas{letter}{name}_v2")(handle, m, n, alpha, Array(x), 1, Array(y), 1, da, m)
        check(f"{letter}{name}", da.get(), a + alpha * expected(x, y))
    square, x, y = numbers(kind, n, n) + n * np.eye(n, dtype=kind), numbers(kind, n), numbers(kind, n)
    for fill in (LOWER, UPPER):
        for which in (N, T, C):
            for unit in (0, 1):
                whole = part(fill, square, unit)
                bounded = part(fill, np.triu(np.tril(square, k), -k), unit)
                for form, matrix, given in (("tr", whole, [Array(square), n]), ("tp", whole, [Array(packed(fill, square))]), ("tb", bounded, None)):
                    if given is None:
                        given = [k, Array(in_band(bounded if not unit else part(fill, np.triu(np.tril(square, k), -k)), k if fill == LOWER else 0, 0 if fill == LOWER else k)), k + 1]
                    dx = Array(x)
                    getattr(blas, f"cublas{letter}{form}mv_v2")(handle, fill, which, unit, n, *given, dx, 1)
                    check(f"{letter}{form}mv {fill} {which} {unit}", dx.get(), op(which, matrix) @ x)
                    getattr(blas, f"cublas{letter}{form}sv_v2")(handle, fill, which, unit, n, *given, dx, 1)
                    check(f"{letter}{form}sv {fill} {which} {unit}", dx.get(), x, 1e-4)
        for hermitian in (False, True) if letter in "CZ" else (False,):
            flip = (lambda v: v.conj().T) if hermitian else (lambda v: v.T)
            stored = part(fill, square)
            if hermitian:
                np.fill_diagonal(stored, stored.diagonal().real)
            whole = stored + flip(stored) - np.diag(stored.diagonal())
            h = "h" if hermitian else "s"
            for form, given in {"y" if h == "s" else "e": [Array(square), n], "p": [Array(packed(fill, square))]}.items():
                if letter in "CZ" and form == "p" and not hermitian:
                    continue
                dy = Array(y)
                getattr(blas, f"cublas{letter}{h}{form}mv_v2")(handle, fill, n, alpha, *given, Array(x), 1, beta, dy, 1)
                check(f"{letter}{h}{form}mv {fill}", dy.get(), alpha * whole @ x + beta * y)
                by = alpha.real if hermitian else alpha
                da = Array(square) if form != "p" else Array(packed(fill, square))
                rest = [da, n] if form != "p" else [da]
                getattr(blas, f"cublas{letter}{h}{form}r_v2")(handle, fill, n, by, Array(x), 1, *rest)
                expected = whole + by * np.outer(x, x.conj() if hermitian else x)
                outside = square - part(fill, square)
                check(f"{letter}{h}{form}r {fill}", da.get(), part(fill, expected) + outside if form != "p" else packed(fill, expected))
                da = Array(square) if form != "p" else Array(packed(fill, square))
                rest = [da, n] if form != "p" else [da]
                getattr(blas, f"cublas{letter}{h}{form}r2_v2")(handle, fill, n, alpha, Array(x), 1, Array(y), 1, *rest)
                outer = alpha * np.outer(x, y.conj() if hermitian else y)
                expected = whole + outer + flip(outer)
                check(f"{letter}{h}{form}r2 {fill}", da.get(), part(fill, expected) + outside if form != "p" else packed(fill, expected))


def level_3(letter, kind):
    m, n, k, wide = 5, 4, 3, 7
    alpha, beta = numbers(kind, 1)[0], numbers(kind, 1)[0]
    for on_a in (N, T, C):
        for on_b in (N, T, C):
            a, b, c = (numbers(kind, wide, 6) for _ in range(3))
            left, right = a[:m, :k] if on_a == N else a[:k, :m], b[:k, :n] if on_b == N else b[:n, :k]
            dc, expected = Array(c), c.copy()
            expected[:m, :n] = alpha * op(on_a, left) @ op(on_b, right) + beta * c[:m, :n]
            getattr(blas, f"cublas{letter}gemm_v2")(handle, on_a, on_b, m, n, k, alpha, Array(a), wide, Array(b), wide, beta, dc, wide)
            check(f"{letter}gemm {on_a} {on_b}", dc.get(), expected)
    left, right = [numbers(kind, m, k) for _ in range(3)], [numbers(kind, k, n) for _ in range(3)]
    results = [Array(np.full((m, n), np.nan, kind)) for _ in range(3)]
    getattr(blas, f"cublas{letter}gemmBatched")(handle, N, N, m, n, k, alpha, table(map(Array, left)), m, table(map(Array, right)), k, kind(0), table(results), m, 3)
    for i in range(3):
        check(f"{letter}gemmBatched {i}", results[i].get(), alpha * left[i] @ right[i])
    dc = Array(np.zeros((m, n * 3), kind))
    wide_ints = [ctypes.c_longlong(v) for v in (m * k, k * n, m * n)]
    getattr(blas, f"cublas{letter}gemmStridedBatched")(handle, N, N, m, n, k, alpha, Array(np.hstack(left)), m, wide_ints[0], Array(np.hstack(right)), k, wide_ints[1], kind(0), dc, m, wide_ints[2], 3)
    check(f"{letter}gemmStridedBatched", dc.get(), np.hstack([alpha * left[i] @ right[i] for i in range(3)]))
    for fill in (LOWER, UPPER):
        for which in (N, C if letter in "CZ" else T):
            a, b = (numbers(kind, n, k) if which == N else numbers(kind, k, n) for _ in range(2))
            c = numbers(kind, n, n)
            c += c.conj().T
            for name, real in (("syrk", False),) + ((("herk", True),) if letter in "CZ" else ()):
                if name == "syrk" and which == C:
                    continue
                by, keep = (alpha.real, beta.real) if real else (alpha, beta)
                dc = Array(c)
                getattr(blas, f"cublas{letter}{name}_v2")(handle, fill, which, n, k, by, Array(a), a.shape[0], keep, dc, n)
                x = op(which, a)
                check(f"{letter}{name} {fill} {which}", part(fill, dc.get()), part(fill, by * x @ (x.conj().T if real else x.T) + keep * c))
                twice, dc = name.replace("rk", "r2k"), Array(c)
                getattr(blas, f"cublas{letter}{twice}_v2")(handle, fill, which, n, k, alpha, Array(a), a.shape[0], Array(b), b.shape[0], keep, dc, n)
                y = op(which, b)
                product = alpha * x @ (y.conj().T if real else y.T)
                check(f"{letter}{twice} {fill} {which}", part(fill, dc.get()), part(fill, product + (product.conj().T if real else product.T) + keep * c))
        for side in (LEFT, RIGHT):
            order = m if side == LEFT else n
            a, b, c = numbers(kind, order, order) + order * np.eye(order, dtype=kind), numbers(kind, m, n), numbers(kind, m, n)
            times = (lambda p, q: p @ q) if side == LEFT else (lambda p, q: q @ p)
            whole = part(fill, a) + part(fill, a).T - np.diag(a.diagonal())
            dc = Array(c)
            getattr(blas, f"cublas{letter}symm_v2")(handle, side, fill, m, n, alpha, Array(a), order, Array(b), m, beta, dc, m)
            check(f"{letter}symm {side} {fill}", dc.get(), alpha * times(whole, b) + beta * c)
            for which in (N, T, C):
                triangle, db = op(which, part(fill, a)), Array(b)
                getattr(blas, f"cublas{letter}trmm_v2")(handle, side, fill, which, 0, m, n, alpha, Array(a), order, Array(b), m, dc, m)
                check(f"{letter}trmm {side} {fill} {which}", dc.get(), alpha * times(triangle, b))
                getattr(blas, f"cublas{letter}trsm_v2")(handle, side, fill, which, 0, m, n, alpha, Array(a), order, db, m)
                check(f"{letter}trsm {side} {fill} {which}", times(triangle, db.get()), alpha * b, 1e-4)
    a, b, x, dc = numbers(kind, m, n), numbers(kind, n, m), numbers(kind, m), Array(np.zeros((m, n), kind))
    getattr(blas, f"cublas{letter}geam")(handle, N, T, m, n, alpha, Array(a), m, beta, Array(b), n, dc, m)
    check(f"{letter}geam", dc.get(), alpha * a + beta * b.T)
    getattr(blas, f"cublas{letter}dgmm")(handle, LEFT, m, n, Array(a), m, Array(x), 1, dc, m)
    check(f"{letter}dgmm", dc.get(), np.diag(x) @ a)


def factors(letter, kind):
    n, count = 5, 3
    matrices = [numbers(kind, n, n) for _ in range(count)]
    matrices[1][:, 2] = 0
    places, pivots, info = [Array(one) for one in matrices], Array(np.zeros((n, count), np.int32)), Array(np.zeros(count, np.int32))
    getattr(blas, f"cublas{letter}getrfBatched")(handle, n, table(places), n, pivots, info, count)
    check(f"{letter}getrfBatched, info", info.get(), [0, 3, 0])
    for i in (0, 2):
        lu, rows = places[i].get(), np.arange(n)
        for step, other in enumerate(pivots.get()[:, i] - 1):
            rows[[step, other]] = rows[[other, step]]
        check(f"{letter}getrfBatched {i}", (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu), matrices[i][rows], 1e-4)
    good = [places[0], places[2]]
    pivots = Array(pivots.get()[:, [0, 2]])
    for which in (N, T, C):
        b, host = [numbers(kind, n, 2) for _ in good], np.full(1, 7, np.int32)
        x = [Array(one) for one in b]
        getattr(blas, f"cublas{letter}getrsBatched")(handle, which, n, 2, table(good), n, pivots, table(x), n, host, 2)
        for i, matrix in enumerate((matrices[0], matrices[2])):
            check(f"{letter}getrsBatched {which} {i}", op(which, matrix) @ x[i].get(), b[i], 1e-3)
        check(f"{letter}getrsBatched, info", host, [0])
    inverses, info = [Array(np.zeros((n, n), kind)) for _ in good], Array(np.zeros(2, np.int32))
    getattr(blas, f"cublas{letter}getriBatched")(handle, n, table(good), n, pivots, table(inverses), n, info, 2)
    check(f"{letter}getriBatched", matrices[0] @ inverses[0].get(), np.eye(n), 1e-3)
    getattr(blas, f"cublas{letter}matinvBatched")(handle, n, table([Array(matrices[2])]), n, table(inverses), n, info, 1)
    check(f"{letter}matinvBatched", matrices[2] @ inverses[0].get(), np.eye(n), 1e-3)
    tall, b, host = numbers(kind, 7, 3), numbers(kind, 7, 2), np.full(1, 7, np.int32)
    a, tau = Array(tall), Array(np.zeros(3, kind))
    getattr(blas, f"cublas{letter}geqrfBatched")(handle, 7, 3, table([a]), 7, table([tau]), host, 1)
    r = np.triu(a.get()[:3])
    check(f"{letter}geqrfBatched", r.conj().T @ r, tall.conj().T @ tall, 1e-4)
    q, factor = np.eye(7, dtype=kind), tau.get()
    for i in range(3):
        v = np.concatenate([np.zeros(i), [1], a.get()[i + 1 :, i]])
        q = q @ (np.eye(7) - factor[i] * np.outer(v, v.conj()))
    check(f"{letter}geqrfBatched, Q", q[:, :3] @ r, tall, 1e-4)
    right, infos = Array(b), Array(np.ones(1, np.int32))
    getattr(blas, f"cublas{letter}gelsBatched")(handle, N, 7, 3, 2, table([Array(tall)]), 7, table([right]), 7, host, infos, 1)
    check(f"{letter}gelsBatched", right.get()[:3], np.linalg.lstsq(tall, b, rcond=None)[0], 1e-3)


def types():
    """Halves and whole numbers, and scalars and results in memory of the device."""
    R_32F, R_16F, R_8I, R_32I = 0, 2, 3, 10
    COMPUTE_32F, COMPUTE_32I = 68, 72
    a, b = numbers(np.float16, 4, 3), numbers(np.float16, 3, 5)
    for out, kind in ((R_16F, np.float16), (R_32F, np.float32)):
        c = Array(np.zeros((4, 5), kind))
        blas.cublasGemmEx(handle, N, N, 4, 5, 3, np.float32(2), Array(a), R_16F, 4, Array(b), R_16F, 3, np.float32(0), c, out, 4, COMPUTE_32F, -1)
        check(f"GemmEx to {kind}", c.get(), 2 * a.astype(np.float32) @ b.astype(np.float32), 3e-3)
    a, b = (random.integers(-128, 128, shape).astype(np.int8) for shape in ((4, 300), (300, 5)))
    c = Array(np.full((4, 5), 3, np.int32))
    blas.cublasGemmEx(handle, N, N, 4, 5, 300, np.array([1], np.int32), Array(a), R_8I, 4, Array(b), R_8I, 300, np.array([1], np.int32), c, R_32I, 4, COMPUTE_32I, -1)
    check("GemmEx of whole numbers", c.get(), a.astype(int) @ b.astype(int) + 3, 0)
    blas.cublasSetPointerMode_v2(handle, 1)
    x, found, alpha = Array(np.arange(4, dtype=np.float32)), Array(np.zeros(1, np.float32)), Array(np.full(1, 3, np.float32))
    blas.cublasSscal_v2(handle, 4, alpha, x, 1)
    blas.cublasSdot_v2(handle, 4, x, 1, x, 1, found)
    check("dot on the device", found.get(), [126])
    blas.cublasSetPointerMode_v2(handle, 0)


def copies():
    m = np.arange(24, dtype=np.float32).reshape(4, 6, order="F")
    d, back = Array(np.zeros((5, 6), np.float32)), np.zeros((4, 6), np.float32, order="F")
    blas.cublasSetMatrix(3, 6, 4, m, 4, d, 5)
    check("SetMatrix", d.get()[:3], m[:3])
    blas.cublasGetMatrix(3, 6, 4, d, 5, back, 4)
    check("GetMatrix", back[:3], m[:3])
    stream = ctypes.c_void_p()
    runtime.cudaStreamCreate(ctypes.byref(stream))
    v, d, back = np.arange(6, dtype=np.float64), Array(np.zeros(9)), np.zeros(6)
    blas.cublasSetVectorAsync(3, 8, v, 2, d, 4, stream)
    check("SetVector", d.get()[::4], v[::2])
    blas.cublasGetVectorAsync(3, 8, d, 4, back, 2, stream)
    runtime.cudaStreamSynchronize(stream)
    check("GetVector", back[::2], v[::2])
    check("SetMatrix, a short column", blas.status("cublasSetMatrix", 3, 6, 4, m, 2, d, 5), 7)


def several():
    """cublasXt: memory of the host and of any device."""
    xt = blas.handle("cublasXtCreate")
    check("Xt, before devices are chosen", blas.status("cublasXtSgemm", xt, N, N, *(ctypes.c_size_t(2),) * 3, np.float32(1), *[None, ctypes.c_size_t(2)] * 2, np.float32(0), None, ctypes.c_size_t(2)), 1)
    blas.cublasXtDeviceSelect(xt, 2, np.arange(2, dtype=np.int32))
    a, b, c = np.asfortranarray(numbers(np.float64, 40, 30)), np.asfortranarray(numbers(np.float64, 30, 20)), np.zeros((40, 20), order="F")
    runtime.cudaSetDevice(1)
    there = Array(b)
    runtime.cudaSetDevice(0)
    sizes = [ctypes.c_size_t(v) for v in (40, 20, 30)]
    blas.cublasXtDgemm(xt, N, N, *sizes, 2.0, a, sizes[0], there, sizes[2], 0.0, c, sizes[0])
    check("XtDgemm", c, 2 * a @ b)
    triangle = np.asfortranarray(np.tril(numbers(np.float64, 20, 20)) + 20 * np.eye(20))
    x = np.asfortranarray(numbers(np.float64, 20, 3))
    given = x.copy()
    blas.cublasXtDtrsm(xt, LEFT, LOWER, N, 0, sizes[1], ctypes.c_size_t(3), 1.0, triangle, sizes[1], x, sizes[1])
    check("XtDtrsm", triangle @ x, given)
    blas.cublasXtDestroy(xt)


for letter, kind in TYPES.items():
    for group in (level_1, level_2, level_3, factors):
        group(letter, kind)
types()
copies()
several()
print("done")
