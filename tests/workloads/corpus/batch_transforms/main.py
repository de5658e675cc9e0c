# EXPECT {"kind":"refused-op","operation":"sub|div","devices":["cpu","cuda:0"],"operands":["x|batch","self.mean|mean"],"category":"cached state","line":["transforms.py: self.mean, self.std =","transforms.py: return (x - self.mean) / self.std","main.py: loaders.cpu()"],"error":"on the same device","thread":"https://github.com/fastai/fastai2/issues/158","hard":"a transform is no module: the loader goes to the CPU, what the transform keeps does not"}
# FIX transforms.py: return (x - self.mean) / self.std -> return (x - self.mean.to(x.device)) / self.std.to(x.device)
import torch

from transforms import Loaders, Normalize

torch.manual_seed(0)
items = torch.randint(0, 255, (6, 3, 4, 4))
loaders = Loaders(items, batch_size=2, device="cuda:0")
loaders.after_batch = [lambda x: x.float() / 255, Normalize.from_stats([0.5, 0.4, 0.3], [0.2, 0.2, 0.1], device=loaders.device)]
first = loaders.one_batch()
loaders.cpu()
print("batch", first.device.type, round(loaders.one_batch().mean().item(), 4))
