import abc

import torch
from torch import nn


class BaseLM(abc.ABC):
    @property
    @abc.abstractmethod
    def device(self): ...

    @abc.abstractmethod
    def tok_encode(self, text): ...

    @abc.abstractmethod
    def _model_call(self, inputs): ...

    def loglikelihood(self, requests):
        return self._loglikelihood_tokens([(self.tok_encode(context), self.tok_encode(answer)) for context, answer in requests])

    def _loglikelihood_tokens(self, requests):
        scores = []
        for context, continuation in requests:
            inp = torch.tensor([(context + continuation)[-self.max_length - 1 : -1]])
            logits = self._model_call(inp).log_softmax(-1)[0, -len(continuation) :].cpu()
            scores.append(logits.gather(1, torch.tensor(continuation)[:, None]).sum().item())
        return scores


class CausalLM(BaseLM):
    max_length = 16

    def __init__(self, vocabulary, device):
        self._device, self.vocabulary = torch.device(device), vocabulary
        self.wte, self.rnn, self.head = nn.Embedding(vocabulary, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, vocabulary)
        for module in (self.wte, self.rnn, self.head):
            module.to(self._device)

    @property
    def device(self):
        return self._device

    def tok_encode(self, text):
        return [ord(letter) % self.vocabulary for letter in text]

    @torch.no_grad()
    def _model_call(self, inputs):
        return self.head(self.rnn(self.wte(inputs))[0])
