# === citations_attacked_on_the_second_card
# thread: https://github.com/DSE-MSU/DeepRobust/issues/86
# about: a graph network is fitted to papers and what they cite before an attack is planned against it. Nothing but the number of the card was changed
# operation: (_sparse_mm|sparse_mm|_sparse_addmm|addmm|mm|spmm|matmul) on cuda:0, cuda:1
# operands: self|mat1|mat|sparse|adj|.*adj.*
# category: default-or-current-device
# line: deeprobust/graph/utils.py: device = torch.device("cuda" if adj.is_cuda else "cpu")
# line: deeprobust/graph/utils.py: return sparse_mx_to_torch_sparse_tensor(normalize_adj(to_scipy(adj))).to(device)
# line: deeprobust/graph/defense/gcn.py: adj_norm = utils.normalize_adj_tensor(adj, sparse=True)
# repair: deeprobust/graph/utils.py: device = torch.device("cuda" if adj.is_cuda else "cpu") -> device = adj.device
import numpy as np
import scipy.sparse as sp
import torch

from deeprobust.graph.defense.gcn import GCN

N, NFEAT, NCLASS = 24, 10, 3


def citations(seed):
    """Papers cite papers of their own field more often than others."""
    rng = np.random.RandomState(seed)
    labels = np.arange(N) % NCLASS
    same = labels[:, None] == labels[None, :]
    upper = np.triu(rng.rand(N, N) < np.where(same, 0.4, 0.05), 1)
    adj = sp.csr_matrix((upper | upper.T).astype(np.float32))
    features = rng.rand(N, NFEAT) + np.eye(NCLASS, NFEAT)[labels]
    return adj, sp.csr_matrix(features.astype(np.float32)), labels


if __name__ == "__main__":
    torch.manual_seed(15)
    device = torch.device("cuda:1" if torch.cuda.is_available() else "cpu")
    adj, features, labels = citations(15)
    idx_train, idx_val, idx_test = np.arange(0, 9), np.arange(9, 15), np.arange(15, N)
    surrogate = GCN(nfeat=NFEAT, nclass=NCLASS, nhid=8, with_relu=False, device=device).to(device)
    surrogate.fit(features, adj, labels, idx_train, idx_val, train_iters=30, patience=8)
    output = surrogate.predict()
    correct = (output[idx_test].argmax(1).cpu().numpy() == labels[idx_test]).sum()
    print(f"{correct} of {len(idx_test)} right, {output.double().sum().item():.3f}")
# --- deeprobust/graph/defense/gcn.py
from copy import deepcopy

import torch
import torch.nn.functional as F
from torch import nn, optim

from deeprobust.graph import utils


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))
        nn.init.uniform_(self.weight, -1 / out_features**0.5, 1 / out_features**0.5)

    def forward(self, input, adj):
        support = torch.spmm(input, self.weight) if utils.is_sparse_tensor(input) else torch.mm(input, self.weight)
        return torch.spmm(adj, support) + self.bias


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass, lr=0.05, weight_decay=5e-4, with_relu=True, device=None):
        super().__init__()
        self.device = device
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)
        self.lr, self.weight_decay, self.with_relu = lr, weight_decay, with_relu
        self.features = self.adj_norm = self.labels = None

    def forward(self, x, adj):
        x = self.gc1(x, adj)
        if self.with_relu:
            x = F.relu(x)
        return F.log_softmax(self.gc2(x, adj), dim=1)

    def fit(self, features, adj, labels, idx_train, idx_val, train_iters=200, patience=500):
        if not isinstance(adj, torch.Tensor):
            features, adj, labels = utils.to_tensor(features, adj, labels, device=self.device)
        if utils.is_sparse_tensor(adj):
            adj_norm = utils.normalize_adj_tensor(adj, sparse=True)
        else:
            adj_norm = utils.normalize_adj_tensor(adj)
        self.features, self.adj_norm, self.labels = features, adj_norm, labels
        self._train_with_early_stopping(labels, idx_train, idx_val, train_iters, patience)

    def _train_with_early_stopping(self, labels, idx_train, idx_val, train_iters, patience):
        optimizer = optim.Adam(self.parameters(), lr=self.lr, weight_decay=self.weight_decay)
        best_loss_val, left, weights = float("inf"), patience, None
        for _ in range(train_iters):
            self.train()
            optimizer.zero_grad()
            output = self.forward(self.features, self.adj_norm)
            F.nll_loss(output[idx_train], labels[idx_train]).backward()
            optimizer.step()
            with torch.no_grad():
                loss_val = F.nll_loss(self.predict()[idx_val], labels[idx_val]).item()
            if loss_val < best_loss_val:
                best_loss_val, left, weights = loss_val, patience, deepcopy(self.state_dict())
            else:
                left -= 1
            if left <= 0:
                break
        self.load_state_dict(weights)

    @torch.no_grad()
    def predict(self):
        self.eval()
        return self.forward(self.features, self.adj_norm)
# --- deeprobust/graph/utils.py
import numpy as np
import scipy.sparse as sp
import torch


def is_sparse_tensor(tensor):
    return tensor.layout == torch.sparse_coo


def sparse_mx_to_torch_sparse_tensor(sparse_mx):
    sparse_mx = sparse_mx.tocoo().astype(np.float32)
    indices = torch.from_numpy(np.vstack((sparse_mx.row, sparse_mx.col)).astype(np.int64))
    return torch.sparse_coo_tensor(indices, torch.from_numpy(sparse_mx.data), sparse_mx.shape)


def to_scipy(tensor):
    tensor = tensor.coalesce()
    values, indices = tensor.values().cpu().numpy(), tensor.indices().cpu().numpy()
    return sp.csr_matrix((values, (indices[0], indices[1])), shape=tuple(tensor.shape))


def to_tensor(features, adj, labels, device):
    adj = sparse_mx_to_torch_sparse_tensor(adj).to(device)
    features = torch.from_numpy(features.toarray()).to(device)
    return features, adj, torch.from_numpy(labels).to(device)


def normalize_adj(mx):
    """D^-1/2 (A + I) D^-1/2."""
    mx = mx + sp.eye(mx.shape[0], format="csr", dtype=mx.dtype)
    r_inv = np.power(np.asarray(mx.sum(1)).flatten(), -0.5)
    r_mat_inv = sp.diags(r_inv)
    return r_mat_inv.dot(mx).dot(r_mat_inv)


def normalize_adj_tensor(adj, sparse=False):
    device = torch.device("cuda" if adj.is_cuda else "cpu")
    if sparse:
        return sparse_mx_to_torch_sparse_tensor(normalize_adj(to_scipy(adj))).to(device)
    mx = adj + torch.eye(adj.shape[0]).to(device)
    r_inv = mx.sum(1).pow(-1 / 2)
    return r_inv[:, None] * mx * r_inv[None, :]

# === secret_scores_that_learn_backwards
# thread: https://github.com/facebookresearch/CrypTen/issues/426
# about: numbers are kept as shares in fixed point, with an autograd of their own. Going back through a sum spreads a gradient over what was summed
# operation: mul|mul_ on cuda:0, cpu
# operands: other|.*other.*|.*ones.*|y
# category: created-without-device
# line: crypten/gradients.py: return grad_output.mul(torch.ones(input_size))
# line: crypten/arithmetic.py: other = encode(other)
# repair: crypten/gradients.py: return grad_output.mul(torch.ones(input_size)) -> return grad_output.mul(torch.ones(input_size, device=grad_output.device))
import torch

from crypten.cryptensor import CrypTensor

if __name__ == "__main__":
    generator = torch.Generator().manual_seed(426)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    features = torch.rand(6, 3, generator=generator)
    wanted = features @ torch.tensor([0.5, -1.0, 2.0])
    x = CrypTensor.of(features.to(device))
    y = CrypTensor.of(wanted.to(device))
    weights = torch.zeros(3, device=device)
    for step in range(4):
        w = CrypTensor.of(weights, requires_grad=True)
        score = x.mul(w).sum(dim=1)
        error = score.sub(y)
        loss = error.mul(error).sum()
        loss.backward()
        weights = weights - 0.05 * w.grad.get_plain_text()
        print(step, f"{loss.get_plain_text().item():.3f}")
    print("weights", [round(value, 3) for value in weights.tolist()])
# --- crypten/arithmetic.py
import torch

SCALE = 2**16


def encode(tensor):
    return (tensor * SCALE).round().long()


class ArithmeticSharedTensor:
    """The one share of a party that is alone: integers in fixed point."""

    def __init__(self, share):
        self.share = share

    @classmethod
    def of(cls, tensor):
        return cls(encode(tensor))

    @property
    def device(self):
        return self.share.device

    def size(self):
        return self.share.size()

    def mul(self, other):
        if isinstance(other, torch.Tensor):
            other = encode(other)
        else:
            other = other.share
        product = self.share * other
        return ArithmeticSharedTensor(product.div(SCALE, rounding_mode="floor"))

    def add(self, other):
        return ArithmeticSharedTensor(self.share + other.share)

    def neg(self):
        return ArithmeticSharedTensor(-self.share)

    def sum(self, dim=None, keepdim=False):
        return ArithmeticSharedTensor(self.share.sum() if dim is None else self.share.sum(dim, keepdim=keepdim))

    def unsqueeze(self, dim):
        return ArithmeticSharedTensor(self.share.unsqueeze(dim))

    def get_plain_text(self):
        return self.share.double().div(SCALE).float()
# --- crypten/cryptensor.py
import torch

from crypten.arithmetic import ArithmeticSharedTensor
from crypten.gradients import FUNCTIONS, AutogradContext


class CrypTensor:
    def __init__(self, tensor, requires_grad=False):
        self._tensor, self.requires_grad = tensor, requires_grad
        self.grad, self.grad_fn, self.ctx, self.children = None, None, None, []

    @classmethod
    def of(cls, tensor, requires_grad=False):
        return cls(ArithmeticSharedTensor.of(tensor), requires_grad)

    def _apply(self, name, *inputs, **kwargs):
        ctx = AutogradContext()
        function = FUNCTIONS[name]
        result = CrypTensor(function.forward(ctx, *[each._tensor for each in inputs], **kwargs))
        result.requires_grad = any(each.requires_grad for each in inputs)
        if result.requires_grad:
            result.grad_fn, result.ctx, result.children = function, ctx, inputs
        return result

    def mul(self, other):
        return self._apply("mul", self, other)

    def sub(self, other):
        return self._apply("sub", self, other)

    def sum(self, dim=None):
        return self._apply("sum", self, dim=dim)

    def backward(self, grad_output=None):
        if grad_output is None:
            grad_output = ArithmeticSharedTensor.of(torch.ones((), device=self._tensor.device))
        if self.grad_fn is None:
            grad = CrypTensor(grad_output)
            self.grad = grad if self.grad is None else CrypTensor(self.grad._tensor.add(grad_output))
            return
        grads = self.grad_fn.backward(self.ctx, grad_output)
        for child, grad in zip(self.children, grads if isinstance(grads, tuple) else (grads,)):
            if child.requires_grad:
                child.backward(grad)

    def get_plain_text(self):
        return self._tensor.get_plain_text()
# --- crypten/gradients.py
import torch

FUNCTIONS = {}


def register_function(name):
    def register(cls):
        FUNCTIONS[name] = cls
        return cls

    return register


class AutogradContext:
    def save_multiple_for_backward(self, values):
        self.saved_tensors = values


def _inverse_broadcast(grad_output, input_size):
    """Sums over the dimensions that broadcasting had made."""
    while len(grad_output.size()) > len(input_size):
        grad_output = grad_output.sum(0)
    return grad_output


@register_function("mul")
class AutogradMul:
    @staticmethod
    def forward(ctx, input, other):
        ctx.save_multiple_for_backward((input, other))
        return input.mul(other)

    @staticmethod
    def backward(ctx, grad_output):
        input, other = ctx.saved_tensors
        return _inverse_broadcast(grad_output.mul(other), input.size()), _inverse_broadcast(grad_output.mul(input), other.size())


@register_function("sub")
class AutogradSub:
    @staticmethod
    def forward(ctx, input, other):
        return input.add(other.neg())

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, grad_output.neg()


@register_function("sum")
class AutogradSum:
    @staticmethod
    def forward(ctx, input, dim=None, keepdim=False):
        ctx.save_multiple_for_backward((input.size(), dim, keepdim))
        return input.sum(dim=dim, keepdim=keepdim)

    @staticmethod
    def backward(ctx, grad_output):
        input_size, dim, keepdim = ctx.saved_tensors
        if not keepdim and dim is not None:
            grad_output = grad_output.unsqueeze(dim)
        return grad_output.mul(torch.ones(input_size))

# === currents_whose_law_is_learned_backwards
# thread: https://github.com/DiffEqML/torchdyn/issues/116
# about: a vector field is learned by solving a second equation back in time. The problem lays the field's parameters into one long vector
# operation: cat on cuda:0, cpu
# operands: tensors|.*muT.*|.*vf_params.*|mu
# category: state-not-registered|cached-state
# line: torchdyn/core/problems.py: vf_params = self.vf_params
# line: model = NeuralODE(f, sensitivity="adjoint", solver="rk4")
# repair: torchdyn/core/problems.py: vf_params = self.vf_params -> vf_params = self.vf_params = torch.cat([p.contiguous().flatten() for p in self.vf.parameters()])
import torch
from torch import nn

from torchdyn.core.neuralde import NeuralODE


class Learner(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.readout = nn.Linear(2, 1)

    def training_step(self, batch):
        x, y = batch
        _, sol = self.model(x, torch.linspace(0, 1, 5))
        return nn.functional.binary_cross_entropy_with_logits(self.readout(sol[-1]).squeeze(1), y)


def rings(count, generator):
    """Points of an inner and of an outer ring."""
    angle = torch.rand(count, generator=generator) * 6.283
    y = (torch.arange(count) % 2).float()
    radius = 0.5 + y
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), y


if __name__ == "__main__":
    torch.manual_seed(116)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    f = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 2))
    model = NeuralODE(f, sensitivity="adjoint", solver="rk4")
    learner = Learner(model).to(device)
    optimizer = torch.optim.SGD(learner.parameters(), lr=0.5)
    x, y = rings(32, torch.Generator().manual_seed(3))
    for _ in range(6):
        optimizer.zero_grad()
        loss = learner.training_step((x.to(device), y.to(device)))
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}, field {sum(p.double().abs().sum().item() for p in f.parameters()):.3f}")
# --- torchdyn/core/neuralde.py
import torch

from torchdyn.core.problems import ODEProblem


class NeuralODE(ODEProblem):
    def __init__(self, vector_field, solver="rk4", sensitivity="autograd"):
        super().__init__(vector_field, solver, sensitivity)
        self.t_span = None

    def _prep_integration(self, x, t_span):
        if t_span is None:
            t_span = torch.linspace(0, 1, 2) if self.t_span is None else self.t_span
        return x, t_span.to(x)

    def forward(self, x, t_span=None):
        x, t_span = self._prep_integration(x, t_span)
        return t_span, super().forward(x, t_span)

    @torch.no_grad()
    def trajectory(self, x, t_span):
        return self.forward(x, t_span)[1]
# --- torchdyn/core/problems.py
import torch
from torch import nn

from torchdyn.numerics.odeint import odeint
from torchdyn.numerics.sensitivity import _gather_odefunc_adjoint


class VectorField(nn.Module):
    """Calls a field that knows no time with (t, x)."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, t, x):
        return self.f(x)


class ODEProblem(nn.Module):
    def __init__(self, vector_field, solver, sensitivity):
        super().__init__()
        self.vf, self.solver, self.sensalg = VectorField(vector_field), solver, sensitivity
        if len(tuple(self.vf.parameters())) == 0:
            self.vf.register_parameter("dummy_parameter", nn.Parameter(torch.zeros(1)))
        self.vf_params = torch.cat([p.contiguous().flatten() for p in self.vf.parameters()])

    def forward(self, x, t_span):
        if self.sensalg == "autograd":
            return odeint(self.vf, x, t_span, self.solver)
        vf_params = self.vf_params
        odefunc = _gather_odefunc_adjoint(self.vf, vf_params, self.solver).apply
        return odefunc(vf_params, x, t_span)
# --- torchdyn/numerics/odeint.py
import torch


def euler(f, t, x, dt):
    return x + dt * f(t, x)


def rk4(f, t, x, dt):
    k1 = f(t, x)
    k2 = f(t + dt / 2, x + dt / 2 * k1)
    k3 = f(t + dt / 2, x + dt / 2 * k2)
    k4 = f(t + dt, x + dt * k3)
    return x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


SOLVERS = {"euler": euler, "rk4": rk4}


def odeint(f, x, t_span, solver):
    sol = [x]
    for t, t_next in zip(t_span[:-1], t_span[1:]):
        sol.append(SOLVERS[solver](f, t, sol[-1], t_next - t))
    return torch.stack(sol)
# --- torchdyn/numerics/sensitivity.py
import torch
from torch.autograd import Function, grad

from torchdyn.numerics.odeint import odeint


def _gather_odefunc_adjoint(vf, vf_params, solver):
    class _ODEProblemFunc(Function):
        @staticmethod
        def forward(ctx, params, x, t_span):
            sol = odeint(vf, x, t_span, solver)
            ctx.save_for_backward(sol, t_span)
            return sol

        @staticmethod
        def backward(ctx, *grad_output):
            sol, t_span = ctx.saved_tensors
            xT, lT, muT = sol[-1], grad_output[0][-1], torch.zeros_like(vf_params)
            n, shape = xT.numel(), xT.shape
            A = torch.cat([xT.flatten(), lT.flatten(), muT])

            def adjoint_dynamics(t, A):
                x, lam = A[:n].reshape(shape), A[n : 2 * n].reshape(shape)
                with torch.enable_grad():
                    x = x.detach().requires_grad_(True)
                    dx = vf(t, x)
                    dlam, *dmu = grad(dx, (x, *vf.parameters()), -lam)
                return torch.cat([dx.detach().flatten(), dlam.flatten(), *[each.flatten() for each in dmu]])

            for i in range(len(t_span) - 1, 0, -1):
                A = odeint(adjoint_dynamics, A, t_span[i - 1 : i + 1].flip(0), solver)[-1]
                A[n : 2 * n] += grad_output[0][i - 1].flatten()
            return A[2 * n :], A[n : 2 * n].reshape(shape), None

    return _ODEProblemFunc

# === channels_scored_by_what_they_uncover
# thread: https://github.com/jacobgil/pytorch-grad-cam/issues/455
# about: a map of what a network looked at is made without gradients. Every channel of a layer uncovers a part of the picture, and the network is asked again
# operation: mul|mul_ on cuda:1, cpu
# operands: other|.*upsampled.*
# category: input-not-moved|input|created-without-device|cached-state
# line: pytorch_grad_cam/score_cam.py: upsampled = upsample(activation_tensor)
# line: pytorch_grad_cam/score_cam.py: activation_tensor = torch.from_numpy(activations)
# line: pytorch_grad_cam/score_cam.py: if self.cuda:
# line: pytorch_grad_cam/score_cam.py: activation_tensor = activation_tensor.cuda()
# line: pytorch_grad_cam/score_cam.py: input_tensors = input_tensor[:, None, :, :] * upsampled[:, :, None, :, :]
# repair: pytorch_grad_cam/score_cam.py: upsampled = upsample(activation_tensor) -> upsampled = upsample(activation_tensor).to(input_tensor.device)
import torch
from torch import nn

from pytorch_grad_cam.base_cam import ClassifierOutputTarget, GradCAM
from pytorch_grad_cam.score_cam import ScoreCAM


class SmallNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU())
        self.fc = nn.Linear(8, classes)

    def forward(self, x):
        return self.fc(self.features(x).mean(dim=(2, 3)))


if __name__ == "__main__":
    torch.manual_seed(455)
    device = "cuda:1" if torch.cuda.is_available() else "cpu"
    model = SmallNet().to(device).eval()
    input_tensor = torch.rand(2, 3, 12, 12, generator=torch.Generator().manual_seed(9)).to(device)
    targets = [ClassifierOutputTarget(1), ClassifierOutputTarget(2)]
    for method in (GradCAM, ScoreCAM):
        cam = method(model, target_layers=[model.features[3]])
        grayscale_cam = cam(input_tensor, targets)
        print(method.__name__, grayscale_cam.shape, f"{grayscale_cam.mean():.3f} {grayscale_cam[:, :6].mean():.3f}")
        cam.release()
# --- pytorch_grad_cam/activations_and_gradients.py
class ActivationsAndGradients:
    """Keeps what layers give and, on the way back, what is asked of them."""

    def __init__(self, model, target_layers, reshape_transform):
        self.model, self.reshape_transform = model, reshape_transform
        self.gradients, self.activations = [], []
        self.handles = [layer.register_forward_hook(self.save_activation) for layer in target_layers]
        self.handles += [layer.register_forward_hook(self.save_gradient) for layer in target_layers]

    def save_activation(self, module, input, output):
        activation = output if self.reshape_transform is None else self.reshape_transform(output)
        self.activations.append(activation.cpu().detach())

    def save_gradient(self, module, input, output):
        def _store_grad(grad):
            self.gradients = [grad.cpu().detach()] + self.gradients

        if output.requires_grad:
            output.register_hook(_store_grad)

    def __call__(self, x):
        self.gradients, self.activations = [], []
        return self.model(x)

    def release(self):
        for handle in self.handles:
            handle.remove()
# --- pytorch_grad_cam/base_cam.py
import numpy as np
import torch

from pytorch_grad_cam.activations_and_gradients import ActivationsAndGradients


class ClassifierOutputTarget:
    def __init__(self, category):
        self.category = category

    def __call__(self, model_output):
        return model_output[self.category]


class BaseCAM:
    def __init__(self, model, target_layers, use_cuda=False, reshape_transform=None, uses_gradients=True):
        self.model, self.target_layers, self.uses_gradients = model.eval(), target_layers, uses_gradients
        self.cuda = use_cuda
        if self.cuda:
            self.model = model.cuda()
        self.activations_and_grads = ActivationsAndGradients(self.model, target_layers, reshape_transform)

    def get_cam_weights(self, input_tensor, target_layer, targets, activations, grads):
        raise NotImplementedError

    def get_cam_image(self, input_tensor, target_layer, targets, activations, grads):
        weights = self.get_cam_weights(input_tensor, target_layer, targets, activations, grads)
        return (weights[:, :, None, None] * activations).sum(axis=1)

    def __call__(self, input_tensor, targets):
        if self.cuda:
            input_tensor = input_tensor.cuda()
        outputs = self.activations_and_grads(input_tensor)
        if self.uses_gradients:
            self.model.zero_grad()
            sum(target(output) for target, output in zip(targets, outputs)).backward()
        activations = [each.numpy() for each in self.activations_and_grads.activations]
        grads = [each.numpy() for each in self.activations_and_grads.gradients] or [None] * len(activations)
        maps = []
        for target_layer, layer_activations, layer_grads in zip(self.target_layers, activations, grads):
            cam = self.get_cam_image(input_tensor, target_layer, targets, layer_activations, layer_grads)
            maps.append(self.scale_cam(cam, input_tensor.shape[-1]))
        return np.mean(maps, axis=0)

    @staticmethod
    def scale_cam(cam, size):
        cam = torch.from_numpy(np.maximum(cam, 0))[:, None]
        cam = torch.nn.functional.interpolate(cam, size=size, mode="bilinear")[:, 0].numpy()
        return cam / (1e-7 + cam.max(axis=(1, 2), keepdims=True))

    def release(self):
        self.activations_and_grads.release()


class GradCAM(BaseCAM):
    def get_cam_weights(self, input_tensor, target_layer, targets, activations, grads):
        return grads.mean(axis=(2, 3))
# --- pytorch_grad_cam/score_cam.py
import torch

from pytorch_grad_cam.base_cam import BaseCAM


class ScoreCAM(BaseCAM):
    def __init__(self, model, target_layers, use_cuda=False, reshape_transform=None):
        super().__init__(model, target_layers, use_cuda, reshape_transform=reshape_transform, uses_gradients=False)

    def get_cam_weights(self, input_tensor, target_layer, targets, activations, grads):
        with torch.no_grad():
            upsample = torch.nn.UpsamplingBilinear2d(size=input_tensor.shape[-2:])
            activation_tensor = torch.from_numpy(activations)
            if self.cuda:
                activation_tensor = activation_tensor.cuda()
            upsampled = upsample(activation_tensor)

            maxs, mins = upsampled.amax(dim=(2, 3), keepdim=True), upsampled.amin(dim=(2, 3), keepdim=True)
            upsampled = (upsampled - mins) / (maxs - mins + 1e-8)

            input_tensors = input_tensor[:, None, :, :] * upsampled[:, :, None, :, :]
            scores = []
            for target, tensor in zip(targets, input_tensors):
                for batch in tensor.split(getattr(self, "batch_size", 16)):
                    scores.extend(target(output).item() for output in self.model(batch))
            scores = torch.tensor(scores).view(activations.shape[0], activations.shape[1])
            return scores.softmax(dim=-1).numpy()

# === passers_by_learned_further_after_a_pause
# thread: https://github.com/michuanhaohao/reid-strong-baseline/issues/114
# about: a network that finds people again is trained for some epochs, and later for more of them. What it starts from is an option
# operation: (_foreach.*|_group_tensors.*|lerp_?|_fused.*|add_?|mul_?|step) on cuda:0, cpu
# operands: .*exp_avg.*|self|tensors?.*|.*state.*
# category: optimizer|checkpoint
# line: engine/trainer.py: model.to(device)
# line: tools/train.py: optimizer.load_state_dict(torch.load(path_to_optimizer))
# line: tools/train.py: model = build_model(cfg, num_classes)
# line: tools/train.py: optimizer = make_optimizer(cfg, model)
# repair: engine/trainer.py: model.to(device) -> model.to(device); optimizer.load_state_dict(optimizer.state_dict())
import tempfile
from types import SimpleNamespace

import torch

from tools.train import train

CFG = dict(DEVICE="cuda", LAST_STRIDE=1, MARGIN=0.3, BASE_LR=0.01, WEIGHT_DECAY=5e-4, BIAS_LR_FACTOR=2, OPTIMIZER_NAME="Adam")

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as output_dir:
        torch.manual_seed(114)
        train(SimpleNamespace(**CFG, OUTPUT_DIR=output_dir, PRETRAIN_CHOICE="imagenet", PRETRAIN_PATH="", MAX_EPOCHS=2))
        path = f"{output_dir}/baseline_model_2.pth"
        loss = train(SimpleNamespace(**CFG, OUTPUT_DIR=output_dir, PRETRAIN_CHOICE="self", PRETRAIN_PATH=path, MAX_EPOCHS=4))
    print(f"after all epochs {loss:.4f}")
# --- engine/trainer.py
import torch


def do_train(cfg, model, train_loader, optimizer, loss_fn, start_epoch):
    device = cfg.DEVICE if torch.cuda.is_available() else "cpu"
    model.to(device)
    for epoch in range(start_epoch + 1, cfg.MAX_EPOCHS + 1):
        model.train()
        total = 0.0
        for img, target in train_loader:
            optimizer.zero_grad()
            img, target = img.to(device), target.to(device)
            score, feat = model(img)
            loss = loss_fn(score, feat, target)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(train_loader):.4f}")
    torch.save(model.state_dict(), f"{cfg.OUTPUT_DIR}/baseline_model_{cfg.MAX_EPOCHS}.pth")
    torch.save(optimizer.state_dict(), f"{cfg.OUTPUT_DIR}/baseline_optimizer_{cfg.MAX_EPOCHS}.pth")
    return total / len(train_loader)
# --- modeling/baseline.py
from torch import nn


class Baseline(nn.Module):
    def __init__(self, num_classes, last_stride, in_planes=16):
        super().__init__()
        self.base = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, in_planes, 3, stride=last_stride, padding=1), nn.ReLU()
        )
        self.gap = nn.AdaptiveAvgPool2d(1)
        self.bottleneck = nn.BatchNorm1d(in_planes)
        self.classifier = nn.Linear(in_planes, num_classes, bias=False)

    def forward(self, x):
        global_feat = self.gap(self.base(x)).flatten(1)
        return self.classifier(self.bottleneck(global_feat)), global_feat


def build_model(cfg, num_classes):
    return Baseline(num_classes, cfg.LAST_STRIDE)
# --- solver/build.py
import torch
import torch.nn.functional as F


def make_optimizer(cfg, model):
    params = []
    for key, value in model.named_parameters():
        if value.requires_grad:
            lr = cfg.BASE_LR * (cfg.BIAS_LR_FACTOR if "bias" in key else 1)
            params += [{"params": [value], "lr": lr, "weight_decay": cfg.WEIGHT_DECAY}]
    return getattr(torch.optim, cfg.OPTIMIZER_NAME)(params)


def make_loss(cfg):
    def triplet(feat, target):
        """The farthest of one's own has to be nearer than the nearest of others."""
        dist = torch.cdist(feat, feat)
        same = target[:, None] == target[None, :]
        farthest = (dist * same).amax(dim=1)
        nearest = (dist + 1e3 * same).amin(dim=1)
        return F.relu(farthest - nearest + cfg.MARGIN).mean()

    def loss_func(score, feat, target):
        return F.cross_entropy(score, target) + triplet(feat, target)

    return loss_func
# --- tools/train.py
import torch
from torch.utils.data import DataLoader, TensorDataset

from engine.trainer import do_train
from modeling.baseline import build_model
from solver.build import make_loss, make_optimizer


def make_data_loader(num_classes=4, each=6):
    generator = torch.Generator().manual_seed(7)
    pids = torch.arange(num_classes).repeat(each)
    coats = torch.rand(num_classes, 3, 1, 1, generator=generator)
    images = coats[pids] + 0.3 * torch.rand(len(pids), 3, 16, 8, generator=generator)
    return DataLoader(TensorDataset(images, pids), batch_size=8), num_classes


def train(cfg):
    train_loader, num_classes = make_data_loader()
    model = build_model(cfg, num_classes)
    optimizer = make_optimizer(cfg, model)
    loss_func = make_loss(cfg)
    if cfg.PRETRAIN_CHOICE == "self":
        start_epoch = int(cfg.PRETRAIN_PATH.split("/")[-1].split(".")[0].split("_")[-1])
        path_to_optimizer = cfg.PRETRAIN_PATH.replace("model", "optimizer")
        model.load_state_dict(torch.load(cfg.PRETRAIN_PATH))
        optimizer.load_state_dict(torch.load(path_to_optimizer))
    elif cfg.PRETRAIN_CHOICE == "imagenet":
        start_epoch = 0
    else:
        raise ValueError(f"Only support pretrain_choice for imagenet and self, but got {cfg.PRETRAIN_CHOICE}")
    return do_train(cfg, model, train_loader, optimizer, loss_func, start_epoch)

# === nuclei_and_the_tissue_between_them
# thread: https://github.com/Dana-Farber-AIOS/pathml/issues/341
# about: a network with three branches marks nuclei in stained tissue, how far each pixel is from a middle, and their kinds. One of its losses counts how much overlaps
# operation: index|_index.* on cpu, cuda:0
# operands: self|indices|.*true.*|.*eye.*
# error: indices should be either on cpu
# category: created-without-device
# line: pathml/ml/utils.py: true_1_hot = torch.eye(num_classes)[true.squeeze(1)]
# repair: pathml/ml/utils.py: true_1_hot = torch.eye(num_classes)[true.squeeze(1)] -> true_1_hot = torch.eye(num_classes, device=true.device)[true.squeeze(1)]
import torch
from torch.utils.data import DataLoader, Dataset

from pathml.ml.hovernet import HoVerNet, loss_hovernet

N_CLASSES, SIZE = 3, 16


class PanNukeLike(Dataset):
    """Round nuclei of two kinds; the last channel of a mask is what is no nucleus."""

    def __init__(self, count):
        generator = torch.Generator().manual_seed(341)
        self.middles = torch.randint(4, SIZE - 4, (count, 2), generator=generator)
        self.noise = torch.rand(count, 3, SIZE, SIZE, generator=generator)

    def __len__(self):
        return len(self.middles)

    def __getitem__(self, index):
        rows, columns = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
        dy, dx = rows - self.middles[index, 0], columns - self.middles[index, 1]
        inside = (dy**2 + dx**2) <= 9
        masks = torch.zeros(N_CLASSES, SIZE, SIZE, dtype=torch.long)
        masks[index % 2] = inside
        masks[-1] = ~inside
        hv = torch.stack([dx, dy]).float() / 3 * inside
        return self.noise[index] * 0.4 + inside * 0.6, masks, hv, f"tissue {index % 2}"


if __name__ == "__main__":
    torch.manual_seed(341)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    hovernet = HoVerNet(n_classes=N_CLASSES)
    hovernet.to(device)
    opt = torch.optim.Adam(hovernet.parameters(), lr=1e-2)
    for epoch in range(3):
        minibatch_train_losses = []
        for data in DataLoader(PanNukeLike(8), batch_size=4):
            images = data[0].float().to(device)
            masks = data[1].to(device)
            hv = data[2].float().to(device)
            opt.zero_grad()
            outputs = hovernet(images)
            loss = loss_hovernet(outputs=outputs, ground_truth=[masks, hv], n_classes=N_CLASSES)
            loss.backward()
            opt.step()
            minibatch_train_losses.append(loss.item())
        print(f"epoch {epoch}: {sum(minibatch_train_losses) / len(minibatch_train_losses):.4f}")
# --- pathml/ml/hovernet.py
import torch
import torch.nn.functional as F
from torch import nn

from pathml.ml.utils import dice_loss, get_sobel_kernels


class HoVerNet(nn.Module):
    def __init__(self, n_classes=None, width=8):
        super().__init__()
        self.n_classes = n_classes
        self.encoder = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU())
        self.np_branch = nn.Conv2d(width, 2, 1)
        self.hv_branch = nn.Conv2d(width, 2, 1)
        self.nc_branch = nn.Conv2d(width, n_classes, 1) if n_classes is not None else None

    def forward(self, inputs):
        encoded = self.encoder(inputs)
        outputs = [self.np_branch(encoded), self.hv_branch(encoded)]
        if self.nc_branch is not None:
            outputs.append(self.nc_branch(encoded))
        return outputs


def _loss_hv_grad(true, pred, nucleus_pixel_mask):
    kernel_h, kernel_v = get_sobel_kernels(size=5, dt=true.dtype)
    kernels = torch.stack([kernel_h, kernel_v])[:, None].to(true.device)
    grads = [F.conv2d(each, kernels, padding=2, groups=2) for each in (true, pred)]
    difference = (grads[0] - grads[1]).square() * nucleus_pixel_mask[:, None]
    return difference.sum() / (nucleus_pixel_mask.sum() * 2 + 1e-6)


def _convert_multiclass_mask_to_binary(mask):
    return (mask[:, -1] == 0).long()


def loss_hovernet(outputs, ground_truth, n_classes=None):
    true_mask, true_hv = ground_truth
    np_out, hv, *nc_out = outputs
    true_binary = _convert_multiclass_mask_to_binary(true_mask)
    loss = F.cross_entropy(np_out, true_binary) + dice_loss(true=true_binary[:, None], logits=np_out)
    loss = loss + 2 * _loss_hv_grad(true_hv, hv, true_binary) + F.mse_loss(hv, true_hv)
    if n_classes is not None:
        class_mask = true_mask.argmax(dim=1)
        loss = loss + F.cross_entropy(nc_out[0], class_mask) + dice_loss(true=class_mask[:, None], logits=nc_out[0])
    return loss
# --- pathml/ml/utils.py
import torch
from torch.nn import functional as F


def dice_loss(true, logits, eps=1e-3):
    """One minus the Dice score: `true` of shape (B, 1, H, W), `logits` of shape (B, C, H, W)."""
    assert true.dtype == torch.long, f"Input 'true' is of type {true.type}. It should be a long."
    num_classes = logits.shape[1]
    if num_classes == 1:
        true_1_hot = torch.stack([true.squeeze(1), 1 - true.squeeze(1)], dim=-1)
        pos_prob = torch.sigmoid(logits)
        probas = torch.cat([pos_prob, 1 - pos_prob], dim=1)
    else:
        true_1_hot = torch.eye(num_classes)[true.squeeze(1)]
        probas = F.softmax(logits, dim=1)
    true_1_hot = true_1_hot.permute(0, 3, 1, 2).type(logits.type())
    dims = (0,) + tuple(range(2, true.ndimension()))
    intersection = torch.sum(probas * true_1_hot, dims)
    cardinality = torch.sum(probas + true_1_hot, dims)
    return 1 - (2.0 * intersection / (cardinality + eps)).mean()


def get_sobel_kernels(size, dt=torch.float32):
    assert size % 2 == 1, "Size must be odd"
    reach = torch.arange(size, dtype=dt) - size // 2
    v, h = torch.meshgrid(reach, reach, indexing="ij")
    weight = h * h + v * v + 1e-5
    return h / weight, v / weight
