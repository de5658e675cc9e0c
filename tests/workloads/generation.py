"""Two language models, each split by accelerate over some devices, generate text.

generation.py FOLDER DEVICES… (2 4 8): for each model and each number of devices, the tokens and where the layers were, as JSON; the
number 0 means the CPU. FOLDER keeps the models, as a cache of downloads would.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

LAYERS = 16


def make(name):
    torch.manual_seed(3)
    if name == "llama":
        return LlamaForCausalLM(LlamaConfig(
            vocab_size=160, hidden_size=64, intermediate_size=128, num_hidden_layers=LAYERS, num_attention_heads=4, num_key_value_heads=2,
            max_position_embeddings=64, initializer_range=0.3))
    return GPT2LMHeadModel(GPT2Config(vocab_size=160, n_embd=64, n_layer=LAYERS, n_head=4, n_positions=64, initializer_range=0.3, bos_token_id=1, eos_token_id=2))


def load(folder, name, devices):
    path = folder / name
    if not path.exists():
        make(name).save_pretrained(path)
    if devices == 0:
        return AutoModelForCausalLM.from_pretrained(path)
    # Devices that hold just their share, but for the last, so that the model reaches all of them.
    share = sum(file.stat().st_size for file in path.glob("*.safetensors")) // devices
    limits = {device: share if device < devices - 1 else "1GiB" for device in range(devices)}
    return AutoModelForCausalLM.from_pretrained(path, device_map="auto", max_memory=limits)


def generate(model, **how):
    prompt = torch.tensor([[5, 80, 7, 33, 121, 9], [100, 3, 64, 12, 90, 41]], device=model.device)
    made = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=10, pad_token_id=0, eos_token_id=None, **how)
    return made[:, prompt.shape[1]:].tolist()


def main():
    torch.set_num_threads(1)
    folder, counts = Path(sys.argv[1]), [int(word) for word in sys.argv[2:]]
    found = {}
    for name in ("llama", "gpt2"):
        for devices in counts:
            model = load(folder, name, devices).eval()
            found[f"{name} {devices}"] = {
                "greedy": generate(model, do_sample=False),
                "beams": generate(model, do_sample=False, num_beams=2),
                "devices": sorted({str(parameter.device) for parameter in model.parameters()}),
            }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
