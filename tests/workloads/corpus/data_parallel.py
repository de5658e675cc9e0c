# === data_parallel_partial
# thread: https://github.com/pytorch/pytorch/issues/8637
# about: the bound method of the original is captured in __init__; it fails in a replica's thread, in F.linear
# operation: addmm|linear|mm on cuda:0, cuda:1
# operands: project.weight|project.bias|weight|bias
# category: data-parallel
# line: self.similarity = functools.partial(
# line: return self.similarity(x, z)
# repair: return self.similarity(x, z) -> return self._gaussian(x, z, width=2.0)
import functools

import torch
from torch import nn


class Kernelized(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(6, 4)
        self.similarity = functools.partial(self._gaussian, width=2.0)

    def _gaussian(self, x, z, width):
        distance = (self.project(x) - self.project(z)).square().sum(-1)
        return torch.exp(-distance / width)

    def forward(self, x, z):
        return self.similarity(x, z)


torch.manual_seed(0)
model = nn.DataParallel(Kernelized().to("cuda:0"), device_ids=[0, 1])
x = torch.rand(8, 6).to("cuda:0")
print("similar", tuple(model(x, x).shape), model(x, x).sum().item())

# === gpu_one_wrapped
# thread: https://github.com/replicate/cog/issues/971
# about: raised in Python, by DataParallel's own check
# operation:  on cuda:0, cuda:1
# operands:
# category: data-parallel|default-or-current-device
# error: module must have its parameters and buffers on device cuda:0 \(device_ids\[0\]\) but found one of them on device: cuda:1
# line: predictor.net = nn.DataParallel(
# line: torch.cuda.set_device(
# repair: predictor.net = nn.DataParallel(predictor.net) -> predictor.net = nn.DataParallel(predictor.net, device_ids=[1])
import torch
import torch.nn as nn


class Predictor:
    def setup(self, device):
        """Load the model into memory"""
        torch.manual_seed(42)
        self.device = device
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
        self.net.to(device)

    @torch.inference_mode()
    def predict(self, image):
        return self.net(image.to(self.device)).softmax(dim=1)


if torch.cuda.is_available():
    device = "cuda"
    torch.cuda.set_device("cuda:1")
else:
    device = "cpu"

predictor = Predictor()
predictor.setup(device)
predictor.net = nn.DataParallel(predictor.net)
probabilities = predictor.predict(torch.ones(2, 3, 8, 8))
print("probabilities", [[round(p, 4) for p in row] for row in probabilities.tolist()])

# === inpaint_parallel
# thread: https://github.com/otenim/GLCIC-PyTorch/issues/8
# operation: DataParallel on cpu, cuda:0
# operands: weight|bias
# category: data-parallel|module-split
# error: module must have its parameters and buffers on device cuda:0
# line: model = nn.DataParallel(
# line: out = model(
# repair: model = nn.DataParallel(model, device_ids=[0, 1]) -> model = nn.DataParallel(model.to("cuda:0"), device_ids=[0, 1])
import torch
from torch import nn


class CompletionNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(6, 3, 1)

    def forward(self, x):
        return torch.sigmoid(self.out(torch.relu(self.conv(x))))


def predict(model, image, mask):
    x = torch.cat([image * (1 - mask), mask], dim=1)
    out = model(x)
    return image * (1 - mask) + out.to(image.device) * mask


torch.manual_seed(0)
model = CompletionNetwork()
model = nn.DataParallel(model, device_ids=[0, 1])
image, mask = torch.rand(2, 3, 8, 8), torch.zeros(2, 1, 8, 8)
mask[:, :, 2:5, 2:5] = 1
with torch.no_grad():
    inpainted = predict(model, image, mask)
print("inpainted", tuple(inpainted.shape), round(inpainted.sum().item(), 3))

# === lambda_replicas
# thread: https://github.com/pytorch/pytorch/issues/30324
# about: a replica copies the attribute, and the lambda in it still means the original by self
# operation: addmm|linear|mm on cuda:1, cuda:0
# operands: x, weight|bias|.*fc.*\.weight|.*fc.*\.bias
# category: data-parallel
# line: two = lambda x: self.fc2(self.fc1(x).relu())
# line: one = lambda x: self.fc(x)
# line: self.fc_forward =
# line: return self.fc_forward(x)
# repair: return self.fc_forward(x) -> return self.fc2(self.fc1(x).relu())
import torch
from torch import nn


class DummyModel(nn.Module):
    def __init__(self, in_dim, n_classes, fc_type):
        super().__init__()
        self.fc_type = fc_type
        if fc_type == 1:
            self.fc = nn.Linear(in_dim, n_classes)
        else:
            self.fc1, self.fc2 = nn.Linear(in_dim, in_dim), nn.Linear(in_dim, n_classes)
        self._set_fc_forward()

    def _set_fc_forward(self):
        one = lambda x: self.fc(x)
        two = lambda x: self.fc2(self.fc1(x).relu())
        self.fc_forward = one if self.fc_type == 1 else two

    def forward(self, x):
        return self.fc_forward(x)


torch.manual_seed(0)
model = nn.DataParallel(DummyModel(10, 2, fc_type=2).to("cuda:0"), device_ids=[0, 1])
x = torch.rand(6, 10).to("cuda:0")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), torch.tensor([0, 1, 0, 1, 1, 0]).to("cuda:0"))
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 4))

# === maniqa_save_output
# thread: https://github.com/IIGROUP/MANIQA/issues/33
# about: hooks of all replicas write into one list; which replica fails depends on the threads; the operands are elements of a list in an object
# operation: cat on cuda:0, cuda:1
# operands: outputs|tensors
# category: data-parallel|cached-state
# line: hooks.py: self.outputs.append(module_out)
# line: iqa.py: feats = torch.cat(
# repair: hooks.py: self.outputs.append(module_out) -> self.outputs.setdefault(module_out.device, []).append(module_out)
# repair: hooks.py: self.outputs = [] -> self.outputs = {}
# repair: iqa.py: feats = torch.cat(self.save_output.outputs, dim=-1) -> feats = torch.cat(self.save_output.outputs[patches.device], dim=-1)
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
# --- hooks.py
class SaveOutput:
    def __init__(self):
        self.clear()

    def __call__(self, module, module_in, module_out):
        self.outputs.append(module_out)

    def clear(self):
        self.outputs = []
# --- iqa.py
import torch
import torch.nn as nn

from hooks import SaveOutput


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class MANIQA(nn.Module):
    """Scores images from what several depths of a transformer see."""

    def __init__(self, patch_dim, embed_dim, depth):
        super().__init__()
        self.embed = nn.Linear(patch_dim, embed_dim)
        self.blocks = nn.Sequential(*[Block(embed_dim) for _ in range(depth)])
        self.save_output = SaveOutput()
        for layer in self.blocks:
            layer.register_forward_hook(self.save_output)
        self.fc_score = nn.Linear(depth * embed_dim, 1)

    def forward(self, patches):
        self.blocks(self.embed(patches))
        feats = torch.cat(self.save_output.outputs, dim=-1)
        return self.fc_score(feats).mean(dim=1)

# === prefix_replicas
# thread: https://github.com/adapter-hub/adapters/pull/359
# about: it fails in the second replica's thread only; with one device the same program runs
# operation: index_select|embedding on cuda:1, cuda:0
# operands: wte.weight|weight, input_tokens|tokens|input|index
# category: data-parallel|state-not-registered
# line: self.input_tokens = torch.arange(
# line: prefix = self.control_trans(self.wte(self.input_tokens))
# repair: self.input_tokens = torch.arange(prefix_length, device="cuda") -> self.register_buffer("input_tokens", torch.arange(prefix_length, device="cuda"))
import torch
from torch import nn


class PrefixTuning(nn.Module):
    """Learned keys and values that stand before those of each layer."""

    def __init__(self, n_layers, width, prefix_length=5, bottleneck=6):
        super().__init__()
        self.n_layers = n_layers
        self.input_tokens = torch.arange(prefix_length, device="cuda")
        self.wte = nn.Embedding(prefix_length, width)
        self.control_trans = nn.Sequential(nn.Linear(width, bottleneck), nn.Tanh(), nn.Linear(bottleneck, n_layers * 2 * width))

    def forward(self, batch_size):
        prefix = self.control_trans(self.wte(self.input_tokens))
        prefix = prefix.unflatten(-1, (self.n_layers, 2, -1)).permute(1, 2, 0, 3)
        return prefix.unsqueeze(2).expand(-1, -1, batch_size, -1, -1)


class Encoder(nn.Module):
    def __init__(self, n_layers=2, width=8, vocabulary=30, labels=3):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(n_layers))
        self.prefix_tuning = PrefixTuning(n_layers, width)
        self.classifier = nn.Linear(width, labels)

    def forward(self, input_ids, labels):
        hidden = self.embed(input_ids)
        prefixes = self.prefix_tuning(len(input_ids))
        for layer, (prefix_keys, prefix_values) in zip(self.qkv, prefixes):
            query, keys, values = layer(hidden).chunk(3, dim=-1)
            keys, values = torch.cat((prefix_keys, keys), dim=1), torch.cat((prefix_values, values), dim=1)
            hidden = hidden + (query @ keys.transpose(1, 2)).softmax(-1) @ values
        return nn.functional.cross_entropy(self.classifier(hidden.mean(1)), labels, reduction="none")


torch.manual_seed(0)
encoder = Encoder().cuda()
for name, parameter in encoder.named_parameters():
    parameter.requires_grad = "prefix_tuning" in name
parallel = nn.DataParallel(encoder, device_ids=[0, 1])
optimizer = torch.optim.Adam((p for p in encoder.parameters() if p.requires_grad), lr=0.01)
input_ids, labels = torch.randint(0, 30, (6, 7)).cuda(), torch.tensor([0, 1, 2, 0, 1, 2]).cuda()
for _ in range(2):
    loss = parallel(input_ids, labels).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", round(loss.item(), 3))

# === random_layer
# thread: https://github.com/pytorch/pytorch/issues/50087
# about: tensors in a list of a submodule that moves them itself; the fault is the replica's
# operation: mm|matmul on cuda:0, cuda:1
# operands: features|input_list, matrix|random_matrix
# category: data-parallel|state-not-registered
# line: self.random_matrix = [torch.rand(
# line: products = [torch.mm(
# repair: products = [torch.mm(features, matrix) for features, matrix in zip(input_list, self.random_matrix)] -> products = [torch.mm(features, matrix.to(features.device)) for features, matrix in zip(input_list, self.random_matrix)]
import math

import torch
import torch.nn as nn


class RandomLayer(nn.Module):
    def __init__(self, input_dim_list, output_dim):
        super(RandomLayer, self).__init__()
        self.output_dim = output_dim
        self.random_matrix = [torch.rand(dim, output_dim) for dim in input_dim_list]

    def forward(self, input_list):
        products = [torch.mm(features, matrix) for features, matrix in zip(input_list, self.random_matrix)]
        result = products[0] / math.pow(float(self.output_dim), 1.0 / len(products))
        for single in products[1:]:
            result = torch.mul(result, single)
        return result

    def cuda(self):
        super(RandomLayer, self).cuda()
        self.random_matrix = [val.cuda() for val in self.random_matrix]
        return self


class DomainAdaptiveRCNN(nn.Module):
    def __init__(self, n_classes):
        super(DomainAdaptiveRCNN, self).__init__()
        self.pooled = nn.Linear(10, 6)
        self.cls_score = nn.Linear(6, n_classes)
        self.random_layer = RandomLayer([6, n_classes], 8)
        self.random_layer.cuda()
        self.domain = nn.Linear(8, 1)

    def forward(self, rois):
        pooled_feat = torch.relu(self.pooled(rois))
        cls_prob = self.cls_score(pooled_feat).softmax(1)
        return cls_prob, self.domain(self.random_layer([pooled_feat, cls_prob]))


torch.manual_seed(0)
fasterRCNN = DomainAdaptiveRCNN(n_classes=3)
fasterRCNN.cuda()
fasterRCNN = nn.DataParallel(fasterRCNN, device_ids=[0, 1])
prob, d_inst = fasterRCNN(torch.rand(8, 10))
print(prob.size(), d_inst.size(), "%.3f" % float(d_inst.sum()))

# === scale_discriminators
# thread: https://github.com/junyanz/BicycleGAN/pull/40
# about: a helper object, no module, holds the original: each replica asks it for its parts
# operation: convolution|conv|addmm on cuda:1, cuda:0
# operands: weight|bias, input|x
# category: data-parallel
# error: same device|Input type|on the same device
# line: self.model = ListModule(
# line: out = self.model[i](
# line: return getattr(self.module
# repair: out = self.model[i](x) -> out = getattr(self, f"scale_{i}")(x)
import torch
from torch import nn


class ListModule:
    """Lets a module's numbered parts be indexed."""

    def __init__(self, module, prefix, parts):
        self.module, self.prefix, self.count = module, prefix, len(parts)
        for number, part in enumerate(parts):
            module.add_module(f"{prefix}{number}", part)

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        return getattr(self.module, f"{self.prefix}{number}")


class MultiScaleDiscriminator(nn.Module):
    def __init__(self, channels, scales):
        super().__init__()
        parts = [nn.Sequential(nn.Conv2d(channels, 4, 3, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(4, 1, 1)) for _ in range(scales)]
        self.model = ListModule(self, "scale_", parts)
        self.down = nn.AvgPool2d(2)

    def forward(self, x):
        results = []
        for i in range(len(self.model)):
            out = self.model[i](x)
            results.append(out.mean((1, 2, 3)))
            x = self.down(x)
        return torch.stack(results, dim=1)


torch.manual_seed(0)
net = nn.DataParallel(MultiScaleDiscriminator(3, 2).cuda(), device_ids=[0, 1])
scores = net(torch.rand(4, 3, 8, 8).cuda())
print("scores", tuple(scores.shape), round(scores.sum().item(), 4))

# === stage_pairs
# thread: https://github.com/facebookresearch/detectron2/issues/1105
# about: a list of (module, name) holds the modules that were replicated, not the replicas
# operation: conv on cuda:0, cuda:1
# operands: x|images|input, weight|bias
# category: data-parallel
# line: backbone.py: x = stage(x)
# line: backbone.py: self.stages_and_names.append(
# repair: backbone.py: x = stage(x) -> x = getattr(self, name)(x)
import torch
from backbone import ResNetLike


class ProposalHead(torch.nn.Module):
    def __init__(self, in_channels):
        super().__init__()
        self.objectness = torch.nn.Conv2d(in_channels, 3, kernel_size=1)

    def forward(self, features):
        return self.objectness(features["res3"])


class Detector(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = ResNetLike([3, 6, 8])
        self.proposals = ProposalHead(8)

    def forward(self, images):
        return self.proposals(self.backbone(images))


torch.manual_seed(1105)
detector = torch.nn.DataParallel(Detector().to("cuda:0"), device_ids=[0, 1])
images = torch.rand(4, 3, 16, 16, device="cpu")
logits = detector(images)
print(tuple(logits.shape), f"{logits.sum().item():.3f}")
# --- backbone.py
from torch import nn


class ResNetLike(nn.Module):
    """Stages, each of half the resolution; gives back what every stage makes."""

    def __init__(self, channels):
        super().__init__()
        self.stages_and_names = []
        for i, (c_in, c_out) in enumerate(zip(channels, channels[1:])):
            name = "res" + str(i + 2)
            stage = nn.Sequential(nn.Conv2d(c_in, c_out, 3, stride=2, padding=1), nn.ReLU())
            self.add_module(name, stage)
            self.stages_and_names.append((stage, name))

    def forward(self, x):
        outputs = {}
        for stage, name in self.stages_and_names:
            x = stage(x)
            outputs[name] = x
        return outputs
