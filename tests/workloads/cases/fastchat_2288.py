# thread: https://github.com/lm-sys/FastChat/issues/2288
# about: the tokens of a conversation become a tensor in the call of the model, on the CPU.
# category: input-not-moved
# operands: input_ids cpu, model.embed_tokens.weight cuda:0
# fails: out = model(input_ids=torch.as_tensor([tokens]), use_cache=False)
# fix: out = model(input_ids=torch.as_tensor([tokens], device=device), use_cache=False)


import torch
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2)


@torch.inference_mode()
def generate_stream(device, tokens, longest):
    model = LlamaForCausalLM(LlamaConfig(**SIZES)).eval().to(device)
    while len(tokens) < longest:
        out = model(input_ids=torch.as_tensor([tokens]), use_cache=False)
        tokens.append(out.logits[0, -1].argmax().item())
        yield tokens


for _ in generate_stream("cuda:0", [1, 17, 23, 5], longest=8):
    pass
