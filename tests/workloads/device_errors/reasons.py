"""Why a row of the catalogue has no program: one rule a family, the first that holds is taken."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    why: str
    project: str = ""
    file: str = ""  # each of these, where given, is looked for
    text: str = ""
    layer: str = ""
    gone: bool = False  # only rows that the newest version no longer has
    since: str = ""

    def holds(self, row: dict) -> bool:
        return (
            (not self.project or re.fullmatch(self.project, row["project"]) is not None)
            and (not self.layer or row["layer"] == self.layer)
            and (not self.gone or row["until"] is not None)
            and (not self.since or re.fullmatch(self.since, row["since"]) is not None)
            and (not self.file or any(re.search(self.file, place) for place in row["raised_by"]))
            and (not self.text or re.search(self.text, row["text"], re.IGNORECASE) is not None)
        )


DISPATCHED = "the dispatcher's own check comes first: a tensor of another device never reaches the kernel"
INTERNAL = "an assertion of the library's inside: no call with public arguments reaches it"
SHAPE_OF_CALL = "about how a call, a registration or a configuration is written, not about where a tensor lies"
EARLIER = "another check of the same call comes first, whatever the devices are (the dispatcher's, mostly)"
NEWER = r"2\.1[2-9]\..*"
QUANTIZER = "a package for quantization, or a model that it has quantized, which the tests do not install"
LAYOUT = "`dense` means a layout here, not a place"
OPEN = "no program has been written for it yet; it may be possible"

REASONS = (
    Reason("the newest version no longer has it", gone=True),
    # Lightning and peft
    Reason(QUANTIZER, project="lightning", file="bitsandbytes|_check_and_init_precision"),
    Reason("TensorRT and DeepSpeed, which the tests do not install", project="lightning", text="TensorRT|DeepSpeed"),
    Reason("several processes, or a machine without a GPU, which a rehearsal is not", project="lightning", text="create new processes|more than one device|no visible CUDA|only available on GPU|No supported gpu|psutil|default to"),
    Reason(SHAPE_OF_CALL, project="peft|lightning", text="parallel_devices|must be unique|not a valid|is expected to be|must be set before|offload"),
    # PyTorch's C++
    Reason(INTERNAL, text="INTERNAL ASSERT"),
    Reason("several processes of NCCL, where a program of the catalogue is one", file="ProcessGroupNCCL|NCCLUtils|NCCLWindow|nccl4py|nccl2|_nccl"),
    Reason("several processes, each with a part of the tensors", file="ProcessGroup|distributed/c10d|c10d/|distributed/(rpc|checkpoint|_shard|pipelining|tensor|_tools|_transport|_local_tensor|elastic|collective)|symm_mem|_symmetric_memory|device_mesh|distributed_c10d|_composable|algorithms/_comm_hooks|remote_device|numa/"),
    Reason("FSDP with several processes, or one step into its own inside", file="torch/distributed/(fsdp|_fsdp)"),
    Reason("quantized operators: their fake-quantized kernels for CUDA are called by exported models only, behind the dispatcher's check", file="native/quantized|quantized/cuda|quantization_utils|_quantized_conversions"),
    Reason(DISPATCHED, file="native/cuda/.*\\.(cu|cuh):|sparse/cuda/|cudnn/|native/transformers|cuda/linalg|RowwiseScaledMM|int4mm|mem_eff_attention|Loops.cuh|jiterator|CUDAApplyUtils|AmpGradScalerKernels|AmpKernels|DepthwiseConv3d|SparseTensorMath|SparseCsrTensorMath|SparseBlasImpl|SparseMatMul"),
    Reason(DISPATCHED, text="must be on the same device as (query|inputs|weight)|must be on CUDA|must be a CUDA tensor|must be a dense tensor|must be a CPU tensor"),
    Reason("oneDNN's layout exists on the CPU alone: the dispatcher refuses the tensor before", file="mkldnn|MKLDNN|ideep|onednn", text=""),
    Reason("TorchScript's compiler, the lazy backend or a mobile build", file="csrc/jit|tensorexpr|csrc/lazy|mobile"),
    Reason("PyTorch's C++ front end: no Python program calls it", file="csrc/api/|ParallelThreadPool|CUDAMathCompat|aoti_eager|csrc/inductor|libtorch_stable"),
    Reason("a PyTorch without CUDA: not what is rehearsed", file="CUDAHooksInterface|DeviceAccelerator|AcceleratorHooks", text=""),
    Reason("a device that no tensor of PyTorch can name, or a type of device that the build does not have", text="device type|device_type|Undefined backend|Unknown device|ATen_cuda|accelerator"),
    Reason("a stream, an event or a handle that public calls do not make", file="CUDAStream|CUDAEvent|InlineEvent|InlineStreamGuard|CUDAGuardImpl|DeviceGuardImpl|c10/core/Stream.h|CUDAFunctions|CachingAllocator|MallocAsync|CachingHostAllocator|CUDACachingHost"),
    # PyTorch's Python
    Reason("inside torch.compile's back end: what reaches it has passed FakeTensor's check", file="torch/(_inductor|_dynamo|_functorch|_higher_order_ops|_export|export|fx|_vendor|_native|_decomp|_library|_custom_op|_subclasses|_meta_registrations|_prims|_refs|_tensor_iterator|onnx|jit|ao)"),
    Reason("what a profiler, a test or a tool of PyTorch's checks in its own records", file="profiler|gradcheck|testing|torchgen|tools/|_content_store|benchmark"),
    Reason(LAYOUT, text=r"(dense|strided|sparse) (tensor|meta)|dense_matrix|sparse type|sparse tensors\b", file="SparseTensorImpl|TensorBase|ATen/Utils.h|EmptyTensor|TensorShape|NestedTensorTransformer|_tensor.py|_utils.py|nested/_internal|SparseCsrTensor.cpp"),
    Reason("the convolutions of cuDNN, which a rehearsal does without: PyTorch's own kernel is checked by the dispatcher", file="Convolution.cpp:check_input_same_type"),
    Reason(EARLIER, file="GridSamplerUtils|LinearAlgebraUtils|SortingUtils|TensorShape.h|SparseTensorImpl|SparseCsrTensor|Distance.cpp|Distributions.cpp|ReduceOps.cpp|Resize.cpp:_resize_output|TensorAdvancedIndexing|TensorCompare|TensorFactories|TensorUtils|TensorIterator.cpp:TensorIterator::reduce_op|Convolution.cpp|ivalue_inl|functions/comm.cpp|csrc/cuda/comm.cpp|nn/parallel/(comm|parallel_apply)"),
    Reason("a new kernel or check that the pinned PyTorch does not have, or keeps behind a private name", file="^libtorch$"),
    Reason("an operator without a meta kernel: the dispatcher names it in another message", file="MetaFallback|Dispatcher.cpp|CPUFallback"),
    Reason("only memory that another library hands over can lie elsewhere than stated", file="CUDADevice.h|templates/Functions|StorageSharing|Tensor.__dlpack__"),
    Reason("what cuSOLVER and MAGMA can do, not where a tensor lies", file="BatchLinearAlgebra"),
    Reason("the kernel itself dies, no check: devtrace reports it at the launch (`remote-access`, `wrong-current-device`)", text="illegal memory access"),
    Reason(SHAPE_OF_CALL, file="UpSample.h|KernelUtils.h|Generator|c10/core/|python_arg|python_numbers|tensor_new|csrc/Storage|get_device_module|backend_registration|_device.py|log_extract|dlpack|_utils.py|storage.py|cuda/(__init__|_utils|green_contexts|memory|streams|tunable|graphs)|flex_attention|serialization.py|data_parallel.py|distributed.py:DistributedDataParallel|optimizer.py:_device_dtype"),
    Reason("semi-structured sparse tensors: kernels of GPUs that a rehearsal does not compute", file="torch/sparse/_semi_structured"),
    Reason(SHAPE_OF_CALL, project="accelerate|transformers", text="must be a boolean|must be either|`?device`? is|the value must be|activation_checkpointing|cpu_offload|save_folder|offload_folder|mutually exclusive|Choose either|Pass either|requires `accelerate`|shape mismatches|verify we should|requires psutil|provide a device|DeepSpeed|not contain the module|Only devices in"),
    Reason(QUANTIZER, project="transformers", file="quantizer|quantization|deepgemm|kernel_config|flash|integrations/(flex_attention|accelerate)|modeling_utils"),
    Reason("several processes, or a machine without a GPU, which a rehearsal is not", project="accelerate|transformers", text="distributed|no (available )?GPU|not available|requires a (device|GPU)|support bf16|CUDA kernel|Async batching"),
    Reason("a host whose memory a model does not fit into", project="accelerate", text="must fit in CPU memory"),
    Reason(SHAPE_OF_CALL, project="transformers", text="No requests can be scheduled"),
    Reason("TPUs: the check is made where torch_xla is", project="transformers", text="torch_xla"),
    Reason("about views that a compiled function changes, not about where a tensor lies", text="view chain"),
    Reason("futures of remote procedure calls and of TorchScript's interpreter", text="all futures to have the same devices"),
    Reason("the types of both are compared first, in another message", text="hook '…' has changed the type"),
    Reason("behind a private name, which checks the ordinal that the caller made", text="hasPrimaryContext"),
    Reason("numpy.from_dlpack(device=…) of another library's array alone", project="numpy"),
    Reason("newer than the PyTorch of the tests", project="torch", since=NEWER),
    Reason(OPEN),
)
