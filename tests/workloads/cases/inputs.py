# === fastchat_2288
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

# === torchkeras_20
# thread: https://github.com/lyhue1991/torchkeras/issues/20
# about: the model and the features are on the GPU, the labels are not.
# category: input-not-moved
# operands: labels cpu, predictions cuda:0
# fails: loss = loss_func(predictions, labels)
# fix: loss = loss_func(predictions, labels.to(predictions.device))


import torch
from torch import nn


def train_step(model, features, labels):
    predictions = model(features)
    loss_func = nn.CrossEntropyLoss()
    loss = loss_func(predictions, labels)
    loss.backward()
    return loss.item()


net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3)).cuda()
train_step(net, torch.randn(12, 10).cuda(), torch.randint(0, 3, (12,)))

# === transformers_22663
# thread: https://github.com/huggingface/transformers/issues/22663
# about: a LLaMA whose layers accelerate spread over two GPUs computes its own loss; the logits are on the last device, the labels where the caller put them.
# category: input-not-moved
# operands: shift_labels cuda:0, shift_logits cuda:1
# fails: loss = F.cross_entropy(shift_logits, shift_labels)
# fix: loss = F.cross_entropy(shift_logits, shift_labels.to(shift_logits.device))



import torch
from torch import nn
from torch.nn import functional as F


class CausalLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(32, 16)
        self.layer = nn.Linear(16, 16)
        self.lm_head = nn.Linear(16, 32)

    def forward(self, input_ids, labels):
        hidden_states = self.embed_tokens(input_ids)
        logits = self.lm_head(self.layer(hidden_states.to(self.layer.weight.device)))
        shift_logits = logits[:, :-1].reshape(-1, logits.shape[-1])
        shift_labels = labels[:, 1:].reshape(-1)
        loss = F.cross_entropy(shift_logits, shift_labels)
        return loss


model = CausalLM()
model.embed_tokens.to("cuda:0")
model.layer.to("cuda:1")
model.lm_head.to("cuda:1")
input_ids = torch.randint(0, 32, (2, 9)).to("cuda:0")
model(input_ids, labels=input_ids).backward()

# === transformers_43369
# thread: https://github.com/huggingface/transformers/issues/43369
# about: the caller makes position_ids itself and leaves them on the CPU.
# category: input-not-moved
# operands: position_ids cpu, wpe.weight cuda:0
# fails: output = model(input_ids, position_ids=position_ids)
# fix: position_ids = torch.arange(7, device=input_ids.device).unsqueeze(0)


import torch
from transformers import GPT2Config, GPT2Model

model = GPT2Model(GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=1, n_head=2)).eval().to("cuda:0")
input_ids = torch.randint(0, 64, (1, 7)).to("cuda:0")
position_ids = torch.arange(7).unsqueeze(0)
with torch.no_grad():
    output = model(input_ids, position_ids=position_ids)
