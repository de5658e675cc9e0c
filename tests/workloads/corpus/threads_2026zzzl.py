# === answers_judged_by_the_questions_they_suggest
# thread: https://github.com/vibrantlabsai/ragas/pull/61
# about: how well an answer fits its question is judged by how likely T5 finds the question, given the answer. A loader with a function of its own collates pairs to tensors
# operation: index_select|embedding|index on cuda:0, cpu
# operands: index|indices|input_ids|input|.*inputs.*
# category: input|input-not-moved
# line: ragas/metrics/answer_relevance.py: inputs, labels = data
# line: ragas/metrics/answer_relevance.py: logits = self.model(**inputs).logits
# repair: ragas/metrics/answer_relevance.py: inputs, labels = data -> inputs, labels = {k: v.to(self._target_device) for k, v in data[0].items()}, data[1].to(self._target_device)
import torch

from ragas.evaluation import evaluate
from ragas.metrics.answer_relevance import AnswerRelevancy

DATASET = {
    "question": ["how do i pay tax", "what is a bond", "can i claim rent", "who sets the rate"],
    "answer": [
        "you pay tax with a form each year",
        "a bond is a loan to a state or a firm",
        "you can claim rent for an office",
        "the bank sets the rate",
    ],
}

if __name__ == "__main__":
    torch.manual_seed(60)
    result = evaluate(DATASET, metrics=[AnswerRelevancy(batch_size=2)])
    print(result)
# --- ragas/evaluation.py
def evaluate(dataset, metrics):
    scores = {}
    for metric in metrics:
        metric.init_model(dataset)
        values = metric.score(dataset)[metric.name]
        scores[metric.name] = round(float(sum(values)) / len(values), 3)
    return scores
# --- ragas/metrics/tokens.py
import torch


class Tokenizer:
    """Words of a dataset as numbers; 0 pads, 1 ends a text."""

    pad_token_id = 0

    def __init__(self, texts):
        words = sorted({word for text in texts for word in text.split()})
        self.vocab = {word: i for i, word in enumerate(words, 2)}

    def __len__(self):
        return len(self.vocab) + 2

    def __call__(self, texts):
        rows = [[self.vocab[word] for word in text.split() if word in self.vocab] + [1] for text in texts]
        width = max(map(len, rows))
        input_ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        return {"input_ids": input_ids, "attention_mask": (input_ids != 0).long()}
# --- ragas/metrics/answer_relevance.py
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import CrossEntropyLoss
from torch.nn.functional import normalize
from torch.utils.data import DataLoader
from transformers import T5Config, T5ForConditionalGeneration

from ragas.metrics.tokens import Tokenizer


class QGen:
    def __init__(self, texts, device=None):
        self.tokenizer = Tokenizer(texts)
        config = T5Config(
            vocab_size=len(self.tokenizer), d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2,
            decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
        )  # fmt: skip
        self.model = T5ForConditionalGeneration(config)
        self.model.eval()
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self._target_device = torch.device(device)
        self.model.to(device)
        self.question_template = "generate a question for the given passage "
        self.loss_fun = CrossEntropyLoss(reduction="none")
        self.collate_fn = self.encoder_decoder_collatefn

    def encoder_decoder_collatefn(self, batch):
        query, passage = zip(*batch)
        inputs = self.tokenizer([self.question_template + text for text in passage])
        labels = self.tokenizer(query)["input_ids"]
        labels = torch.where(labels == self.tokenizer.pad_token_id, torch.tensor(-100), labels)
        return {**inputs, "labels": labels}, labels

    def get_loss(self, logits, labels):
        losses = self.loss_fun(logits.view(-1, logits.shape[-1]), labels.view(-1)).reshape(*labels.shape)
        return np.array([1 - normalize(loss[loss != 0], dim=-1).mean(dim=-1).item() for loss in losses])

    def predict(self, sentences, batch_size=32):
        predictions = []
        dataloader = DataLoader(sentences, batch_size=batch_size, collate_fn=self.collate_fn)
        for data in dataloader:
            inputs, labels = data
            with torch.no_grad():
                logits = self.model(**inputs).logits
                predictions.append(self.get_loss(logits, labels))
        return np.hstack(predictions)


@dataclass
class AnswerRelevancy:
    batch_size: int = 32
    name: str = "answer_relevancy"

    def init_model(self, dataset):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = QGen(dataset["question"] + dataset["answer"], self.device)

    def score(self, dataset):
        sentences = list(zip(dataset["question"], dataset["answer"]))
        return {self.name: self.model.predict(sentences, self.batch_size)}

# === strands_of_unlike_length_averaged_without_their_ends
# thread: https://github.com/szczurek-lab/seqme/pull/32
# about: a language model of RNA embeds strands, each as the mean of its codons without what begins and ends it. Which codons are meant is worked out with numpy
# operation: mul|multiply on cuda:1, cpu
# operands: other|mask|.*mask.*
# category: created-without-device|input-not-moved|input
# line: seqme/models/rna_fm.py: embed = (hidden_state * mask.unsqueeze(-1)).sum(dim=-2) / counts.unsqueeze(-1)
# line: seqme/models/rna_fm.py: mask = attention_mask.long()
# line: seqme/models/rna_fm.py: counts = torch.from_numpy(
# line: seqme/models/rna_fm.py: attention_mask = torch.arange(
# line: seqme/models/rna_fm.py: hidden_state = results["representations"]
# repair: seqme/models/rna_fm.py: embed = (hidden_state * mask.unsqueeze(-1)).sum(dim=-2) / counts.unsqueeze(-1) -> embed = torch.stack([hidden_state[row, 1 : count + 1].mean(dim=-2) for row, count in enumerate(counts.tolist())])
import numpy as np
import torch

from seqme.metrics.fbd import FBD
from seqme.models.rna_fm import RNA_FM


def strands(count, generator):
    letters = np.array(list("ACGU"))
    return ["".join(letters[generator.integers(0, 4, 3 * generator.integers(2, 7))]) for _ in range(count)]


if __name__ == "__main__":
    torch.manual_seed(12)
    generator = np.random.default_rng(3)
    reference, sequences = strands(14, generator), strands(10, generator)
    embedder = RNA_FM(model_name="mRNA", device="cuda:1" if torch.cuda.device_count() > 1 else "cpu", batch_size=8)
    print("FBD", round(FBD(reference, embedder)(sequences), 4))
# --- seqme/metrics/fbd.py
import numpy as np


class FBD:
    """How far the embeddings of sequences are from those of others, by means and spreads."""

    def __init__(self, reference, embedder):
        self.embedder = embedder
        self.reference = embedder(reference)

    def __call__(self, sequences):
        embeddings = self.embedder(sequences)
        shift = np.square(self.reference.mean(axis=0) - embeddings.mean(axis=0)).sum()
        spread = np.square(self.reference.std(axis=0) - embeddings.std(axis=0)).sum()
        return float(shift + spread)
# --- seqme/models/fm.py
import torch
from torch import nn

CODONS = [a + b + c for a in "ACGU" for b in "ACGU" for c in "ACGU"]


class Alphabet:
    def __init__(self):
        self.tokens = {codon: i for i, codon in enumerate(["<cls>", "<pad>", "<eos>", *CODONS])}

    def get_batch_converter(self):
        def convert(named_batch):
            labels, strs = zip(*named_batch)
            rows = [[0] + [self.tokens[text[i : i + 3]] for i in range(0, len(text), 3)] + [2] for text in strs]
            width = max(map(len, rows))
            return labels, strs, torch.tensor([row + [1] * (width - len(row)) for row in rows])

        return convert


class RNABert(nn.Module):
    def __init__(self, layers, embed_dim):
        super().__init__()
        self.embed_tokens = nn.Embedding(len(CODONS) + 3, embed_dim, padding_idx=1)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(embed_dim, 2, 32, dropout=0.0, batch_first=True) for _ in range(layers))

    def forward(self, tokens, repr_layers):
        x = self.embed_tokens(tokens)
        padding_mask = tokens.eq(1)
        representations = {}
        for number, layer in enumerate(self.layers, 1):
            x = layer(x, src_key_padding_mask=padding_mask)
            if number in repr_layers:
                representations[number] = x
        return {"representations": representations}


def mrna_fm(layers=2, embed_dim=12):
    return RNABert(layers, embed_dim), Alphabet()
# --- seqme/models/rna_fm.py
import numpy as np
import torch

from seqme.models import fm


class RNA_FM:
    """Embeds RNA: each strand is the mean of its tokens."""

    def __init__(self, *, model_name="mRNA", device=None, batch_size=256):
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model_name = model_name
        self.batch_size = batch_size
        self.device = device
        model, alphabet = fm.mrna_fm()
        self.model = model.to(device).train(False)
        self.batch_converter = alphabet.get_batch_converter()

    def __call__(self, sequences):
        return self.embed(sequences)

    def embed(self, sequences, layer=2):
        for sequence in sequences:
            if len(sequence) % 3 != 0:
                raise ValueError(f"Found non-codon aligned sequence with {len(sequence)} nucleotides.")

        embeddings = []
        with torch.no_grad():
            for i in range(0, len(sequences), self.batch_size):
                batch = sequences[i : i + self.batch_size]

                named_batch = [("", b) for b in batch]
                tokens = self.batch_converter(named_batch)[2].to(self.device)

                results = self.model(tokens, repr_layers=[layer])
                hidden_state = results["representations"][layer]

                counts = torch.from_numpy(np.array([len(s) // 3 for s in batch]))
                counts += 2  # with what begins and ends it
                max_len = int(counts.max())
                attention_mask = torch.arange(max_len).expand(len(batch), max_len) < counts.unsqueeze(1)
                mask = attention_mask.long()

                batch_indices = torch.arange(mask.size(0), device=mask.device)
                mask[batch_indices, 0] = 0
                mask[batch_indices, counts - 1] = 0
                counts = counts - 2

                embed = (hidden_state * mask.unsqueeze(-1)).sum(dim=-2) / counts.unsqueeze(-1)
                embeddings.append(embed.cpu().numpy())
        return np.concatenate(embeddings)

# === rewards_of_falling_blocks_kept_in_a_memory
# thread: https://github.com/seigot/tetris/issues/56
# about: a network learns to place falling blocks, and where there is a card it is asked there. Rewards come out of a memory of what was done
# operation: add|add_ on cpu, cuda:0
# operands: self|input|reward|other|prediction|.*prediction.*|self\.gamma \* prediction
# category: input|input-not-moved|created-without-device|cached-state
# line: game_manager/machine_learning/block_controller_train_sample.py: reward_batch = torch.from_numpy(
# line: game_manager/machine_learning/block_controller_train_sample.py: tuple(reward if done[0] else reward + self.gamma * prediction
# line: game_manager/machine_learning/block_controller_train_sample.py: y_batch = torch.cat(
# repair: game_manager/machine_learning/block_controller_train_sample.py: reward_batch = torch.from_numpy(np.array(reward_batch, dtype=np.float32)[:, None]) -> reward_batch = torch.from_numpy(np.array(reward_batch, dtype=np.float32)[:, None]).to(state_batch.device)
import random

import numpy as np
import torch

from game_manager.board_manager import BoardData
from game_manager.machine_learning.block_controller_train_sample import Block_Controller

CFG = {
    "state_dim": 4,
    "train": {"batch_size": 16, "lr": 5e-3, "gamma": 0.9, "replay_memory_size": 120, "initial_epsilon": 0.5, "num_epoch": 6},
}

if __name__ == "__main__":
    random.seed(56)
    np.random.seed(56)
    torch.manual_seed(56)
    controller = Block_Controller(CFG)
    for game in range(6):
        board = BoardData(width=6, height=8)
        while not board.over and board.blocks < 20:
            controller.GetNextMove(board, shape=random.choice([1, 2, 3]))
        controller.update()
    print(f"epochs {controller.epoch}, last loss {controller.loss:.4f}, last reward {controller.last_reward:.2f}")
# --- game_manager/board_manager.py
import numpy as np


class BoardData:
    """A well into which bars of some width fall."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.heights = np.zeros(width, dtype=int)
        self.blocks, self.over = 0, False

    def dropped(self, x0, shape):
        """The heights after a bar came down, and whether a line was cleared."""
        heights = self.heights.copy()
        heights[x0 : x0 + shape] = heights[x0 : x0 + shape].max() + 1
        cleared = int(heights.min() > 0)
        return heights - cleared, cleared

    def drop(self, x0, shape):
        self.heights, cleared = self.dropped(x0, shape)
        self.blocks += 1
        self.over = self.heights.max() > self.height
        return cleared
# --- game_manager/machine_learning/model/deepqnet.py
from torch import nn


class MLP(nn.Module):
    def __init__(self, state_dim):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(state_dim, 16), nn.ReLU(inplace=True), nn.Linear(16, 1))

    def forward(self, x):
        return self.layers(x)
# --- game_manager/machine_learning/block_controller_train_sample.py
from collections import deque
from random import randint, random, sample

import numpy as np
import torch
from torch import nn

from game_manager.machine_learning.model.deepqnet import MLP


class Block_Controller:
    def __init__(self, cfg):
        self.model = MLP(cfg["state_dim"])
        if torch.cuda.is_available():
            self.model.cuda()
        self.batch_size = cfg["train"]["batch_size"]
        self.gamma = cfg["train"]["gamma"]
        self.replay_memory = deque(maxlen=cfg["train"]["replay_memory_size"])
        self.replay_memory_size = cfg["train"]["replay_memory_size"]
        self.initial_epsilon = cfg["train"]["initial_epsilon"]
        self.num_epoch = cfg["train"]["num_epoch"]
        self.reward_list = [0.0, 1.0]
        self.penalty = -1.0
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=cfg["train"]["lr"])
        self.state = None
        self.epoch, self.loss, self.last_reward, self.epoch_reward = 0, 0.0, 0.0, 0.0

    def get_state_properties(self, heights, cleared):
        bumpiness = np.abs(np.diff(heights)).sum()
        return torch.FloatTensor([cleared, heights.max(), bumpiness, heights.sum()]) / 10

    def get_next_states(self, board, shape):
        places = range(board.width - shape + 1)
        return {x0: self.get_state_properties(*board.dropped(x0, shape)) for x0 in places}

    def GetNextMove(self, board, shape):
        next_steps = self.get_next_states(board, shape)
        epsilon = self.initial_epsilon * max(self.num_epoch - self.epoch, 0) / self.num_epoch
        next_actions, next_states = zip(*next_steps.items())
        next_states = torch.stack(next_states)
        if torch.cuda.is_available():
            next_states = next_states.cuda()
        with torch.no_grad():
            predictions = self.model(next_states)[:, 0]
        index = randint(0, len(next_steps) - 1) if random() <= epsilon else torch.argmax(predictions).item()
        next_state = next_states[index, :]
        reward = self.reward_list[board.drop(next_actions[index], shape)]
        if board.over:
            reward += self.penalty
        if self.state is not None:
            self.replay_memory.append([self.state, reward, next_state, board.over])
        self.state = None if board.over else next_state
        self.epoch_reward += reward

    def update(self):
        self.last_reward, self.epoch_reward = self.epoch_reward, 0.0
        if len(self.replay_memory) < self.replay_memory_size / 10:
            print("================pass================")
            return
        print("================update================")
        self.epoch += 1
        batch = sample(self.replay_memory, min(len(self.replay_memory), self.batch_size))
        state_batch, reward_batch, next_state_batch, done_batch = zip(*batch)
        state_batch = torch.stack(tuple(state for state in state_batch))
        reward_batch = torch.from_numpy(np.array(reward_batch, dtype=np.float32)[:, None])
        next_state_batch = torch.stack(tuple(state for state in next_state_batch))
        done_batch = torch.from_numpy(np.array(done_batch)[:, None])

        q_values = self.model(state_batch)
        self.model.eval()
        with torch.no_grad():
            next_prediction_batch = self.model(next_state_batch)
        self.model.train()
        y_batch = torch.cat(
            tuple(reward if done[0] else reward + self.gamma * prediction
                  for done, reward, prediction in zip(done_batch, reward_batch, next_prediction_batch))
        )[:, None]  # fmt: skip

        self.optimizer.zero_grad()
        loss = self.criterion(q_values, y_batch)
        loss.backward()
        self.optimizer.step()
        self.loss = loss.item()

# === forged_regions_laid_over_their_picture
# thread: https://github.com/RonyAbecidan/ManTraNet-pytorch/issues/2
# about: a network marks what was forged in a picture; in the end the marks are laid over the picture as it was read
# operation: mul|multiply on cuda:0, cpu
# operands: other|.*original_image.*|self|input|.*final_output.*
# category: input|input-not-moved|created-without-device
# line: MantraNet/mantranet.py: suspicious = (final_output[0][0].unsqueeze(2) > 0.5) * torch.tensor(original_image)
# line: MantraNet/mantranet.py: final_output = model(im)
# repair: MantraNet/mantranet.py: suspicious = (final_output[0][0].unsqueeze(2) > 0.5) * torch.tensor(original_image) -> suspicious = (final_output[0][0].cpu().detach().unsqueeze(2) > 0.5) * torch.tensor(original_image)
import numpy as np
import torch

from MantraNet.mantranet import check_forgery, pre_trained_model

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def spliced_picture(size, seed):
    """A smooth picture, with a square of noise in it."""
    rng = np.random.RandomState(seed)
    rows, columns = np.mgrid[0:size, 0:size]
    picture = np.stack([rows * 6, columns * 6, (rows + columns) * 3], axis=2).astype(np.uint8)
    picture[4:10, 6:12] = rng.randint(0, 256, (6, 6, 3))
    return picture


if __name__ == "__main__":
    torch.manual_seed(4)
    model = pre_trained_model(device=device)
    mask, suspicious = check_forgery(model, spliced_picture(20, seed=8), device=device)
    print("mask", round(float(mask.mean()), 4), "marked", int((suspicious.sum(axis=2) > 0).sum()), "sum", int(suspicious.astype(int).sum()))
# --- MantraNet/mantranet.py
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def batch_norm(X, eps=0.001):
    mean = X.mean(axis=(0, 2, 3), keepdim=True)
    variance = ((X - mean) ** 2).mean(axis=(0, 2, 3), keepdim=True)
    return (X - mean) / torch.pow(variance + eps, 0.5)


class IMTFE(nn.Module):
    """Image manipulation trace feature extractor."""

    def __init__(self, in_channel=3, device="cpu"):
        super().__init__()
        self.device = device
        self.init_conv = nn.Conv2d(in_channel, 4, 5, 1, padding=2, bias=False)
        self.BayarConv2D = nn.Conv2d(in_channel, 3, 5, 1, padding=2, bias=False)
        self.bayar_mask = torch.tensor(np.ones(shape=(5, 5)), dtype=torch.float32).to(self.device)
        self.bayar_mask[2, 2] = 0
        self.bayar_final = torch.tensor(np.zeros((5, 5)), dtype=torch.float32).to(self.device)
        self.bayar_final[2, 2] = -1
        self.last_block = nn.Sequential(nn.ReLU(), nn.Conv2d(7, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))

    def forward(self, x):
        x = x / 255.0 * 2 - 1

        # Bayar constraints
        self.BayarConv2D.weight.data *= self.bayar_mask
        self.BayarConv2D.weight.data *= torch.pow(self.BayarConv2D.weight.data.sum(axis=(2, 3)).view(3, 3, 1, 1), -1)
        self.BayarConv2D.weight.data += self.bayar_final

        first_block = torch.cat([self.init_conv(x), self.BayarConv2D(x)], axis=1)
        return F.normalize(self.last_block(first_block), dim=1, p=2)


class AnomalyDetector(nn.Module):
    """Looks how far each place is from the means around it."""

    def __init__(self, eps=10 ** (-6)):
        super().__init__()
        self.eps = eps
        self.adaptation = nn.Conv2d(8, 6, 1, bias=False)
        self.sigma_F = nn.Parameter(torch.zeros((1, 6, 1, 1)))
        self.pools = nn.ModuleList(nn.AvgPool2d(size, stride=1, padding=size // 2, count_include_pad=False) for size in (7, 15))
        self.end = nn.Sequential(nn.Conv2d(18, 1, 7, padding=3), nn.Sigmoid())

    def forward(self, features):
        X_adapt = batch_norm(self.adaptation(features))
        mu_T = X_adapt.mean(axis=(2, 3), keepdim=True)
        sigma_T = torch.sqrt(torch.square(X_adapt - mu_T).mean(axis=(2, 3), keepdim=True))
        sigma_T = torch.max(sigma_T, self.sigma_F + self.eps)
        means = [pool(X_adapt) for pool in self.pools] + [mu_T]
        return self.end(torch.cat([torch.abs((mean - X_adapt) / sigma_T) for mean in means], axis=1))


class MantraNet(nn.Module):
    def __init__(self, in_channel=3, device="cpu"):
        super().__init__()
        self.IMTFE = IMTFE(in_channel=in_channel, device=device)
        self.AnomalyDetector = AnomalyDetector()

    def forward(self, x):
        return self.AnomalyDetector(self.IMTFE(x))


def pre_trained_model(device):
    return MantraNet(device=device)


def check_forgery(model, im, device):
    model.to(device)
    model.train(False)

    original_image = im.copy()
    im = torch.Tensor(im)
    im = im.unsqueeze(0)
    im = im.transpose(2, 3).transpose(1, 2)
    im = im.to(device)

    with torch.no_grad():
        final_output = model(im)

    mask = (final_output[0][0]).cpu().detach().numpy()
    suspicious = (final_output[0][0].unsqueeze(2) > 0.5) * torch.tensor(original_image)
    return mask, suspicious.numpy()

# === a_sharper_picture_out_of_an_exported_model
# thread: https://github.com/open-mmlab/mmagic/issues/1858
# about: a model that sharpens pictures is run by another engine, whose pictures come back as arrays. What made its inputs even is undone by the preprocessor
# operation: mul|multiply on cpu, cuda:0
# operands: other|std|self|input|batch_tensor
# category: input|input-not-moved|module-split
# line: mmdeploy/codebase/mmagic/super_resolution_model.py: predictions = self.data_preprocessor.destruct(
# line: mmdeploy/backend/wrapper.py: return {name: torch.from_numpy(array) for name, array in arrays.items()}
# line: mmdeploy/codebase/mmagic/super_resolution_model.py: outputs = self.wrapper(
# line: mmagic/models/data_preprocessors/data_preprocessor.py: batch_tensor = batch_tensor * std + mean
# line: mmagic/models/data_preprocessors/data_preprocessor.py: _batch_outputs = self._destruct_norm_and_conversion(
# repair: mmdeploy/codebase/mmagic/super_resolution_model.py: predictions = self.data_preprocessor.destruct(outputs["output"], data_samples) -> predictions = self.data_preprocessor.destruct(outputs["output"].to(self.data_preprocessor.mean.device), data_samples)
import numpy as np
import torch

from mmagic.evaluation.metrics import psnr
from mmagic.models.data_preprocessors.data_preprocessor import DataPreprocessor
from mmdeploy.codebase.mmagic.super_resolution_model import End2EndModel

MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]


def pictures(count, size, seed):
    """Pictures as they should be, large, and the small ones they are made of."""
    rng = np.random.RandomState(seed)
    small = torch.from_numpy(rng.randint(0, 256, (count, 3, size, size)).astype(np.float32))
    large = torch.nn.functional.interpolate(small, scale_factor=2, mode="bilinear")
    return [{"inputs": each, "data_samples": {"gt_img": wanted, "channel_order": "RGB"}} for each, wanted in zip(small, large)]


if __name__ == "__main__":
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    preprocessor = DataPreprocessor(MEAN, STD)
    model = End2EndModel(backend_files=["end2end.onnx"], data_preprocessor=preprocessor, device=device)
    results = []
    for data in pictures(3, 6, seed=1858):
        predictions = model.test_step({"inputs": [data["inputs"]], "data_samples": [data["data_samples"]]})
        results += [psnr(prediction["pred_img"].cpu(), prediction["gt_img"].cpu()) for prediction in predictions]
    print("PSNR", [round(each, 3) for each in results])
# --- mmagic/evaluation/metrics.py
def psnr(pred, gt):
    """How near a picture (BGR) is to the one it should be (RGB)."""
    error = (pred.flip(0).double() - gt.double()).square().mean()
    return (10 * (255**2 / error).log10()).item()
# --- mmagic/models/data_preprocessors/data_preprocessor.py
import torch
from torch import nn


class DataPreprocessor(nn.Module):
    """Makes pictures even before they come to a model, and undoes it after."""

    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), False)

    def cast_data(self, inputs):
        return [each.to(self.mean.device) for each in inputs]

    def forward(self, data):
        inputs = torch.stack(self.cast_data(data["inputs"]))
        return {"inputs": (inputs - self.mean) / self.std, "data_samples": data["data_samples"]}

    def destruct(self, outputs, data_samples):
        _batch_outputs = self._destruct_norm_and_conversion(outputs, data_samples)
        return _batch_outputs.clamp_(0, 255)

    def _destruct_norm_and_conversion(self, batch_tensor, data_samples):
        target_shape = [1 for _ in range(batch_tensor.ndim - 3)] + [-1, 1, 1]
        mean = self.mean.view(target_shape)
        std = self.std.view(target_shape)
        batch_tensor = batch_tensor * std + mean
        if data_samples[0]["channel_order"] == "RGB":
            batch_tensor = batch_tensor.flip(-3)
        return batch_tensor
# --- mmdeploy/backend/wrapper.py
import numpy as np
import torch


class ORTWrapper:
    """Runs an exported graph; here one that doubles each picture's size."""

    def __init__(self, backend_file, output_names):
        self.backend_file, self.output_names = backend_file, output_names

    def __call__(self, inputs):
        feeds = {name: tensor.cpu().numpy() for name, tensor in inputs.items()}
        large = np.repeat(np.repeat(feeds["input"], 2, axis=2), 2, axis=3)
        arrays = {self.output_names[0]: (large + np.roll(large, 1, axis=3)) / 2}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}
# --- mmdeploy/codebase/mmagic/super_resolution_model.py
import torch

from mmdeploy.backend.wrapper import ORTWrapper


class End2EndModel:
    def __init__(self, backend_files, data_preprocessor, device):
        self.device = torch.device(device)
        self.data_preprocessor = data_preprocessor.to(self.device)
        self.wrapper = ORTWrapper(backend_files[0], output_names=["output"])

    def test_step(self, data):
        data = self.data_preprocessor(data)
        return self.forward(data["inputs"], data["data_samples"])

    def forward(self, inputs, data_samples):
        outputs = self.wrapper({"input": inputs})
        predictions = self.data_preprocessor.destruct(outputs["output"], data_samples)
        return [{"pred_img": image, **sample} for image, sample in zip(predictions, data_samples)]

# === short_texts_compared_token_by_token
# thread: https://github.com/stephenhky/PyShortTextCategorization/pull/110
# about: short texts are compared by what BERT makes of their words. Each text is turned into numbers for itself, then all are put together
# operation: index_select|embedding|index on cuda:0, cpu
# operands: index|indices|input_ids|input|.*input_ids.*
# category: input|input-not-moved
# line: shorttext/utils/transformers.py: outputs = self.model(input_ids, attention_mask=segments_id)
# line: shorttext/utils/transformers.py: segments_id = torch.LongTensor(
# line: shorttext/utils/transformers.py: input_ids = torch.cat(input_ids, dim=0)
# line: shorttext/utils/transformers.py: input_ids.append(encoded_dict["input_ids"])
# repair: shorttext/utils/transformers.py: outputs = self.model(input_ids, attention_mask=segments_id) -> outputs = self.model(input_ids.to(self.device), attention_mask=segments_id.to(self.device))
import torch
from transformers import BertConfig, BertModel

from shorttext.metrics.transformers.bertscore import BERTScorer
from shorttext.utils.tokenization import WordTokenizer

PAIRS = [
    ("the weather is cold today", "it is freezing today"),
    ("the weather is cold today", "the soup is cold"),
    ("a dog barks", "it is freezing today"),
]

if __name__ == "__main__":
    torch.manual_seed(110)
    tokenizer = WordTokenizer(text for pair in PAIRS for text in pair)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, output_hidden_states=True,
    )  # fmt: skip
    scorer = BERTScorer(model=BertModel(config).eval(), tokenizer=tokenizer, max_length=8, nbencodinglayers=2, device="cuda")
    for reference, test in PAIRS:
        recall = scorer.recall_bertscore(reference, test)
        precision = scorer.precision_bertscore(reference, test)
        print(f"{reference!r}, {test!r}: {recall:.4f} {precision:.4f} {scorer.f1score_bertscore(reference, test):.4f}")
# --- shorttext/utils/tokenization.py
import torch


class WordTokenizer:
    """Each word is a token; some others stand for the ends of a text and for nothing."""

    def __init__(self, texts):
        words = sorted({word for text in texts for word in text.split()})
        self.vocab = {word: i for i, word in enumerate(["[PAD]", "[CLS]", "[SEP]", *words])}

    def __len__(self):
        return len(self.vocab)

    def tokenize(self, text):
        return ["[CLS]", *text.split(), "[SEP]"]

    def encode_plus(self, text, max_length):
        ids = [self.vocab[token] for token in self.tokenize(text)][:max_length]
        return {"input_ids": torch.tensor([ids + [0] * (max_length - len(ids))])}
# --- shorttext/utils/transformers.py
import warnings

import numpy as np
import torch


class BERTObject:
    def __init__(self, model, tokenizer, device="cpu"):
        if device == "cuda":
            if torch.cuda.is_available():
                self.device = torch.device("cuda")
            else:
                warnings.warn("CUDA is not available. Device set to 'cpu'.")
                self.device = torch.device("cpu")
        else:
            self.device = torch.device(device)
        self.model = model.to(self.device)
        self.tokenizer = tokenizer
        self.number_hidden_layers = model.config.num_hidden_layers


class WrappedBERTEncoder(BERTObject):
    """Encodes sentences, and their tokens, by the last layers of a model."""

    def __init__(self, model, tokenizer, max_length=48, nbencodinglayers=4, device="cpu"):
        super().__init__(model, tokenizer, device=device)
        self.max_length = max_length
        self.nbencodinglayers = nbencodinglayers

    def encode_sentences(self, sentences):
        input_ids = []
        tokenized_texts = []
        for sentence in sentences:
            encoded_dict = self.tokenizer.encode_plus(sentence, max_length=self.max_length)
            tokenized_texts.append(self.tokenizer.tokenize(sentence))
            input_ids.append(encoded_dict["input_ids"])

        input_ids = torch.cat(input_ids, dim=0)
        segments_id = torch.LongTensor(np.array(input_ids > 0))

        with torch.no_grad():
            outputs = self.model(input_ids, attention_mask=segments_id)

        alllayers_token_embeddings = torch.stack(outputs.hidden_states, dim=0)
        alllayers_token_embeddings = alllayers_token_embeddings.permute(1, 2, 0, 3)
        processed_embeddings = alllayers_token_embeddings[:, :, (self.number_hidden_layers + 1 - self.nbencodinglayers) :, :]
        token_embeddings = torch.reshape(processed_embeddings, (len(sentences), self.max_length, -1))
        return outputs.pooler_output, token_embeddings, tokenized_texts
# --- shorttext/metrics/transformers/bertscore.py
from itertools import product

import torch

from shorttext.utils.transformers import WrappedBERTEncoder


class BERTScorer:
    def __init__(self, model, tokenizer, max_length=48, nbencodinglayers=4, device="cpu"):
        self.encoder = WrappedBERTEncoder(model, tokenizer, max_length, nbencodinglayers, device=device)
        self.device = self.encoder.device
        self.cosine_fcn = torch.nn.CosineSimilarity(dim=0).to(self.device)

    def compute_matrix(self, sentence_a, sentence_b):
        cos = self.cosine_fcn
        _, embeddings_a, tokens_a = self.encoder.encode_sentences([sentence_a])
        _, embeddings_b, tokens_b = self.encoder.encode_sentences([sentence_b])
        similarity_matrix = torch.zeros((len(tokens_a[0]) - 2, len(tokens_b[0]) - 2), device=self.device)
        for i, j in product(range(len(tokens_a[0]) - 2), range(len(tokens_b[0]) - 2)):
            similarity_matrix[i, j] = cos(embeddings_a[0][i + 1], embeddings_b[0][j + 1])
        return similarity_matrix

    def recall_bertscore(self, reference_sentence, test_sentence):
        similarity_matrix = self.compute_matrix(reference_sentence, test_sentence)
        return torch.mean(torch.max(similarity_matrix, axis=1).values).item()

    def precision_bertscore(self, reference_sentence, test_sentence):
        similarity_matrix = self.compute_matrix(reference_sentence, test_sentence)
        return torch.mean(torch.max(similarity_matrix, axis=0).values).item()

    def f1score_bertscore(self, reference_sentence, test_sentence):
        recall = self.recall_bertscore(reference_sentence, test_sentence)
        precision = self.precision_bertscore(reference_sentence, test_sentence)
        return 2 * recall * precision / (recall + precision)
