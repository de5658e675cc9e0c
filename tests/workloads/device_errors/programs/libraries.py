"""accelerate and transformers."""

import torch

from ..provokes import provokes
from .elementwise import HOST, ONE, TWO


def two_layers(device=HOST):
    return torch.nn.Sequential(torch.nn.Linear(2, 2, device=device), torch.nn.Linear(2, 2, device=device))


def dispatched(**device_map):
    from accelerate import dispatch_model

    return dispatch_model(two_layers(), device_map={name.lstrip("_"): device for name, device in device_map.items()}, offload_dir="offloaded")


@provokes("accelerate-you-cant-move-a-model-that-has", "torch.nn.Module.to|to|accelerate.dispatch_model|accelerate.dispatch_model.wrapper", HOST, TWO)
def move_an_offloaded_model():
    dispatched(_0=0, _1="cpu").to(TWO)


@provokes("accelerate-we-need-an-offload_dir-to-dispatch-this", "accelerate.dispatch_model|dispatch_model", HOST, ONE, "disk")
def dispatch_without_a_folder():
    from accelerate import dispatch_model

    return dispatch_model(two_layers(), device_map={"0": 0, "1": "disk"})


@provokes("accelerate-the-device_map-provided-does-not-give-any", "accelerate.dispatch_model|dispatch_model|check_device_map", HOST, ONE)
def incomplete_device_map():
    from accelerate import dispatch_model

    return dispatch_model(two_layers(), device_map={"0": 0})


@provokes("accelerate-if-passing-a-string-for-device_map-please", "accelerate.load_checkpoint_and_dispatch|load_checkpoint_and_dispatch", HOST)
def unknown_device_map():
    from accelerate import load_checkpoint_and_dispatch

    return load_checkpoint_and_dispatch(two_layers(), "nowhere", device_map="everywhere")


@provokes("accelerate-is-on-the-meta-device-we-need", "accelerate.utils.set_module_tensor_to_device|set_module_tensor_to_device", "meta", ONE)
def module_tensor_without_a_value():
    from accelerate.utils import set_module_tensor_to_device

    set_module_tensor_to_device(two_layers("meta"), "0.weight", ONE)


def quantized(**device_map):
    model = two_layers(ONE)
    model.is_loaded_in_8bit = True
    model.hf_device_map = {name.lstrip("_"): device for name, device in device_map.items()}
    return model


@provokes("accelerate-you-cant-train-a-model-that-has", "accelerate.Accelerator.prepare|prepare|prepare_model", ONE, TWO)
def eight_bit_model_on_another_device():
    from accelerate import Accelerator

    return Accelerator().prepare(quantized(_=1))


@provokes("accelerate-you-cant-train-a-model-that-has-been-loaded", "accelerate.Accelerator.prepare|prepare|prepare_model", ONE, HOST)
def eight_bit_model_that_is_offloaded():
    from accelerate import Accelerator

    return Accelerator().prepare(quantized(_0=0, _1="cpu"))


@provokes("accelerate-you-cant-save-the-model-since-some", "accelerate.Accelerator.save_model|save_model", "meta")
def save_a_meta_model():
    from accelerate import Accelerator

    return Accelerator().save_model(two_layers("meta"), "saved")


def small_model():
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig(vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1, intermediate_size=4))


def saved_model():
    small_model().save_pretrained("model")
    return "model"


@provokes("transformers-you-cant-pass-device_map-as-a-negative", "transformers.AutoModel.from_pretrained|from_pretrained|transformers.BertModel.from_pretrained", HOST)
def negative_device_map():
    from transformers import BertModel

    return BertModel.from_pretrained(saved_model(), device_map=-1)


@provokes("transformers-when-passing-device_map-as-a-string-the", "transformers.AutoModel.from_pretrained|from_pretrained|transformers.BertModel.from_pretrained")
def misspelt_device_map():
    from transformers import BertModel

    return BertModel.from_pretrained(saved_model(), device_map="everywhere")


@provokes("transformers-you-are-using-from_pretrained-with-a-meta", "transformers.AutoModel.from_pretrained|from_pretrained|transformers.BertModel.from_pretrained", "meta")
def from_pretrained_on_meta():
    from transformers import BertModel

    folder = saved_model()
    with torch.device("meta"):
        return BertModel.from_pretrained(folder)


@provokes("transformers-the-model-has-been-loaded-with-accelerate", "transformers.pipeline|pipeline|transformers.Pipeline", ONE, TWO)
def pipeline_of_a_dispatched_model():
    from accelerate import dispatch_model
    from transformers import FeatureExtractionPipeline

    model = small_model()
    model = dispatch_model(model, device_map={"embeddings": 0, "encoder": 1, "pooler": 1}, main_device=0)
    return FeatureExtractionPipeline(model=model, tokenizer=object(), device=0)


@provokes("transformers-calling-cuda-is-not-supported-for-bit-quantized", "torch.nn.Module.cuda|cuda|transformers.PreTrainedModel.cuda", HOST)
def move_an_eight_bit_model():
    from transformers.utils.quantization_config import QuantizationMethod

    model = small_model()
    model.quantization_method = QuantizationMethod.BITS_AND_BYTES
    model.is_loaded_in_8bit = True
    return model.cuda()


@provokes("numpy-unsupported-device-only-cpu-is-accepted", "numpy.ndarray.to_device|to_device", ONE)
def numpy_to_a_device():
    import numpy

    return numpy.ones(2).to_device(ONE)


@provokes("numpy-device-not-understood-only-cpu-is-allowed", "numpy.from_dlpack|from_dlpack", ONE)
def numpy_from_dlpack_on_a_device():
    import numpy

    return numpy.from_dlpack(numpy.ones(2), device=ONE)


@provokes("numpy-device-not-understood-only-cpu-is-allowed", "numpy.astype|astype", ONE, HOST)
def numpy_astype_on_a_device():
    import numpy

    return numpy.astype(numpy.ones(2), numpy.float32, device=ONE)
