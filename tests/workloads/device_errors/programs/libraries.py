"""accelerate and transformers."""

import torch

ONE, TWO, HOST = "cuda:0", "cuda:1", "cpu"


def two_layers(device=HOST):
    return torch.nn.Sequential(torch.nn.Linear(2, 2, device=device), torch.nn.Linear(2, 2, device=device))


def dispatched(**device_map):
    from accelerate import dispatch_model

    return dispatch_model(two_layers(), device_map={name.lstrip("_"): device for name, device in device_map.items()}, offload_dir="offloaded")


def quantized(**device_map):
    model = two_layers(ONE)
    model.is_loaded_in_8bit = True
    model.hf_device_map = {name.lstrip("_"): device for name, device in device_map.items()}
    return model


def small_model():
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4))


def saved_model():
    small_model().save_pretrained("model")
    return "model"

# === move_an_offloaded_model
# message: accelerate-you-cant-move-a-model-that-has
# operation: torch.nn.Module.to|to|accelerate.dispatch_model|accelerate.dispatch_model.wrapper on cpu, cuda:1
def move_an_offloaded_model():
    dispatched(_0=0, _1="cpu").to(TWO)

# === dispatch_without_a_folder
# message: accelerate-we-need-an-offload_dir-to-dispatch-this
# operation: accelerate.dispatch_model|dispatch_model on cpu, cuda:0, disk
def dispatch_without_a_folder():
    from accelerate import dispatch_model

    return dispatch_model(two_layers(), device_map={"0": 0, "1": "disk"})

# === incomplete_device_map
# message: accelerate-the-device_map-provided-does-not-give-any
# operation: accelerate.dispatch_model|dispatch_model|check_device_map on cpu, cuda:0
def incomplete_device_map():
    from accelerate import dispatch_model

    return dispatch_model(two_layers(), device_map={"0": 0})

# === unknown_device_map
# message: accelerate-if-passing-a-string-for-device_map-please
# operation: accelerate.load_checkpoint_and_dispatch|load_checkpoint_and_dispatch on cpu
def unknown_device_map():
    from accelerate import load_checkpoint_and_dispatch

    return load_checkpoint_and_dispatch(two_layers(), "nowhere", device_map="everywhere")

# === module_tensor_without_a_value
# message: accelerate-is-on-the-meta-device-we-need
# operation: accelerate.utils.set_module_tensor_to_device|set_module_tensor_to_device on meta, cuda:0
def module_tensor_without_a_value():
    from accelerate.utils import set_module_tensor_to_device

    set_module_tensor_to_device(two_layers("meta"), "0.weight", ONE)

# === eight_bit_model_on_another_device
# message: accelerate-you-cant-train-a-model-that-has
# operation: accelerate.Accelerator.prepare|prepare|prepare_model on cuda:0, cuda:1
def eight_bit_model_on_another_device():
    from accelerate import Accelerator

    return Accelerator().prepare(quantized(_=1))

# === eight_bit_model_that_is_offloaded
# message: accelerate-you-cant-train-a-model-that-has-been-loaded
# operation: accelerate.Accelerator.prepare|prepare|prepare_model on cuda:0, cpu
def eight_bit_model_that_is_offloaded():
    from accelerate import Accelerator

    return Accelerator().prepare(quantized(_0=0, _1="cpu"))

# === save_a_meta_model
# message: accelerate-you-cant-save-the-model-since-some
# operation: accelerate.Accelerator.save_model|save_model on meta
def save_a_meta_model():
    from accelerate import Accelerator

    return Accelerator().save_model(two_layers("meta"), "saved")

# === negative_device_map
# message: transformers-you-cant-pass-device_map-as-a-negative
# operation: transformers.AutoModel.from_pretrained|from_pretrained|transformers.BertModel.from_pretrained on cpu
def negative_device_map():
    from transformers import BertModel

    return BertModel.from_pretrained(saved_model(), device_map=-1)

# === misspelt_device_map
# message: transformers-when-passing-device_map-as-a-string-the
# operation: transformers.AutoModel.from_pretrained|from_pretrained|transformers.BertModel.from_pretrained
def misspelt_device_map():
    from transformers import BertModel

    return BertModel.from_pretrained(saved_model(), device_map="everywhere")

# === from_pretrained_on_meta
# message: transformers-you-are-using-from_pretrained-with-a-meta
# operation: transformers.AutoModel.from_pretrained|from_pretrained|transformers.BertModel.from_pretrained on meta
def from_pretrained_on_meta():
    from transformers import BertModel

    folder = saved_model()
    with torch.device("meta"):
        return BertModel.from_pretrained(folder)

# === pipeline_of_a_dispatched_model
# message: transformers-the-model-has-been-loaded-with-accelerate
# operation: transformers.pipeline|pipeline|transformers.Pipeline on cuda:0, cuda:1
def pipeline_of_a_dispatched_model():
    from accelerate import dispatch_model
    from transformers import FeatureExtractionPipeline

    model = small_model()
    model = dispatch_model(model, device_map={"embeddings": 0, "encoder": 1, "pooler": 1}, main_device=0)
    return FeatureExtractionPipeline(model=model, tokenizer=object(), device=0)

# === move_an_eight_bit_model
# message: transformers-calling-cuda-is-not-supported-for-bit-quantized
# operation: torch.nn.Module.cuda|cuda|transformers.PreTrainedModel.cuda on cpu
def move_an_eight_bit_model():
    from transformers.utils.quantization_config import QuantizationMethod

    model = small_model()
    model.quantization_method = QuantizationMethod.BITS_AND_BYTES
    model.is_loaded_in_8bit = True
    return model.cuda()

# === numpy_to_a_device
# message: numpy-unsupported-device-only-cpu-is-accepted
# operation: numpy.ndarray.to_device|to_device on cuda:0
def numpy_to_a_device():
    import numpy

    return numpy.ones(2).to_device(ONE)

# === numpy_from_dlpack_on_a_device
# message: numpy-device-not-understood-only-cpu-is-allowed
# operation: numpy.from_dlpack|from_dlpack on cuda:0
def numpy_from_dlpack_on_a_device():
    import numpy

    return numpy.from_dlpack(numpy.ones(2), device=ONE)

# === numpy_astype_on_a_device
# message: numpy-device-not-understood-only-cpu-is-allowed
# operation: numpy.astype|astype on cuda:0, cpu
def numpy_astype_on_a_device():
    import numpy

    return numpy.astype(numpy.ones(2), numpy.float32, device=ONE)
