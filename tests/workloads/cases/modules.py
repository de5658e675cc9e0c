# === accelerate_993
# thread: https://github.com/huggingface/accelerate/issues/993
# about: the embedding and the output layer are one tensor, and a device map places them on two devices. accelerate unties them there without a word; moving
#   the parts by hand leaves the tensor with one of them.
# category: tied-weights
# operands: hidden_states cuda:1, self.lm_head.weight cuda:0
# fails: logits = self.lm_head(hidden_states)
# fix: logits = self.lm_head(hidden_states.to(self.embed_tokens.weight.device))


import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(32, 8)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(2))
        self.lm_head = nn.Linear(8, 32, bias=False)
        self.lm_head.weight = self.embed_tokens.weight

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states.to(layer.weight.device))
        logits = self.lm_head(hidden_states)
        return logits


model = LanguageModel()
for name, device in {"embed_tokens": "cuda:0", "layers.0": "cuda:0", "layers.1": "cuda:1"}.items():
    model.get_submodule(name).to(device)
model(torch.randint(0, 32, (1, 6)).to("cuda:0"))

# === chatglm3_1285
# thread: https://github.com/zai-org/ChatGLM3/issues/1285
# about: the model is loaded with device_map="auto", and .cuda() behind it brings all weights to the first GPU, while accelerate's hooks go on sending
#   activations to the second.
# category: module-split-or-hook-missing
# operands: layers.1.weight cuda:0


import torch
from accelerate import dispatch_model
from torch import nn


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, input_ids):
        hidden_states = self.embedding(input_ids)
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return hidden_states


model = dispatch_model(Decoder(), {"embedding": 0, "layers.0": 0, "layers.1": 1})
nn.Module.cuda(model)
model(torch.randint(0, 32, (1, 6)).cuda())

# === internvl_420
# thread: https://github.com/OpenGVLab/InternVL/issues/420
# about: the vision tower is on one GPU, the language model on another, and the image's features are put among the embeddings of the text.
# category: module-split-or-hook-missing
# operands: vit_embeds cuda:1, input_embeds cuda:0
# fails: return torch.cat([vit_embeds, input_embeds], dim=1)
# fix: return torch.cat([vit_embeds.to(input_embeds.device), input_embeds], dim=1)



import torch
from torch import nn


class Chat(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision_model = nn.Linear(12, 16).to("cuda:1")
        self.embed_tokens = nn.Embedding(32, 16).to("cuda:0")

    def forward(self, pixel_values, input_ids):
        input_embeds = self.embed_tokens(input_ids)
        vit_embeds = self.vision_model(pixel_values)
        return torch.cat([vit_embeds, input_embeds], dim=1)


Chat()(torch.randn(1, 4, 12).to("cuda:1"), torch.randint(0, 32, (1, 6)).to("cuda:0"))

# === pytorch_36035
# thread: https://github.com/pytorch/pytorch/issues/36035
# about: what is neither parameter nor buffer stays on the first device in every replica of nn.DataParallel.
# category: data-parallel
# operands: self.scale cuda:0
# fails: return self.linear(x) * self.scale
# fix: self.register_buffer("scale", torch.rand(5).to("cuda:0"), persistent=False)



import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5)
        self.scale = torch.rand(5).to("cuda:0")

    def forward(self, x):
        return self.linear(x) * self.scale


model = nn.DataParallel(Scaled().to("cuda:0"), device_ids=[0, 1])
model(torch.randn(8, 5).to("cuda:0"))

# === transformers_34456
# thread: https://github.com/huggingface/transformers/issues/34456
# about: a device map written by hand names embeddings and layers, and not the rotary embedding, a module of its own since 4.45 (whose later versions move
#   its frequencies themselves): it stays on the CPU.
# category: module-split-or-hook-missing
# operands: inv_freq_expanded cpu, position_ids_expanded cuda:0
# fails: freqs = torch.bmm(inv_freq_expanded, position_ids_expanded)
# fix: inv_freq_expanded = self.inv_freq[None, :, None].expand(position_ids.shape[0], -1, 1).to(position_ids.device)


import torch
from torch import nn


class RotaryEmbedding(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.register_buffer("inv_freq", 10000.0 ** (-torch.arange(0, width, 2) / width), persistent=False)

    def forward(self, position_ids):
        inv_freq_expanded = self.inv_freq[None, :, None].expand(position_ids.shape[0], -1, 1)
        position_ids_expanded = position_ids[:, None, :].float()
        freqs = torch.bmm(inv_freq_expanded, position_ids_expanded)
        return freqs.transpose(1, 2).cos()


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(32, 4)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.rotary_emb = RotaryEmbedding()

    def forward(self, input_ids):
        hidden_states = self.embed_tokens(input_ids)
        position_ids = torch.arange(input_ids.shape[1], device=hidden_states.device)[None]
        rotary = self.rotary_emb(position_ids)
        for layer in self.layers:
            hidden_states = hidden_states.to(layer.weight.device)
            hidden_states = layer(hidden_states * rotary.to(hidden_states.device))
        return hidden_states


model = Decoder()
for name, device in {"embed_tokens": "cuda:0", "layers.0": "cuda:0", "layers.1": "cuda:1"}.items():
    model.get_submodule(name).to(device)
model(torch.randint(0, 32, (1, 6)).to("cuda:0"))

# === trl_532
# thread: https://github.com/huggingface/trl/issues/532
# about: the base model is spread by its device map, and the value head that is put on top of it stays on the device where it was made.
# category: module-split-or-hook-missing
# operands: v_head.summary.weight cpu
# fails: return self.summary(hidden_states)



import torch
from torch import nn


class ValueHead(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.summary = nn.Linear(width, 1)

    def forward(self, hidden_states):
        return self.summary(hidden_states)


class CausalLMWithValueHead(nn.Module):
    def __init__(self, pretrained_model):
        super().__init__()
        self.pretrained_model = pretrained_model
        self.v_head = ValueHead(16)

    def forward(self, input_ids):
        return self.v_head(self.pretrained_model(input_ids))


base = nn.Sequential(nn.Embedding(32, 16), nn.Linear(16, 16))
base[0].to("cuda:0")
base[1].to("cuda:0")
model = CausalLMWithValueHead(base)
model(torch.randint(0, 32, (2, 5)).to("cuda:0"))
