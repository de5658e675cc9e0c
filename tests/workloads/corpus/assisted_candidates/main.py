# EXPECT {"kind":"refused-op","operation":"index_select|embedding","devices":["cuda:0","cuda:1"],"operands":["candidate_ids|input_ids|input|ids","weight"],"category":"input not moved","line":["assisted.py: candidate_ids = drafter.candidates(ids)","assisted.py: logits = model(candidate_ids)"],"error":"on the same device","thread":"https://github.com/huggingface/transformers/pull/35116","hard":"the ids come from another model, which brought its own input to its own device"}
# FIX assisted.py: candidate_ids = drafter.candidates(ids) -> candidate_ids = drafter.candidates(ids).to(ids.device)
import torch

from assisted import Drafter, assisted_decoding
from language_model import LanguageModel

torch.manual_seed(0)
model = LanguageModel(40, 16).to("cuda:0").eval()
assistant = LanguageModel(40, 4).to("cuda:1").eval()
prompt = torch.tensor([[3, 17, 5]]).to("cuda:0")
print("tokens", assisted_decoding(model, Drafter(assistant, tokens=3), prompt, length=10).tolist()[0])
