"""Which wheels of others are run unmodified in a rehearsal, and by which program."""

from dataclasses import KW_ONLY, dataclass

import programs


@dataclass(frozen=True)
class Wheel:
    name: str  # on PyPI
    program: str  # behind programs.HEAD
    fetched: tuple[str, ...] = ()  # what .venv lacks, as pip takes it, without what that asks for
    _: KW_ONLY
    environment: tuple[str, ...] = ()  # ... with all that it asks for, in an environment of its own on top of .venv
    reason: str = ""  # why a row that is not whole cannot be, where that is not ours
    flags: tuple[str, ...] = ()  # of devtrace rehearse
    first: bool = False  # what is fetched goes before what .venv has of another version
    beside: str = ""  # the wheel in whose folder all of it lies
    limit: int = 300  # seconds for the program


STRIPPED = "its own copy of the CUDA runtime has no names and is not simulated, which is said; the driver is"

# What NVIDIA's compilers have made is computed, too.
KERNELS = ("--kernels",)
OF_ITS_OWN = "kernels of its own that it has as machine code alone are launched and checked, and not computed"

# cuML's wheel needs all of cuDF's.
RAPIDS = ("cuml-cu13", "cudf-cu13", "libcuml-cu13", "nvforest-cu13", "pylibraft-cu13", "rmm-cu13", "libcudf-cu13", "libcuvs-cu13", "libnvforest-cu13", "libraft-cu13", "librmm-cu13",
          "pylibcudf-cu13", "rapids-logger", "libkvikio-cu13", "nvidia-libnvcomp-cu13<6", "treelite", "nvtx", "pandas<3.1", "pyarrow", "cachetools", "numba_cuda_mlir",
          "scikit-learn", "scipy", "joblib", "threadpoolctl", "numba==0.64.0", "llvmlite==0.46.0", "nvidia-nvjitlink==13.5.37")  # fmt: skip

WHEELS = (
    Wheel("transformers", programs.TRANSFORMERS),
    Wheel("accelerate", programs.ACCELERATE),
    Wheel("peft", programs.PEFT),
    Wheel("diffusers", programs.DIFFUSERS),
    Wheel("sentence-transformers", programs.SENTENCE_TRANSFORMERS),
    Wheel("lightning", programs.LIGHTNING),
    Wheel("torchvision", programs.TORCHVISION, ("torchvision==0.26.0",)),  # that of .venv's PyTorch
    Wheel("torchaudio", programs.TORCHAUDIO, ("torchaudio==2.11.0",)),
    Wheel("timm", programs.TIMM, ("timm", "torchvision==0.26.0")),
    Wheel("bitsandbytes", programs.BITSANDBYTES, ("bitsandbytes",)),
    Wheel("torchao", programs.TORCHAO, ("torchao",)),
    Wheel("liger-kernel", programs.LIGER, ("liger-kernel",)),
    Wheel("flash-linear-attention", programs.FLASH_LINEAR_ATTENTION, ("flash-linear-attention", "fla-core", "einops")),
    Wheel("triton", programs.TRITON),
    Wheel("torch_geometric", programs.TORCH_GEOMETRIC, ("torch_geometric", "xxhash", "pyparsing")),
    Wheel("kornia", programs.KORNIA, ("kornia", "kornia_rs")),
    Wheel("open_clip_torch", programs.OPEN_CLIP, ("open_clip_torch", "ftfy", "wcwidth", "timm", "torchvision==0.26.0")),
    Wheel("vllm", programs.VLLM, environment=("vllm==0.26.0",), limit=1200),  # the newest for .venv's PyTorch
    Wheel("numba-cuda", programs.NUMBA, flags=KERNELS),
    Wheel("cupy-cuda13x", programs.CUPY, flags=KERNELS),
    Wheel("cuda-bindings", programs.CUDA_PYTHON, reason=STRIPPED),
    Wheel("jax", programs.JAX, ("jax", "jaxlib", "jax-cuda13-plugin", "jax-cuda13-pjrt", "ml_dtypes", "opt_einsum"),
          reason="XLA hands the driver machine code: it is launched and checked, and not computed"),
    Wheel("trl", programs.TRL, ("trl", "datasets", "pandas", "pyarrow", "dill", "multiprocess", "xxhash")),
    Wheel("ultralytics", programs.ULTRALYTICS,
          ("ultralytics", "ultralytics-platform", "ultralytics-thop", "matplotlib", "contourpy", "cycler", "fonttools", "kiwisolver", "pyparsing", "opencv-python-headless",
           "polars", "polars-runtime-32", "torchvision==0.26.0", "nvidia-ml-py")),
    Wheel("xformers", programs.XFORMERS, ("xformers",)),
    Wheel("deepspeed", programs.DEEPSPEED, ("deepspeed", "einops", "hjson", "ninja", "py-cpuinfo")),
    Wheel("tensorflow", programs.TENSORFLOW,
          ("tensorflow", "absl-py", "astunparse", "flatbuffers", "gast", "google-pasta", "grpcio", "h5py", "keras", "libclang", "ml_dtypes", "opt_einsum", "termcolor", "wrapt",
           "namex", "optree"),
          reason=OF_ITS_OWN, flags=("--cuda", "12", *KERNELS)),
    Wheel("nvidia-dali-cuda130", programs.DALI,
          ("nvidia-dali-cuda130", "nvidia-libnvcomp-cu13<6", "nvidia-nvtiff-cu13", "nvidia-nvimgcodec-cu13", "nvidia-nvjpeg", "nvidia-nvjpeg2k-cu13", "astunparse", "gast", "libcst",
           "makefun", "nvtx", "optree"),
          reason=OF_ITS_OWN, flags=KERNELS),
    # Its kernels are for sm_70 and sm_80 alone, and its libraries those of CUDA 12, beside this PyTorch's.
    Wheel("faiss-gpu-cu12", programs.FAISS, ("faiss-gpu-cu12", "nvidia-cuda-runtime-cu12", "nvidia-cublas-cu12", "nvidia-cuda-nvrtc-cu12"),
          reason=OF_ITS_OWN, flags=("--gpu-model", "a100", *KERNELS)),
    Wheel("cudf-cu13", programs.CUDF, RAPIDS, reason=STRIPPED, first=True),
    Wheel("cuml-cu13", programs.CUML, RAPIDS, reason="its libcuvs wants nvJitLink 13.3, of which this PyTorch has 13.0; " + STRIPPED, first=True, beside="cudf-cu13"),
    Wheel("warp-lang", programs.WARP, ("warp-lang",), reason=STRIPPED),
)  # fmt: skip
