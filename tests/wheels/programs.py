"""The programs of wheels.py: each compares what the simulated devices give with the CPU. `both` and `equal`: see HEAD."""

HEAD = '''
import copy, sys
import torch

torch.manual_seed(0)


def equal(what, a, b, tolerance=1e-4):
    """Of two results, wherever they lie."""
    a, b = (x.detach().float().cpu() if isinstance(x, torch.Tensor) else torch.as_tensor(x, dtype=torch.float) for x in (a, b))
    good = a.shape == b.shape and torch.isfinite(a).all() and torch.allclose(a, b, rtol=tolerance, atol=tolerance)
    print("equal" if good else "apart", what, flush=True)


def both(what, model, *inputs, pick=lambda out: out, tolerance=1e-4):
    """A module's answer on the device and on the CPU."""
    given = [x.to("cuda:0") for x in inputs]
    with torch.no_grad():
        equal(what, pick(copy.deepcopy(model).to("cuda:0").eval()(*given)), pick(model.eval()(*inputs)), tolerance)
'''

TRANSFORMERS = '''
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM
small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100)
ids = torch.randint(0, 100, (2, 9))
both("BERT", BertModel(BertConfig(**small)), ids, pick=lambda out: out.last_hidden_state)
llama = LlamaForCausalLM(LlamaConfig(**small, num_key_value_heads=2)).eval()
on_cpu = llama.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0)
equal("generate", llama.to("cuda:0").generate(ids.to("cuda:0"), max_new_tokens=6, do_sample=False, pad_token_id=0), on_cpu)
'''

ACCELERATE = '''
from accelerate import dispatch_model, infer_auto_device_map
model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(4)))
x = torch.randn(3, 16)
expected = model(x)
split = dispatch_model(copy.deepcopy(model), {"0": 0, "1": 0, "2": 1, "3": 1})
equal("device_map over two devices", split(x.to("cuda:0")), expected)
print("equal" if set(infer_auto_device_map(model, {0: 2500, 1: 10000}).values()) == {0, 1} else "apart", "infer_auto_device_map")
'''

PEFT = '''
from peft import LoraConfig, get_peft_model
base = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
model = get_peft_model(base, LoraConfig(target_modules=["0", "2"], init_lora_weights=False))
both("LoRA", model, torch.randn(5, 16))
def steps(model, device):
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for _ in range(3):
        loss = model(torch.ones(5, 16, device=device)).square().mean()
        loss.backward(); optimizer.step(); optimizer.zero_grad()
    return loss
model.train()
equal("three training steps", steps(copy.deepcopy(model).to("cuda:0"), "cuda:0"), steps(model, "cpu"))
'''

DIFFUSERS = '''
from diffusers import DDIMScheduler, UNet2DModel
unet = UNet2DModel(sample_size=8, in_channels=1, out_channels=1, block_out_channels=(16, 32), norm_num_groups=8, layers_per_block=1,
                   down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D")).eval()
def sampled(device):
    model, scheduler = copy.deepcopy(unet).to(device), DDIMScheduler(num_train_timesteps=10)
    scheduler.set_timesteps(4)
    x = torch.linspace(-1, 1, 64).view(1, 1, 8, 8).to(device)
    with torch.no_grad():
        for t in scheduler.timesteps:
            x = scheduler.step(model(x, t).sample, t, x).prev_sample
    return x
equal("four steps of DDIM", sampled("cuda:0"), sampled("cpu"), 1e-3)
'''

SENTENCE_TRANSFORMERS = '''
from sentence_transformers.util import cos_sim
a, b = torch.randn(4, 8), torch.randn(3, 8)
equal("cos_sim", cos_sim(a.to("cuda:0"), b.to("cuda:0")), cos_sim(a, b))
from sentence_transformers.sentence_transformer.modules import Pooling
features = {"token_embeddings": torch.randn(2, 5, 8), "attention_mask": torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])}
pool = Pooling(8)
equal("Pooling", pool({k: v.to("cuda:0") for k, v in features.items()})["sentence_embedding"], pool(dict(features))["sentence_embedding"])
'''

LIGHTNING = '''
import lightning, logging, warnings
warnings.filterwarnings("ignore"); logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 2)
    def training_step(self, batch, _):
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
def trained(accelerator):
    module = Module()
    data = torch.utils.data.DataLoader(torch.linspace(0, 1, 64).view(8, 8), batch_size=4)
    lightning.Trainer(accelerator=accelerator, devices=1, max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                      enable_model_summary=False).fit(module, data)
    return module.layer.weight
equal("two epochs", trained("gpu"), trained("cpu"))
'''

TORCHVISION = '''
import torchvision
torch.zeros(1, device="cuda")
both("resnet18", torchvision.models.resnet18(num_classes=10), torch.randn(1, 3, 64, 64), tolerance=1e-3)
boxes = torch.rand(20, 4); boxes[:, 2:] += boxes[:, :2]
scores = torch.rand(20)
equal("nms", torchvision.ops.nms(boxes.cuda(), scores.cuda(), 0.5), torchvision.ops.nms(boxes, scores, 0.5))
image, rois = torch.rand(1, 2, 8, 8), torch.tensor([[0.0, 0, 0, 4, 4]])
equal("roi_align", torchvision.ops.roi_align(image.cuda(), rois.cuda(), 2), torchvision.ops.roi_align(image, rois, 2))
offset, weight = torch.rand(1, 18, 6, 6), torch.rand(3, 2, 3, 3)
equal("deform_conv2d", torchvision.ops.deform_conv2d(image.cuda(), offset.cuda(), weight.cuda()), torchvision.ops.deform_conv2d(image, offset, weight))
'''

TORCHAUDIO = '''
import torchaudio
wave = torch.sin(torch.arange(4000) / 10)[None]
both("MelSpectrogram", torchaudio.transforms.MelSpectrogram(n_mels=20, n_fft=200), wave, tolerance=1e-2)
both("Resample", torchaudio.transforms.Resample(16000, 8000), wave)
'''

TIMM = '''
import timm
both("vit_tiny", timm.create_model("vit_tiny_patch16_224", img_size=32, num_classes=5), torch.randn(1, 3, 32, 32), tolerance=1e-3)
both("efficientnet_b0", timm.create_model("efficientnet_b0", num_classes=5), torch.randn(1, 3, 64, 64), tolerance=1e-3)
'''

BITSANDBYTES = '''
import bitsandbytes as bnb
x = torch.randn(3, 64)
layer = bnb.nn.Linear4bit(64, 32, bias=False, compute_dtype=torch.float32, quant_type="nf4")
weight = layer.weight.data.clone()
def quantized(device):
    made, state = bnb.functional.quantize_4bit(weight.to(device), quant_type="nf4")
    return bnb.functional.dequantize_4bit(made, state)
equal("NF4 there and back", quantized("cuda:0"), quantized("cpu"))
equal("Linear4bit", layer.to("cuda:0")(x.to("cuda:0")), x @ quantized("cpu").T, 1e-3)
low = torch.nn.Linear(64, 32).to("cuda:0")
optimizer = torch.optim.SGD(low.parameters(), lr=0.1)
(layer(x.to("cuda:0")) + low(x.to("cuda:0"))).square().mean().backward(); optimizer.step()
print("equal" if torch.isfinite(low.weight).all() else "apart", "a step beside it")
def stepped(device):
    p = torch.nn.Parameter(torch.linspace(0, 1, 8192, device=device))
    optimizer = bnb.optim.Adam8bit([p], lr=0.1)
    p.grad = torch.ones_like(p); optimizer.step()
    return p
equal("Adam8bit", stepped("cuda:0"), torch.linspace(0, 1, 8192) - 0.1, 1e-2)
'''

TORCHAO = '''
import torchao
from torchao.quantization import Int4WeightOnlyConfig, Int8WeightOnlyConfig, quantize_
x = torch.randn(2, 64)
print("equal" if (torch.arange(3.0, device="cuda") + 1).tolist() == [1, 2, 3] else "apart", "PyTorch's own operators")
def quantized(device, config, dtype=torch.float32):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128, bias=False, dtype=dtype)).to(device)
    quantize_(model, config)
    return model(x.to(device, dtype))
equal("int8 weights", quantized("cuda:0", Int8WeightOnlyConfig()), quantized("cpu", Int8WeightOnlyConfig()))
'''

LIGER = '''
import liger_kernel.transformers.functional as liger
import torch.nn.functional as F
for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 4e-2)):
    x, w = torch.randn(4, 64, device="cuda", dtype=dtype), torch.randn(64, device="cuda", dtype=dtype)
    equal(f"rms_norm {dtype}", liger.liger_rms_norm(x, w, 1e-6), F.rms_norm(x, (64,), w, 1e-6), tolerance)
    equal(f"layer_norm {dtype}", liger.liger_layer_norm(x, w, w, 1e-5), F.layer_norm(x, (64,), w, w, 1e-5), tolerance)
    equal(f"swiglu {dtype}", liger.liger_swiglu(x, 2 * x), F.silu(x) * 2 * x, tolerance)
    equal(f"geglu {dtype}", liger.liger_geglu(x, 2 * x), F.gelu(x, approximate="tanh") * 2 * x, tolerance)
    loss = liger.liger_cross_entropy(x.clone(), torch.arange(4, device="cuda"))
    equal(f"cross_entropy {dtype}", loss[0] if isinstance(loss, tuple) else loss, F.cross_entropy(x.float(), torch.arange(4, device="cuda")), tolerance)
'''

FLASH_LINEAR_ATTENTION = '''
from fla.ops.retention import fused_recurrent_retention
from fla.ops.retention.naive import naive_retention
q, k, v = (torch.randn(1, 6, 2, 16, device="cuda") for _ in range(3))
equal("recurrent retention", fused_recurrent_retention(q, k, v)[0], naive_retention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2), 1e-3)
from fla.modules import RMSNorm
norm = RMSNorm(32).cuda()
x = torch.randn(3, 32, device="cuda")
equal("RMSNorm", norm(x), torch.nn.functional.rms_norm(x, (32,), norm.weight, norm.eps))
'''

TRITON = '''
import triton, triton.language as tl
@triton.jit
def added(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
    x, y = torch.arange(100, device="cuda").to(dtype), torch.ones(100, device="cuda", dtype=dtype)
    out = torch.empty_like(x)
    added[(4,)](x, y, out, 100, BLOCK=32)
    equal(f"a kernel of {dtype}", out, x + y, 0)
compiled = torch.compile(lambda x: torch.nn.functional.gelu(x).sum(0))
x = torch.randn(8, 8)
equal("torch.compile", compiled(x.cuda()), torch.nn.functional.gelu(x).sum(0))
'''

TORCH_GEOMETRIC = '''
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_mean_pool
x, edges = torch.randn(6, 8), torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]])
for layer in (GCNConv(8, 4), GATConv(8, 4), SAGEConv(8, 4)):
    both(type(layer).__name__, layer, x, edges)
batch = torch.tensor([0, 0, 0, 1, 1, 1])
equal("global_mean_pool", global_mean_pool(x.cuda(), batch.cuda()), global_mean_pool(x, batch))
'''

KORNIA = '''
import kornia
images = torch.rand(2, 3, 24, 24)
turned = torch.tensor([[[0.9, -0.2, 3.0], [0.2, 0.9, -2.0], [0.001, 0.0, 1.0]]]).repeat(2, 1, 1)
for what, function, *inputs in (
        ("gaussian_blur2d", lambda x: kornia.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)), images),
        ("canny", lambda x: kornia.filters.canny(x)[0], images),
        ("warp_perspective", lambda x, how: kornia.geometry.warp_perspective(x, how, (20, 28)), images, turned),
        ("find_homography_dlt", lambda x: kornia.geometry.find_homography_dlt(x, x * 1.5 + 2), torch.rand(2, 8, 2)),
        ("rgb_to_lab", kornia.color.rgb_to_lab, images)):
    equal(what, function(*(x.to("cuda:0") for x in inputs)), function(*inputs), 1e-3)
def through(device):
    x = images.clone().to(device).requires_grad_()
    kornia.losses.ssim_loss(x, images.to(device).flip(-1), 5).backward()
    return x.grad
equal("a gradient of ssim_loss", through("cuda:0"), through("cpu"))
'''

OPEN_CLIP = '''
import open_clip
small = dict(width=64, layers=2)
model = open_clip.CLIP(32, dict(image_size=32, patch_size=8, head_width=32, **small), dict(context_length=16, vocab_size=100, heads=2, **small))
images, words = torch.randn(4, 3, 32, 32), torch.randint(1, 99, (4, 16))
both("encode_image", model, images, pick=lambda out: out[0])
both("image and text", model, images, words, pick=lambda out: out[0] @ out[1].T)
def steps(model, device):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = open_clip.ClipLoss()
    for _ in range(3):
        loss = loss_of(*model(images.to(device), words.to(device)))
        loss.backward(); optimizer.step(); optimizer.zero_grad()
    return loss
model.train()
equal("three steps with ClipLoss", steps(copy.deepcopy(model).to("cuda:0"), "cuda:0"), steps(model, "cpu"), 1e-3)
'''

# Its engine is a fork, in which PyTorch's own threads of the first process would be missing: the CPU's turn comes after it.
VLLM = '''
from transformers import LlamaConfig, LlamaForCausalLM
from vllm import LLM, SamplingParams
if __name__ == "__main__":
    # The best logit is 0.28 or more above the next for each of these tokens. In bfloat16 the order of additions, which is another with
    # each backend and number of devices, decides where two are nearer than 0.03; of other seeds most have such.
    torch.manual_seed(29)
    llama = LlamaForCausalLM(LlamaConfig(
        hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, vocab_size=256,
        max_position_embeddings=256, initializer_range=0.2, eos_token_id=None)).to(torch.bfloat16).eval()
    prompts = [[1, 2, 3, 4], [7, 3]]
    llama.save_pretrained("llama")
    made = {}
    for devices in ("one device", "two devices"):
        llm = LLM("llama", skip_tokenizer_init=True, tensor_parallel_size=1 + (devices == "two devices"))
        for how, sampling in (("tokens", dict(temperature=0)), ("tokens drawn from one", dict(temperature=1, top_k=1, top_p=0.9))):
            out = llm.generate([{"prompt_token_ids": ids} for ids in prompts], SamplingParams(**sampling, max_tokens=8, ignore_eos=True, detokenize=False))
            made[f"{how} ({devices})"] = [list(each.outputs[0].token_ids) for each in out]
        del llm
    # Last: it forks, and what computes on the CPU has threads.
    own = [llama.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False, pad_token_id=0)[0, len(ids):].tolist() for ids in prompts]
    for what, tokens in made.items():
        equal(what, tokens, own, 0)
'''

NUMBA = '''
import numpy as np
from numba import cuda
x = cuda.to_device(np.arange(8, dtype=np.float32))
equal("arrays there and back", torch.as_tensor(x.copy_to_host()), torch.arange(8.0))
@cuda.jit
def doubled(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2
doubled[1, 8](x)
equal("a kernel", torch.as_tensor(x.copy_to_host()), torch.arange(8.0) * 2)
@cuda.jit
def sums(x, out):
    part = cuda.shared.array(32, dtype=np.float32)
    i = cuda.threadIdx.x
    part[i] = x[cuda.grid(1)] if cuda.grid(1) < x.size else 0
    cuda.syncthreads()
    step = 16
    while step:
        if i < step:
            part[i] += part[i + step]
        cuda.syncthreads()
        step //= 2
    if i == 0:
        cuda.atomic.add(out, 0, part[0])
values = np.arange(100, dtype=np.float32)
out = cuda.to_device(np.zeros(1, dtype=np.float32))
sums[4, 32](cuda.to_device(values), out)
equal("shared memory and an atomic sum", torch.as_tensor(out.copy_to_host()), torch.tensor([float(values.sum())]))
'''

CUPY = '''
import cupy as cp
equal("arrays there and back", torch.as_tensor(cp.asnumpy(cp.asarray([1.0, 2.0, 3.0]))), torch.tensor([1.0, 2.0, 3.0]))
equal("shared with PyTorch", torch.from_dlpack(cp.asarray([1.0, 2.0])) + 1, torch.tensor([2.0, 3.0]))
equal("an elementwise kernel", torch.as_tensor(cp.asnumpy(cp.ones(4) + 1)), torch.full((4,), 2.0))
import numpy as np
rows = np.random.default_rng(0).random((7, 50))
equal("a reduction", torch.as_tensor(cp.asnumpy(cp.asarray(rows).sum(axis=1))), torch.as_tensor(rows.sum(axis=1)))
equal("a sort", torch.as_tensor(cp.asnumpy(cp.sort(cp.asarray(rows[0])))), torch.as_tensor(np.sort(rows[0])))
scale = cp.RawKernel('extern "C" __global__ void scale(float* x, float by) { x[threadIdx.x] *= by; }', "scale")
x = cp.arange(8, dtype=cp.float32)
scale((1,), (8,), (x, cp.float32(3)))
equal("a RawKernel", torch.as_tensor(cp.asnumpy(x)), torch.arange(8.0) * 3)
'''

CUDA_PYTHON = '''
from cuda.bindings import driver
assert int(driver.cuInit(0)[0]) == 0
print("equal" if driver.cuDeviceGetCount()[1] == 2 else "apart", "devices of the driver")
from cuda.core import Device
device = Device(1); device.set_current()
print("equal" if device.device_id == 1 and device.properties.multiprocessor_count > 0 else "apart", "cuda.core")
'''

TRL = '''
import os, tempfile, warnings
warnings.filterwarnings("ignore")
from datasets import Dataset, table
from transformers import LlamaConfig, LlamaForCausalLM
from trl import SFTConfig, SFTTrainer
def trained(cpu):
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=50))
    data = Dataset(table.InMemoryTable.from_pydict({"input_ids": [list(range(i, i + 8)) for i in range(8)]}), fingerprint="rows")
    class Collate:
        def __call__(self, rows):
            ids = torch.tensor([row["input_ids"] for row in rows])
            return {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}
    with tempfile.TemporaryDirectory() as folder:
        how = SFTConfig(folder, max_steps=2, per_device_train_batch_size=4, use_cpu=cpu, report_to=[], bf16=False, gradient_checkpointing=False,
                        dataset_kwargs={"skip_prepare_dataset": True}, save_strategy="no", disable_tqdm=True, seed=1)
        from transformers import PreTrainedTokenizerFast
        from tokenizers import Tokenizer, models
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "<eos>": 1}, unk_token="a")), eos_token="<eos>", pad_token="<eos>")
        SFTTrainer(model, how, train_dataset=data, data_collator=Collate(), processing_class=tokenizer).train()
    return model.lm_head.weight
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
equal("two steps of SFTTrainer", trained(False), trained(True))
'''

ULTRALYTICS = '''
import os
os.environ["YOLO_OFFLINE"], os.environ["YOLO_AUTOINSTALL"] = "true", "false"
from ultralytics.nn.tasks import DetectionModel
model = DetectionModel("yolov8n.yaml", ch=3, nc=4, verbose=False)
both("yolov8n", model, torch.rand(1, 3, 64, 64), pick=lambda out: out[0], tolerance=1e-2)
from ultralytics.utils.nms import non_max_suppression
torch.manual_seed(1)
made = torch.rand(1, 8, 40); made[:, :4] *= 60
equal("non_max_suppression", non_max_suppression(made.cuda(), 0.5)[0], non_max_suppression(made, 0.5)[0])
'''

XFORMERS = '''
import xformers.ops as xops
q, k, v = (torch.randn(1, 16, 2, 32) for _ in range(3))
def dense(causal):
    return torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=causal).transpose(1, 2)
given = [x.cuda() for x in (q, k, v)]
equal("memory_efficient_attention", xops.memory_efficient_attention(*given), dense(False))
equal("a causal bias", xops.memory_efficient_attention(*given, attn_bias=xops.LowerTriangularMask()), dense(True))
both("SwiGLU", xops.SwiGLU(16, 32, 16), torch.randn(3, 16))
'''

DEEPSPEED = '''
import os
for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29577"}.items():
    os.environ.setdefault(name, value)
import deepspeed
def data(device):
    return torch.linspace(-1, 1, 32, device=device).view(4, 8)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
other = copy.deepcopy(model)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
    "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.0, "torch_adam": True}}})
optimizer = torch.optim.AdamW(other.parameters(), lr=0.01, weight_decay=0.0)
for _ in range(3):
    loss = engine(data("cuda:0")).square().mean()
    engine.backward(loss); engine.step()
    expected = other(data("cpu")).square().mean()
    expected.backward(); optimizer.step(); optimizer.zero_grad()
equal("three steps of ZeRO 2", loss, expected)
equal("its weights", model[0].weight, other[0].weight)
'''

TENSORFLOW = '''
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf
print("equal" if len(tf.config.list_physical_devices("GPU")) == 2 else "apart", "devices")
with tf.device("GPU:1"):
    x = tf.constant([1.0, 2.0, 3.0])
print("equal" if x.device.endswith("GPU:1") else "apart", "placement")
equal("arrays there and back", torch.as_tensor(x.numpy()), torch.tensor([1.0, 2.0, 3.0]))
equal("a sum", torch.as_tensor((x + x).numpy()), torch.tensor([2.0, 4.0, 6.0]))
'''

DALI = '''
import numpy as np
from nvidia.dali import fn, pipeline_def, types
images = [np.arange(48, dtype=np.uint8).reshape(4, 4, 3) + i for i in range(2)]
@pipeline_def(batch_size=2, num_threads=1, device_id=0)
def there():
    return fn.external_source(source=lambda: images, device="cpu").gpu()
pipe = there(); pipe.build()
equal("arrays there and back", torch.as_tensor(np.array(pipe.run()[0].as_cpu().as_array())), torch.as_tensor(np.stack(images)))
@pipeline_def(batch_size=2, num_threads=1, device_id=0)
def flipped():
    return fn.flip(fn.external_source(source=lambda: images, device="cpu").gpu(), horizontal=1)
pipe = flipped(); pipe.build()
equal("a flip", torch.as_tensor(np.array(pipe.run()[0].as_cpu().as_array())), torch.as_tensor(np.stack(images)[:, :, ::-1].copy()))
'''

FAISS = '''
import numpy as np
import faiss
print("equal" if faiss.get_num_gpus() == 2 else "apart", "devices")
rows = np.random.default_rng(0).random((50, 8), dtype=np.float32)
flat = faiss.IndexFlatL2(8); flat.add(rows)
there = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, flat)
print("equal" if there.ntotal == 50 else "apart", "an index on a device")
near, which = there.search(rows[:3], 2)
expected, those = flat.search(rows[:3], 2)
equal("a search", torch.as_tensor(near), torch.as_tensor(expected))
'''

CUDF = '''
import cudf
column = cudf.Series([1.0, 2.0, 3.0])
equal("arrays there and back", torch.as_tensor(column.to_numpy()), torch.tensor([1.0, 2.0, 3.0]))
equal("sum", torch.as_tensor(float(column.sum())), torch.tensor(6.0))
'''

CUML = '''
import numpy as np
from cuml.linear_model import LinearRegression
x = np.arange(12, dtype=np.float32).reshape(6, 2) ** 1.5
model = LinearRegression().fit(x, x @ np.array([1.0, 2.0], dtype=np.float32))
equal("LinearRegression", torch.as_tensor(np.asarray(model.coef_)), torch.tensor([1.0, 2.0]), 1e-2)
'''

JAX = '''
import jax, numpy as np
print("equal" if [d.platform for d in jax.devices()] == ["gpu", "gpu"] else "apart", "devices")
x = jax.device_put(np.arange(4, dtype=np.float32), jax.devices()[1])
equal("arrays there and back", torch.as_tensor(np.array(x)), torch.arange(4.0))
equal("from device to device", torch.as_tensor(np.array(jax.device_put(x, jax.devices()[0]))), torch.arange(4.0))
equal("a fusion", torch.as_tensor(np.array(jax.jit(lambda x: jax.numpy.tanh(x) * 2 + 1)(x))), torch.tanh(torch.arange(4.0)) * 2 + 1)
rows = np.random.default_rng(0).random((7, 50), dtype=np.float32)
equal("a reduction", torch.as_tensor(np.array(jax.jit(lambda x: x.sum(axis=1))(rows))), torch.as_tensor(rows.sum(axis=1)))
equal("a softmax", torch.as_tensor(np.array(jax.jit(jax.nn.softmax)(rows))), torch.softmax(torch.as_tensor(rows), 1))
'''

WARP = '''
import warp as wp
wp.config.quiet = True
x = wp.array([1.0, 2.0], dtype=float, device="cuda:0")
equal("arrays there and back", torch.as_tensor(x.numpy()), torch.tensor([1.0, 2.0]))
'''
