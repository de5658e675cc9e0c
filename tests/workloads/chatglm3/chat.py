"""A long-context chat model that is larger than one GPU: accelerate spreads its layers with device_map="auto".

    python chat.py            the layers' caches are joined across two devices: PyTorch refuses (ChatGLM2-6B#437, ChatGLM3-6B-128K)
    python chat.py --fixed    what was joined so far follows
    python chat.py --cpu      everything on the CPU
"""

import argparse
import json

import torch
from accelerate import dispatch_model, infer_auto_device_map
from accelerate.utils import get_balanced_memory

from modeling_chatglm import ChatGLMConfig, ChatGLMForConditionalGeneration


def load(config: ChatGLMConfig, spread: bool):
    """The model with weights of a fixed seed; spread over all GPUs as from_pretrained(device_map="auto") does."""
    torch.manual_seed(128)
    model = ChatGLMForConditionalGeneration(config).eval()
    if not spread:
        return model
    together = ["GLMBlock"]
    memory = get_balanced_memory(model, no_split_module_classes=together)
    return dispatch_model(model, infer_auto_device_map(model, max_memory=memory, no_split_module_classes=together))


@torch.no_grad()
def answer(model, question: str, tokens: int = 12):
    """Greedy; returns the new token ids, and the logits of the last step."""
    input_ids = torch.tensor([[ord(letter) - 32 for letter in question]], device=next(model.parameters()).device)
    past_key_values, written = None, []
    for _ in range(tokens):
        logits, past_key_values = model(input_ids, past_key_values)
        input_ids = logits.argmax(dim=-1, keepdim=True)
        written.append(input_ids.item())
    return written, logits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    variant = parser.add_mutually_exclusive_group()
    variant.add_argument("--fixed", action="store_true", help="join the caches on the later layer's device")
    variant.add_argument("--cpu", action="store_true", help="use no GPU")
    options = parser.parse_args()

    model = load(ChatGLMConfig(presents_follow=options.fixed), spread=not options.cpu)
    written, logits = answer(model, "How long is the longest river of Asia, and where does it rise?")
    print(json.dumps({
        "devices": sorted({str(parameter.device) for parameter in model.parameters()}),
        "written": written,
        "logits": logits[0].cpu().tolist(),
    }))


if __name__ == "__main__":
    main()
