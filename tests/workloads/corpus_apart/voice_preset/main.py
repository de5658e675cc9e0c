# EXPECT {"kind":"refused-op","operation":"embedding|index_select","devices":["cuda:0","cpu"],"operands":["history|semantic_history|input|indices|index","input_embeds_layer.weight|weight"],"category":"input not moved","line":["processing.py: key: value.to(device) if isinstance(value, torch.Tensor)","main.py: inputs = processor(","model.py: history = history_prompt["],"error":"on the same device","thread":"https://github.com/huggingface/transformers/issues/34634","hard":"the inputs were moved, and they say so; what is nested in them was not"}
# FIX processing.py: key: value.to(device) if isinstance(value, torch.Tensor) else value -> key: value.to(device) if isinstance(value, (torch.Tensor, BatchFeature)) else value
import torch

from model import BarkSemanticModel
from processing import BarkProcessor

device = torch.device("cuda:0")
presets = {
    "v2/en_speaker_6": {
        "semantic_prompt": torch.tensor([5, 9, 2, 7, 11, 3]),
        "coarse_prompt": torch.tensor([[1, 4, 2], [6, 0, 3]]),
    }
}
processor = BarkProcessor(presets)

torch.manual_seed(34634)
model = BarkSemanticModel().to(device).eval()

pieces = []
for sentence in ["my dog is cute", "and so is the cat"]:
    inputs = processor(sentence, voice_preset="v2/en_speaker_6").to(device)
    pieces.append(model.generate(**inputs, max_new_tokens=4))
print("semantic tokens", [piece.tolist() for piece in pieces])
