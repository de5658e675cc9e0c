"""https://github.com/lm-sys/FastChat/issues/2288: the prompt's ids go to generate() as the tokenizer made them.

verdict: input-not-moved
operands: input_ids cpu, model.embed_tokens.weight cuda:0
line: output_ids = model.generate(input_ids, do_sample=False, max_new_tokens=4)
fix: output_ids = model.generate(input_ids.to(model.device), do_sample=False, max_new_tokens=4)
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=32
)
model = LlamaForCausalLM(config).eval().to("cuda:0")
input_ids = torch.randint(3, 64, (1, 7))
output_ids = model.generate(input_ids, do_sample=False, max_new_tokens=4)
