"""transformers' own tests of models (ModelTesterMixin) over tiny models with random weights. Laid into the tests/ of transformers' sdist, which
has these tests and not the files that name models for them: those want the hub, or are left out.
"""

import sys
import types

import torch
import transformers
from transformers.testing_utils import torch_device


def stand_in(name, mixin):
    """A module of tests that the sdist lacks, and its class with no tests in it."""
    package, _, module = name.partition(".")
    sys.modules.setdefault(f"{__package__}.{package}", types.ModuleType(f"{__package__}.{package}")).__path__ = []
    sys.modules[f"{__package__}.{name}"] = made = types.ModuleType(f"{__package__}.{name}")
    setattr(made, mixin, type(mixin, (), {}))
    return getattr(made, mixin)


stand_in("exporters.test_export", "ExportTesterMixin")
GenerationTesterMixin = stand_in("generation.test_utils", "GenerationTesterMixin")

from . import test_modeling_common  # noqa: E402

BATCH, LENGTH, WIDTH, LAYERS, HEADS, WORDS = 3, 7, 32, 2, 4, 99

TEXT = {"vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
DECODER = {**TEXT, "intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 64}
ENCODER = {**TEXT, "intermediate_size": 64, "max_position_embeddings": 64, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
GPT = {**TEXT, "max_position_embeddings": 64}
T5 = {"vocab_size": WORDS, "d_model": WIDTH, "d_kv": 8, "d_ff": 64, "num_layers": LAYERS, "num_decoder_layers": LAYERS, "num_heads": HEADS, "relative_attention_num_buckets": 8,
      "dropout_rate": 0.0, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}  # fmt: skip

GENERATING, CLASSIFYING = ("Model", "ForCausalLM"), ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
# The start of its classes' names, the ends, and its configuration.
MODELS = {
    "Llama": (GENERATING, DECODER),
    "Mixtral": (GENERATING, {**DECODER, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "GPT2": (("Model", "LMHeadModel"), GPT),
    "Bert": (CLASSIFYING, ENCODER),
    "T5": (("Model", "ForConditionalGeneration"), T5),
}  # fmt: skip


class Tester:
    """What ModelTesterMixin asks of a model's own test file."""

    batch_size, seq_length, encoder_seq_length, decoder_seq_length = BATCH, LENGTH, LENGTH, LENGTH
    hidden_size, num_hidden_layers, num_attention_heads = WIDTH, LAYERS, HEADS
    is_training = True

    def __init__(self, parent, start, settings):
        self.parent, self.start, self.settings = parent, start, settings

    def get_config(self):
        return getattr(transformers, f"{self.start}Config")(**self.settings)

    def prepare_config_and_inputs_for_common(self):
        config = self.get_config()
        words = torch.randint(3, WORDS, (BATCH, LENGTH), device=torch_device)
        inputs = {"input_ids": words, "attention_mask": torch.ones_like(words)}
        if config.is_encoder_decoder:
            inputs.update(decoder_input_ids=words.flip(-1), decoder_attention_mask=torch.ones_like(words))
        return config, inputs


def case(start, ends, settings):
    classes = tuple(getattr(transformers, start + end) for end in ends)
    generation = (GenerationTesterMixin,) if any(c.can_generate() for c in classes) else ()

    def set_up(self):
        super(made, self).setUp()
        self.model_tester = Tester(self, start, settings)

    body = {"setUp": set_up, "all_model_classes": classes, "is_encoder_decoder": start == "T5", "__module__": __name__}
    made = type(f"{start}Test", (test_modeling_common.ModelTesterMixin, *generation, transformers.testing_utils.TestCasePlus), body)
    return made


globals().update({f"{start}Test": case(start, ends, settings) for start, (ends, settings) in MODELS.items()})
