# === samples_that_count_more_than_others
# thread: https://github.com/skorch-dev/skorch/issues/734
# about: a classifier in the manner of scikit-learn is fitted. Each sample has a weight, by which its loss is multiplied
# operation: (mul|multiply) on cpu, cuda:0
# operands: self|sample_weight|.*sample_weight.*
# category: input-not-moved
# line: main.py: sample_weight = X["sample_weight"]
# line: main.py: return (sample_weight * loss_unreduced).mean()
# line: net.py: loss = self.get_loss(y_pred, yi, X=Xi, training=True)
# repair: main.py: sample_weight = X["sample_weight"] -> sample_weight = X["sample_weight"].to(self.device)
import numpy as np
from torch import nn

from net import NeuralNetClassifier


class MyModule(nn.Module):
    def __init__(self, num_units=10, nonlin=nn.ReLU()):
        super().__init__()
        self.dense0 = nn.Linear(20, num_units)
        self.nonlin = nonlin
        self.dense1 = nn.Linear(num_units, 8)
        self.output = nn.Linear(8, 2)

    def forward(self, X, sample_weight=None):
        X = self.nonlin(self.dense0(X))
        X = self.nonlin(self.dense1(X))
        return self.output(X)


class MyNet(NeuralNetClassifier):
    def get_loss(self, y_pred, y_true, X, training=False):
        loss_unreduced = super().get_loss(y_pred, y_true, X, training)
        sample_weight = X["sample_weight"]
        return (sample_weight * loss_unreduced).mean()


def make_classification(n_samples, n_features, random_state):
    rng = np.random.RandomState(random_state)
    y = rng.randint(0, 2, size=n_samples)
    X = rng.normal(size=(n_samples, n_features)) + 0.5 * y[:, None] * (np.arange(n_features) % 3 == 0)
    return X.astype(np.float32), y.astype(np.int64)


if __name__ == "__main__":
    X, y = make_classification(200, 20, random_state=0)
    train = {"X": X, "sample_weight": np.random.RandomState(1).randint(1, 3, size=(200,)).astype(np.float32)}
    net = MyNet(MyModule, nn.CrossEntropyLoss(reduction="none"), lr=0.2, max_epochs=5, device="cuda").fit(train, y)
    print("train_loss", [f"{loss:.4f}" for loss in net.history_], f"accuracy {net.score(train, y):.3f}")
# --- utils.py
import numpy as np
import torch


def to_tensor(X, device):
    """Arrays, tensors, and dicts and tuples of them."""
    if isinstance(X, dict):
        return {key: to_tensor(val, device) for key, val in X.items()}
    if isinstance(X, (list, tuple)):
        return [to_tensor(x, device) for x in X]
    if isinstance(X, np.ndarray):
        X = torch.as_tensor(X)
    return X.to(device)


def multi_indexing(data, i):
    if isinstance(data, dict):
        return {key: multi_indexing(val, i) for key, val in data.items()}
    return data[i]
# --- dataset.py
import torch

from utils import multi_indexing


class Dataset(torch.utils.data.Dataset):
    def __init__(self, X, y):
        self.X, self.y = X, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return multi_indexing(self.X, i), self.y[i]
# --- net.py
import torch

from dataset import Dataset
from utils import to_tensor


class NeuralNetClassifier:
    def __init__(self, module, criterion, lr=0.01, max_epochs=10, batch_size=50, device="cpu"):
        self.module, self.criterion = module, criterion
        self.lr, self.max_epochs, self.batch_size, self.device = lr, max_epochs, batch_size, device

    def initialize(self):
        torch.manual_seed(0)
        self.module_ = self.module().to(self.device)
        self.criterion_ = self.criterion.to(self.device)
        self.optimizer_ = torch.optim.SGD(self.module_.parameters(), lr=self.lr)
        self.history_ = []
        return self

    def get_iterator(self, X, y, training=False):
        return torch.utils.data.DataLoader(Dataset(X, y), batch_size=self.batch_size, shuffle=training)

    def infer(self, x):
        x = to_tensor(x, device=self.device)
        if isinstance(x, dict):
            return self.module_(**x)
        return self.module_(x)

    def get_loss(self, y_pred, y_true, X=None, training=False):
        y_true = to_tensor(y_true, device=self.device)
        return self.criterion_(y_pred, y_true)

    def train_step(self, Xi, yi):
        self.module_.train()
        self.optimizer_.zero_grad()
        y_pred = self.infer(Xi)
        loss = self.get_loss(y_pred, yi, X=Xi, training=True)
        loss.backward()
        self.optimizer_.step()
        return loss.item() * len(yi)

    def fit(self, X, y):
        self.initialize()
        for _ in range(self.max_epochs):
            total = sum(self.train_step(Xi, yi) for Xi, yi in self.get_iterator(X, y, training=True))
            self.history_.append(total / len(y))
        return self

    @torch.no_grad()
    def score(self, X, y):
        self.module_.eval()
        right = sum((self.infer(Xi).argmax(dim=1).cpu() == yi).sum().item() for Xi, yi in self.get_iterator(X, y))
        return right / len(y)

# === pages_read_through_a_loader_of_its_own
# thread: https://github.com/Yuliang-Liu/MonkeyOCRv2/issues/65
# about: a vision tower with rotating positions reads patches of a page. An engine builds it, and a loader puts the weights of a checkpoint into it
# operation: (mul|multiply) on cuda:0, cpu
# operands: other|cos|.*cos.*
# category: created-without-device|checkpoint|module-split
# line: parsing/modeling_monkeyocr.py: rotary_pos_emb = self.rot_pos_emb(grid_hw)
# line: parsing/modeling_monkeyocr.py: return torch.outer(seq, self.inv_freq)
# line: parsing/modeling_monkeyocr.py: self.register_buffer("inv_freq", inv_freq, persistent=False)
# line: parsing/modeling_monkeyocr.py: inv_freq = 1.0 / (theta ** (
# line: parsing/modeling_monkeyocr.py: rotary_pos_emb_full = self.rotary_pos_emb(max(
# line: parsing/modeling_monkeyocr.py: rotary_pos_emb = rotary_pos_emb_full[pos_ids].flatten(1)
# line: parsing/modeling_monkeyocr.py: cos, sin = freqs.cos()
# line: parsing/model_loader.py: model = model_class(**hf_config)
# line: parsing/model_loader.py: return model.eval()
# line: parsing/engine.py: self.visual = loader.load_model(
# repair: parsing/modeling_monkeyocr.py: rotary_pos_emb = self.rot_pos_emb(grid_hw) ->
#   rotary_pos_emb = self.rot_pos_emb(grid_hw).to(hidden_states.device)
import torch

from parsing.engine import LLM

if __name__ == "__main__":
    llm = LLM({"embed_dim": 16, "num_heads": 2, "depth": 2, "patch": 4}, device="cuda:0")
    page = torch.rand(1, 1, 24, 16, generator=torch.Generator().manual_seed(65))
    embeddings = llm.embed(page)
    print("page", tuple(embeddings.shape), [f"{each:.4f}" for each in embeddings.mean(dim=0)[:4].tolist()])
# --- parsing/engine.py
import torch

from parsing.model_loader import DefaultModelLoader
from parsing.modeling_monkeyocr import VisionTransformer


def checkpoint(hf_config):
    """What the hub has: names and tensors, in pieces."""
    torch.manual_seed(2)
    for name, tensor in VisionTransformer(**hf_config).state_dict().items():
        yield name, tensor


class LLM:
    def __init__(self, hf_config, device):
        self.device = torch.device(device)
        self.patch = hf_config["patch"]
        loader = DefaultModelLoader(self.device)
        self.visual = loader.load_model(VisionTransformer, hf_config, checkpoint(hf_config))

    @torch.inference_mode()
    def embed(self, page):
        height, width = page.shape[-2:]
        pixel_values = page.to(self.device)
        return self.visual(pixel_values, (height // self.patch, width // self.patch)).cpu()
# --- parsing/model_loader.py
class AutoWeightsLoader:
    """Goes through a checkpoint and gives every tensor to the parameter of its name."""

    def __init__(self, module, skip_prefixes=()):
        self.params = dict(module.named_parameters())
        self.skip_prefixes = tuple(skip_prefixes)

    def load_weights(self, weights, device):
        loaded = set()
        for name, tensor in weights:
            if name.startswith(self.skip_prefixes):
                continue
            param = self.params[name]
            assert param.shape == tensor.shape, name
            param.data = tensor.to(device=device, dtype=param.dtype)
            loaded.add(name)
        return loaded


class DefaultModelLoader:
    def __init__(self, device):
        self.device = device

    def load_model(self, model_class, hf_config, weights):
        model = model_class(**hf_config)
        loaded = AutoWeightsLoader(model).load_weights(weights, self.device)
        missing = set(dict(model.named_parameters())) - loaded
        if missing:
            raise ValueError(f"not in the checkpoint: {sorted(missing)}")
        return model.eval()
# --- parsing/modeling_monkeyocr.py
import torch
from torch import nn


class VisionRotaryEmbedding(nn.Module):
    def __init__(self, dim: int, theta: float = 10000.0):
        super().__init__()
        inv_freq = 1.0 / (theta ** (torch.arange(0, dim, 2, dtype=torch.float) / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, seqlen: int):
        seq = torch.arange(seqlen, device=self.inv_freq.device, dtype=self.inv_freq.dtype)
        return torch.outer(seq, self.inv_freq)


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb_vision(tensor, freqs):
    cos, sin = freqs.cos()[:, None].repeat(1, 1, 2), freqs.sin()[:, None].repeat(1, 1, 2)
    return tensor * cos + rotate_half(tensor) * sin


class VisionBlock(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.LayerNorm(embed_dim)
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, hidden_states, rotary_pos_emb):
        length, width = hidden_states.shape
        qkv = self.qkv(self.norm(hidden_states)).view(length, 3, self.num_heads, -1)
        q, k, v = qkv.unbind(dim=1)
        q = apply_rotary_pos_emb_vision(q, rotary_pos_emb).transpose(0, 1)
        k = apply_rotary_pos_emb_vision(k, rotary_pos_emb).transpose(0, 1)
        scores = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(dim=-1)
        return hidden_states + self.proj((scores @ v.transpose(0, 1)).transpose(0, 1).reshape(length, width))


class VisionTransformer(nn.Module):
    def __init__(self, embed_dim, num_heads, depth, patch):
        super().__init__()
        self.patch_embed = nn.Conv2d(1, embed_dim, patch, stride=patch)
        self.rotary_pos_emb = VisionRotaryEmbedding(embed_dim // num_heads // 2)
        self.blocks = nn.ModuleList(VisionBlock(embed_dim, num_heads) for _ in range(depth))

    def rot_pos_emb(self, grid_hw):
        height, width = grid_hw
        rows = torch.arange(height)[:, None].expand(height, width).flatten()
        columns = torch.arange(width)[None].expand(height, width).flatten()
        pos_ids = torch.stack([rows, columns], dim=-1)
        rotary_pos_emb_full = self.rotary_pos_emb(max(grid_hw))
        rotary_pos_emb = rotary_pos_emb_full[pos_ids].flatten(1)
        return rotary_pos_emb

    def forward(self, pixel_values, grid_hw):
        hidden_states = self.patch_embed(pixel_values).flatten(2)[0].t()
        rotary_pos_emb = self.rot_pos_emb(grid_hw)
        for blk in self.blocks:
            hidden_states = blk(hidden_states, rotary_pos_emb)
        return hidden_states

# === documents_of_unequal_length_in_chinese
# thread: https://github.com/Tencent/NeuralNLP-NeuralClassifier/issues/125
# about: documents are sorted by their length, read by a recurrent network and put back into their order. Then each gets a label
# operation: (_pack_padded_sequence|pack_padded_sequence) on cuda:0
# operands: lengths|sorted_seq_lengths|.*seq_lengths.*|.*lengths.*
# error: 'lengths' argument should be a 1D CPU int64 tensor
# category: input|input-not-moved
# line: model/rnn.py: inputs, sorted_seq_lengths, batch_first=True)
# line: model/rnn.py: sorted_seq_lengths, indices = torch.sort(seq_lengths, descending=True)
# line: model/rnn.py: sorted_seq_lengths = sorted_seq_lengths.clamp_min(1)
# line: classifier.py: seq_length = batch[
# repair: model/rnn.py: inputs, sorted_seq_lengths, batch_first=True) -> inputs, sorted_seq_lengths.cpu(), batch_first=True)
import torch

from classifier import ClassificationTrainer
from dataset import ClassificationDataset, Config

if __name__ == "__main__":
    conf = Config(device="cuda", vocab_size=30, embedding_dim=10, hidden_dimension=12, num_labels=3)
    torch.manual_seed(125)
    trainer = ClassificationTrainer(conf)
    losses = [trainer.train(ClassificationDataset(conf, size=48, seed=1)) for _ in range(4)]
    right = trainer.eval(ClassificationDataset(conf, size=24, seed=2))
    print("loss", [f"{loss:.4f}" for loss in losses], "right", right)
# --- dataset.py
from dataclasses import dataclass

import numpy as np
import torch

PAD = 0


@dataclass
class Config:
    device: str
    vocab_size: int
    embedding_dim: int
    hidden_dimension: int
    num_labels: int
    batch_size: int = 12
    learning_rate: float = 0.02
    max_token_len: int = 9


class ClassificationDataset:
    """A label likes some tokens more than others."""

    DOC_LABEL, DOC_TOKEN, DOC_TOKEN_LEN = "doc_label", "doc_token", "doc_token_len"

    def __init__(self, conf, size, seed):
        rng = np.random.default_rng(seed)
        self.samples = []
        for index in range(size):
            label = index % conf.num_labels
            length = int(rng.integers(2, conf.max_token_len + 1))
            liked = rng.random(length) < 0.6
            tokens = np.where(liked, 1 + label * 8 + rng.integers(0, 8, length), rng.integers(1, conf.vocab_size, length))
            self.samples.append((label, tokens.tolist()))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


class ClassificationCollator:
    def __init__(self, conf):
        self.conf = conf

    def __call__(self, samples):
        lengths = [len(tokens) for _, tokens in samples]
        padded = [tokens + [PAD] * (max(lengths) - len(tokens)) for _, tokens in samples]
        return {
            ClassificationDataset.DOC_LABEL: torch.tensor([label for label, _ in samples]),
            ClassificationDataset.DOC_TOKEN: torch.tensor(padded),
            ClassificationDataset.DOC_TOKEN_LEN: torch.tensor(lengths),
        }
# --- model/rnn.py
import torch
from torch import nn


class RNN(nn.Module):
    """Takes documents in any order, gives them back in the same."""

    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.rnn = nn.GRU(input_size, hidden_size, batch_first=True, bidirectional=True)

    def forward(self, inputs, seq_lengths):
        sorted_seq_lengths, indices = torch.sort(seq_lengths, descending=True)
        _, desorted_indices = torch.sort(indices, descending=False)
        inputs = inputs[indices]
        sorted_seq_lengths = sorted_seq_lengths.clamp_min(1)
        packed_inputs = nn.utils.rnn.pack_padded_sequence(
            inputs, sorted_seq_lengths, batch_first=True)
        res, state = self.rnn(packed_inputs)
        padded_res, _ = nn.utils.rnn.pad_packed_sequence(res, batch_first=True)
        return padded_res[desorted_indices], state[:, desorted_indices]
# --- classifier.py
import torch
from torch import nn
from torch.utils.data import DataLoader

from dataset import ClassificationCollator, ClassificationDataset
from model.rnn import RNN


class TextRNN(nn.Module):
    def __init__(self, conf):
        super().__init__()
        self.conf = conf
        self.token_embedding = nn.Embedding(conf.vocab_size, conf.embedding_dim, padding_idx=0)
        self.rnn = RNN(conf.embedding_dim, conf.hidden_dimension)
        self.linear = nn.Linear(2 * conf.hidden_dimension, conf.num_labels)

    def forward(self, batch):
        embedding = self.token_embedding(batch[ClassificationDataset.DOC_TOKEN].to(self.conf.device))
        seq_length = batch[ClassificationDataset.DOC_TOKEN_LEN].to(self.conf.device)
        _, state = self.rnn(embedding, seq_length)
        return self.linear(torch.cat([state[0], state[1]], dim=1))


class ClassificationTrainer:
    def __init__(self, conf):
        self.conf = conf
        self.model = TextRNN(conf).to(conf.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=conf.learning_rate)
        self.loss_fn = nn.CrossEntropyLoss().to(conf.device)

    def loader(self, dataset):
        return DataLoader(dataset, batch_size=self.conf.batch_size, collate_fn=ClassificationCollator(self.conf))

    def train(self, dataset):
        self.model.train()
        for batch in self.loader(dataset):
            logits = self.model(batch)
            loss = self.loss_fn(logits, batch[ClassificationDataset.DOC_LABEL].to(self.conf.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def eval(self, dataset):
        self.model.eval()
        predicted = torch.cat([self.model(batch).argmax(dim=1).cpu() for batch in self.loader(dataset)])
        return (predicted == torch.tensor([label for label, _ in dataset.samples])).sum().item()

# === words_in_photographs_learned_further
# thread: https://github.com/Vipermdl/OCR_detection_IC15/issues/2
# about: a network marks where words are in a picture. Training is stopped, its state is saved, and another trainer goes on from there
# operation: (add_|add|mul_|_foreach_add_|_foreach_mul_|_group_tensors_by_device_and_dtype|_fused_sgd_) on cuda:0, cuda:1
# operands: other|self|grads|.*grad.*|buf|.*momentum_buffer.*|.*momentum_buffer_list.*
# category: optimizer|default-or-current-device|checkpoint
# line: base/base_trainer.py: state[k] = v.cuda()
# line: base/base_trainer.py: if self.with_cuda:
# line: base/base_trainer.py: for state in self.optimizer.state.values():
# line: base/base_trainer.py: for k, v in state.items():
# repair: base/base_trainer.py: state[k] = v.cuda() -> state[k] = v.cuda(self.device)
import tempfile

import torch

from model.model import FOTSLoss, FOTSModel
from trainer import Trainer, images

config = {
    "name": "OCR_IC15",
    "cuda": True,
    "gpus": [1],
    "optimizer": {"lr": 0.1, "momentum": 0.9, "foreach": False},
    "trainer": {"epochs": 4, "save_freq": 2},
}


def main(config, resume):
    torch.manual_seed(15)
    model = FOTSModel(width=8)
    trainer = Trainer(model, FOTSLoss(), resume, config, images(12))
    return trainer.train()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as save_dir:
        config["trainer"]["save_dir"] = save_dir
        first = main({**config, "trainer": {**config["trainer"], "epochs": 2}}, resume=None)
        further = main(config, resume=f"{save_dir}/checkpoint-epoch002.pth.tar")
    print("loss", [f"{loss:.4f}" for loss in first + further])
# --- model/model.py
from torch import nn


class FOTSModel(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.shared_conv = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU()
        )
        self.score_map = nn.Conv2d(width, 1, 1)

    def forward(self, images):
        return self.score_map(self.shared_conv(images)).sigmoid()


class FOTSLoss(nn.Module):
    """Dice: how much of what is marked is a word, and the other way round."""

    def forward(self, y_true_cls, y_pred_cls, eps=1e-5):
        intersection = (y_true_cls * y_pred_cls).sum()
        union = y_true_cls.sum() + y_pred_cls.sum() + eps
        return 1.0 - 2 * intersection / union
# --- base/base_trainer.py
import torch


class BaseTrainer:
    def __init__(self, model, loss, resume, config):
        self.config = config
        self.with_cuda = config["cuda"] and torch.cuda.is_available()
        self.gpus = config["gpus"]
        self.device = torch.device("cuda", self.gpus[0]) if self.with_cuda else torch.device("cpu")
        self.model = model.to(self.device)
        self.loss = loss
        self.optimizer = torch.optim.SGD(self.model.parameters(), **config["optimizer"])
        self.start_epoch = 1
        self.save_dir = config["trainer"]["save_dir"]
        if resume:
            self._resume_checkpoint(resume)

    def train(self):
        losses = []
        for epoch in range(self.start_epoch, self.config["trainer"]["epochs"] + 1):
            losses.append(self._train_epoch())
            if epoch % self.config["trainer"]["save_freq"] == 0:
                self._save_checkpoint(epoch)
        return losses

    def _train_epoch(self):
        raise NotImplementedError

    def _save_checkpoint(self, epoch):
        state = {"epoch": epoch, "state_dict": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        torch.save(state, f"{self.save_dir}/checkpoint-epoch{epoch:03d}.pth.tar")

    def _resume_checkpoint(self, resume_path):
        checkpoint = torch.load(resume_path, map_location="cpu")
        self.start_epoch = checkpoint["epoch"] + 1
        self.model.load_state_dict(checkpoint["state_dict"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        if self.with_cuda:
            for state in self.optimizer.state.values():
                for k, v in state.items():
                    if isinstance(v, torch.Tensor):
                        state[k] = v.cuda()
# --- trainer.py
import numpy as np
import torch
from torch.utils.data import DataLoader

from base.base_trainer import BaseTrainer


def images(number, side=16):
    """Words are stripes on a grey ground."""
    rng = np.random.default_rng(3)
    samples = []
    for _ in range(number):
        score = np.zeros((1, side, side), dtype=np.float32)
        top, left = rng.integers(1, 9, size=2)
        score[0, top:top + 4, left:left + 7] = 1.0
        stripes = score * (np.arange(side) % 2)
        samples.append(((stripes + 0.1 * rng.normal(size=score.shape)).astype(np.float32), score))
    return samples


class Trainer(BaseTrainer):
    def __init__(self, model, loss, resume, config, dataset):
        super().__init__(model, loss, resume, config)
        self.data_loader = DataLoader(dataset, batch_size=4)

    def _train_epoch(self):
        self.model.train()
        total_loss = 0.0
        for img, score_map in self.data_loader:
            img, score_map = img.to(self.device), score_map.to(self.device)
            self.optimizer.zero_grad()
            loss = self.loss(score_map, self.model(img))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.optimizer.step()
            total_loss += loss.item()
        return total_loss / len(self.data_loader)

# === pictures_changed_until_they_are_mistaken
# thread: https://github.com/SCLBD/BlackboxBench/issues/7
# about: an attack that sees only losses changes pictures until a network mistakes them. After each query it is asked which pictures are done with
# operation: (sub|subtract|rsub) on cuda:0, cpu
# operands: other|x_ori|.*x_ori.*
# category: input-not-moved
# line: attack_cifar.py: x_ori, y_batch = x_batch, y_batch.to(device)
# line: attack_cifar.py: x_eval = torch.clamp(x_eval - x_ori, -epsilon, epsilon) + x_ori
# line: attack_cifar.py: for x_batch, y_batch in loader:
# repair: attack_cifar.py: x_ori, y_batch = x_batch, y_batch.to(device) -> x_ori, y_batch = x_batch.to(device), y_batch.to(device)
import torch

from attack_cifar import attack_all
from model import train_model

if __name__ == "__main__":
    torch.manual_seed(7)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = train_model(device)
    config = {"epsilon": 0.5, "fd_eta": 0.1, "lr": 0.2, "q": 4, "max_loss_queries": 60, "batch_size": 8}
    successes, queries = attack_all(model, config, device)
    print(f"successes {successes} average queries {queries:.3f}")
# --- model.py
import torch
from torch import nn


def pictures(number, seed, side=6):
    """Bright above, or bright below."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(number) % 2
    images = 0.35 * torch.randn(number, 1, side, side, generator=generator)
    for image, label in zip(images, labels):
        image[:, side // 2:] += 0.5 * label
        image[:, : side // 2] += 0.5 * (1 - label)
    return images, labels


def train_model(device):
    model = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 16, 2)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    images, labels = (each.to(device) for each in pictures(64, seed=1))
    for _ in range(15):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval().requires_grad_(False)
# --- attacks/score_attacks.py
import torch


class ScoreBlackBoxAttack:
    def __init__(self, epsilon, max_loss_queries, lr, device):
        self.epsilon, self.max_loss_queries, self.lr = epsilon, max_loss_queries, lr
        self.device = device

    def _perturb(self, xs_t, loss_fct):
        raise NotImplementedError

    def proj_maker(self, xs):
        def proj(xs_t):
            return torch.clamp(xs_t - xs, -self.epsilon, self.epsilon) + xs

        return proj

    def run(self, xs, loss_fct, early_stop_extra_fct):
        """Pictures that are done with stay as they are, and cost nothing any more."""
        xs_t = xs.clone().to(self.device)
        proj = self.proj_maker(xs_t.clone())
        num_loss_queries = torch.zeros(len(xs), device=self.device)
        dones_mask = early_stop_extra_fct(xs_t)
        while num_loss_queries.max() < self.max_loss_queries and not dones_mask.all():
            sug_xs_t, queries = self._perturb(xs_t, loss_fct)
            keep = dones_mask.float()[:, None, None, None]
            xs_t = keep * xs_t + (1.0 - keep) * proj(sug_xs_t)
            num_loss_queries += queries * (1.0 - dones_mask.float())
            dones_mask = dones_mask | early_stop_extra_fct(xs_t)
        return dones_mask, num_loss_queries


class NESAttack(ScoreBlackBoxAttack):
    def __init__(self, fd_eta, q, **kwargs):
        super().__init__(**kwargs)
        self.fd_eta, self.q = fd_eta, q
        self.generator = torch.Generator().manual_seed(4)

    def _perturb(self, xs_t, loss_fct):
        gs_t = torch.zeros_like(xs_t)
        for _ in range(self.q):
            exp_noise = torch.randn(xs_t.shape, generator=self.generator).to(xs_t.device)
            est_deriv = (loss_fct(xs_t + self.fd_eta * exp_noise) - loss_fct(xs_t - self.fd_eta * exp_noise)) / self.fd_eta
            gs_t += est_deriv[:, None, None, None] * exp_noise
        return xs_t + self.lr * gs_t.sign(), 2 * self.q
# --- attack_cifar.py
import torch
from torch.utils.data import DataLoader, TensorDataset

from attacks.score_attacks import NESAttack
from model import pictures


def attack_all(model, config, device):
    epsilon = config["epsilon"]
    loader = DataLoader(TensorDataset(*pictures(24, seed=2)), batch_size=config["batch_size"])
    limits = {"epsilon": epsilon, "max_loss_queries": config["max_loss_queries"]}
    attacker = NESAttack(config["fd_eta"], config["q"], lr=config["lr"], device=device, **limits)
    successes, queries, total = 0, 0.0, 0
    for x_batch, y_batch in loader:
        x_ori, y_batch = x_batch, y_batch.to(device)

        def loss_fct(xs):
            return torch.nn.functional.cross_entropy(model(xs), y_batch, reduction="none")

        def early_stop_crit_fct(x_eval):
            x_eval = torch.clamp(x_eval - x_ori, -epsilon, epsilon) + x_ori
            return model(x_eval).argmax(dim=1) != y_batch

        dones, used = attacker.run(x_batch, loss_fct, early_stop_crit_fct)
        successes += dones.sum().item()
        queries += used.sum().item()
        total += len(x_batch)
    return successes, queries / total

# === a_graph_too_large_for_one_step
# thread: https://github.com/qitianwu/NodeFormer/issues/22
# about: nodes of a large graph are drawn anew in each epoch and trained in parts, each with the edges among it. At the end all nodes are looked at
# operation: (index|__getitem__|index_select) on cpu, cuda:0
# operands: indices|index|indices\[0\]|idx_i|.*idx.*
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: input|input-not-moved
# line: main_batch.py: train_idx = split_idx["train"].to(device)
# line: main_batch.py: idx_i = train_idx[idx[
# repair: main_batch.py: train_idx = split_idx["train"].to(device) -> train_idx = split_idx["train"]
import argparse

import main_batch

parser = argparse.ArgumentParser(description="General Training Pipeline")
parser.add_argument("--device", type=int, default=0)
parser.add_argument("--seed", type=int, default=42)
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--hidden_channels", type=int, default=16)
parser.add_argument("--batch_size", type=int, default=40)
parser.add_argument("--lr", type=float, default=0.02)

if __name__ == "__main__":
    losses, accs = main_batch.run(parser.parse_args())
    print("loss", [f"{loss:.4f}" for loss in losses], "acc", {name: f"{acc:.3f}" for name, acc in accs.items()})
# --- dataset.py
import numpy as np
import torch


class NCDataset:
    """Communities: who buys the same is often bought together."""

    def __init__(self, num_nodes=180, num_features=12, num_classes=4):
        rng = np.random.default_rng(22)
        label = np.arange(num_nodes) % num_classes
        features = rng.normal(size=(num_nodes, num_features)) + 1.2 * np.eye(num_classes, num_features)[label]
        ends = rng.integers(0, num_nodes, size=(2, 6 * num_nodes))
        kept = (label[ends[0]] == label[ends[1]]) | (rng.random(ends.shape[1]) < 0.1)
        self.num_nodes, self.num_classes = num_nodes, num_classes
        self.graph = {
            "edge_index": torch.from_numpy(ends[:, kept]),
            "node_feat": torch.from_numpy(features).float(),
        }
        self.label = torch.from_numpy(label)

    def get_idx_split(self, train_prop=0.6, valid_prop=0.2):
        perm = torch.as_tensor(np.random.default_rng(0).permutation(self.num_nodes))
        train_num, valid_num = int(self.num_nodes * train_prop), int(self.num_nodes * valid_prop)
        train, valid, test = perm.split([train_num, valid_num, self.num_nodes - train_num - valid_num])
        return {"train": train, "valid": valid, "test": test}


def subgraph(idx, edge_index, num_nodes):
    """The edges that have both ends in the subset, and by what numbers its nodes go there."""
    new_index = torch.full((num_nodes,), -1, dtype=torch.long)
    new_index[idx] = torch.arange(len(idx))
    edges = new_index[edge_index]
    return edges[:, (edges >= 0).all(dim=0)]
# --- nodeformer.py
import torch
from torch import nn


class NodeFormerConv(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.Wq, self.Wk, self.Wv = (nn.Linear(channels, channels) for _ in range(3))
        self.b = nn.Parameter(torch.tensor(1.0))

    def forward(self, z, edge_index):
        query, key = nn.functional.elu(self.Wq(z)) + 1, nn.functional.elu(self.Wk(z)) + 1
        value = self.Wv(z)
        all_pairs = query @ (key.t() @ value) / (query @ key.sum(dim=0, keepdim=True).t())
        row, col = edge_index
        degree = torch.ones_like(z[:, :1]).index_add(0, col, torch.ones_like(z[row, :1]))
        neighbours = torch.zeros_like(z).index_add(0, col, value[row]) / degree
        return all_pairs + torch.sigmoid(self.b) * neighbours


class NodeFormer(nn.Module):
    def __init__(self, in_channels, hidden_channels, out_channels):
        super().__init__()
        self.fc_in = nn.Linear(in_channels, hidden_channels)
        self.conv = NodeFormerConv(hidden_channels)
        self.norm = nn.LayerNorm(hidden_channels)
        self.fc_out = nn.Linear(hidden_channels, out_channels)

    def forward(self, x, edge_index):
        z = torch.relu(self.fc_in(x))
        return self.fc_out(self.norm(z + self.conv(z, edge_index)))
# --- main_batch.py
import torch

from dataset import NCDataset, subgraph
from nodeformer import NodeFormer


@torch.no_grad()
def evaluate_cpu(model, dataset, split_idx):
    model.eval().to(torch.device("cpu"))
    out = model(dataset.graph["node_feat"], dataset.graph["edge_index"])
    right = (out.argmax(dim=-1) == dataset.label).float()
    return {name: right[idx].mean().item() for name, idx in split_idx.items()}


def run(args):
    torch.manual_seed(args.seed)
    device = torch.device("cuda:" + str(args.device)) if torch.cuda.is_available() else torch.device("cpu")
    dataset = NCDataset()
    split_idx = dataset.get_idx_split()
    x, adjs, true_label = dataset.graph["node_feat"], dataset.graph["edge_index"], dataset.label
    train_idx = split_idx["train"].to(device)
    num_batch = -(-len(train_idx) // args.batch_size)

    model = NodeFormer(x.shape[1], args.hidden_channels, dataset.num_classes).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)
    losses = []
    for _ in range(args.epochs):
        model.train()
        idx = torch.randperm(train_idx.size(0))
        for i in range(num_batch):
            idx_i = train_idx[idx[i * args.batch_size:(i + 1) * args.batch_size]]
            x_i = x[idx_i].to(device)
            adj_i = subgraph(idx_i, adjs, dataset.num_nodes).to(device)
            y_i = true_label[idx_i].to(device)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x_i, adj_i), y_i)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    return losses, evaluate_cpu(model, dataset, split_idx)
