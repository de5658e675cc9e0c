"""Which wheels of others are run unmodified in a rehearsal, and by which program."""

from dataclasses import dataclass

import programs


@dataclass(frozen=True)
class Wheel:
    name: str  # on PyPI
    program: str  # behind programs.HEAD
    fetched: tuple[str, ...] = ()  # what .venv lacks, as pip takes it, without what that asks for
    reason: str = ""  # why a row that is not whole cannot be, where that is not ours


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
    Wheel("numba-cuda", programs.NUMBA, reason="kernels of Numba's are launched and checked, and not computed"),
    Wheel("cupy-cuda13x", programs.CUPY, reason="kernels of CuPy's are launched and checked, and not computed"),
    Wheel("cuda-bindings", programs.CUDA_PYTHON, reason="its own copy of the CUDA runtime has no names and is not simulated; the driver is"),
    Wheel("jax", programs.JAX, ("jax", "jaxlib", "jax-cuda13-plugin", "jax-cuda13-pjrt", "ml_dtypes", "opt_einsum"),
          reason="what XLA compiles is launched and checked, and not computed"),
    Wheel("warp-lang", programs.WARP, ("warp-lang",), "its own copy of the CUDA runtime has no names and is not simulated, which is said; the driver is"),
)  # fmt: skip
