# === reviews_attacked_through_a_model_on_two_cards
# thread: https://github.com/QData/TextAttack/issues/798
# about: reviews are changed until a classifier says something else, and a sentence encoder sees to it that they still mean the same. The classifier
#   is large and was spread over two cards when it was loaded
# operation: (native_)?layer_norm on cuda:1, cuda:0
# operands: weight|bias|mat2|.*weight|.*bias
# category: module-split|default-or-current-device
# line: textattack/attack.py: if isinstance(obj, torch.nn.Module):
# line: textattack/attack.py: obj.to(utils.device)
# repair: textattack/attack.py: if isinstance(obj, torch.nn.Module): -> if isinstance(obj, torch.nn.Module) and not hasattr(obj, "hf_device_map"):
import torch
from accelerate import dispatch_model

from modeling import SequenceClassifier, tokenizer
from textattack.attack import Attack, Attacker
from textattack.components import GreedyWordSwap, SentenceEncoder, UntargetedClassification, WordSwapEmbedding
from textattack.models.wrappers import HuggingFaceModelWrapper

REVIEWS = [
    ("a fine film with a clever story", 0),
    ("the cast is weak and the jokes are old", 1),
    ("long but never dull", 0),
]
DEVICE_MAP = {"embeddings": 0, "encoder.0": 0, "encoder.1": 1, "encoder.2": 1, "classifier": 1}

if __name__ == "__main__":
    torch.manual_seed(798)
    model = SequenceClassifier(width=12, layers=3).eval()
    model = dispatch_model(model, device_map=DEVICE_MAP)
    attack = Attack(
        UntargetedClassification(HuggingFaceModelWrapper(model, tokenizer)), [SentenceEncoder(threshold=0.6)], WordSwapEmbedding(), GreedyWordSwap()
    )
    results = Attacker(attack, REVIEWS).attack_dataset()
    print([(text, round(before, 3), round(after, 3)) for text, before, after in results])
# --- modeling.py
import torch
from torch import nn

BUCKETS = 64


def tokenizer(texts, length=8):
    """Words fall into buckets."""
    ids = [[1 + sum(i * ord(c) for i, c in enumerate(word, 1)) % (BUCKETS - 1) for word in text.split()][:length] for text in texts]
    return {"input_ids": torch.tensor([each + [0] * (length - len(each)) for each in ids])}


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, hidden):
        q, k, v = self.qkv(self.norm(hidden)).chunk(3, dim=-1)
        return hidden + self.out(nn.functional.scaled_dot_product_attention(q, k, v))


class SequenceClassifier(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embeddings = nn.Embedding(BUCKETS, width)
        self.encoder = nn.ModuleList(Layer(width) for _ in range(layers))
        self.classifier = nn.Linear(width, 2)

    def forward(self, input_ids):
        hidden = self.embeddings(input_ids)
        for layer in self.encoder:
            hidden = layer(hidden)
        return self.classifier(hidden.mean(dim=1))
# --- textattack/shared/utils.py
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# --- textattack/models/wrappers.py
import torch


class ModelWrapper:
    pass


class HuggingFaceModelWrapper(ModelWrapper):
    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model, tokenizer

    @torch.no_grad()
    def __call__(self, text_input_list):
        inputs_dict = self.tokenizer(text_input_list)
        model_device = next(self.model.parameters()).device
        inputs_dict = {name: each.to(model_device) for name, each in inputs_dict.items()}
        return self.model(**inputs_dict).softmax(dim=-1).cpu()
# --- textattack/components.py
import torch
from torch import nn

from modeling import BUCKETS, tokenizer
from textattack.shared import utils

SYNONYMS = {
    "fine": ["good", "nice"], "film": ["movie", "picture"], "clever": ["smart", "bright"], "weak": ["poor", "thin"], "old": ["stale", "worn"],
    "long": ["lengthy", "slow"], "dull": ["boring", "flat"], "story": ["plot", "tale"], "jokes": ["gags", "puns"],
}  # fmt: skip


class GoalFunction:
    pass


class Transformation:
    pass


class SearchMethod:
    pass


class Constraint:
    pass


class UntargetedClassification(GoalFunction):
    def __init__(self, model_wrapper):
        self.model = model_wrapper

    def get_results(self, texts, label):
        return (1 - self.model(texts)[:, label]).tolist()


class WordSwapEmbedding(Transformation):
    def __call__(self, text, index):
        words = text.split()
        return [" ".join([*words[:index], word, *words[index + 1 :]]) for word in SYNONYMS.get(words[index], [])]


class SentenceEncoder(Constraint):
    """A changed text may not lie too far from the text it was."""

    def __init__(self, threshold, width=8):
        self.threshold = threshold
        self.model = nn.EmbeddingBag(BUCKETS, width)

    @torch.no_grad()
    def __call__(self, text, original):
        first, second = self.model(tokenizer([text, original])["input_ids"].to(utils.device))
        return torch.cosine_similarity(first, second, dim=0).item() > self.threshold


class GreedyWordSwap(SearchMethod):
    def perform_search(self, text, label, get_transformations, get_goal_results):
        best, score = text, get_goal_results([text], label)[0]
        for index in range(len(text.split())):
            changed = get_transformations(best, text, index)
            if changed:
                found, word = max(zip(get_goal_results(changed, label), changed))
                best, score = (word, found) if found > score else (best, score)
        return best, score
# --- textattack/attack.py
import torch

from textattack.components import Constraint, GoalFunction, SearchMethod, Transformation
from textattack.models.wrappers import ModelWrapper
from textattack.shared import utils


class Attack:
    def __init__(self, goal_function, constraints, transformation, search_method):
        self.goal_function, self.constraints = goal_function, constraints
        self.transformation, self.search_method = transformation, search_method

    def cuda_(self):
        """Moves every model that is a part of the attack to the GPU."""
        visited = set()

        def to_cuda(obj):
            visited.add(id(obj))
            if isinstance(obj, torch.nn.Module):
                obj.to(utils.device)
            elif isinstance(obj, (Attack, GoalFunction, Transformation, SearchMethod, Constraint, ModelWrapper)):
                for s_obj in obj.__dict__.values():
                    if id(s_obj) not in visited:
                        to_cuda(s_obj)
            elif isinstance(obj, (list, tuple)):
                for item in obj:
                    if id(item) not in visited:
                        to_cuda(item)

        to_cuda(self)

    def get_transformations(self, text, original, index):
        return [each for each in self.transformation(text, index) if all(accepts(each, original) for accepts in self.constraints)]

    def attack(self, text, label):
        before = self.goal_function.get_results([text], label)[0]
        changed, after = self.search_method.perform_search(text, label, self.get_transformations, self.goal_function.get_results)
        return changed, before, after


class Attacker:
    def __init__(self, attack, dataset):
        self.attack, self.dataset = attack, dataset

    def attack_dataset(self):
        if torch.cuda.is_available():
            self.attack.cuda_()
        return [self.attack.attack(text, label) for text, label in self.dataset]

# === texts_that_are_worth_a_label
# thread: https://github.com/webis-de/small-text/issues/2
# about: a convolutional net asks for the labels of the texts it is least sure of, and is trained anew with each answer. While the net is built,
#   tensors are made on the CPU
# operation: randperm on cpu
# operands: generator|.*generator.*
# error: device type for generator
# category: generator|default-or-current-device
# line: small_text/integrations/pytorch/utils/misc.py: default_type = torch.cuda.FloatTensor if
# line: small_text/integrations/pytorch/utils/misc.py: torch.set_default_tensor_type(default_type)
# line: small_text/integrations/pytorch/utils/data.py: base_sampler = RandomSampler(data_source)
# line: small_text/integrations/pytorch/classifiers/kimcnn.py: with default_tensor_type(torch.FloatTensor):
# repair: small_text/integrations/pytorch/utils/misc.py: default_type = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor -> default_type = torch.empty(0).type()
import warnings

import numpy as np

from small_text.active_learner import PoolBasedActiveLearner
from small_text.integrations.pytorch.classifiers.kimcnn import KimCNNClassifier

warnings.filterwarnings("ignore")


def load_pool(size=24, length=7, vocab=18, seed=2):
    """Texts of two kinds: most of their words are from either half of the words."""
    rng = np.random.default_rng(seed)
    y = np.arange(size) % 2
    low = np.where(rng.random((size, length)) < 0.8, y[:, None], 1 - y[:, None])
    return rng.integers(1, vocab // 2, (size, length)) + low * (vocab // 2 - 1), y


if __name__ == "__main__":
    x, y = load_pool()
    embedding_matrix = np.random.default_rng(3).normal(size=(18, 6)).astype(np.float32)
    clf = KimCNNClassifier(num_classes=2, embedding_matrix=embedding_matrix, device="cuda", num_epochs=5, mini_batch_size=32, lr=0.5)
    active_learner = PoolBasedActiveLearner(clf, x)
    active_learner.initialize_data(np.arange(4), y[:4])
    for _ in range(3):
        indices = active_learner.query(num_samples=3)
        active_learner.update(y[indices])
        print("asked for", indices.tolist())
    print("labelled", len(active_learner.indices_labeled), f"loss {clf.last_loss:.3f}", "right", int((clf.predict(x).argmax(axis=1) == y).sum()))
# --- small_text/active_learner.py
import numpy as np


class PoolBasedActiveLearner:
    def __init__(self, clf, dataset):
        self._clf, self.dataset = clf, dataset
        self.indices_labeled, self.y, self._queried = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), None

    def initialize_data(self, indices_initial, y_initial):
        self.indices_labeled, self.y = np.asarray(indices_initial), np.asarray(y_initial)
        self._retrain()

    def query(self, num_samples):
        """Those of which the classifier is least sure."""
        proba = self._clf.predict(self.dataset)
        unsure = -np.abs(proba[:, 0] - proba[:, 1])
        unsure[self.indices_labeled] = -np.inf
        self._queried = np.argsort(-unsure, kind="stable")[:num_samples]
        return self._queried

    def update(self, y):
        self.indices_labeled = np.concatenate([self.indices_labeled, self._queried])
        self.y = np.concatenate([self.y, y])
        self._retrain()

    def _retrain(self):
        self._clf.fit(self.dataset[self.indices_labeled], self.y)
# --- small_text/integrations/pytorch/utils/misc.py
from contextlib import contextmanager

import torch


@contextmanager
def default_tensor_type(tensor_type):
    default_type = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor
    torch.set_default_tensor_type(tensor_type)
    yield
    torch.set_default_tensor_type(default_type)
# --- small_text/integrations/pytorch/utils/data.py
import torch
from torch.utils.data import DataLoader
from torch.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler


def collate_fn(batch):
    texts, labels = zip(*batch)
    return torch.stack(texts), torch.stack(labels)


def dataloader(data_source, batch_size, train=True):
    if train:
        base_sampler = RandomSampler(data_source)
    else:
        base_sampler = SequentialSampler(data_source)
    return DataLoader(data_source, collate_fn=collate_fn, batch_sampler=BatchSampler(base_sampler, batch_size=batch_size, drop_last=False))
# --- small_text/integrations/pytorch/classifiers/kimcnn.py
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from small_text.integrations.pytorch.utils.data import dataloader
from small_text.integrations.pytorch.utils.misc import default_tensor_type


class KimCNN(nn.Module):
    def __init__(self, num_classes, embedding_matrix, out_channels=5, kernel_heights=(2, 3)):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(torch.from_numpy(embedding_matrix).clone(), freeze=False, padding_idx=0)
        width = embedding_matrix.shape[1]
        self.convs = nn.ModuleList(nn.Conv1d(width, out_channels, height) for height in kernel_heights)
        self.fc = nn.Linear(out_channels * len(kernel_heights), num_classes)

    def forward(self, x):
        x = self.embedding(x).transpose(1, 2)
        return self.fc(torch.cat([torch.relu(conv(x)).amax(dim=2) for conv in self.convs], dim=1))


class KimCNNClassifier:
    def __init__(self, num_classes, embedding_matrix, device, num_epochs, mini_batch_size, lr, seed=9):
        self.num_classes, self.embedding_matrix, self.device = num_classes, embedding_matrix, device
        self.num_epochs, self.mini_batch_size, self.lr, self.seed = num_epochs, mini_batch_size, lr, seed
        self.model, self.last_loss = None, None

    def initialize_kimcnn_model(self):
        torch.manual_seed(self.seed)
        with default_tensor_type(torch.FloatTensor):
            self.model = KimCNN(self.num_classes, self.embedding_matrix)
        self.model = self.model.to(self.device)

    def fit(self, x, y):
        self.initialize_kimcnn_model()
        train_set = list(zip(torch.from_numpy(x), torch.from_numpy(y)))
        optimizer = torch.optim.Adadelta(self.model.parameters(), lr=self.lr)
        for _ in range(self.num_epochs):
            self._train_func(train_set, optimizer)

    def _train_func(self, sub_train, optimizer):
        for text, cls in dataloader(sub_train, self.mini_batch_size):
            text, cls = text.to(self.device), cls.to(self.device)
            loss = F.cross_entropy(self.model(text), cls)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.last_loss = loss.item()

    @torch.no_grad()
    def predict(self, x):
        data = [(text, torch.zeros(())) for text in torch.from_numpy(x)]
        proba = [self.model(text.to(self.device)).softmax(dim=1).cpu().numpy() for text, _ in dataloader(data, self.mini_batch_size, train=False)]
        return np.concatenate(proba)

# === neurons_whose_traces_are_kept_in_ram
# thread: https://github.com/NeuroTorch/NeuroTorch/pull/65
# about: the activity of nerve cells is told some steps ahead by a recurrent net. What each layer gave at each step is remembered, on a device that
#   may be chosen for it
# operation: mse_loss|sub on cpu, cuda:0
# operands: target|self|input|other|.*pred.*|y
# category: cached-state|input-not-moved|input
# line: neurotorch/modules/sequential_rnn.py: layer_name: torch.stack(trace, dim=1)
# line: neurotorch/modules/sequential_rnn.py: return outputs_trace_tensor, hidden_states
# line: neurotorch/trainers/trainer.py: batch_loss = self.criterion(out["readout"], y_batch)
# repair: neurotorch/modules/sequential_rnn.py: layer_name: torch.stack(trace, dim=1) -> layer_name: torch.stack(trace, dim=1).to(self.device)
import torch

from dataset import WilsonCowanDataset
from neurotorch.modules.layers import LILayer, WilsonCowanLayer
from neurotorch.modules.sequential_rnn import SequentialRNN
from neurotorch.trainers.trainer import Trainer

if __name__ == "__main__":
    torch.manual_seed(65)
    dataset = WilsonCowanDataset(units=5, n_time_steps=9, n_series=6)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    layers = [WilsonCowanLayer(5, 12, name="input"), WilsonCowanLayer(12, 12, name="hidden_0"), LILayer(12, 5, name="readout")]
    network = SequentialRNN(layers, foresight_time_steps=dataset.n_time_steps - 1, device=device, memory_device=torch.device("cpu"))
    trainer = Trainer(network, lr=0.01)
    losses = trainer.train(dataset.loader(batch_size=3), n_iterations=5)
    print("loss", [f"{loss:.4f}" for loss in losses])
# --- dataset.py
import torch
from torch.utils.data import DataLoader, TensorDataset


class WilsonCowanDataset:
    """Series of a few units that drive and hold one another. The first step is given, the others are asked for."""

    def __init__(self, units, n_time_steps, n_series, dt=0.3):
        self.n_time_steps = n_time_steps
        generator = torch.Generator().manual_seed(11)
        weights = torch.randn((units, units), generator=generator)
        steps = [torch.rand((n_series, units), generator=generator)]
        for _ in range(n_time_steps - 1):
            steps.append(steps[-1] + dt * (torch.sigmoid(steps[-1] @ weights) - steps[-1]))
        self.series = torch.stack(steps, dim=1)

    def loader(self, batch_size):
        return DataLoader(TensorDataset(self.series[:, :1], self.series[:, 1:]), batch_size=batch_size)
# --- neurotorch/transforms/base.py
import torch


class ToDevice:
    """Moves a tensor, or what it finds in tuples and lists."""

    def __init__(self, device):
        self.device = device

    def __call__(self, x):
        if isinstance(x, torch.Tensor):
            return x.to(self.device)
        if isinstance(x, (tuple, list)):
            return type(x)(self(each) for each in x)
        return x
# --- neurotorch/modules/layers.py
import torch
from torch import nn

from neurotorch.transforms.base import ToDevice


class BaseLayer(nn.Module):
    def __init__(self, input_size, output_size, name, dt=0.5):
        super().__init__()
        self.input_size, self.output_size, self.name, self.dt = input_size, output_size, name, dt
        self.forward_weights = nn.Parameter(torch.randn(input_size, output_size) / input_size**0.5)
        self.bias = nn.Parameter(torch.zeros(output_size))

    @property
    def device(self):
        return self.forward_weights.device

    def __call__(self, inputs, state=None):
        if state is None:
            state = (torch.zeros(len(inputs), self.output_size),)
        move = ToDevice(self.device)
        return super().__call__(move(inputs), move(state))


class WilsonCowanLayer(BaseLayer):
    def forward(self, inputs, state):
        (hh,) = state
        hh = hh + self.dt * ((1 - 0.2 * hh) * torch.sigmoid(inputs @ self.forward_weights + self.bias) - hh)
        return hh, (hh,)


class LILayer(BaseLayer):
    """Integrates, and leaks."""

    def forward(self, inputs, state):
        (hh,) = state
        hh = 0.6 * hh + inputs @ self.forward_weights + self.bias
        return torch.sigmoid(hh), (hh,)
# --- neurotorch/modules/sequential_rnn.py
from collections import defaultdict

import torch
from torch import nn

from neurotorch.transforms.base import ToDevice


class SequentialRNN(nn.Module):
    def __init__(self, layers, foresight_time_steps=0, device=None, memory_device=None):
        super().__init__()
        self.layers = nn.ModuleList(layers).to(device)
        self.device = device
        self.foresight_time_steps = foresight_time_steps
        self._memory_device_transform = ToDevice(memory_device or device)

    def _step_(self, tensor, hidden_states, outputs_trace):
        for layer in self.layers:
            trace = hidden_states[layer.name]
            tensor, hh = layer(tensor, trace[-1] if trace else None)
            trace.append(self._memory_device_transform(hh))
        outputs_trace[layer.name].append(self._memory_device_transform(tensor))

    def _integrate_inputs_(self, inputs, hidden_states, outputs_trace):
        for t in range(inputs.shape[1]):
            self._step_(inputs[:, t], hidden_states, outputs_trace)

    def _forecast_integration_(self, hidden_states, outputs_trace):
        for _ in range(self.foresight_time_steps - 1):
            self._step_(outputs_trace[self.layers[-1].name][-1], hidden_states, outputs_trace)

    def forward(self, inputs):
        hidden_states, outputs_trace = defaultdict(list), defaultdict(list)
        self._integrate_inputs_(inputs, hidden_states, outputs_trace)
        if self.foresight_time_steps > 0:
            self._forecast_integration_(hidden_states, outputs_trace)
        outputs_trace_tensor = {
            layer_name: torch.stack(trace, dim=1)
            for layer_name, trace in outputs_trace.items()
        }
        return outputs_trace_tensor, hidden_states
# --- neurotorch/trainers/trainer.py
import torch
from torch import nn


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)

    def apply_criterion_on_batch(self, x_batch, y_batch):
        out, _ = self.model(x_batch)
        batch_loss = self.criterion(out["readout"], y_batch)
        return batch_loss

    def train(self, dataloader, n_iterations):
        losses = []
        for _ in range(n_iterations):
            total = 0.0
            for x_batch, y_batch in dataloader:
                x_batch, y_batch = x_batch.to(self.model.device), y_batch.to(self.model.device)
                batch_loss = self.apply_criterion_on_batch(x_batch, y_batch)
                self.optimizer.zero_grad()
                batch_loss.backward()
                self.optimizer.step()
                total += batch_loss.item()
            losses.append(total / len(dataloader))
        return losses

# === a_chain_copied_around_an_axis
# thread: https://github.com/sokrypton/ColabFold/issues/603
# about: a protein of several equal chains is folded in rounds, of which the best is kept. At the end the chain that was folded is copied to where
#   the symmetry has the others
# operation: (bmm|einsum|mm|matmul) on cpu, cuda:0
# operands: mat2|other|operands.*|.*best_xyz.*|self|.*symmRs.*
# category: cached-state|input-not-moved|input
# line: network/predict.py: best_xyzfull[:, i * Lasu : (i + 1) * Lasu] = torch.einsum("ij,braj->brai", symmRs[i], best_xyz[:, :Lasu])
# line: network/predict.py: best_xyz = xyz_prev.float().cpu()
# repair: network/predict.py: best_xyzfull[:, i * Lasu : (i + 1) * Lasu] = torch.einsum("ij,braj->brai", symmRs[i], best_xyz[:, :Lasu]) -> best_xyzfull[:, i * Lasu : (i + 1) * Lasu] = torch.einsum("ij,braj->brai", symmRs[i].cpu(), best_xyz[:, :Lasu])
import torch

from network.predict import Predictor

if __name__ == "__main__":
    torch.manual_seed(603)
    pred = Predictor(device=torch.device("cuda:0" if torch.cuda.is_available() else "cpu"))
    result = pred.predict(sequence="MKVLAAGIDE", symm="C3", n_recycles=4)
    spread = result["xyz"].sub(result["xyz"].mean(dim=(0, 1))).norm(dim=-1).mean()
    print(f"chains {result['chains']}, plddt {result['plddt']:.3f}, radius {spread.item():.3f}, first {result['xyz'][0, -1, 0].sum().item():.3f}")
# --- network/symmetry.py
import math

import torch


def symm_subunit_matrix(symmid):
    """For C3 and its like: which chain touches which, and how each is turned around the third axis."""
    nsub = int(symmid[1:])
    angles = [2 * math.pi * i / nsub for i in range(nsub)]
    symmRs = torch.tensor([[[math.cos(a), -math.sin(a), 0.0], [math.sin(a), math.cos(a), 0.0], [0.0, 0.0, 1.0]] for a in angles])
    symmids = (torch.arange(nsub)[None, :] - torch.arange(nsub)[:, None]) % nsub
    return symmids, symmRs


def find_symm_subs(xyz, symmRs, offset=6.0):
    """The chains that are folded together: the first, and the next one."""
    nsub = min(2, len(symmRs))
    xyz = xyz + torch.tensor([offset, 0.0, 0.0])
    subs = torch.arange(nsub)
    return torch.cat([torch.einsum("ij,braj->brai", symmRs[i], xyz) for i in subs.tolist()], dim=1), subs
# --- network/RoseTTAFoldModel.py
import torch
from torch import nn


class RoseTTAFoldModule(nn.Module):
    """Features of residues and their places are made better by turns."""

    def __init__(self, d_state=16, n_aa=20, n_bin=10):
        super().__init__()
        self.emb = nn.Embedding(n_aa, d_state)
        self.msg = nn.Linear(2 * d_state + 1, d_state)
        self.norm = nn.LayerNorm(d_state)
        self.shift = nn.Linear(d_state, 9)
        self.lddt = nn.Linear(d_state, n_bin)

    def forward(self, seq, xyz, state_prev, symmRs, symmsub):
        state = self.emb(seq) if state_prev is None else self.emb(seq) + self.norm(state_prev)
        ca = xyz[:, :, 1]
        dist = torch.cdist(ca, ca)[..., None] / 10
        L = state.shape[1]
        pair = torch.cat([state[:, :, None].expand(-1, -1, L, -1), state[:, None].expand(-1, L, -1, -1), dist], dim=-1)
        state = state + torch.tanh(self.msg(pair)).mean(dim=2)
        xyz = xyz + self.shift(state).view(*ca.shape[:2], 3, 3)

        # every chain follows the first
        Lasu = L // len(symmsub)
        xyz = torch.cat([torch.einsum("ij,braj->brai", symmRs[s], xyz[:, :Lasu]) for s in symmsub], dim=1)
        return xyz, self.lddt(state).transpose(1, 2), state
# --- network/predict.py
import torch
from torch import nn

from network.RoseTTAFoldModel import RoseTTAFoldModule
from network.symmetry import find_symm_subs, symm_subunit_matrix

AAS = "ARNDCQEGHILKMFPSTWYV"


class Predictor:
    def __init__(self, device):
        self.device = device
        self.model = RoseTTAFoldModule().to(self.device).eval()
        self.active_fn = nn.Softmax(dim=1)
        self.lddt_bins = torch.linspace(0.1, 1.0, 10, device=self.device) - 0.05

    def predict(self, sequence, symm="C1", n_recycles=3):
        symmids, symmRs = symm_subunit_matrix(symm)
        L = len(sequence)
        seq = torch.tensor([[AAS.index(aa) for aa in sequence]])
        xyz_prev = torch.arange(L).view(1, L, 1, 1) * torch.tensor([0.0, 1.5, 3.0]) + 0.5 * torch.rand(1, L, 3, 3)
        xyz_prev, symmsub = find_symm_subs(xyz_prev, symmRs)
        seq = seq.repeat(1, len(symmsub))
        return self.run_prediction(seq, xyz_prev, symmids, symmsub, symmRs, n_recycles)

    def run_prediction(self, seq, xyz_prev, symmids, symmsub, symmRs, n_recycles):
        with torch.no_grad():
            B, L = seq.shape
            copies = symmids.shape[0]
            Lasu = L // symmsub.shape[0]
            seq = seq.to(self.device)
            xyz_prev = xyz_prev.to(self.device)
            symmsub = symmsub.to(self.device)
            symmRs = symmRs.to(self.device)

            state_prev = None
            best_lddt = torch.tensor([-1.0], device=self.device)
            best_xyz = None
            for i_cycle in range(n_recycles):
                xyz_prev, pred_lddt, state_prev = self.model(seq, xyz_prev, state_prev, symmRs, symmsub)
                pred_lddt = (self.active_fn(pred_lddt) * self.lddt_bins[None, :, None]).sum(dim=1)
                print("RECYCLE", i_cycle, f"{pred_lddt.mean().item():.3f} {best_lddt.mean().item():.3f}")
                if pred_lddt.mean().item() < best_lddt.mean().item():
                    continue
                best_xyz = xyz_prev.float().cpu()
                best_lddt = pred_lddt.cpu()

        # full complex
        best_xyzfull = torch.zeros((B, copies * Lasu, 3, 3), device=best_xyz.device)
        best_xyzfull[:, :Lasu] = best_xyz[:, :Lasu]
        for i in range(1, copies):
            best_xyzfull[:, i * Lasu : (i + 1) * Lasu] = torch.einsum("ij,braj->brai", symmRs[i], best_xyz[:, :Lasu])
        return {"xyz": best_xyzfull[0].view(copies, Lasu, 9)[..., 3:6].cpu(), "plddt": best_lddt.mean().item(), "chains": copies}

# === a_mesh_cut_into_overlapping_parts
# thread: https://github.com/ranahanocka/point2mesh/pull/40
# about: a mesh is shrunk onto a cloud of points by a net, part by part. The parts are cut out of it beforehand: whole triangles, of which one corner
#   is in the part
# operation: (index_put_|_index_put_impl_|index_put|index|__setitem__) on cpu, cuda:0
# operands: indices|vs_index|.*vs_index.*
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: created-without-device
# line: models/layers/mesh.py: vs_mask = torch.zeros(mesh.vs.shape[0])
# repair: models/layers/mesh.py: vs_mask = torch.zeros(mesh.vs.shape[0]) -> vs_mask = torch.zeros(mesh.vs.shape[0], device=mesh.vs.device)
import torch

from models.layers.mesh import Mesh, PartMesh
from models.losses import chamfer_distance, local_nonuniform_penalty
from models.networks import init_net
from options import Options

if __name__ == "__main__":
    opts = Options()
    torch.manual_seed(opts.torch_seed)
    device = torch.device("cuda:{}".format(opts.gpu) if torch.cuda.is_available() else "cpu")
    mesh = Mesh.sphere(rings=5, segments=8, device=device)
    input_xyz = opts.input_pc().to(device)
    part_mesh = PartMesh(mesh, num_parts=opts.num_parts, bfs_depth=opts.overlap)
    print("parts", [len(m.vs) for m in part_mesh])
    net, optimizer = init_net(part_mesh, device, opts)
    for i in range(opts.iterations):
        for part_i, est_verts in enumerate(net(part_mesh)):
            optimizer.zero_grad()
            part_mesh.update_verts(est_verts, part_i)
            loss = chamfer_distance(part_mesh.main_mesh.vs, input_xyz) + opts.local_non_uniform * local_nonuniform_penalty(part_mesh.main_mesh)
            loss.backward()
            optimizer.step()
            part_mesh.main_mesh.vs.detach_()
    print(f"iter {opts.iterations}, loss {loss.item():.4f}, size {part_mesh.main_mesh.vs.norm(dim=1).mean().item():.3f}")
# --- options.py
import torch


class Options:
    torch_seed, gpu, num_parts, overlap, iterations, lr, local_non_uniform = 5, 0, 2, 1, 6, 0.01, 0.1

    def input_pc(self, points=60):
        """An egg."""
        generator = torch.Generator().manual_seed(self.torch_seed)
        xyz = torch.randn((points, 3), generator=generator)
        return xyz / xyz.norm(dim=1, keepdim=True) * torch.tensor([0.6, 0.6, 0.9])
# --- models/losses.py
import torch


def chamfer_distance(x, y):
    dist = torch.cdist(x, y)
    return dist.amin(dim=1).mean() + dist.amin(dim=0).mean()


def local_nonuniform_penalty(mesh):
    a, b, c = mesh.vs[mesh.faces].unbind(dim=1)
    area = torch.cross(b - a, c - a, dim=1).norm(dim=1)
    return area.std() / area.mean()
# --- models/networks.py
import torch
from torch import nn


class PartNet(nn.Module):
    """How far each vertex of a part moves, told from where it is and how its part lies."""

    def __init__(self, width=16):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, part_mesh):
        for i, init_verts in enumerate(part_mesh.init_verts):
            features = torch.cat([init_verts, init_verts.mean(dim=0).expand_as(init_verts)], dim=1)
            yield init_verts + 0.5 * self.fc(features)


def init_net(part_mesh, device, opts):
    net = PartNet().to(device)
    return net, torch.optim.Adam(net.parameters(), lr=opts.lr)
# --- models/layers/mesh.py
import math

import torch


class Mesh:
    def __init__(self, vs, faces, device="cpu"):
        self.device = device
        self.vs = vs.to(device)
        self.faces = faces.to(device).long()

    @staticmethod
    def sphere(rings, segments, device):
        vs = [(0.0, 0.0, 1.0)]
        for r in range(1, rings):
            a = math.pi * r / rings
            around = [2 * math.pi * s / segments for s in range(segments)]
            vs += [(math.sin(a) * math.cos(b), math.sin(a) * math.sin(b), math.cos(a)) for b in around]
        vs.append((0.0, 0.0, -1.0))
        faces, at = [], lambda r, s: 1 + (r - 1) * segments + s % segments
        for s in range(segments):
            faces += [(0, at(1, s), at(1, s + 1)), (len(vs) - 1, at(rings - 1, s + 1), at(rings - 1, s))]
            for r in range(1, rings - 1):
                faces += [(at(r, s), at(r + 1, s), at(r + 1, s + 1)), (at(r, s), at(r + 1, s + 1), at(r, s + 1))]
        return Mesh(torch.tensor(vs), torch.tensor(faces), device=device)

    def update_verts(self, verts):
        self.vs = verts

    def submesh(self, vs_index):
        return PartMesh.create_submesh(vs_index, self)


class PartMesh:
    """A mesh that was divided into parts, which overlap."""

    def __init__(self, main_mesh, num_parts=1, bfs_depth=0):
        self.main_mesh = main_mesh
        self.vs_groups = PartMesh.segment_shape(main_mesh.vs, num_parts)
        self.n_submeshes = torch.max(self.vs_groups).item() + 1
        self.sub_mesh, self.sub_mesh_index, self.init_verts = [], [], []
        for i in range(self.n_submeshes):
            vs_index = (self.vs_groups == i).nonzero().squeeze(1)
            vs_index = torch.tensor(self.vs_bfs(vs_index.tolist(), main_mesh.faces.tolist(), bfs_depth), dtype=vs_index.dtype).to(vs_index.device)
            m, vs_index = main_mesh.submesh(vs_index)
            self.sub_mesh.append(m)
            self.sub_mesh_index.append(vs_index)
            self.init_verts.append(m.vs.clone().detach())

    def __iter__(self):
        return iter(self.sub_mesh)

    def update_verts(self, new_vs, index):
        self.sub_mesh[index].update_verts(new_vs)
        self.main_mesh.vs[self.sub_mesh_index[index], :] = new_vs

    @staticmethod
    def create_submesh(vs_index, mesh):
        vs_mask = torch.zeros(mesh.vs.shape[0])
        vs_mask[vs_index] = 1
        faces_mask = vs_mask[mesh.faces].sum(dim=-1) > 0
        new_faces = mesh.faces[faces_mask].clone()
        new_vs_index, new_faces = torch.unique(new_faces, return_inverse=True)
        return Mesh(mesh.vs[new_vs_index, :].clone().detach(), new_faces, device=mesh.device), new_vs_index

    @staticmethod
    def segment_shape(vs, seg_num):
        """Slices along the third axis."""
        height = vs[:, 2]
        share = (height - height.min()) / (height.max() - height.min() + 1e-6)
        return (share * seg_num).long()

    @staticmethod
    def vs_bfs(vs_index, faces, depth):
        seen = set(vs_index)
        for _ in range(depth):
            seen |= {v for face in faces if seen & set(face) for v in face}
        return sorted(seen)

# === a_sketch_noised_before_it_is_drawn
# thread: https://github.com/Stability-AI/stablediffusion/pull/108
# about: a picture is noised part of the way and then drawn anew after some words. The model was put on a card that is not the first; the sampler has
#   tables of its own
# operation: gather on cuda:0, cuda:1
# operands: index|t|a|self|.*alphas.*|input
# category: default-or-current-device|cached-state|state-not-registered
# line: ldm/models/diffusion/ddim.py: attr = attr.to(torch.device("cuda"))
# line: ldm/models/diffusion/ddim.py: if attr.device != torch.device("cuda"):
# line: ldm/modules/diffusionmodules/util.py: out = a.gather(-1, t)
# repair: ldm/models/diffusion/ddim.py: attr = attr.to(torch.device("cuda")) -> attr = attr.to(self.model.device)
import argparse

import torch

from ldm.models.diffusion.ddim import DDIMSampler
from ldm.models.diffusion.ddpm import LatentDiffusion

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda:1")
parser.add_argument("--prompt", default="a lighthouse in the snow")
parser.add_argument("--ddim_steps", type=int, default=10)
parser.add_argument("--strength", type=float, default=0.6)
parser.add_argument("--scale", type=float, default=3.0)
parser.add_argument("--n_samples", type=int, default=2)
parser.add_argument("--seed", type=int, default=42)


def main(opt):
    torch.manual_seed(opt.seed)
    device = torch.device(opt.device)
    model = LatentDiffusion(timesteps=40, channels=4).to(device).eval()
    sampler = DDIMSampler(model)
    sketch = torch.rand((1, 3, 16, 16)).repeat(opt.n_samples, 1, 1, 1).to(device)
    noise = torch.randn((opt.n_samples, 4, 4, 4)).to(device)
    with torch.no_grad():
        init_latent = model.encode_first_stage(sketch)
        sampler.make_schedule(ddim_num_steps=opt.ddim_steps)
        t_enc = int(opt.strength * opt.ddim_steps)
        uc = model.get_learned_conditioning(opt.n_samples * [""])
        c = model.get_learned_conditioning(opt.n_samples * [opt.prompt])
        z_enc = sampler.stochastic_encode(init_latent, torch.tensor([t_enc] * opt.n_samples).to(device), noise)
        samples = sampler.decode(z_enc, c, t_enc, unconditional_guidance_scale=opt.scale, unconditional_conditioning=uc)
        return model.decode_first_stage(samples)


if __name__ == "__main__":
    images = main(parser.parse_args([]))
    print(f"images {tuple(images.shape)}, mean {images.mean().item():.3f}, spread {images.std().item():.3f}")
# --- ldm/modules/diffusionmodules/util.py
import numpy as np


def make_ddim_timesteps(num_ddim_timesteps, num_ddpm_timesteps):
    step = num_ddpm_timesteps // num_ddim_timesteps
    return np.arange(0, num_ddpm_timesteps, step) + 1 if step > 1 else np.arange(num_ddpm_timesteps)


def make_ddim_sampling_parameters(alphacums, ddim_timesteps):
    alphas = alphacums[ddim_timesteps]
    alphas_prev = np.asarray([alphacums[0].item(), *alphacums[ddim_timesteps[:-1]].tolist()], dtype=np.float32)
    return alphas, alphas_prev


def extract_into_tensor(a, t, x_shape):
    b, *_ = t.shape
    out = a.gather(-1, t)
    return out.reshape(b, *((1,) * (len(x_shape) - 1)))
# --- ldm/models/diffusion/ddpm.py
import torch
from torch import nn


class LatentDiffusion(nn.Module):
    def __init__(self, timesteps, channels, width=12):
        super().__init__()
        self.num_timesteps = timesteps
        betas = torch.linspace(0.03, 0.35, timesteps) ** 2
        self.register_buffer("alphas_cumprod", torch.cumprod(1 - betas, dim=0))
        self.first_stage = nn.Conv2d(3, channels, 4, stride=4)
        self.first_stage_out = nn.ConvTranspose2d(channels, 3, 4, stride=4)
        self.cond_stage = nn.EmbeddingBag(64, width)
        self.time_embed = nn.Embedding(timesteps + 1, width)
        self.conv_in, self.conv_out = nn.Conv2d(channels, width, 3, padding=1), nn.Conv2d(width, channels, 3, padding=1)

    @property
    def device(self):
        return self.alphas_cumprod.device

    def encode_first_stage(self, x):
        return torch.tanh(self.first_stage(2 * x - 1))

    def decode_first_stage(self, z):
        return torch.sigmoid(self.first_stage_out(z))

    def get_learned_conditioning(self, prompts):
        ids = [[1, *(2 + sum(map(ord, word)) % 62 for word in prompt.split())] for prompt in prompts]
        return self.cond_stage(torch.tensor(ids, device=self.device))

    def apply_model(self, x, t, c):
        hidden = self.conv_in(x) + (self.time_embed(t) + c)[:, :, None, None]
        return self.conv_out(torch.nn.functional.silu(hidden))
# --- ldm/models/diffusion/ddim.py
import torch

from ldm.modules.diffusionmodules.util import extract_into_tensor, make_ddim_sampling_parameters, make_ddim_timesteps


class DDIMSampler:
    def __init__(self, model):
        self.model = model
        self.ddpm_num_timesteps = model.num_timesteps

    def register_buffer(self, name, attr):
        if type(attr) is torch.Tensor:
            if attr.device != torch.device("cuda"):
                attr = attr.to(torch.device("cuda"))
        setattr(self, name, attr)

    def make_schedule(self, ddim_num_steps):
        self.ddim_timesteps = make_ddim_timesteps(ddim_num_steps, self.ddpm_num_timesteps)
        alphas_cumprod = self.model.alphas_cumprod
        ddim_alphas, ddim_alphas_prev = make_ddim_sampling_parameters(alphas_cumprod.cpu(), self.ddim_timesteps)
        self.register_buffer("ddim_alphas", ddim_alphas)
        self.register_buffer("ddim_alphas_prev", ddim_alphas_prev)
        self.register_buffer("ddim_sqrt_one_minus_alphas", torch.sqrt(1.0 - ddim_alphas))

    @torch.no_grad()
    def p_sample_ddim(self, x, c, t, index, unconditional_guidance_scale, unconditional_conditioning):
        b, device = x.shape[0], x.device
        x_in, t_in = torch.cat([x] * 2), torch.cat([t] * 2)
        e_t_uncond, e_t = self.model.apply_model(x_in, t_in, torch.cat([unconditional_conditioning, c])).chunk(2)
        e_t = e_t_uncond + unconditional_guidance_scale * (e_t - e_t_uncond)
        a_t = torch.full((b, 1, 1, 1), self.ddim_alphas[index].item(), device=device)
        a_prev = torch.full((b, 1, 1, 1), float(self.ddim_alphas_prev[index]), device=device)
        sqrt_one_minus_at = torch.full((b, 1, 1, 1), self.ddim_sqrt_one_minus_alphas[index].item(), device=device)
        pred_x0 = (x - sqrt_one_minus_at * e_t) / a_t.sqrt()
        return a_prev.sqrt() * pred_x0 + (1.0 - a_prev).sqrt() * e_t

    @torch.no_grad()
    def stochastic_encode(self, x0, t, noise):
        sqrt_alphas_cumprod = torch.sqrt(self.ddim_alphas)
        sqrt_one_minus_alphas_cumprod = self.ddim_sqrt_one_minus_alphas
        noised = extract_into_tensor(sqrt_alphas_cumprod, t, x0.shape) * x0
        return noised + extract_into_tensor(sqrt_one_minus_alphas_cumprod, t, x0.shape) * noise

    @torch.no_grad()
    def decode(self, x_latent, cond, t_start, unconditional_guidance_scale, unconditional_conditioning):
        timesteps = self.ddim_timesteps[:t_start]
        x_dec = x_latent
        for i, step in enumerate(timesteps[::-1]):
            index = len(timesteps) - i - 1
            ts = torch.full((x_latent.shape[0],), int(step), device=x_latent.device, dtype=torch.long)
            x_dec = self.p_sample_ddim(x_dec, cond, ts, index, unconditional_guidance_scale, unconditional_conditioning)
        return x_dec
