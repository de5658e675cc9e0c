# === aiter_2489
# thread: https://github.com/ROCm/aiter/issues/2489
# about: offsets within a block are made in every call, without a device.
# category: created-without-device
# operands: starts cuda:0, offsets cpu
# fails: slots = starts + offsets
# fix: offsets = torch.arange(block_size, device=starts.device)


import torch


def slots_of(block_table, block_size):
    starts = block_table[:, None] * block_size
    offsets = torch.arange(block_size)
    slots = starts + offsets
    return slots.flatten()


slots_of(torch.tensor([3, 1, 7]).cuda(), block_size=16)

# === batches_to_cuda
# about: Of no thread (privateGPT in one file): the embedding model is told to be on the second GPU, and the batches go to "cuda".
# category: default-or-current-device
# operands: input_ids cuda:0, embeddings.word_embeddings.weight cuda:1
# fails: hidden = self._model(input_ids).last_hidden_state



import torch
from transformers import BertConfig, BertModel


class HuggingFaceEmbedding:
    def __init__(self, device):
        sizes = dict(vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24)
        self._model = BertModel(BertConfig(**sizes)).eval().to(device)

    def embed(self, batch):
        input_ids = torch.tensor(batch).to("cuda")
        hidden = self._model(input_ids).last_hidden_state
        return hidden.mean(dim=1)


HuggingFaceEmbedding("cuda:1").embed([[1, 5, 9], [2, 6, 3]])

# === diffusers_generator
# about: The seed of a pipeline on the GPU comes from a generator of the CPU (the question behind diffusers' randn_tensor and its many threads).
# category: generator
# operands:
# fails: latents = torch.randn((1, 4, 8, 8), generator=generator, device="cuda")
# fix: latents = torch.randn((1, 4, 8, 8), generator=generator, device=generator.device).to("cuda")



import torch

generator = torch.Generator().manual_seed(7)
latents = torch.randn((1, 4, 8, 8), generator=generator, device="cuda")

# === transformers_46817
# thread: https://github.com/huggingface/transformers/issues/46817
# about: code that knows of one GPU a process asks for the current device, which is the first one, while the model was put on the second.
# category: default-or-current-device
# operands: mask cuda:0, scores cuda:1
# fails: return scores.masked_fill(mask, float("-inf")).softmax(dim=-1)
# fix: mask = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1).to(scores.device)



import torch


def attend(queries, keys):
    scores = queries @ keys.transpose(-1, -2)
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1).to(torch.cuda.current_device())
    return scores.masked_fill(mask, float("-inf")).softmax(dim=-1)


states = torch.randn(2, 5, 8).to("cuda:1")
attend(states, states)

# === yolov7_1101
# thread: https://github.com/WongKinYiu/yolov7/issues/1101
# about: the loss makes a tensor that says which layer a box is from, on the CPU, and picks from it with a mask of the predictions' device.
# category: created-without-device
# operands: from_which_layer cpu, chosen cuda:0
# fails: from_which_layer = from_which_layer[chosen]
# fix: from_which_layer = torch.ones(len(boxes), device=boxes.device) * layer



import torch


def build_targets(boxes, layer):
    from_which_layer = torch.ones(len(boxes)) * layer
    chosen = boxes[:, 2] > boxes[:, 0]
    from_which_layer = from_which_layer[chosen]
    return boxes[chosen], from_which_layer


predictions = torch.rand(20, 4).cuda()
build_targets(predictions, layer=1)
