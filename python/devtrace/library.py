"""libdevtrace.so in this process, by its C interface (interpose/devtrace.h)."""

from __future__ import annotations

import ctypes

from .installation import DevtraceError, library

CHANGED, UNCHANGED, BUSY, FAILED = range(4)  # what devtrace_attach and devtrace_detach answer

_loaded: ctypes.CDLL | None = None


def _typed(handle: ctypes.CDLL) -> ctypes.CDLL:
    handle.devtrace_version.restype = ctypes.c_char_p
    handle.devtrace_log_path.restype = ctypes.c_char_p
    for name in ("devtrace_finding_count", "devtrace_fault_count", "devtrace_occurrences"):
        getattr(handle, name).restype = ctypes.c_uint64
    handle.devtrace_occurrences.argtypes = [ctypes.c_uint64]
    handle.devtrace_attach.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    handle.devtrace_detach.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    handle.devtrace_where.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]
    handle.devtrace_where.restype = ctypes.c_size_t
    return handle


def loaded() -> ctypes.CDLL | None:
    """The library, if it is in this process: preloaded, or opened by `load`."""
    global _loaded
    if _loaded is None:
        process = ctypes.CDLL(None)
        if hasattr(process, "devtrace_attach"):
            _loaded = _typed(process)
    return _loaded


def load() -> ctypes.CDLL:
    """The library, which is opened if it is not in this process. Nothing is watched by that alone."""
    global _loaded
    process = loaded()
    if process is None:
        try:
            process = _loaded = _typed(ctypes.CDLL(library()))
        except (OSError, AttributeError) as error:
            raise DevtraceError(f"devtrace: the library cannot be opened in this process: {error}") from None
    return process
