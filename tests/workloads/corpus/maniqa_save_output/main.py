# EXPECT {"kind":"refused-op","operation":"cat","devices":["cuda:0","cuda:1"],"operands":["outputs|tensors"],"category":"data parallel|cached state","line":["hooks.py: self.outputs.append(module_out)","iqa.py: feats = torch.cat("],"error":"on the same device","thread":"https://github.com/IIGROUP/MANIQA/issues/33","hard":"hooks of all replicas write into one list; which replica fails depends on the threads; the operands are elements of a list in an object"}
# FIX hooks.py: self.outputs.append(module_out) -> self.outputs.setdefault(module_out.device, []).append(module_out)
# FIX hooks.py: self.outputs = [] -> self.outputs = {}
# FIX iqa.py: feats = torch.cat(self.save_output.outputs, dim=-1) -> feats = torch.cat(self.save_output.outputs[patches.device], dim=-1)
import torch
from torch import nn

from iqa import MANIQA


def main():
    torch.manual_seed(20)
    net = MANIQA(patch_dim=12, embed_dim=8, depth=2)
    net = nn.DataParallel(net.cuda(), device_ids=[0, 1])
    net.eval()

    scores = []
    with torch.no_grad():
        for _ in range(2):
            img = torch.rand(6, 9, 12).cuda()
            net.module.save_output.clear()
            scores.append(net(img))
    print("mean score {:.4f}".format(torch.cat(scores).mean().item()))


if __name__ == "__main__":
    main()
