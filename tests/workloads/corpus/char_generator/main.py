# EXPECT {"kind":"refused-op","operation":"embedding|index_select","devices":["cuda:0","cuda:1"],"operands":["token|input|indices","encoder.weight|weight"],"category":"default or current device|input not moved","line":["language_model.py: token = token.cuda()"],"error":"on the same device","thread":"https://github.com/flairNLP/flair/pull/666","hard":"the device is a global of another file, which everything else asks"}
# FIX language_model.py: token = token.cuda() -> token = token.to(settings.device)
import argparse

import settings
import torch
from language_model import LanguageModel

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--prefix", default="flat ")
    parser.add_argument("--gpu", type=int, default=1)
    args = parser.parse_args()

    settings.device = torch.device("cuda", args.gpu)
    torch.manual_seed(464)
    lm = LanguageModel("abcdefghijklmnopqrstuvwxyz .", hidden_size=16)
    lm.to(settings.device)
    print(repr(lm.generate_text(args.prefix, number_of_characters=20)))
