# === ranger_for_a_table_of_houses
# thread: https://github.com/lessw2020/Ranger-Deep-Learning-Optimizer/issues/1
# about: a small model of a table is trained by an optimizer that looks ahead. Every third step the weights go part of the way back to slower ones
# operation: sub on cuda:0, cpu
# operands: other|q|q\.data|.*slow_weights.*, self|p|p\.data
# category: optimizer
# line: main.py: model = TabularModel(
# line: main.py: opt = Ranger(
# line: ranger.py: self.slow_weights = [
# line: ranger.py: q.data.add_(
# line: learner.py: self.model = model.to(
# repair: main.py: model = TabularModel([5, 3], n_cont=3, out_size=1) -> model = TabularModel([5, 3], n_cont=3, out_size=1).to(torch.device("cuda:0"))
import torch

from learner import Learner
from ranger import Ranger
from tabular import HouseTable, TabularModel


def main():
    torch.manual_seed(2019)
    data = HouseTable(n_rows=24, batch_size=8)
    model = TabularModel([5, 3], n_cont=3, out_size=1)
    opt = Ranger(model.parameters(), lr=2e-2, alpha=0.5, k=3)
    learn = Learner(data, model, opt, device=torch.device("cuda:0"))
    history = learn.fit(n_epochs=3)
    print("epochs", len(history))
    print("losses", " ".join(f"{loss:.3f}" for loss in history))


if __name__ == "__main__":
    main()
# --- ranger.py
import torch
from torch.optim.optimizer import Optimizer


class Ranger(Optimizer):
    """Rectified steps with momentum, and a slower copy of the weights that they come back to."""

    def __init__(self, params, lr=1e-3, alpha=0.5, k=6, betas=(0.9, 0.99), eps=1e-5):
        if not 0.0 <= alpha <= 1.0:
            raise ValueError(f"Invalid slow update rate: {alpha}")
        if k < 1:
            raise ValueError(f"Invalid lookahead steps: {k}")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, step_counter=0))
        self.alpha, self.k = alpha, k
        self.slow_weights = [[p.clone().detach() for p in group["params"]] for group in self.param_groups]

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                state["step"] += 1
                state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["exp_avg_sq"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                denom = (state["exp_avg_sq"] / (1 - beta2 ** state["step"])).sqrt().add_(group["eps"])
                p.addcdiv_(state["exp_avg"], denom, value=-group["lr"] / (1 - beta1 ** state["step"]))
        for group, slow_weights in zip(self.param_groups, self.slow_weights):
            group["step_counter"] += 1
            if group["step_counter"] % self.k != 0:
                continue
            for p, q in zip(group["params"], slow_weights):
                if p.grad is None:
                    continue
                q.data.add_(p.data - q.data, alpha=self.alpha)
                p.data.copy_(q.data)
# --- tabular.py
import torch
from torch import nn


class TabularModel(nn.Module):
    def __init__(self, cardinalities, n_cont, out_size, emb_size=4, hidden=10):
        super().__init__()
        self.embeds = nn.ModuleList(nn.Embedding(n, emb_size) for n in cardinalities)
        self.layers = nn.Sequential(
            nn.Linear(emb_size * len(cardinalities) + n_cont, hidden),
            nn.ReLU(),
            nn.Linear(hidden, out_size),
        )

    def forward(self, x_cat, x_cont):
        embedded = [embed(x_cat[:, i]) for i, embed in enumerate(self.embeds)]
        return self.layers(torch.cat(embedded + [x_cont], dim=1))


class HouseTable:
    def __init__(self, n_rows, batch_size):
        draw = torch.Generator().manual_seed(11)
        self.street = torch.randint(5, (n_rows,), generator=draw)
        self.kind = torch.randint(3, (n_rows,), generator=draw)
        self.sizes = torch.randn(n_rows, 3, generator=draw)
        self.price = (self.sizes.sum(1) + self.street.float() - self.kind.float()).unsqueeze(1)
        self.batch_size = batch_size

    def __iter__(self):
        x_cat = torch.stack([self.street, self.kind], dim=1)
        for parts in zip(*(column.split(self.batch_size) for column in (x_cat, self.sizes, self.price))):
            yield parts
# --- learner.py
from torch import nn


class Learner:
    def __init__(self, data, model, opt, device):
        self.data, self.opt, self.device = data, opt, device
        self.model = model.to(device)
        self.loss_func = nn.MSELoss()

    def one_batch(self, batch):
        x_cat, x_cont, y = (part.to(self.device) for part in batch)
        loss = self.loss_func(self.model(x_cat, x_cont), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    def fit(self, n_epochs):
        history = []
        for _ in range(n_epochs):
            losses = [self.one_batch(batch) for batch in self.data]
            history.append(sum(losses) / len(losses))
        return history

# === wide_margins_for_small_digits
# thread: https://github.com/facebookresearch/jacobian_regularizer/pull/2
# about: a classifier of digits is trained to have wide margins. A second loss looks at how the outputs change with the inputs, along random directions
# operation: .* on cuda:1, cuda:0
# operands: grad_outputs|flat_v|v
# error: expected device cuda:1 but got cuda:0
# category: default-or-current-device|created-without-device
# line: jacobian.py: v = v.cuda()
# line: jacobian.py: v = self._random_vector(
# line: jacobian.py: v = torch.randn(
# line: mnist.py: device = torch.device(
# repair: jacobian.py: v = v.cuda() -> v = v.to(x.device)
import mnist

if __name__ == "__main__":
    mnist.main(["--device", "cuda:1", "--n-proj", "2"])
# --- mnist.py
import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim

from digits import digit_loader
from jacobian import JacobianReg


class MLP(nn.Module):
    def __init__(self, n_pixels=36, n_hidden=16, n_classes=4):
        super().__init__()
        self.fc1 = nn.Linear(n_pixels, n_hidden)
        self.fc2 = nn.Linear(n_hidden, n_classes)

    def forward(self, x):
        x = torch.tanh(self.fc1(x.reshape(x.shape[0], -1)))
        return self.fc2(x)


def train_epoch(model, loader, reg, lambda_jr, optimizer, device):
    total = 0.0
    for data, target in loader:
        data, target = data.to(device), target.to(device)
        data.requires_grad = True
        output = model(data)
        loss_super = F.cross_entropy(output, target)
        loss_jr = reg(data, output)
        loss = loss_super + lambda_jr * loss_jr
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--n-proj", type=int, default=1)
    parser.add_argument("--lambda-jr", type=float, default=0.05)
    args = parser.parse_args(argv)
    torch.manual_seed(1908)
    device = torch.device(args.device)
    model = MLP().to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    reg = JacobianReg(n=args.n_proj)
    loader = digit_loader(n_batches=3)
    losses = [train_epoch(model, loader, reg, args.lambda_jr, optimizer, device) for _ in range(2)]
    print("loss", " ".join(f"{loss:.3f}" for loss in losses))
# --- digits.py
import torch


def digit_loader(n_batches, batch_size=6, n_classes=4):
    """Small pictures of bars, one kind of bar for each class."""
    draw = torch.Generator().manual_seed(5)
    batches = []
    for _ in range(n_batches):
        target = torch.randint(n_classes, (batch_size,), generator=draw)
        data = 0.1 * torch.randn(batch_size, 1, 6, 6, generator=draw)
        for picture, kind in zip(data, target.tolist()):
            picture[0, kind + 1] += 1.0
        batches.append((data, target))
    return batches
# --- jacobian.py
import torch
from torch import nn


class JacobianReg(nn.Module):
    """Half the trace of the square of the Jacobian, exact or from `n` random projections."""

    def __init__(self, n=1):
        super().__init__()
        assert n == -1 or n > 0
        self.n = n

    def forward(self, x, y):
        B, C = y.shape
        num_proj = C if self.n == -1 else self.n
        J2 = 0
        for ii in range(num_proj):
            if self.n == -1:
                v = torch.eye(C)[ii].repeat(B, 1)
            else:
                v = self._random_vector(C=C, B=B)
            if x.is_cuda:
                v = v.cuda()
            Jv = self._jacobian_vector_product(y, x, v)
            J2 = J2 + C * torch.norm(Jv) ** 2 / (num_proj * B)
        return J2 / 2

    def _random_vector(self, C, B):
        if C == 1:
            return torch.ones(B)
        v = torch.randn(B, C)
        return v / torch.norm(v, 2, 1, True)

    def _jacobian_vector_product(self, y, x, v):
        flat_y = y.reshape(-1)
        flat_v = v.reshape(-1)
        (grad_x,) = torch.autograd.grad(flat_y, x, flat_v, retain_graph=True, create_graph=True)
        return grad_x

# === questions_to_a_graph_of_films
# thread: https://github.com/malllabiisc/EmbedKGQA/issues/85
# about: questions about films are answered from embeddings of a graph. The model that turns a question into a relation and scores every answer is run on
#   two cards
# operation: .*batch_norm.* on cuda:1, cuda:0
# operands: weight|.*bn0.*|running_mean, input|head
# category: data-parallel
# line: model.py: self.getScores = self.ComplEx
# line: model.py: pred = self.getScores(
# line: main.py: model = nn.DataParallel(
# repair: model.py: pred = self.getScores(p_head, rel_embedding) -> pred = getattr(self, self.model)(p_head, rel_embedding)
import torch
from torch import nn

from dataloader import MetaQAQuestions
from model import RelationExtractor


def preprocess_entities(num_entities, relation_dim):
    draw = torch.Generator().manual_seed(17)
    embeddings = torch.randn(num_entities, relation_dim, generator=draw)
    bn_list = []
    for _ in range(2):
        bn_list.append({"weight": torch.rand(2, generator=draw) + 0.5, "running_mean": 0.1 * torch.randn(2, generator=draw)})
    return embeddings, bn_list


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    total, hits = 0.0, 0
    for question, head, answer in loader:
        loss, pred = model(question.to(device), head.to(device), answer.to(device))
        total += loss.sum().item()
        hits += (pred.argmax(1) == answer.to(device).argmax(1)).sum().item()
    return total, hits


def main():
    torch.manual_seed(85)
    device = torch.device("cuda:0")
    embeddings, bn_list = preprocess_entities(num_entities=9, relation_dim=8)
    model = RelationExtractor(vocab_size=20, hidden_dim=6, pretrained_embeddings=embeddings, bn_list=bn_list, model="ComplEx")
    model = model.to(device)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model, device_ids=[0, 1])
    total, hits = validate(model, MetaQAQuestions(n_batches=2, batch_size=6), device)
    print(f"loss {total:.2f} hits {hits}")


if __name__ == "__main__":
    main()
# --- dataloader.py
import torch


class MetaQAQuestions:
    def __init__(self, n_batches, batch_size, vocab_size=20, num_entities=9, length=5):
        draw = torch.Generator().manual_seed(3)
        self.batches = []
        for _ in range(n_batches):
            question = torch.randint(vocab_size, (batch_size, length), generator=draw)
            head = torch.randint(num_entities, (batch_size,), generator=draw)
            answer = torch.zeros(batch_size, num_entities)
            answer[torch.arange(batch_size), torch.randint(num_entities, (batch_size,), generator=draw)] = 1.0
            self.batches.append((question, head, answer))

    def __iter__(self):
        return iter(self.batches)
# --- model.py
import torch
import torch.nn.functional as F
from torch import nn


class RelationExtractor(nn.Module):
    def __init__(self, vocab_size, hidden_dim, pretrained_embeddings, bn_list, model, label_smoothing=0.1):
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing
        if self.model == "DistMult":
            multiplier = 1
            self.getScores = self.DistMult
        elif self.model == "ComplEx":
            multiplier = 2
            self.getScores = self.ComplEx
        else:
            raise ValueError(f"Incorrect model specified: {self.model}")
        self.relation_dim = pretrained_embeddings.size(1)
        self.word_embeddings = nn.Embedding(vocab_size, hidden_dim)
        self.lin1 = nn.Linear(hidden_dim, 12, bias=False)
        self.hidden2rel = nn.Linear(12, self.relation_dim)
        self.embedding = nn.Embedding.from_pretrained(pretrained_embeddings, freeze=True)
        self.bn0 = nn.BatchNorm1d(multiplier)
        self.bn2 = nn.BatchNorm1d(multiplier)
        for bn, saved in zip((self.bn0, self.bn2), bn_list):
            bn.load_state_dict(saved, strict=False)
        self.loss = nn.BCELoss(reduction="none")

    def DistMult(self, head, relation):
        s = self.bn0(head.unsqueeze(1)).squeeze(1) * relation
        s = self.bn2(s.unsqueeze(1)).squeeze(1)
        return torch.sigmoid(s @ self.embedding.weight.t())

    def ComplEx(self, head, relation):
        head = torch.stack(torch.chunk(head, 2, dim=1), dim=1)
        head = self.bn0(head)
        re_head, im_head = head.unbind(dim=1)
        re_relation, im_relation = torch.chunk(relation, 2, dim=1)
        re_tail, im_tail = torch.chunk(self.embedding.weight, 2, dim=1)
        re_score = re_head * re_relation - im_head * im_relation
        im_score = re_head * im_relation + im_head * re_relation
        score = self.bn2(torch.stack([re_score, im_score], dim=1))
        re_score, im_score = score.unbind(dim=1)
        return torch.sigmoid(re_score @ re_tail.t() + im_score @ im_tail.t())

    def forward(self, sentence, p_head, p_tail):
        question = self.word_embeddings(sentence).mean(dim=1)
        rel_embedding = self.hidden2rel(F.relu(self.lin1(question)))
        p_head = self.embedding(p_head)
        pred = self.getScores(p_head, rel_embedding)
        actual = (1.0 - self.label_smoothing) * p_tail + 1.0 / p_tail.size(1)
        loss = self.loss(pred, actual.clamp(max=1.0)).sum(dim=1)
        return loss, pred

# === an_average_judges_the_same_boxes
# thread: https://github.com/jizhishutong/YOLOU/issues/15
# about: a detector without anchors is trained on one card. Its slow average is kept on the other and judged there, on pictures of the same size
# operation: add on cuda:1, cuda:0
# operands: other|grid|.*grids.*, self|reg_box
# category: cached-state
# line: yolox.py: if (grid_size[0] != hsize)
# line: yolox.py: reg_box[..., :2] + grid
# line: yolox.py: grid = self.grids[k]
# line: yolox.py: self.grids[k] = grid
# line: yolox.py: self.grids = [
# line: ema.py: self.ema = deepcopy(
# repair: yolox.py: if (grid_size[0] != hsize) or (grid_size[1] != wsize) or (grid_size[2] != stride): -> if grid_size != [hsize, wsize, stride] or
#   self.grids[k].device != reg_box.device:
import torch
from torch import optim

from dataset import coco_batches
from ema import ModelEMA
from yolox import YOLOX, box_loss


def main():
    torch.manual_seed(15)
    device, ema_device = torch.device("cuda:0"), torch.device("cuda:1")
    model = YOLOX(channels=6, strides=(8, 16)).to(device)
    optimizer = optim.SGD(model.parameters(), lr=1e-3)
    batches = coco_batches(n_batches=2, img_size=32)
    ema = None
    for imgs, targets in batches:
        loss = box_loss(model(imgs.to(device)), targets.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema = ema or ModelEMA(model, ema_device, decay=0.9)
        ema.update(model)
    with torch.no_grad():
        scores = [box_loss(ema.ema(imgs.to(ema_device)), targets.to(ema_device)).item() for imgs, targets in batches]
    print("val box loss", " ".join(f"{score:.2f}" for score in scores))


if __name__ == "__main__":
    main()
# --- dataset.py
import torch


def coco_batches(n_batches, img_size, batch_size=2):
    draw = torch.Generator().manual_seed(8)
    batches = []
    for _ in range(n_batches):
        imgs = torch.rand(batch_size, 3, img_size, img_size, generator=draw)
        corner = torch.rand(batch_size, 1, 2, generator=draw) * img_size / 2
        targets = torch.cat([corner, corner + img_size / 4], dim=-1)
        batches.append((imgs, targets))
    return batches
# --- ema.py
from copy import deepcopy

import torch


class ModelEMA:
    """Keeps a moving average of everything in the model's state."""

    def __init__(self, model, device, decay=0.999):
        self.ema = deepcopy(model).to(device)
        self.decay = decay
        for p in self.ema.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        live = model.state_dict()
        for name, value in self.ema.state_dict().items():
            value.mul_(self.decay).add_(live[name].to(value.device), alpha=1 - self.decay)
# --- yolox.py
import torch
from torch import nn


class YOLOXHead(nn.Module):
    def __init__(self, in_channels, strides):
        super().__init__()
        self.stride = strides
        self.reg_preds = nn.ModuleList(nn.Conv2d(c, 4, 1) for c in in_channels)
        self.grids = [torch.zeros(1)] * len(in_channels)
        self.grid_sizes = [[0, 0, 0] for _ in range(len(in_channels))]

    def get_output_and_grid(self, reg_box, hsize, wsize, k, stride):
        grid_size = self.grid_sizes[k]
        if (grid_size[0] != hsize) or (grid_size[1] != wsize) or (grid_size[2] != stride):
            grid_size[0] = hsize
            grid_size[1] = wsize
            grid_size[2] = stride
            yv, xv = torch.meshgrid(torch.arange(hsize), torch.arange(wsize), indexing="ij")
            grid = torch.stack((xv, yv), 2).view(1, -1, 2).to(reg_box)
            self.grids[k] = grid
        grid = self.grids[k]
        half_wh = torch.exp(reg_box[..., 2:4]) * (stride / 2)
        center = (reg_box[..., :2] + grid) * stride
        return torch.cat([center - half_wh, center + half_wh], dim=-1)

    def forward(self, xin):
        bbox_preds = []
        for k, (stride, x) in enumerate(zip(self.stride, xin)):
            reg_output = self.reg_preds[k](x)
            hsize, wsize = reg_output.shape[-2:]
            reg_output = reg_output.flatten(2).permute(0, 2, 1).contiguous()
            bbox_preds.append(self.get_output_and_grid(reg_output, hsize, wsize, k, stride))
        return torch.cat(bbox_preds, 1)


class YOLOX(nn.Module):
    def __init__(self, channels, strides):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 8, stride=8)
        self.down = nn.Conv2d(channels, channels, 2, stride=2)
        self.head = YOLOXHead([channels, channels], strides)

    def forward(self, x):
        fine = torch.relu(self.stem(x))
        return self.head([fine, torch.relu(self.down(fine))])


def box_loss(boxes, targets):
    return (boxes - targets).abs().mean(dim=(1, 2)).sum()

# === bias_maps_of_a_tiny_vgg
# thread: https://github.com/idiap/fullgrad-saliency/pull/15
# about: a picture's saliency is found from the gradients of all layers' biases. Before that the parts are summed once, to see that nothing is missing
# operation: .*conv.* on cuda:0, cpu
# operands: input|self, weight
# error: should be the same|same device
# category: created-without-device|default-or-current-device
# line: fullgrad.py: cuda = torch.cuda.is_available()
# line: fullgrad.py: device = torch.device("cuda"
# line: fullgrad.py: input = torch.randn(
# line: main.py: model = vgg_tiny(
# repair: fullgrad.py: cuda = torch.cuda.is_available() -> cuda = next(self.model.parameters()).is_cuda
import torch

from fullgrad import FullGrad
from vgg import vgg_tiny


def dump_saliency(model, n_images=2):
    fullgrad = FullGrad(model, im_size=(3, 12, 12))
    draw = torch.Generator().manual_seed(4)
    images = torch.randn(n_images, 3, 12, 12, generator=draw)
    maps = fullgrad.saliency(images)
    for index, saliency in enumerate(maps):
        top = saliency.flatten().argmax().item()
        print("image", index, "brightest at", divmod(top, 12))
    return maps


def main():
    torch.manual_seed(1905)
    model = vgg_tiny(num_classes=5)
    maps = dump_saliency(model)
    print("mean", " ".join(f"{value:.3f}" for value in maps.mean(dim=(1, 2)).tolist()))


if __name__ == "__main__":
    main()
# --- vgg.py
from torch import nn


class VGG(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1, bias=False),
            nn.ReLU(),
            nn.Conv2d(6, 8, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(8, num_classes)

    def forward(self, x):
        x = self.features(x)
        return self.classifier(x.mean(dim=(2, 3)))


def vgg_tiny(num_classes):
    return VGG(num_classes).eval()
# --- tensor_extractor.py
import torch
from torch import nn


class FullGradExtractor:
    """Takes down what every layer with a bias puts out, and its gradient."""

    def __init__(self, model):
        self.biases, self.features = [], []
        for module in model.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)) and module.bias is not None:
                self.biases.append(module.bias.detach())
                module.register_forward_hook(self._keep)

    def _keep(self, module, args, output):
        self.features.append(output)

    def get_feature_grads(self, image, output_scalar):
        grads = torch.autograd.grad(output_scalar, [image] + self.features)
        self.features = []
        return grads[0], grads[1:]
# --- fullgrad.py
from math import isclose

import torch

from tensor_extractor import FullGradExtractor


class FullGrad:
    def __init__(self, model, im_size=(3, 224, 224)):
        self.model = model
        self.im_size = (1,) + im_size
        self.model_ext = FullGradExtractor(model)
        self.check_completeness()

    def check_completeness(self):
        cuda = torch.cuda.is_available()
        device = torch.device("cuda" if cuda else "cpu")
        input = torch.randn(self.im_size).to(device)
        with torch.no_grad():
            raw_output = self.model(input)
        self.model_ext.features = []
        input_grad, bias_grads = self.decompose(input)
        total = (input_grad * input).sum() + sum(grad.sum() for grad in bias_grads)
        assert isclose(raw_output.max().item(), total.item(), rel_tol=1e-3, abs_tol=1e-4), "Completeness test failed!"

    def decompose(self, image):
        image = image.detach().requires_grad_()
        out = self.model(image)
        output_scalar = out.max(dim=1).values.sum()
        input_grad, feature_grads = self.model_ext.get_feature_grads(image, output_scalar)
        bias_grads = []
        for bias, grad in zip(self.model_ext.biases, feature_grads):
            shape = [1, -1] + [1] * (grad.dim() - 2)
            bias_grads.append(grad * bias.view(shape))
        return input_grad, bias_grads

    def _post_process(self, grad):
        grad = grad.abs()
        low, high = grad.amin(dim=(1, 2, 3), keepdim=True), grad.amax(dim=(1, 2, 3), keepdim=True)
        return (grad - low) / (high - low + 1e-6)

    def saliency(self, image):
        input_grad, bias_grads = self.decompose(image)
        cam = self._post_process(input_grad * image).sum(dim=1)
        for grad in bias_grads:
            if grad.dim() == 4:
                cam = cam + self._post_process(grad).sum(dim=1)
        return cam

# === five_beams_for_a_caption
# thread: https://github.com/kaylode/caption-transformer/issues/3
# about: captions are written for pictures by a search that keeps several sentences at once. After each word the best of them are kept
# operation: index on cpu, cuda:0
# operands: self|outputs|ys_k|ys, row|indices|k_ix
# error: indices should be either on|same device
# category: created-without-device
# line: search.py: ys = torch.zeros(batch_size, k, max_len)
# line: search.py: outputs[:, :i] = outputs[row, :i]
# line: search.py: ys_k = ys[batch_id]
# line: search.py: ys_k, log_scores_k = k_best_outputs(
# line: search.py: row = k_ix // k
# repair: search.py: outputs[:, :i] = outputs[row, :i] -> outputs = outputs.to(row.device); outputs[:, :i] = outputs[row, :i]
import torch

from captioning import CaptionTransformer
from search import beam_search
from vocab import Vocab


@torch.no_grad()
def evaluate(model, vocab, device):
    draw = torch.Generator().manual_seed(6)
    src = torch.randn(3, 5, 8, generator=draw).to(device)
    src_mask = torch.ones(3, 1, 5, device=device)
    sentences, scores = beam_search(model, src, src_mask, vocab, max_len=6, k=4)
    for sentence in sentences:
        print("caption:", sentence)
    return scores


def main():
    torch.manual_seed(3)
    vocab = Vocab("a dog cat man on the grass red runs sits".split())
    device = torch.device("cuda:0")
    model = CaptionTransformer(len(vocab), d_model=8).to(device).eval()
    scores = evaluate(model, vocab, device)
    print("scores", " ".join(f"{score:.3f}" for score in scores))


if __name__ == "__main__":
    main()
# --- vocab.py
class Vocab:
    def __init__(self, words):
        self.itos = ["[CLS]", "[SEP]"] + list(words)
        self.cls_token_id, self.sep_token_id = 0, 1

    def __len__(self):
        return len(self.itos)

    def decode(self, ids):
        words = []
        for index in ids[1:]:
            if index == self.sep_token_id:
                break
            words.append(self.itos[index])
        return " ".join(words)
# --- captioning.py
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, d_model)
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))

    def attend(self, x, memory, mask):
        scores = self.q(x) @ self.k(memory).transpose(-2, -1) / x.size(-1) ** 0.5
        return x + torch.softmax(scores.masked_fill(mask == 0, -1e9), dim=-1) @ self.v(memory)

    def forward(self, ys, memory, src_mask, trg_mask):
        x = self.embed(ys)
        x = self.attend(x, x, trg_mask)
        return self.attend(x, memory, src_mask)


class CaptionTransformer(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, d_model))
        self.decoder = Decoder(vocab_size, d_model)
        self.out = nn.Linear(d_model, vocab_size)
# --- search.py
import torch
import torch.nn.functional as F


def subsequent_mask(batch_size, size):
    return torch.tril(torch.ones(batch_size, size, size))


def init_vars(model, src, src_mask, vocab, max_len, k, device):
    batch_size = src.shape[0]
    memory = model.encoder(src)
    ys = torch.full((batch_size, 1), vocab.cls_token_id)
    ys_mask = subsequent_mask(batch_size, 1)
    out = model.decoder(ys.to(device), memory, src_mask, ys_mask.to(device))
    probs, ix = F.softmax(model.out(out[:, -1]), dim=-1).topk(k, dim=1)
    log_scores = torch.log(probs)
    ys = torch.zeros(batch_size, k, max_len).long()
    memorys = torch.zeros(batch_size, k, memory.size(-2), memory.size(-1)).to(device)
    for index in range(batch_size):
        ys[index, :, 0] = vocab.cls_token_id
        ys[index, :, 1] = ix[index]
        memorys[index, :, :] = memory[index]
    return ys, memorys, log_scores


def k_best_outputs(outputs, out, log_scores, i, k):
    probs, ix = out.topk(k, dim=1)
    log_probs = torch.log(probs) + log_scores.transpose(0, 1)
    k_probs, k_ix = log_probs.view(-1).topk(k)
    row = k_ix // k
    col = k_ix % k
    outputs[:, :i] = outputs[row, :i]
    outputs[:, i] = ix[row, col]
    return outputs, k_probs.unsqueeze(0)


def beam_search(model, src, src_mask, vocab, max_len=16, k=5, alpha=0.6):
    device = next(model.parameters()).device
    ys, memorys, log_scores = init_vars(model, src, src_mask, vocab, max_len, k, device)
    sentences, scores = [], []
    for batch_id in range(src.shape[0]):
        ys_k = ys[batch_id]
        memorys_k = memorys[batch_id]
        log_scores_k = log_scores[batch_id].unsqueeze(0)
        for i in range(2, max_len):
            trg_mask = subsequent_mask(1, i)
            out = model.decoder(ys_k[:, :i].to(device), memorys_k, src_mask[batch_id], trg_mask.to(device))
            out = F.softmax(model.out(out[:, -1]), dim=-1)
            ys_k, log_scores_k = k_best_outputs(ys_k, out, log_scores_k, i, k)
        penalty = ((5.0 + max_len) / 6.0) ** alpha
        best = log_scores_k[0].argmax().item()
        sentences.append(vocab.decode(ys_k[best].tolist()))
        scores.append(log_scores_k[0, best].item() / penalty)
    return sentences, scores
