"""Functions that are called by TVM's FFI and have their kernels as machine code: computed by their meaning, as FlashInfer's sampling."""

# What the library is that PyTorch does not know. It is imported where CUDA is in use already, and not by the main thread.
LOADED = """
import os, sys, threading
import torch

os.makedirs("tvm_ffi")
with open("tvm_ffi/module.py", "w") as file:
    file.write("class Module:\\n    get_function = lambda self, *name: lambda *arguments: None\\n    def __getattr__(self, name): return self.get_function(name)\\n")
sys.path.insert(0, os.getcwd())
logits = torch.tensor([[0.0, 3.0, 2.0, 1.0], [5.0, 5.0, 0.0, 6.0]], device="cuda")
probs = logits.softmax(-1)
def load():
    global module
    from tvm_ffi.module import Module
    module = Module()
thread = threading.Thread(target=load); thread.start(); thread.join()

def result(name, values, *rest):
    out = torch.full_like(values, -1.0)
    getattr(module, name)(values, out, *rest)
    return [[round(each, 3) for each in row] for row in out.tolist()]

def drawn(name, values, *rest, indices=None):
    seen = [set() for _ in range(2)]
    for seed in range(40):
        samples, valid = torch.full((2,), -1, dtype=torch.int32, device="cuda"), torch.zeros(2, dtype=torch.bool, device="cuda")
        outs = (samples,) if name == "sampling_from_logits" else (samples, valid)
        getattr(module, name)(values, *outs, indices, *rest, True, None, seed, None, 0)
        assert len(outs) == 1 or valid.all()
        for row, each in zip(seen, samples.tolist()): row.add(each)
    return [sorted(row) for row in seen]
"""
USED = """
print(result("top_k_mask_logits", logits, None, 2, None))
print(result("top_k_renorm_probs", probs, torch.tensor([1, 4], dtype=torch.int32, device="cuda"), 0, None)[0])
print(result("top_p_renorm_probs", probs, None, 0.7, True, None))
workspace, out = torch.empty(4, device="cuda"), torch.empty_like(logits)
module.softmax(workspace, logits, out, torch.tensor([1.0, 2.0], device="cuda"), 0.0, False)
print(torch.allclose(out, (logits / torch.tensor([[1.0], [2.0]], device="cuda")).softmax(-1)))
print(drawn("top_k_sampling_from_probs", probs, None, 2))
print(drawn("top_p_sampling_from_probs", probs, None, 0.7))
print(drawn("min_p_sampling_from_probs", probs, torch.tensor([0.9, 0.3], device="cuda"), 0.0))
print(drawn("top_k_top_p_sampling_from_probs", probs, None, 3, torch.tensor([0.5, 0.99], device="cuda"), 0.0))
print(drawn("sampling_from_probs", torch.eye(4, device="cuda"), indices=torch.tensor([3, 1], device="cuda")))
print(drawn("sampling_from_logits", logits * 100))
"""


def test_sampling_is_computed(rehearse):
    outcome = rehearse(LOADED + USED)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0] == "[[-inf, 3.0, 2.0, -inf], [5.0, 5.0, -inf, 6.0]]", "what equals the last that is kept is kept"
    assert lines[1:4] == ["[0.0, 1.0, 0.0, 0.0]", "[[0.0, 0.731, 0.269, 0.0], [0.212, 0.212, 0.0, 0.576]]", "True"], lines
    assert lines[4:] == ["[[1, 2], [0, 1, 3]]", "[[1, 2], [0, 1, 3]]", "[[1], [0, 1, 3]]", "[[1], [0, 1, 3]]", "[[3], [1]]", "[[1], [3]]"], lines


def test_another_signature_is_no_function_of_ours(rehearse):
    outcome = rehearse(LOADED + 'print(result("top_k_mask_logits", logits, 2))\n')
    assert (outcome.code, outcome.out) == (0, "[[-1.0, -1.0, -1.0, -1.0], [-1.0, -1.0, -1.0, -1.0]]\n"), outcome.err
