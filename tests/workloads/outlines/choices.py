"""Answers of several samples whose letters are constrained, by the token generator and the sampler of outlines 0.0.34.

    python choices.py            the model is on cuda:1, the weights of the sequences on cuda:0: PyTorch refuses
    python choices.py --fixed    the weights are made where the model is
    python choices.py --cpu      everything on the CPU
"""

import argparse
import json

import torch

import package  # noqa: F401  before outlines: it makes single modules of it importable
from outlines.generate.generator import sequence_generator
from outlines.samplers import MultinomialSampler

LETTERS = " abcdefghijklmnopqrstuvwxyz.?"


class LetterModel(torch.nn.Module):
    """A small causal language model over letters; called as outlines calls models."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.embedding = torch.nn.Embedding(len(LETTERS), width)
        self.mixer = torch.nn.GRU(width, width, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(width, len(LETTERS))

    @torch.inference_mode()
    def forward(self, token_ids, attention_mask, kv_cache):
        hidden, _ = self.mixer(self.embedding(token_ids))
        return self.head(hidden[:, -1]) * 8, None


class WordsOf:
    """A state machine in outlines' sense: words of the given length, each letter at most once; the state is what was written, in bits."""

    def __init__(self, longest: int):
        self.longest = longest

    def allowed_token_ids(self, state: int) -> list[int]:
        return [index for index in range(1, 27) if not state >> index & 1]

    def next_state(self, state: int, token_id: int) -> int:
        return state | 1 << token_id

    def is_final_state(self, state: int) -> bool:
        return state.bit_count() == self.longest

    def copy(self):
        return self


def complete(model, prompts: list[str], longest: int, weights: torch.Tensor) -> tuple[list[str], list[float]]:
    """Returns one word a prompt and the log probabilities that the sampler summed up in `weights`, float32 [prompts]."""
    device = next(model.parameters()).device
    token_ids = torch.tensor([[LETTERS.index(letter) for letter in prompt] for prompt in prompts], device=device)
    machines = [WordsOf(longest) for _ in prompts]
    sampler = MultinomialSampler(top_k=1)
    states = sequence_generator(
        model, sampler, machines, token_ids, weights, torch.ones_like(token_ids), [0] * len(prompts), rng=torch.Generator(device).manual_seed(34)
    )
    for state in states:
        last = state
    words = ["".join(LETTERS[token] for token in row[-longest:]) for row in last.token_ids.tolist()]
    return words, last.weights.tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    variant = parser.add_mutually_exclusive_group()
    variant.add_argument("--fixed", action="store_true", help="make the weights on the model's device")
    variant.add_argument("--cpu", action="store_true", help="use no GPU")
    options = parser.parse_args()

    torch.manual_seed(34)
    model = LetterModel().eval()
    model.to("cpu" if options.cpu else "cuda:1")
    prompts = ["what do the bees eat", "where do foxes live?"]
    if options.fixed or options.cpu:
        weights = torch.zeros(len(prompts), device=next(model.parameters()).device)
    else:
        weights = torch.zeros(len(prompts), device="cuda")
    words, weights = complete(model, prompts, 6, weights)
    print(json.dumps({"device": str(next(model.parameters()).device), "words": words, "weights": weights}))


if __name__ == "__main__":
    main()
