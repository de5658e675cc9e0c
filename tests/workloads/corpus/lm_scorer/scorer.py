from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.out = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.out(self.embed(tokens)).log_softmax(-1)


class LanguageModelScorer:
    """How likely each next token is, by a language model."""

    def __init__(self, lm, weight):
        self.lm = lm
        self.weight = weight

    def score(self, inp_tokens):
        return self.weight * self.lm(inp_tokens)
