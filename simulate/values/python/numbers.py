"""Numbers where an operator takes tensors: `x + 2` is add.Tensor with a tensor that PyTorch marks as a wrapped number.

The mark (it yields in type promotion) cannot be set from Python, but autograd saves such a tensor and gives it back. That is done in a
thread of its own: what the caller's thread has switched on or off (inference mode, hooks on saved tensors) does not matter there.
"""

import _thread

import torch

LARGEST_CACHE = 10_000
_made = {}


def _ask(value, box):
    leaf = torch.ones((), requires_grad=True, device="cpu")
    box.append((leaf * value).grad_fn._saved_other)


def _make(value, box, done):
    """Holds no tensor any more when it says that it is done. The program may end then, and a thread that lets go of a tensor while
    Python ends takes the whole process down. PyTorch gives up the GIL for it, where Python ends the thread."""
    try:
        _ask(value, box)
    finally:
        done.release()


def wrapped(value):
    key = (float, value.hex()) if type(value) is float else (type(value), repr(value))
    tensor = _made.get(key)
    if tensor is None:
        box, done = [], _thread.allocate_lock()
        done.acquire()
        _thread.start_new_thread(_make, (value, box, done))
        done.acquire()
        if len(_made) >= LARGEST_CACHE:
            _made.clear()
        tensor = _made[key] = box[0]
    return tensor
