"""Programs of the tests of hardware."""

from kernel_programs import TOUCH

# With memory on the first device; there need be no second.
DRIVER = TOUCH + """
def on_disk():
    return sum(open(log).read().count('"record":"finding"') for log in glob.glob("devtrace-*.jsonl"))
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = P, [S]
on_host = libc.malloc(8 << 20)
here = memory(0)
"""

# privateGPT's fault: a model on the device, token ids where the tokenizer has put them.
EMBEDDINGS = """
import torch
class Embeddings(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = torch.nn.Embedding(30522, 64)
        self.layer = torch.nn.Linear(64, 64)
    def forward(self, input_ids):
        return self.layer(self.word_embeddings(input_ids))
model = Embeddings().to("cuda:0")  # MOVED
def embed(input_ids):
    return model(input_ids)  # ASKED
"""

# A launch-bound training step, times each way in turn.
TRAINING = """
import json, sys, time
import torch
torch.manual_seed(0)
sizes = dict(hidden=256, layers=int(sys.argv[1]), batch=8, steps=int(sys.argv[2]), rounds=int(sys.argv[3]))
layer = torch.nn.TransformerEncoderLayer(sizes["hidden"], 8, sizes["hidden"] * 4, batch_first=True)
model = torch.nn.TransformerEncoder(layer, sizes["layers"], enable_nested_tensor=False).to("cuda:0")
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
data = torch.randn(sizes["batch"], 64, sizes["hidden"], device="cuda:0")
def step():
    optimizer.zero_grad()
    loss = (model(data) - data).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss
best = None
for _ in range(sizes["rounds"] + 1):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(sizes["steps"]):
        step()
    torch.cuda.synchronize()
    took = (time.perf_counter() - start) / sizes["steps"]
    best = took if best is None else min(best, took)
print(json.dumps({"seconds": best, "device": torch.cuda.get_device_name(0), "torch": torch.__version__, "cuda": torch.version.cuda}))
"""
