# thread: https://github.com/huggingface/transformers/issues/43369
# about: the caller makes position_ids itself and leaves them on the CPU.
# category: input-not-moved
# operands: position_ids cpu, wpe.weight cuda:0
# fails: output = model(input_ids, position_ids=position_ids)
# fix: output = model(input_ids, position_ids=position_ids.to(model.device))


import torch
from transformers import GPT2Config, GPT2Model

model = GPT2Model(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=1, n_head=2)).eval().to("cuda:0")
input_ids = torch.randint(0, 64, (1, 7)).to("cuda:0")
position_ids = torch.arange(7).unsqueeze(0)
with torch.no_grad():
    output = model(input_ids, position_ids=position_ids)
