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
