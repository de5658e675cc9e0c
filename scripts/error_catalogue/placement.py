"""Which raises are because of where something lies: what speaks for it, and what speaks against it although it sounds like it."""

import re

from .raises import HOLE, Raise

# A condition that asks where something lies.
CONDITION = re.compile(
    r"\.device\b|->device\(\)|\bis_(cuda|cpu|meta|pinned)\b|\bdevice_type\b|\bget_device\b|check_device|same_device|_device_index\b|"
    r"\bdevices?(_ids?|_index|Index|_type)?\b\s*([!=<>]=|[<>]|in\b|not in\b|is\b)|\bis_(on_)?(gpu|dense_in)|storage_device|device\.type|has_storage|\bk(CPU|CUDA|Meta)\b"
)
# A condition that decides by the place of a tensor alone, whatever its message says.
PLACE_ALONE = re.compile(r"\.device\(\)\.type\(\) [!=]= |\.device\(\) [!=]= \w+\.device\(\)|\bget_device\(\) [!=]= ")
# A message that says where something lies, or has to.
MESSAGE = re.compile(
    r"same (cuda |gpu |cpu )?device|different (\w+ )?device|(mismatch\w*|wrong|another|other|one|single|common|multiple|invalid|unexpected|expected|target|unsupported) (\w+ )?device|"
    r"(?<!cross-)device[ _-]?(type|index|id|ids|ordinal|mismatch|map|mesh)|\bon (the )?(cpu|cuda|gpu|meta|device|a different|a cuda|a gpu|a cpu|host)\b|"
    r"(cuda|cpu|gpu|meta|host|device|pinned|dense)[- ](\w+ )?(tensor|storage|memory|backend|generator|stream|device|module|model|array|buffer|parameter)|"
    r"(tensor|storage|module|model|parameter|buffer|input|weight|generator|stream|event|ind(ex|ices))s?\b.{0,60}\b(device|cuda|cpu|gpu|meta|pinned)\b|"
    r"\b(device|cuda|cpu|gpu)s?\b.{0,60}\b(tensor|storage|module|model|parameter|buffer|input|weight|generator|stream|event|ind(ex|ices))|"
    r"arguments from the '[^']*' backend|pin_memory|pinned|\.cpu\(\)|\.to\(|offload",
    re.IGNORECASE | re.DOTALL,
)

# (why it is left out, a field of Raise, what it looks like there)
NOT = (
    ("tests and what only PyTorch's own tests use", "file", r"(^|/)(tests?|testing|_internal/test|benchmarks?|examples)/|test_|common_(utils|device_type)|/testing/"),
    ("third-party code", "file", r"third_party/|/flash_attn/|cutlass|kineto"),
    ("another backend", "file", r"(^|/)(xpu|mps|metal|vulkan|hip|hpu|mtia|xla|ipu|nnapi|opencl|miopen|npu|lazy|privateuse|xnnpack|executorch|android|tpu|neuron|mlu|musa|sdaa)(/|_|\.)|OpenReg|/mkldnn/xpu|mtia|_xla|habana|native/quantized/cudnn"),
    ("another backend", "message", r"\b(xpu|mps|metal|vulkan|hpu|mtia|xla|ipu|npu|mlu|musa|sdaa|tpu|neuron|nnapi|opencl|ideep|habana|opengl|privateuse\w*|openreg|gaudi|ROCm|HIP)\b"),
    ("memory ran out", "message", r"out of memory|would exceed allowed memory|OutOfMemory|not enough (gpu )?memory|memory fraction"),
    ("no driver, or no device at all", "message", r"NVIDIA driver|No CUDA GPUs|driver (initialization|version|error)|unknown error|cuda(Get|Driver)\w*|Unexpected error from cuda|libcuda|nvml"),
    ("how PyTorch or an extension was built", "message", r"(not |n't )(been )?(compiled|built|linked)|compil(ed|e|ing) with|requires (compiling|building)|rebuild|[Bb]uilt without|CUDA_HOME|nvcc|not enabled|pip install|is not installed|recompile|build of|without .{0,20}support"),
    ("which CUDA, or which GPU model", "message", r"compute capability|CUDA (version|runtime|toolkit|>=|<|\d)|cuda (version|>=|<=)|SM_?\d|sm_?\d|architecture|arch\b|MIG|requires? .{0,40}(Hopper|Ampere)|CUDA_VERSION|bfloat16 .{0,30}support"),
    ("a dtype, a shape or an argument, not a place", "message", r"dtype|scalar type|32-bit|contiguous|half\b.*not|dimension|\d[Dd]\b.{0,20}expected|[Ee]xpected (a )?\d-?[dD]|same size|must have (at least )?\d|datatype|complex"),
    ("a mode of the caching allocator or of CUDA graphs", "message", r"cudaMallocAsync|expandable_segments|capture|CUDA ?[Gg]raph|allocator|pidfd|IPC|mempool|MemPool|release_lock|pinned_(use|num)"),
    ("profilers and traces", "message", r"profil|\btrace\b|CUPTI|kineto"),
    ("a name or a configuration that could not be read", "message", r"unknown (device )?(backend|arch)|Invalid device string|Unrecognized device|\bparse|environment variable|env var|config(uration)? (file|key)|YAML|json"),
    ("what a registration, a mesh or a compiler's own code is asked for", "message", r"Device ?Mesh|device_mesh|already has an implementation|register_(kernel|fake|auto\w+)|device_types=|autocast|codegen|DispatchKey|key_set"),
    ("hardware other than devices with memory of their own", "message", r"FBGEMM|QNNPACK|CPU capability|vectorized|quantized engine|\bEngine\b|mkldnn_?reorder"),
)
NOT_COMPILED = [(why, field, re.compile(text, re.IGNORECASE if field == "message" else 0)) for why, field, text in NOT]
# Above all of NOT: texts that are about placement without doubt.
CERTAIN = re.compile(r"same (cuda |gpu |cpu )?device|different devices?\b|device mismatch|is on .{0,40}(but|different)|but (got|found|is|was).{0,40}device|numpy.{0,80}(cpu|device)", re.IGNORECASE | re.DOTALL)


def why_not(one: Raise) -> str | None:
    """None: it is because of where something lies."""
    text = one.message.replace(HOLE, "…")
    asked = CONDITION.search(one.condition)
    said = MESSAGE.search(text)
    speaks = re.search(r"device|cuda|cpu|gpu|meta|host|pinned|place", text, re.IGNORECASE)
    if not said and not (asked and speaks) and not PLACE_ALONE.search(re.sub(r"\s*([!=]=)\s*", r" \1 ", one.condition)):
        return "does not speak of a place"
    certain = CERTAIN.search(text)
    for why, field, looks in NOT_COMPILED:
        if field == "file" and looks.search(one.file):
            return why
        if field == "message" and not certain and looks.search(text):
            return why
    if not asked and not certain and re.search("INTERNAL ASSERT", text):
        return "does not speak of a place"
    return None
