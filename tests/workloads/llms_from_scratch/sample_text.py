"""A reader's script beside chapter 5 of "Build a Large Language Model (From Scratch)", with the book's own package.

    python sample_text.py            the model is on cuda:0, the token ids stay on the CPU: PyTorch refuses (LLMs-from-scratch#435)
    python sample_text.py --fixed    the token ids follow
    python sample_text.py --cpu      everything on the CPU
"""

import argparse
import json
import sys
import types

import torch

# The package asks for matplotlib to draw losses; nothing is drawn here.
for name in ("matplotlib", "matplotlib.pyplot", "matplotlib.ticker"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["matplotlib.ticker"].MaxNLocator = None

from llms_from_scratch.ch04 import GPTModel
from llms_from_scratch.ch05 import generate, text_to_token_ids, token_ids_to_text

from tokenizer import ByteTokenizer

CONFIG = {
    "vocab_size": ByteTokenizer.vocabulary,
    "context_length": 64,
    "emb_dim": 48,
    "n_heads": 4,
    "n_layers": 3,
    "drop_rate": 0.0,
    "qkv_bias": False,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    variant = parser.add_mutually_exclusive_group()
    variant.add_argument("--fixed", action="store_true", help="move the token ids to the model's device")
    variant.add_argument("--cpu", action="store_true", help="use no GPU")
    options = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() and not options.cpu else "cpu")
    torch.manual_seed(123)
    model = GPTModel(CONFIG)
    model.to(device)
    model.eval()
    tokenizer = ByteTokenizer()

    if options.fixed:
        token_ids = generate(
            model=model,
            idx=text_to_token_ids("Every effort moves you", tokenizer).to(device),
            max_new_tokens=10,
            context_size=CONFIG["context_length"],
        )
    else:
        token_ids = generate(
            model=model,
            idx=text_to_token_ids("Every effort moves you", tokenizer),
            max_new_tokens=10,
            context_size=CONFIG["context_length"],
        )
    print(json.dumps({"device": device.type, "token_ids": token_ids.tolist(), "text": token_ids_to_text(token_ids, tokenizer)}))


if __name__ == "__main__":
    main()
