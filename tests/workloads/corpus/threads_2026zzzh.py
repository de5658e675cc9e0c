# === curvature_kept_in_triangles
# thread: https://github.com/mtkresearch/FishLeg/issues/16
# about: an optimizer learns, besides the weights, triangular matrices that say how bent the loss is. What they learn outside of their triangles is struck out
# operation: mul|mul_ on cuda:0, cpu
# operands: other|.*mask.*
# category: cached-state|state-not-registered|created-without-device
# line: optim/FishLeg/layers/utils.py: return grad * mask
# line: optim/FishLeg/layers/fish_linear.py: mask_L = torch.tril(torch.ones_like(self.fishleg_aux["L"]))
# line: optim/FishLeg/layers/fish_linear.py: self.fishleg_aux["L"].register_hook(get_zero_grad_hook(mask_L))
# line: optim/FishLeg/layers/fish_linear.py: mask_R = torch.triu(torch.ones_like(self.fishleg_aux["R"]))
# line: optim/FishLeg/layers/fish_linear.py: self.fishleg_aux["R"].register_hook(get_zero_grad_hook(mask_R))
# repair: optim/FishLeg/layers/utils.py: return grad * mask -> return grad * mask.to(grad.device)
import torch
import torch.nn.functional as F
from torch import nn

from optim.FishLeg.fishleg import FishLeg, initialise_FishModel


def batches(count, generator):
    middles = torch.randn(3, 6, generator=generator)
    for _ in range(count):
        labels = torch.randint(0, 3, (24,), generator=generator)
        yield middles[labels] + 0.7 * torch.randn(24, 6, generator=generator), labels


if __name__ == "__main__":
    torch.manual_seed(16)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = initialise_FishModel(nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 3)))
    model.to(device)
    opt = FishLeg(model, lr=0.1, aux_lr=1e-2, update_aux_every=2)
    for data, labels in batches(8, torch.Generator().manual_seed(16)):
        data, labels = data.to(device), labels.to(device)
        opt.zero_grad()
        loss = F.cross_entropy(model(data), labels)
        loss.backward()
        opt.step()
    triangles = sum(layer.fishleg_aux["L"].double().sum().item() for layer in model if hasattr(layer, "fishleg_aux"))
    print(f"loss {loss.item():.4f}, triangles {triangles:.4f}")
# --- optim/FishLeg/fishleg.py
import torch
from torch import nn

from optim.FishLeg.layers.fish_linear import FishLinear


def initialise_FishModel(model):
    """Puts layers that know of their curvature where plain ones were, with the same weights."""
    for name, module in model.named_children():
        if isinstance(module, nn.Linear):
            fish = FishLinear(module.in_features, module.out_features)
            fish.load_state_dict(module.state_dict(), strict=False)
            setattr(model, name, fish)
        else:
            initialise_FishModel(module)
    return model


class FishLeg(torch.optim.Optimizer):
    def __init__(self, model, lr, aux_lr, update_aux_every):
        self.layers = [each for each in model.modules() if isinstance(each, FishLinear)]
        super().__init__([{"params": layer.ordered()} for layer in self.layers], dict(lr=lr))
        self.aux_opt = torch.optim.SGD([p for layer in self.layers for p in layer.fishleg_aux.values()], lr=aux_lr)
        self.update_aux_every, self.count = update_aux_every, 0

    def update_aux(self):
        """Moves Q toward what makes Q times the gradient a good step."""
        self.aux_opt.zero_grad()
        aux_loss = 0.0
        for layer in self.layers:
            grads = [p.grad for p in layer.ordered()]
            for g, q in zip(grads, layer.Qv(grads)):
                aux_loss = aux_loss + 0.5 * (g * q).sum().square() - (g * q).sum()
        aux_loss.backward()
        self.aux_opt.step()

    def step(self):
        if self.count % self.update_aux_every == 0:
            self.update_aux()
        self.count += 1
        for group, layer in zip(self.param_groups, self.layers):
            with torch.no_grad():
                for p, q in zip(group["params"], layer.Qv([p.grad for p in group["params"]])):
                    p.add_(q, alpha=-group["lr"])
# --- optim/FishLeg/layers/fish_linear.py
import torch
from torch import nn
from torch.nn import Parameter, ParameterDict

from optim.FishLeg.layers.utils import get_zero_grad_hook


class FishLinear(nn.Linear):
    def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.fishleg_aux = ParameterDict(
            {"L": Parameter(torch.eye(in_features + 1, device=device)), "R": Parameter(torch.eye(out_features, device=device))}
        )
        mask_L = torch.tril(torch.ones_like(self.fishleg_aux["L"]))
        self.fishleg_aux["L"].register_hook(get_zero_grad_hook(mask_L))
        mask_R = torch.triu(torch.ones_like(self.fishleg_aux["R"]))
        self.fishleg_aux["R"].register_hook(get_zero_grad_hook(mask_R))
        self.order = ["weight", "bias"]

    def ordered(self):
        return [getattr(self, name) for name in self.order]

    def Qv(self, v):
        L, R = self.fishleg_aux["L"], self.fishleg_aux["R"]
        u = torch.cat([v[0], v[1][:, None]], dim=-1)
        z = R @ (R.T @ u @ L) @ L.T
        return z[:, :-1], z[:, -1]
# --- optim/FishLeg/layers/utils.py
def get_zero_grad_hook(mask):
    def hook(grad):
        return grad * mask

    return hook

# === what_was_bought_kept_by_chance
# thread: https://github.com/enoche/MMRec/issues/21
# about: a recommender drops edges between users and things anew before each epoch. One time it takes those that matter less, the next time any
# operation: index|_index.* on cpu, cuda:0
# operands: indices|.*keep_idx.*
# error: indices should be either on cpu
# category: input-not-moved|input|cached-state|state-not-registered|default-or-current-device
# line: models/layergcn.py: keep_idx = torch.tensor(random.sample(range(self.edge_values.size(0)), keep_len)).to(self.device)
# line: models/layergcn.py: keep_indices = self.edge_indices[:, keep_idx]
# repair: models/layergcn.py: keep_idx = torch.tensor(random.sample(range(self.edge_values.size(0)), keep_len)).to(self.device) -> keep_idx = torch.tensor(random.sample(range(self.edge_values.size(0)), keep_len))
import random

import torch

from common.dataset import RecDataset
from common.trainer import Trainer
from models.layergcn import LayerGCN

if __name__ == "__main__":
    config = {"embedding_size": 8, "n_layers": 2, "reg_weight": 1e-3, "dropout": 0.3, "epochs": 4, "learning_rate": 0.05}
    config["device"] = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    random.seed(21)
    torch.manual_seed(21)
    dataset = RecDataset(n_users=12, n_items=15, seed=21)
    model = LayerGCN(config, dataset).to(config["device"])
    loss = Trainer(config, model).fit(dataset)
    scores = model.full_sort_predict(torch.arange(12, device=config["device"]))
    print(f"loss {loss:.4f}, best things {scores.argmax(dim=1).tolist()}")
# --- common/dataset.py
import numpy as np
import scipy.sparse as sp
import torch


class RecDataset:
    def __init__(self, n_users, n_items, seed):
        self.n_users, self.n_items = n_users, n_items
        rng = np.random.RandomState(seed)
        likes = rng.rand(n_users, n_items) < np.where((np.arange(n_users)[:, None] + np.arange(n_items)) % 3 == 0, 0.7, 0.1)
        likes[:, 0] = True
        self.matrix = sp.coo_matrix(likes.astype(np.float32))
        self.rng = rng

    def inter_matrix(self):
        return self.matrix

    def batches(self, device, batch_size=24):
        """Users, things that they bought, and any things."""
        order = self.rng.permutation(self.matrix.nnz)
        for part in np.array_split(order, max(1, len(order) // batch_size)):
            negative = self.rng.randint(0, self.n_items, len(part))
            yield [torch.from_numpy(each.astype(np.int64)).to(device) for each in (self.matrix.row[part], self.matrix.col[part], negative)]
# --- common/trainer.py
import torch


class Trainer:
    def __init__(self, config, model):
        self.model, self.epochs, self.device = model, config["epochs"], config["device"]
        self.optimizer = torch.optim.Adam(model.parameters(), lr=config["learning_rate"])

    def fit(self, dataset):
        for epoch in range(self.epochs):
            self.model.pre_epoch_processing()
            losses = []
            for interaction in dataset.batches(self.device):
                self.optimizer.zero_grad()
                loss = self.model.calculate_loss(interaction)
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
            print(f"epoch {epoch}: {sum(losses) / len(losses):.4f}")
        return losses[-1]
# --- models/layergcn.py
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class LayerGCN(nn.Module):
    def __init__(self, config, dataset):
        super().__init__()
        self.device = config["device"]
        self.n_users, self.n_items = dataset.n_users, dataset.n_items
        self.n_nodes = self.n_users + self.n_items
        self.interaction_matrix = dataset.inter_matrix()
        self.n_layers, self.reg_weight, self.dropout = config["n_layers"], config["reg_weight"], config["dropout"]
        self.user_embeddings = nn.Parameter(nn.init.xavier_uniform_(torch.empty(self.n_users, config["embedding_size"])))
        self.item_embeddings = nn.Parameter(nn.init.xavier_uniform_(torch.empty(self.n_items, config["embedding_size"])))
        self.edge_indices, self.edge_values = self.get_edge_info()
        self.norm_adj_matrix = self._adjacency(self.edge_indices, self.edge_values)
        self.masked_adj, self.forward_adj = None, None
        self.pruning_random = False

    def pre_epoch_processing(self):
        if self.dropout <= 0.0:
            self.masked_adj = self.norm_adj_matrix
            return
        keep_len = int(self.edge_values.size(0) * (1.0 - self.dropout))
        if self.pruning_random:
            keep_idx = torch.tensor(random.sample(range(self.edge_values.size(0)), keep_len)).to(self.device)
        else:
            keep_idx = torch.multinomial(self.edge_values, keep_len)
        self.pruning_random = not self.pruning_random
        keep_indices = self.edge_indices[:, keep_idx]
        self.masked_adj = self._adjacency(keep_indices, self._normalize_adj_m(keep_indices))

    def _adjacency(self, indices, values):
        """Of all nodes, users first: every edge in both directions."""
        edges = torch.stack([indices[0], indices[1] + self.n_users])
        both = torch.cat([edges, edges.flip(0)], dim=1)
        return torch.sparse_coo_tensor(both, torch.cat([values, values]), (self.n_nodes, self.n_nodes)).to(self.device)

    def _normalize_adj_m(self, indices):
        row_sum = 1e-7 + torch.bincount(indices[0], minlength=self.n_users).float()
        col_sum = 1e-7 + torch.bincount(indices[1], minlength=self.n_items).float()
        return row_sum.pow(-0.5)[indices[0]] * col_sum.pow(-0.5)[indices[1]]

    def get_edge_info(self):
        rows = torch.from_numpy(self.interaction_matrix.row)
        cols = torch.from_numpy(self.interaction_matrix.col)
        edges = torch.stack([rows, cols]).long()
        return edges, self._normalize_adj_m(edges)

    def forward(self):
        ego_embeddings = torch.cat([self.user_embeddings, self.item_embeddings], 0)
        all_embeddings, embeddings_layers = ego_embeddings, []
        for _ in range(self.n_layers):
            all_embeddings = torch.sparse.mm(self.forward_adj, all_embeddings)
            _weights = F.cosine_similarity(all_embeddings, ego_embeddings, dim=-1)
            all_embeddings = _weights[:, None] * all_embeddings
            embeddings_layers.append(all_embeddings)
        return torch.split(sum(embeddings_layers), [self.n_users, self.n_items])

    def calculate_loss(self, interaction):
        user, pos_item, neg_item = interaction
        self.forward_adj = self.masked_adj
        users, items = self.forward()
        scores = (users[user] * (items[pos_item] - items[neg_item])).sum(dim=1)
        reg_loss = self.user_embeddings[user].square().sum() + self.item_embeddings[pos_item].square().sum()
        return -F.logsigmoid(scores).mean() + self.reg_weight * reg_loss

    @torch.no_grad()
    def full_sort_predict(self, user):
        self.forward_adj = self.norm_adj_matrix
        users, items = self.forward()
        return users[user] @ items.t()

# === pixels_that_speak_for_a_class
# thread: https://github.com/MisaOgura/flashtorch/issues/2
# about: which pixels of a picture speak for a class is read from gradients. They start at the score of that class, and of no other
# operation: .* on cuda:0, cpu
# operands: .*target.*|.*gradient.*|.*grad.*
# error: invalid gradient at index 0 - expected device cuda:0 but got cpu
# category: created-without-device
# line: flashtorch/saliency/backprop.py: target = torch.FloatTensor(1, output.shape[-1]).zero_()
# line: flashtorch/saliency/backprop.py: output.backward(gradient=target)
# repair: flashtorch/saliency/backprop.py: target = torch.FloatTensor(1, output.shape[-1]).zero_() -> target = torch.FloatTensor(1, output.shape[-1]).zero_().to(output.device)
import torch

from flashtorch.saliency.backprop import Backprop
from models import CustomCNN

if __name__ == "__main__":
    torch.manual_seed(2)
    generator = torch.Generator().manual_seed(2)
    model = CustomCNN(classes=5)
    picture = torch.rand(1, 3, 14, 14, generator=generator)
    backprop = Backprop(model)
    for guided in (False, True):
        gradients = backprop.calculate_gradients(picture, target_class=3, take_max=True, guided=guided)
        row, column = divmod(gradients.flatten().argmax().item(), 14)
        print(f"guided {guided}: sum {gradients.double().abs().sum().item():.4f}, most at {row}, {column}")
# --- flashtorch/saliency/backprop.py
import torch
import torch.nn as nn


class Backprop:
    """Gradients of a class's score with respect to a picture, by one pass back."""

    def __init__(self, model):
        self.model = model
        self.model.eval()
        if torch.cuda.is_available():
            self.model = self.model.to("cuda")
        self.gradients = None
        self.handles = []
        self._register_conv_hook()

    def calculate_gradients(self, input_, target_class=None, take_max=False, guided=False):
        if guided:
            self.relu_outputs = []
            self._register_relu_hooks()
        if torch.cuda.is_available():
            input_ = input_.to("cuda")
        input_ = input_.detach().requires_grad_(True)
        self.model.zero_grad()
        self.gradients = torch.zeros(input_.shape)

        output = self.model(input_)
        _, top_class = output.topk(1, dim=1)
        wanted = top_class.item() if target_class is None else target_class
        target = torch.FloatTensor(1, output.shape[-1]).zero_()
        target[0][wanted] = 1
        output.backward(gradient=target)

        self._remove_relu_hooks()
        gradients = self.gradients.detach().cpu()[0]
        if take_max:
            gradients = gradients.max(dim=0, keepdim=True)[0]
        return gradients

    def _register_conv_hook(self):
        def _record_gradients(module, grad_in, grad_out):
            if grad_in[0] is not None and self.gradients.shape == grad_in[0].shape:
                self.gradients = grad_in[0]

        for module in self.model.modules():
            if isinstance(module, nn.Conv2d) and module.in_channels == 3:
                module.register_full_backward_hook(_record_gradients)
                break

    def _register_relu_hooks(self):
        def _record_output(module, input_, output):
            self.relu_outputs.append(output.detach())

        def _clip_gradients(module, grad_in, grad_out):
            relu_output = self.relu_outputs.pop()
            return (grad_out[0].clamp(min=0.0) * (relu_output > 0),)

        for module in self.model.modules():
            if isinstance(module, nn.ReLU):
                self.handles.append(module.register_forward_hook(_record_output))
                self.handles.append(module.register_full_backward_hook(_clip_gradients))

    def _remove_relu_hooks(self):
        while self.handles:
            self.handles.pop().remove()
# --- models.py
from torch import nn


class CustomCNN(nn.Module):
    """A network of one's own, in place of one from torchvision."""

    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1)
        self.relu1 = nn.ReLU()
        self.pool = nn.AvgPool2d(2)
        self.conv2 = nn.Conv2d(6, 8, 3, padding=1)
        self.relu2 = nn.ReLU()
        self.fc = nn.Linear(8, classes)

    def forward(self, x):
        x = self.pool(self.relu1(self.conv1(x)))
        x = self.relu2(self.conv2(x))
        return self.fc(x.mean(dim=(2, 3)))

# === bits_remembered_by_a_network_of_neurons
# thread: https://github.com/FedeClaudi/pyrnn/issues/1
# about: a recurrent network learns on a GPU to remember what three inputs were last. Then it is shown on a batch that was made for the figure
# operation: addmm|linear|mm|addmv|matmul on cpu, cuda:0
# operands: self|mat1|input|x|.*X.*
# category: input-not-moved|input
# line: pyrnn/_rnn.py: o, h = self(X[0, :, :].unsqueeze(0))
# line: examples/three_bit_memory.py: o, h = model.predict(X)
# line: examples/three_bit_memory.py: X, Y = make_batch(seq_len)
# repair: pyrnn/_rnn.py: o, h = self(X[0, :, :].unsqueeze(0)) -> o, h = self(X[0, :, :].unsqueeze(0).to(next(self.parameters()).device))
import torch

from examples.three_bit_memory import ThreeBitDataset, compare_predictions
from pyrnn.rnn import CTRNN

N, BATCH_SIZE, EPOCHS = 24, 8, 5

if __name__ == "__main__":
    torch.manual_seed(3)
    dataset = ThreeBitDataset(N, dataset_length=16, seed=0)
    rnn = CTRNN(input_size=3, output_size=3, n_units=16, tau=50, dt=25, on_gpu=torch.cuda.is_available())
    loss_history = rnn.fit(dataset, n_epochs=EPOCHS, lr=0.01, batch_size=BATCH_SIZE)
    print("trained, loss", f"{loss_history[-1]:.4f}")
    shares = compare_predictions(rnn, N)
    print("off by", [f"{share:.4f}" for share in shares])
# --- examples/three_bit_memory.py
import torch
import torch.utils.data as data


class ThreeBitDataset(data.Dataset):
    """Of three inputs each is 0 but for flips to 1 or -1; each output is the last flip of its input."""

    def __init__(self, sequence_length, dataset_length=1, seed=0):
        self.sequence_length, self.dataset_length = sequence_length, dataset_length
        self.make_trials(torch.Generator().manual_seed(seed))

    def make_trials(self, generator):
        self.items = {}
        for i in range(self.dataset_length):
            chance = torch.rand(self.sequence_length, 3, generator=generator)
            X = (chance > 0.9).float() - (chance < 0.1).float()
            X[0] = 1
            Y = torch.zeros_like(X)
            state = X[0]
            for n, x in enumerate(X):
                state = torch.where(x == 0, state, x)
                Y[n] = state
            self.items[i] = (X, Y)

    def __len__(self):
        return self.dataset_length

    def __getitem__(self, item):
        return self.items[item]


def make_batch(seq_len):
    dataloader = data.DataLoader(ThreeBitDataset(seq_len, dataset_length=1, seed=1), batch_size=1)
    return next(iter(dataloader))


def compare_predictions(model, seq_len):
    """What is drawn of the model's outputs, in numbers: how far each is from the right one."""
    X, Y = make_batch(seq_len)
    o, h = model.predict(X)
    return [float(abs(o[0, :, n] - Y[0, :, n].cpu().numpy()).mean()) for n in range(3)]
# --- pyrnn/_rnn.py
import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class RNNBase(nn.Module):
    def __init__(self, input_size, output_size, n_units, on_gpu):
        super().__init__()
        self.input_size, self.output_size, self.n_units, self.on_gpu = input_size, output_size, n_units, on_gpu

    def build(self):
        """Has to be called when all layers are there."""
        if self.on_gpu:
            self.cuda(0)

    def _initialize_hidden(self, x):
        h = torch.zeros((x.shape[0], self.n_units))
        return h.cuda(0) if self.on_gpu else h

    def fit(self, dataset, batch_size=64, n_epochs=100, lr=0.001, l2norm=0.0001):
        train_dataloader = DataLoader(dataset, batch_size=batch_size)
        optimizer = torch.optim.Adam(self.parameters(), lr=lr, weight_decay=l2norm, amsgrad=True)
        criterion = torch.nn.MSELoss()
        losses = []
        for epoch in range(n_epochs):
            batch_loss = 0
            for X, Y in train_dataloader:
                if self.on_gpu:
                    X, Y = X.cuda(0), Y.cuda(0)
                optimizer.zero_grad()
                output, h = self(X)
                loss = criterion(output, Y)
                loss.backward()
                optimizer.step()
                batch_loss += loss.item()
            losses.append(batch_loss)
        return losses

    def predict(self, X):
        with torch.no_grad():
            o, h = self(X[0, :, :].unsqueeze(0))
        return o.cpu().numpy(), h.cpu().numpy()
# --- pyrnn/rnn.py
import torch
import torch.nn as nn

from pyrnn._rnn import RNNBase


class CTRNN(RNNBase):
    """A network in continuous time: every unit goes toward what drives it, as fast as tau lets it."""

    def __init__(self, input_size=1, output_size=1, n_units=50, tau=100, dt=10, on_gpu=False):
        super().__init__(input_size, output_size, n_units, on_gpu)
        self.alpha = dt / tau
        self.w_in = nn.Linear(input_size, n_units, bias=False)
        self.w_rec = nn.Linear(n_units, n_units, bias=False)
        self.output_layer = nn.Linear(n_units, output_size, bias=False)
        self.activation = nn.Tanh()
        self.build()

    def forward(self, x, h=None):
        if h is None:
            h = self._initialize_hidden(x)
        drive = self.w_in(x)
        outputs = []
        for t in range(x.shape[1]):
            h = h + self.alpha * (-h + self.activation(self.w_rec(h) + drive[:, t]))
            outputs.append(self.output_layer(h))
        return torch.stack(outputs, dim=1), h

# === sleepers_read_on_the_second_card
# thread: https://github.com/braindecode/braindecode/issues/450
# about: a residual network tells from currents of the brain how deep somebody sleeps. Where a block has more channels than came in, what came in is padded
# operation: cat on cuda:0, cuda:1
# operands: tensors|.*zeros_for_padding.*
# category: default-or-current-device
# line: braindecode/models/eegresnet.py: zeros_for_padding = zeros_for_padding.cuda()
# line: braindecode/models/eegresnet.py: if x.is_cuda:
# repair: braindecode/models/eegresnet.py: zeros_for_padding = zeros_for_padding.cuda() -> zeros_for_padding = zeros_for_padding.to(x.device)
import torch

from braindecode.classifier import EEGClassifier
from braindecode.models.eegresnet import EEGResNet

N_CHANS, N_TIMES, N_CLASSES = 3, 48, 3


def windows(count, seed):
    """Deeper sleep has slower and larger waves."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % N_CLASSES
    t = torch.linspace(0, 1, N_TIMES)
    phase = torch.rand(count, N_CHANS, 1, generator=generator) * 6.283
    pace = torch.tensor([12.0, 6.0, 2.0])[y][:, None, None]
    X = torch.sin(6.283 * pace * t + phase) * (y[:, None, None] + 1)
    return X + 0.3 * torch.randn(X.shape, generator=generator), y


if __name__ == "__main__":
    torch.manual_seed(450)
    device = "cuda:1" if torch.cuda.device_count() > 1 else "cuda"
    model = EEGResNet(N_CHANS, N_CLASSES, n_first_filters=4, n_layers_per_block=1, first_filter_length=5)
    clf = EEGClassifier(model, optimizer=torch.optim.AdamW, lr=0.01, batch_size=6, max_epochs=3, device=device)
    clf.fit(*windows(18, seed=1))
    X_test, y_test = windows(9, seed=2)
    right = (clf.predict(X_test) == y_test).sum().item()
    print(f"{right} of {len(y_test)}, loss {clf.history[-1]:.4f}")
# --- braindecode/classifier.py
import torch
import torch.nn.functional as F


class EEGClassifier:
    """What skorch does, in short: moves the module and each batch to its device."""

    def __init__(self, module, optimizer, lr, batch_size, max_epochs, device):
        self.module_ = module.to(device)
        self.optimizer_ = optimizer(self.module_.parameters(), lr=lr)
        self.batch_size, self.max_epochs, self.device = batch_size, max_epochs, device
        self.history = []

    def infer(self, x):
        return self.module_(x.to(self.device))

    def fit(self, X, y):
        for _ in range(self.max_epochs):
            self.module_.train()
            losses = []
            for Xi, yi in zip(X.split(self.batch_size), y.split(self.batch_size)):
                self.optimizer_.zero_grad()
                loss = F.nll_loss(self.infer(Xi), yi.to(self.device))
                loss.backward()
                self.optimizer_.step()
                losses.append(loss.item())
            self.history.append(sum(losses) / len(losses))
        return self

    @torch.no_grad()
    def predict(self, X):
        self.module_.eval()
        return torch.cat([self.infer(Xi).argmax(dim=1).cpu() for Xi in X.split(self.batch_size)])
# --- braindecode/models/eegresnet.py
import torch
from torch import nn
from torch.nn.functional import elu


class EEGResNet(nn.Sequential):
    def __init__(self, n_chans, n_outputs, n_first_filters, n_layers_per_block=2, first_filter_length=3):
        super().__init__()
        assert first_filter_length % 2 == 1
        self.add_module("ensuredims", Expression(lambda x: x.transpose(1, 2)[:, None]))
        self.add_module("conv_time", nn.Conv2d(1, n_first_filters, (first_filter_length, 1), padding=(first_filter_length // 2, 0)))
        self.add_module("conv_spat", nn.Conv2d(n_first_filters, n_first_filters, (1, n_chans), bias=False))
        self.add_module("bnorm", nn.BatchNorm2d(n_first_filters, momentum=0.1, eps=1e-5))
        self.add_module("conv_nonlin", Expression(elu))
        n_cur_filters, dilation = n_first_filters, 1
        for i_block, growth in enumerate((1, 2, 1.5), start=1):
            for i_layer in range(n_layers_per_block):
                n_out_filters = int(n_cur_filters * growth) if i_layer == 0 else n_cur_filters
                self.add_module(f"res_{i_block}_{i_layer}", _ResidualBlock(n_cur_filters, n_out_filters, dilation))
                n_cur_filters = n_out_filters
            dilation *= 2
        self.add_module("mean_pool", nn.AdaptiveAvgPool2d((1, 1)))
        self.add_module("conv_classifier", nn.Conv2d(n_cur_filters, n_outputs, (1, 1)))
        self.add_module("softmax", nn.LogSoftmax(dim=1))
        self.add_module("squeeze", Expression(lambda x: x[:, :, 0, 0]))


class Expression(nn.Module):
    def __init__(self, expression_fn):
        super().__init__()
        self.expression_fn = expression_fn

    def forward(self, x):
        return self.expression_fn(x)


class _ResidualBlock(nn.Module):
    def __init__(self, in_filters, out_num_filters, dilation, filter_time_length=3):
        super().__init__()
        time_padding = (filter_time_length - 1) * dilation // 2
        assert (out_num_filters - in_filters) % 2 == 0, "Need even number of extra channels in order to be able to pad correctly"
        self.n_pad_chans = out_num_filters - in_filters
        self.conv_1 = nn.Conv2d(in_filters, out_num_filters, (filter_time_length, 1), dilation=(dilation, 1), padding=(time_padding, 0))
        self.bn1 = nn.BatchNorm2d(out_num_filters, momentum=0.1, eps=1e-4)
        self.conv_2 = nn.Conv2d(out_num_filters, out_num_filters, (filter_time_length, 1), dilation=(dilation, 1), padding=(time_padding, 0))
        self.bn2 = nn.BatchNorm2d(out_num_filters, momentum=0.1, eps=1e-4)

    def forward(self, x):
        stack_1 = elu(self.bn1(self.conv_1(x)))
        stack_2 = self.bn2(self.conv_2(stack_1))
        if self.n_pad_chans != 0:
            zeros_for_padding = torch.zeros(x.size()[0], self.n_pad_chans // 2, x.size()[2], x.size()[3])
            if x.is_cuda:
                zeros_for_padding = zeros_for_padding.cuda()
            x = torch.cat((zeros_for_padding, x, zeros_for_padding), dim=1)
        return elu(x + stack_2)

# === pictures_told_in_words_to_the_second_card
# thread: https://github.com/LAION-AI/dalle2-laion/issues/27
# about: a text becomes the embedding of a picture, and that a picture. A file names the models and where they run; words are read by a network of its own
# operation: embedding|index_select on cuda:0, cuda:1
# operands: weight|self|.*token_embedding.*
# category: default-or-current-device|module-split
# line: dalle2_laion/dalle2_laion.py: self.clip = model_load_config.clip.create()
# line: dalle2_laion/inference.py: clip = self.model_manager.clip
# line: dalle2_laion/inference.py: prior.clip = clip
# repair: dalle2_laion/dalle2_laion.py: self.clip = model_load_config.clip.create() -> self.clip = model_load_config.clip.create().to(self.devices[0])
import json

import torch

from dalle2_laion.dalle2_laion import DalleModelManager, ModelLoadConfig
from dalle2_laion.inference import BasicInference

CONFIG = '{"devices": "cuda:1", "clip": {"make": "openai", "model": "ViT-tiny"}, "prior": {"timesteps": 4}, "decoder": {"image_size": 8}}'

if __name__ == "__main__":
    torch.manual_seed(27)
    config = ModelLoadConfig.from_json(json.loads(CONFIG))
    script = BasicInference(DalleModelManager(config))
    images = script.run(["a blue cat", "the sea at night"])
    for text, image in images.items():
        print(text, tuple(image.shape), f"{image.double().sum().item():.3f}")
    print("all", f"{sum(image.double().abs().sum().item() for image in images.values()):.3f}")
# --- clip.py
import torch
from torch import nn


class CLIP(nn.Module):
    def __init__(self, vocab_size=128, width=8):
        super().__init__()
        self.token_embedding = nn.Embedding(vocab_size, width)
        self.ln_final = nn.LayerNorm(width)
        self.text_projection = nn.Parameter(torch.randn(width, width) / width**0.5)

    def encode_text(self, text):
        x = self.ln_final(self.token_embedding(text))
        return x.mean(dim=1) @ self.text_projection


def tokenize(texts, context_length=12):
    rows = [[ord(c) % 128 for c in text[:context_length]] for text in texts]
    return torch.tensor([row + [0] * (context_length - len(row)) for row in rows])


def load(name, device="cuda" if torch.cuda.is_available() else "cpu"):
    """The model, ready to use, and what prepares pictures for it."""
    model = CLIP().to(device).eval()
    return model, lambda image: image
# --- dalle2_laion/dalle2_laion.py
from dataclasses import dataclass

import torch

from dalle2_pytorch import Decoder, DiffusionPrior, OpenAIClipAdapter


@dataclass
class ClipConfig:
    make: str
    model: str

    def create(self):
        if self.make == "openai":
            return OpenAIClipAdapter(self.model)
        raise ValueError(f"no clip is made by {self.make}")


@dataclass
class ModelLoadConfig:
    devices: str | list
    clip: ClipConfig
    prior: dict
    decoder: dict

    @classmethod
    def from_json(cls, values):
        return cls(**{**values, "clip": ClipConfig(**values["clip"])})


class DalleModelManager:
    """Loads what scripts run with, and knows on which devices that is."""

    def __init__(self, model_load_config):
        devices = model_load_config.devices
        self.devices = [torch.device(each) for each in ([devices] if isinstance(devices, str) else devices)]
        self.decoder = self.load_decoder(model_load_config.decoder)
        self.prior = self.load_prior(model_load_config.prior)
        self.clip = model_load_config.clip.create()

    def load_decoder(self, load_config):
        return Decoder(**load_config).eval().to(self.devices[0])

    def load_prior(self, load_config):
        return DiffusionPrior(**load_config).eval().to(self.devices[0])
# --- dalle2_laion/inference.py
from contextlib import contextmanager

import torch

import clip as openai_clip


class InferenceScript:
    def __init__(self, model_manager):
        self.model_manager = model_manager
        self.device = model_manager.devices[0]

    @contextmanager
    def _clip_in_prior(self):
        prior = self.model_manager.prior
        clip = self.model_manager.clip
        prior.clip = clip
        yield prior
        prior.clip = None

    def _sample_prior(self, texts):
        text_tokens = openai_clip.tokenize(texts)
        with self._clip_in_prior() as prior:
            return prior.sample(text_tokens.to(self.device))

    def _sample_decoder(self, image_embed):
        return self.model_manager.decoder.sample(image_embed.to(self.device))


class BasicInference(InferenceScript):
    @torch.no_grad()
    def run(self, texts):
        image_embeddings = self._sample_prior(texts)
        images = self._sample_decoder(image_embeddings)
        return dict(zip(texts, images.cpu()))
# --- dalle2_pytorch.py
import torch
from torch import nn

import clip


class OpenAIClipAdapter(nn.Module):
    def __init__(self, name="ViT-B/32"):
        super().__init__()
        openai_clip, self.preprocess = clip.load(name)
        self.clip = openai_clip

    @torch.no_grad()
    def embed_text(self, text):
        text_mask = text != 0
        return nn.functional.normalize(self.clip.encode_text(text), dim=-1), text_mask


class DiffusionPrior(nn.Module):
    def __init__(self, timesteps, dim=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2 * dim + 1, 16), nn.SiLU(), nn.Linear(16, dim))
        self.register_buffer("alphas", torch.linspace(0.1, 0.9, timesteps))
        self.dim, self.clip = dim, None

    def sample(self, text_tokens):
        text_embed, text_mask = self.clip.embed_text(text_tokens)
        share = text_mask.float().mean(dim=1, keepdim=True)
        image_embed = torch.randn(len(text_tokens), self.dim, generator=torch.Generator().manual_seed(5)).to(text_tokens.device)
        for alpha in self.alphas:
            predicted = self.net(torch.cat([image_embed, text_embed, share], dim=1))
            image_embed = alpha * predicted + (1 - alpha) * image_embed
        return image_embed


class Decoder(nn.Module):
    def __init__(self, image_size, dim=8):
        super().__init__()
        self.image_size = image_size
        self.unet = nn.Sequential(nn.Linear(dim, 32), nn.SiLU(), nn.Linear(32, 3 * image_size**2), nn.Sigmoid())

    def sample(self, image_embed):
        return self.unet(image_embed).view(-1, 3, self.image_size, self.image_size)
