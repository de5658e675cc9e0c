"""In the place of the package of this name, whose weights are 88 MB: its tokenizer with a small BERT of random weights, made when it is first asked for."""

import os
import shutil
from pathlib import Path


def get_model_path() -> Path:
    folder = Path(os.environ["DEVTRACE_HARDWARE_MODEL"])
    if not (folder / "config.json").exists():
        import torch
        from transformers import BertConfig, BertModel

        torch.manual_seed(1)
        config = BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
        shutil.copytree(Path(__file__).resolve().parent / "tokenizer", folder, dirs_exist_ok=True)
        BertModel(config).save_pretrained(folder)
    return folder
