# EXPECT {"kind":"refused-op","operation":"index_select|embedding","devices":["cpu","cuda:0"],"operands":["weight|wte.weight","input|inputs|context_enc|inp|tokens"],"category":"input not moved|created without device","line":["lm.py: inp = torch.tensor(","lm.py: logits = self._model_call("],"error":"on the same device","thread":"https://github.com/bigscience-workshop/lm-evaluation-harness/pull/72","hard":"a base class calls what the subclass makes of the device"}
# FIX lm.py: inp = torch.tensor([(context + continuation)[-self.max_length - 1 : -1]]) -> inp = torch.tensor([(context + continuation)[-self.max_length - 1 : -1]], device=self.device)
import torch

from lm import CausalLM

torch.manual_seed(0)
lm = CausalLM(vocabulary=32, device="cuda:0")
requests = [("two plus two is", " four"), ("the sky is", " blue")]
print("scores", [round(score, 3) for score in lm.loglikelihood(requests)])
