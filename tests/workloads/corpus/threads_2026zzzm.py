# === voices_given_back_the_loudness_of_the_mixture
# thread: https://github.com/JusperLee/Conv-TasNet/issues/65
# about: a network separates the speakers of a recording. Each estimate is scaled to the peak of the recording before it is written to a file
# operation: (mul|multiply) on cpu, cuda:0
# operands: other|norm
# category: input-not-moved|input|cached-state
# line: Separation.py: s = s*norm/torch.max(torch.abs(s))
# line: Separation.py: norm = torch.norm(egs, float('inf'))
# repair: Separation.py: s = s*norm/torch.max(torch.abs(s)) -> s = s*norm.cpu()/torch.max(torch.abs(s))
import os
import tempfile

import torch

from AudioReader import read_wav, write_wav
from Conv_TasNet import ConvTasNet
from Separation import Separation

NET_CONF = {"N": 16, "L": 8, "B": 8, "H": 12, "X": 3, "num_spks": 2}


def record(folder, utterances):
    """Two tones of different pitch, one louder than the other, and where they lie."""
    scp = {}
    for index in range(utterances):
        time = torch.arange(400 + 40 * index) / 8000
        mix = (0.3 + 0.1 * index) * torch.sin(2 * torch.pi * 310 * time) + 0.2 * torch.sin(2 * torch.pi * (900 + 50 * index) * time)
        scp[f"utt{index}.wav"] = os.path.join(folder, f"mix{index}.wav")
        write_wav(scp[f"utt{index}.wav"], mix, 8000)
    return scp


def main():
    with tempfile.TemporaryDirectory() as folder:
        scp = record(folder, utterances=3)
        torch.manual_seed(65)
        model = os.path.join(folder, "best.pt")
        torch.save({"epoch": 70, "model_state_dict": ConvTasNet(**NET_CONF).state_dict()}, model)
        save_path = os.path.join(folder, "non-pit-2")
        Separation(scp, NET_CONF, model, gpuid=[0]).inference(save_path)
        for key in scp:
            spks = [read_wav(os.path.join(save_path, f"spk{index}", key)) for index in (1, 2)]
            print(key, [f"peak {s.abs().max():.3f} power {s.pow(2).mean():.4f}" for s in spks])


if __name__ == "__main__":
    main()
# --- AudioReader.py
import struct
import wave

import torch


def read_wav(fname):
    with wave.open(fname, "rb") as file:
        frames = file.readframes(file.getnframes())
    return torch.tensor(struct.unpack(f"<{len(frames) // 2}h", frames), dtype=torch.float32) / 32767


def write_wav(fname, src, sample_rate):
    samples = (src.clamp(-1, 1).numpy() * 32767).round().astype("<i2")
    with wave.open(fname, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(samples.tobytes())


class AudioReader:
    """Goes over the utterances of a list, each with its key."""

    def __init__(self, scp):
        self.index_dict = scp

    def __len__(self):
        return len(self.index_dict)

    def __iter__(self):
        for key, path in self.index_dict.items():
            yield key, read_wav(path)
# --- Conv_TasNet.py
import torch
from torch import nn


class ConvTasNet(nn.Module):
    def __init__(self, N, L, B, H, X, num_spks):
        super().__init__()
        self.num_spks = num_spks
        self.encoder = nn.Conv1d(1, N, L, stride=L // 2)
        self.bottleneck = nn.Conv1d(N, B, 1)
        self.separation = nn.ModuleList(
            nn.Sequential(nn.Conv1d(B, H, 3, padding=2**x, dilation=2**x), nn.PReLU(), nn.GroupNorm(1, H), nn.Conv1d(H, B, 1)) for x in range(X)
        )
        self.gen_masks = nn.Conv1d(B, num_spks * N, 1)
        self.decoder = nn.ConvTranspose1d(N, 1, L, stride=L // 2)

    def forward(self, x):
        if x.dim() == 1:
            x = x[None]
        w = self.encoder(x[:, None])
        e = self.bottleneck(w)
        for block in self.separation:
            e = e + block(e)
        masks = torch.sigmoid(self.gen_masks(e)).chunk(self.num_spks, dim=1)
        return [self.decoder(w * mask)[:, 0] for mask in masks]
# --- Separation.py
import os

import torch

from AudioReader import AudioReader, write_wav
from Conv_TasNet import ConvTasNet


class Separation():
    def __init__(self, mix_scp, net_conf, model, gpuid):
        self.mix = AudioReader(mix_scp)
        net = ConvTasNet(**net_conf)
        dicts = torch.load(model, map_location='cpu')
        net.load_state_dict(dicts["model_state_dict"])
        print("Load checkpoint from epoch {: d}".format(dicts["epoch"]))
        self.device = torch.device('cuda:{}'.format(gpuid[0]) if len(gpuid) > 0 else 'cpu')
        self.net = net.to(self.device).eval()
        self.gpuid = tuple(gpuid)

    def inference(self, file_path):
        with torch.no_grad():
            for key, egs in self.mix:
                egs = egs.to(self.device)
                norm = torch.norm(egs, float('inf'))
                ests = self.net(egs)
                if len(self.gpuid) != 0:
                    spks = [torch.squeeze(s.detach().cpu()) for s in ests]
                else:
                    spks = [torch.squeeze(s.detach()) for s in ests]
                index = 0
                for s in spks:
                    s = s[:egs.shape[0]]
                    # norm
                    s = s*norm/torch.max(torch.abs(s))
                    index += 1
                    os.makedirs(os.path.join(file_path, 'spk' + str(index)), exist_ok=True)
                    write_wav(os.path.join(file_path, 'spk' + str(index), key), s, 8000)
        print("Compute over {:d} utterances".format(len(self.mix)))

# === a_sum_of_skips_that_starts_at_nothing
# thread: https://github.com/asteroid-team/asteroid/issues/300
# about: the mask network of a speech separator adds up what its layers let skip. The sum starts with a zero
# operation: add on cpu, cuda:0
# operands: self|skip_connection
# category: created-without-device
# line: asteroid/masknn/convolutional.py: skip_connection = torch.tensor([0.0])
# line: asteroid/masknn/convolutional.py: skip_connection = skip_connection + skip
# repair: asteroid/masknn/convolutional.py: skip_connection = torch.tensor([0.0]) -> skip_connection = torch.tensor([0.0], device=output.device)
import torch

from asteroid.engine.system import System, Trainer
from asteroid.masknn.convolutional import TDConvNet


class Model(torch.nn.Module):
    def __init__(self, filterbank, n_src):
        super().__init__()
        self.encoder = torch.nn.Conv1d(1, filterbank["n_filters"], filterbank["kernel_size"], stride=filterbank["stride"], bias=False)
        self.masker = TDConvNet(filterbank["n_filters"], n_src, n_blocks=2, n_repeats=2, bn_chan=6, hid_chan=8, skip_chan=6)
        self.decoder = torch.nn.ConvTranspose1d(filterbank["n_filters"], 1, filterbank["kernel_size"], stride=filterbank["stride"], bias=False)

    def forward(self, x):
        tf_rep = torch.relu(self.encoder(x[:, None]))
        est_masks = self.masker(tf_rep)
        masked = est_masks * tf_rep[:, None]
        batch, n_src = masked.shape[:2]
        return self.decoder(masked.flatten(0, 1)).view(batch, n_src, -1)


def wham(size, length):
    """Mixtures of two voices, and the voices."""
    generator = torch.Generator().manual_seed(300)
    time = torch.arange(length) / length
    pitch = 4 + 12 * torch.rand(size, 2, 1, generator=generator)
    sources = torch.sin(2 * torch.pi * pitch * time) * torch.tensor([1.0, 0.5])[None, :, None]
    return torch.utils.data.TensorDataset(sources.sum(dim=1), sources)


if __name__ == "__main__":
    torch.manual_seed(4)
    model = Model({"n_filters": 12, "kernel_size": 8, "stride": 4}, n_src=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    train_loader = torch.utils.data.DataLoader(wham(12, 200), batch_size=4)
    system = System(model=model, loss_func=torch.nn.functional.mse_loss, optimizer=optimizer, train_loader=train_loader)
    trainer = Trainer(max_epochs=3, gpus=[0])
    trainer.fit(system)
    print("loss", [f"{loss:.4f}" for loss in trainer.history])
# --- asteroid/engine/system.py
import torch


class System(torch.nn.Module):
    """The model, its loss and its optimizer: all that an experiment is."""

    def __init__(self, model, loss_func, optimizer, train_loader):
        super().__init__()
        self.model = model
        self.loss_func = loss_func
        self.optimizer = optimizer
        self.train_loader = train_loader

    def common_step(self, batch, batch_nb):
        inputs, targets = batch
        est_targets = self.model(inputs)
        return self.loss_func(est_targets, targets)

    def training_step(self, batch, batch_nb):
        return self.common_step(batch, batch_nb)


class Trainer:
    def __init__(self, max_epochs, gpus):
        self.max_epochs = max_epochs
        self.device = torch.device("cuda", gpus[0]) if gpus else torch.device("cpu")
        self.history = []

    def fit(self, system):
        system.to(self.device)
        for _ in range(self.max_epochs):
            for batch_nb, batch in enumerate(system.train_loader):
                batch = [each.to(self.device) for each in batch]
                loss = system.training_step(batch, batch_nb)
                system.optimizer.zero_grad()
                loss.backward()
                system.optimizer.step()
            self.history.append(loss.item())
# --- asteroid/masknn/convolutional.py
import torch
from torch import nn


class Conv1DBlock(nn.Module):
    def __init__(self, in_chan, hid_chan, skip_out_chan, kernel_size, padding, dilation):
        super().__init__()
        self.skip_out_chan = skip_out_chan
        self.shared_block = nn.Sequential(
            nn.Conv1d(in_chan, hid_chan, 1),
            nn.PReLU(),
            nn.GroupNorm(1, hid_chan),
            nn.Conv1d(hid_chan, hid_chan, kernel_size, padding=padding, dilation=dilation, groups=hid_chan),
            nn.PReLU(),
        )
        self.res_conv = nn.Conv1d(hid_chan, in_chan, 1)
        if skip_out_chan:
            self.skip_conv = nn.Conv1d(hid_chan, skip_out_chan, 1)

    def forward(self, x):
        shared_out = self.shared_block(x)
        res_out = self.res_conv(shared_out)
        if not self.skip_out_chan:
            return res_out
        return res_out, self.skip_conv(shared_out)


class TDConvNet(nn.Module):
    """The temporal convolutional network of ConvTasNet."""

    def __init__(self, in_chan, n_src, n_blocks=8, n_repeats=3, bn_chan=128, hid_chan=512, skip_chan=128, conv_kernel_size=3):
        super().__init__()
        self.in_chan, self.n_src, self.skip_chan = in_chan, n_src, skip_chan
        self.bottleneck = nn.Sequential(nn.GroupNorm(1, in_chan), nn.Conv1d(in_chan, bn_chan, 1))
        self.TCN = nn.ModuleList()
        for _ in range(n_repeats):
            for x in range(n_blocks):
                padding = (conv_kernel_size - 1) * 2**x // 2
                self.TCN.append(Conv1DBlock(bn_chan, hid_chan, skip_chan, conv_kernel_size, padding=padding, dilation=2**x))
        mask_conv_inp = skip_chan if skip_chan else bn_chan
        self.mask_net = nn.Sequential(nn.PReLU(), nn.Conv1d(mask_conv_inp, n_src * in_chan, 1))
        self.output_act = nn.ReLU()

    def forward(self, mixture_w):
        batch, _, n_frames = mixture_w.size()
        output = self.bottleneck(mixture_w)
        skip_connection = torch.tensor([0.0])
        for layer in self.TCN:
            tcn_out = layer(output)
            if self.skip_chan:
                residual, skip = tcn_out
                skip_connection = skip_connection + skip
            else:
                residual = tcn_out
            output = output + residual
        mask_inp = skip_connection if self.skip_chan else output
        score = self.mask_net(mask_inp)
        score = score.view(batch, self.n_src, self.in_chan, n_frames)
        return self.output_act(score)

# === explained_and_taken_from_its_pipeline
# thread: https://github.com/cdpierse/transformers-interpret/pull/57
# about: a pipeline classifies text on the CPU. Its model is lent to an explainer, and then the pipeline is asked again
# operation: (index_select|embedding) on cuda:0, cpu
# operands: index|indices|input|input_ids
# category: default-or-current-device|module-split|input-not-moved|input
# line: transformers_interpret/explainer.py: self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# line: transformers_interpret/explainer.py: self.model.to(self.device)
# repair: transformers_interpret/explainer.py: self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu") ->
#   self.device = self.model.device
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, pipeline

from transformers_interpret.explainers.sequence_classification import SequenceClassificationExplainer

WORDS = "[PAD] [UNK] [CLS] [SEP] the film was a great bore and i liked it not at all , an odd bird in winter".split()


def tiny_tokenizer():
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


def tiny_model():
    torch.manual_seed(57)
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=24,
        id2label={0: "NEGATIVE", 1: "POSITIVE"}, label2id={"NEGATIVE": 0, "POSITIVE": 1}, initializer_range=0.6,
    )  # fmt: skip
    return BertForSequenceClassification(config).eval()


if __name__ == "__main__":
    classifier = pipeline("text-classification", model=tiny_model(), tokenizer=tiny_tokenizer(), device="cpu")
    print(classifier("i liked the bird"))
    explainer = SequenceClassificationExplainer(classifier.model, classifier.tokenizer)
    for text in ("the film was a great bore", "an odd bird, and i liked it"):
        word_attributions = explainer(text)
        print(explainer.predicted_class_name, [(word, round(score, 2)) for word, score in word_attributions])
    answers = classifier(["the film was a great bore", "not at all, i liked it", "a bird in winter"])
    print([(answer["label"], round(answer["score"], 3)) for answer in answers])
# --- transformers_interpret/explainer.py
import inspect
import re

import torch


class BaseExplainer:
    def __init__(self, model, tokenizer):
        self.model = model
        self.tokenizer = tokenizer
        self.ref_token_id = self.tokenizer.pad_token_id
        self.sep_token_id = self.tokenizer.sep_token_id
        self.cls_token_id = self.tokenizer.cls_token_id
        self.accepts_position_ids = self._model_forward_signature_accepts_parameter("position_ids")

        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model.to(self.device)

        self.word_embeddings = self.model.get_input_embeddings()

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False)

    def _make_input_reference_pair(self, text):
        text_ids = self.encode(text)
        input_ids = self.tokenizer.encode(text, add_special_tokens=True)
        ref_input_ids = [self.cls_token_id] + [self.ref_token_id] * len(text_ids) + [self.sep_token_id]
        return torch.tensor([input_ids], device=self.device), torch.tensor([ref_input_ids], device=self.device)

    def _make_input_reference_position_id_pair(self, input_ids):
        position_ids = torch.arange(input_ids.size(1), dtype=torch.long, device=self.device)
        return position_ids.unsqueeze(0).expand_as(input_ids)

    def _make_attention_mask(self, input_ids):
        return torch.ones_like(input_ids)

    def _clean_text(self, text):
        text = re.sub(r"([.,!?()])", r" \1 ", text)
        return re.sub(r"\s{2,}", " ", text)

    def _model_forward_signature_accepts_parameter(self, parameter):
        return parameter in inspect.signature(self.model.forward).parameters
# --- transformers_interpret/explainers/sequence_classification.py
import torch

from transformers_interpret.explainer import BaseExplainer


class SequenceClassificationExplainer(BaseExplainer):
    """Integrated gradients from a text of padding to the text, by the words' embeddings."""

    def __init__(self, model, tokenizer, n_steps=8):
        super().__init__(model, tokenizer)
        self.n_steps = n_steps
        self.pred_class = None

    @property
    def predicted_class_name(self):
        return self.model.config.id2label[self.pred_class]

    def _forward(self, inputs_embeds, attention_mask, position_ids):
        extra = {"position_ids": position_ids} if self.accepts_position_ids else {}
        return self.model(inputs_embeds=inputs_embeds, attention_mask=attention_mask, **extra).logits.softmax(dim=-1)

    def __call__(self, text):
        text = self._clean_text(text)
        input_ids, ref_input_ids = self._make_input_reference_pair(text)
        position_ids = self._make_input_reference_position_id_pair(input_ids)
        attention_mask = self._make_attention_mask(input_ids)
        target, baseline = self.word_embeddings(input_ids).detach(), self.word_embeddings(ref_input_ids).detach()
        self.pred_class = int(self._forward(target, attention_mask, position_ids).argmax())
        total = torch.zeros_like(target)
        for step in range(1, self.n_steps + 1):
            point = (baseline + (target - baseline) * step / self.n_steps).requires_grad_()
            score = self._forward(point, attention_mask, position_ids)[0, self.pred_class]
            total += torch.autograd.grad(score, point)[0]
        attributions = ((target - baseline) * total / self.n_steps).sum(dim=-1)[0]
        attributions = attributions / attributions.norm()
        return list(zip(self.tokenizer.convert_ids_to_tokens(input_ids[0].tolist()), attributions.tolist()))

# === sensors_that_watch_one_another
# thread: https://github.com/KatieBuc/gnnad/issues/6
# about: a graph network learns which sensors go together, to say when one goes astray. It gets its layers after it was built
# operation: (index_select|embedding) on cpu, cuda:0
# operands: index|indices|idxs|self|weight|.*embedding.*
# category: module-split
# line: gnnad/graphanomaly.py: model._initialise_layers()
# line: gnnad/graphanomaly.py: ).to(self.device)
# line: gnnad/graphanomaly.py: model = GDN(
# line: gnnad/graphanomaly.py: self.model = model
# line: gnnad/graphanomaly.py: self.topk = topk
# repair: gnnad/graphanomaly.py: model._initialise_layers() -> model._initialise_layers(); model.to(self.device)
import numpy as np

from gnnad.graphanomaly import GNNAD


def generate(n_obs, seed, anomaly=None):
    """Five sensors that follow two waves; an anomaly lifts one of them for a while."""
    rng = np.random.default_rng(seed)
    time = np.arange(n_obs)
    waves = np.stack([np.sin(time / 5), np.cos(time / 8)])
    X = np.array([[1, 0], [0.8, 0.2], [0, 1], [0.1, 0.9], [0.5, 0.5]]) @ waves + 0.05 * rng.normal(size=(5, n_obs))
    y = np.zeros(n_obs)
    if anomaly:
        X[2, anomaly] += 2.0
        y[anomaly] = 1
    return X, y


if __name__ == "__main__":
    X_train, _ = generate(90, seed=0)
    X_test, y_test = generate(60, seed=1, anomaly=slice(35, 42))
    model = GNNAD(slide_win=6, slide_stride=1, dim=8, topk=3, epoch=8, batch=28, lr=0.01, device="cuda", random_seed=6)
    model.fit(X_train, X_test, y_test)
    print("losses", [f"{each:.3f}" for each in model.train_log[-3:]], f"recall {model.recall:.3f} error {model.test_error:.3f}")
# --- gnnad/graphanomaly.py
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class TimeDataset(Dataset):
    def __init__(self, raw_data, labels, config):
        self.config = config
        data = torch.tensor(raw_data).float()
        slide_win, slide_stride = config["slide_win"], config["slide_stride"]
        steps = range(slide_win, data.shape[1], slide_stride)
        self.x = torch.stack([data[:, i - slide_win : i] for i in steps]).contiguous()
        self.y = torch.stack([data[:, i] for i in steps]).contiguous()
        self.labels = torch.tensor([float(labels[i]) for i in steps])

    def __len__(self):
        return len(self.x)

    def __getitem__(self, idx):
        return self.x[idx], self.y[idx], self.labels[idx]


class GNNLayer(nn.Module):
    def __init__(self, in_channel, out_channel):
        super().__init__()
        self.lin = nn.Linear(in_channel, out_channel, bias=False)
        self.att = nn.Linear(4 * out_channel, 1, bias=False)
        self.bn = nn.BatchNorm1d(out_channel)

    def forward(self, x, neighbours, embedding):
        h = self.lin(x)
        v = embedding.expand(x.shape[0], -1, -1)
        own = torch.cat((h, v), dim=-1)
        theirs = own[:, neighbours]
        key = torch.cat((own.unsqueeze(2).expand_as(theirs), theirs), dim=-1)
        alpha = F.leaky_relu(self.att(key), 0.2).softmax(dim=2)
        out = (alpha * h[:, neighbours]).sum(dim=2)
        return F.relu(self.bn(out.permute(0, 2, 1)).permute(0, 2, 1))


class GDN(nn.Module):
    def __init__(self, n_nodes, embed_dim=64, slide_win=15, topk=20):
        super(GDN, self).__init__()
        self.n_nodes = n_nodes
        self.embed_dim = embed_dim
        self.slide_win = slide_win
        self.topk = topk

    def _initialise_layers(self):
        self.embedding = nn.Embedding(self.n_nodes, self.embed_dim)
        self.bn_outlayer_in = nn.BatchNorm1d(self.embed_dim)
        self.gnn_layers = nn.ModuleList([GNNLayer(self.slide_win, self.embed_dim)])
        self.out_layer = nn.Linear(self.embed_dim, 1)
        self.learned_graph = None
        nn.init.kaiming_uniform_(self.embedding.weight, a=math.sqrt(5))

    def forward(self, data):
        device = data.device
        idxs = torch.arange(self.n_nodes).to(device)
        weights = self.embedding(idxs).detach().clone()
        cos_ji_mat = torch.matmul(weights, weights.T)
        normed_mat = torch.matmul(weights.norm(dim=-1).view(-1, 1), weights.norm(dim=-1).view(1, -1))
        self.learned_graph = torch.topk(cos_ji_mat / normed_mat, self.topk, dim=-1)[1]
        gcn_out = self.gnn_layers[0](data, self.learned_graph, embedding=self.embedding(idxs))
        out = torch.mul(gcn_out, self.embedding(idxs)).permute(0, 2, 1)
        out = F.relu(self.bn_outlayer_in(out)).permute(0, 2, 1)
        return self.out_layer(out).view(-1, self.n_nodes)


class GNNAD:
    def __init__(self, batch=128, epoch=100, slide_win=15, dim=64, slide_stride=5, topk=20, device="cpu", lr=0.001, random_seed=0):
        self.batch = batch
        self.epoch = epoch
        self.slide_win = slide_win
        self.dim = dim
        self.slide_stride = slide_stride
        self.n_neighbours = topk
        self.device = device
        self.lr = lr
        self.random_seed = random_seed

    def _load_data(self, X_train, X_test, y_test):
        cfg = {"slide_win": self.slide_win, "slide_stride": self.slide_stride}
        self.n_nodes = len(X_train)
        self.train_dataloader = DataLoader(TimeDataset(X_train, [0] * X_train.shape[1], cfg), batch_size=self.batch)
        self.test_dataloader = DataLoader(TimeDataset(X_test, y_test, cfg), batch_size=self.batch)

    def _load_model(self):
        model = GDN(
            n_nodes=self.n_nodes,
            embed_dim=self.dim,
            slide_win=self.slide_win,
            topk=self.n_neighbours,
        ).to(self.device)

        model._initialise_layers()

        self.model = model

    def _train(self):
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.lr)
        self.train_log = []
        for _ in range(self.epoch):
            self.model.train()
            for x, y, _ in self.train_dataloader:
                x, y = [item.float().to(self.device) for item in [x, y]]
                optimizer.zero_grad()
                loss = F.mse_loss(self.model(x), y)
                loss.backward()
                optimizer.step()
                self.train_log.append(loss.item())

    @torch.no_grad()
    def _get_score(self):
        self.model.eval()
        errors, labels = [], []
        for x, y, label in self.test_dataloader:
            x, y = [item.float().to(self.device) for item in [x, y]]
            errors.append((self.model(x) - y).abs().cpu().numpy())
            labels.append(label.numpy())
        errors, labels = np.concatenate(errors), np.concatenate(labels)
        scores = errors.max(axis=1)
        pred_labels = scores > np.quantile(scores, 0.85)
        self.recall = pred_labels[labels == 1].mean()
        self.test_error = errors.mean()

    def fit(self, X_train, X_test, y_test):
        torch.manual_seed(self.random_seed)
        self._load_data(X_train, X_test, y_test)
        self._load_model()
        self._train()
        self._get_score()
        return self

# === aerial_pictures_learned_on_from_an_epoch
# thread: https://github.com/bohaohuang/mrs/pull/47
# about: a segmentation of aerial pictures trains on from a snapshot. Weights and optimizer are loaded, then the model is brought to its device
# operation: (add|add_|mul|mul_|_foreach_add_|_foreach_mul_|_foreach_add|_foreach_mul) on cpu, cuda:0
# operands: self|buf|bufs.*|.*momentum.*|other|grad|.*grads.*
# category: optimizer|checkpoint|cached-state
# line: train.py: model.to(device)
# line: train.py: network_utils.load_epoch(
# line: train.py: optm = optim.SGD(
# line: train.py: model = network_io.create_model(args)
# line: network/network_utils.py: optm.load_state_dict(checkpoint['opt_dict'])
# repair: train.py: model.to(device) -> model.to(device); optm.load_state_dict(optm.state_dict())
import tempfile

import torch

from train import train_model

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as save_dir:
        cfg = {
            "save_dir": save_dir, "random_seed": 47, "batch_size": 4,
            "optimizer": {"learn_rate_encoder": 0.05, "learn_rate_decoder": 0.1, "decay_step": [4], "decay_rate": 0.1},
            "trainer": {"resume_epoch": 0, "epochs": 2},
        }  # fmt: skip
        device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        first = train_model(cfg, device)
        cfg["trainer"] = {"resume_epoch": 2, "epochs": 5}
        second = train_model(cfg, device)
        print("loss", [f"{loss:.4f}" for loss in first], "and from the snapshot on", [f"{loss:.4f}" for loss in second])
# --- train.py
import os

import torch
from torch import optim

from network import network_io, network_utils


def make_patches(seed, size=8):
    """Noise in which a building is a brighter block."""
    generator = torch.Generator().manual_seed(seed)
    rgb = torch.rand(size, 3, 16, 16, generator=generator)
    lbl = torch.zeros(size, 16, 16, dtype=torch.long)
    for index in range(size):
        row, column = torch.randint(0, 10, (2,), generator=generator).tolist()
        rgb[index, :, row:row + 6, column:column + 6] += 0.5
        lbl[index, row:row + 6, column:column + 6] = 1
    return rgb, lbl


def train_model(args, device):
    torch.manual_seed(args['random_seed'])
    model = network_io.create_model(args)
    train_params = model.set_train_params((args['optimizer']['learn_rate_encoder'], args['optimizer']['learn_rate_decoder']))

    # make optimizer
    optm = optim.SGD(train_params, lr=args['optimizer']['learn_rate_encoder'], momentum=0.9, weight_decay=5e-4)
    criterion = torch.nn.CrossEntropyLoss()
    scheduler = optim.lr_scheduler.MultiStepLR(optm, milestones=args['optimizer']['decay_step'], gamma=args['optimizer']['decay_rate'])

    # if not resume, train from scratch
    if args['trainer']['resume_epoch'] == 0:
        print('Training from scratch ...')
    else:
        print('Resume training from epoch {} ...'.format(args['trainer']['resume_epoch']))
        network_utils.load_epoch(args['save_dir'], args['trainer']['resume_epoch'], model, optm)

    # prepare training
    print('Total params: {}'.format(sum(p.numel() for p in model.parameters())))
    model.to(device)

    rgb, lbl = make_patches(args['random_seed'])
    losses = []
    for epoch in range(args['trainer']['resume_epoch'], args['trainer']['epochs']):
        model.train()
        total = 0.0
        for begin in range(0, len(rgb), args['batch_size']):
            image = rgb[begin:begin + args['batch_size']].to(device)
            target = lbl[begin:begin + args['batch_size']].to(device)
            optm.zero_grad()
            loss = criterion(model(image), target)
            loss.backward()
            optm.step()
            total += loss.item() * len(image)
        scheduler.step()
        losses.append(total / len(rgb))
        network_utils.save(model, epoch, optm, losses[-1], os.path.join(args['save_dir'], 'epoch-{}.pth.tar'.format(epoch)))
    return losses
# --- network/network_io.py
from network.unet import UNet


def create_model(args):
    return UNet(n_class=2)
# --- network/network_utils.py
import os

import torch


def load_epoch(save_dir, resume_epoch, model, optm):
    """
    Load model from a snapshot, this function can be used to resume training
    """
    checkpoint = torch.load(
        os.path.join(save_dir, 'epoch-' + str(resume_epoch - 1) + '.pth.tar'),
        map_location=lambda storage, loc: storage)
    model.load_state_dict(checkpoint['state_dict'])
    optm.load_state_dict(checkpoint['opt_dict'])


def save(model, epochs, optm, loss, save_name):
    torch.save({'epoch': epochs, 'state_dict': model.state_dict(), 'opt_dict': optm.state_dict(), 'loss': loss}, save_name)
# --- network/unet.py
import torch
from torch import nn


class UNet(nn.Module):
    def __init__(self, n_class, start_filter=6):
        super().__init__()
        self.encoder = nn.ModuleList([
            nn.Sequential(nn.Conv2d(3, start_filter, 3, padding=1), nn.ReLU()),
            nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(start_filter, 2 * start_filter, 3, padding=1), nn.ReLU()),
        ])
        self.decoder = nn.ModuleList([
            nn.ConvTranspose2d(2 * start_filter, start_filter, 2, stride=2),
            nn.Conv2d(2 * start_filter, n_class, 3, padding=1),
        ])

    def forward(self, x):
        skip = self.encoder[0](x)
        x = self.decoder[0](self.encoder[1](skip))
        return self.decoder[1](torch.cat([x, skip], dim=1))

    def set_train_params(self, learn_rate):
        return [{'params': self.encoder.parameters(), 'lr': learn_rate[0]}, {'params': self.decoder.parameters(), 'lr': learn_rate[1]}]

# === relations_in_shared_memory_that_are_kept_small
# thread: https://github.com/facebookresearch/PyTorch-BigGraph/issues/178
# about: embeddings of a graph are trained on a GPU; the relations' operators lie in the memory that the trainers share. A penalty is for both
# operation: (add|add_) on cpu, cuda:1
# operands: self|total|other
# category: module-split|input-not-moved|input
# line: torchbiggraph/regularizers.py: total += torch.sum(operator_params ** 3) * batch_size
# line: torchbiggraph/regularizers.py: operator_params = operator.get_operator_params_for_reg()
# line: torchbiggraph/regularizers.py: total += torch.sum(operator.prepare_embs_for_reg(x) ** 3)
# repair: torchbiggraph/regularizers.py: total += torch.sum(operator_params ** 3) * batch_size ->
#   total += torch.sum(operator_params.to(src_pos.device) ** 3) * batch_size
import torch

from torchbiggraph.model import MultiRelationEmbedder
from torchbiggraph.train_gpu import GPUTrainer

CONFIG = {"entities": 24, "dimension": 8, "relations": ["follows", "blocks"], "regularization_coef": 1e-2, "lr": 0.2, "num_epochs": 4}


def edges(entities):
    """Who has a number follows the next, and blocks the one across."""
    lhs = torch.arange(entities)
    return {0: (lhs, (lhs + 1) % entities), 1: (lhs, (lhs + entities // 2) % entities)}


if __name__ == "__main__":
    torch.manual_seed(178)
    model = MultiRelationEmbedder(CONFIG["dimension"], CONFIG["relations"], CONFIG["regularization_coef"])
    trainer = GPUTrainer(model, CONFIG, gpu_idx=1)
    stats = [trainer.train_epoch(edges(CONFIG["entities"])) for _ in range(CONFIG["num_epochs"])]
    print("loss", [f"{loss:.4f}" for loss, _ in stats], "reg", [f"{reg:.4f}" for _, reg in stats])
# --- torchbiggraph/operators.py
import torch
import torch.nn as nn


class ComplexDiagonalOperator(nn.Module):
    """Multiplies vectors by one of complex numbers: its first half are their real parts."""

    def __init__(self, dim: int):
        super().__init__()
        self.dim = dim
        self.real = nn.Parameter(torch.ones((self.dim // 2,)))
        self.imag = nn.Parameter(torch.zeros((self.dim // 2,)))

    def forward(self, embeddings):
        real_a = embeddings[..., : self.dim // 2]
        imag_a = embeddings[..., self.dim // 2 :]
        real_b = self.real.to(device=embeddings.device)
        imag_b = self.imag.to(device=embeddings.device)
        return torch.cat((real_a * real_b - imag_a * imag_b, real_a * imag_b + imag_a * real_b), dim=-1)

    def get_operator_params_for_reg(self):
        return torch.sqrt(self.real ** 2 + self.imag ** 2)

    def prepare_embs_for_reg(self, embs):
        real, imag = embs[..., : self.dim // 2], embs[..., self.dim // 2 :]
        return torch.sqrt(real ** 2 + imag ** 2)
# --- torchbiggraph/regularizers.py
import torch


class N3Regularizer:
    """The nuclear 3-norm of what takes part in a score."""

    def __init__(self, weight):
        self.weight = weight

    def forward(self, src_pos, dst_pos, operator):
        total = 0
        operator_params = operator.get_operator_params_for_reg()
        if operator_params is not None:
            batch_size = len(src_pos)
            total += torch.sum(operator_params ** 3) * batch_size
        for x in (src_pos, dst_pos):
            total += torch.sum(operator.prepare_embs_for_reg(x) ** 3)
        total *= self.weight
        return total
# --- torchbiggraph/model.py
import torch.nn as nn

from torchbiggraph.operators import ComplexDiagonalOperator
from torchbiggraph.regularizers import N3Regularizer


class MultiRelationEmbedder(nn.Module):
    """Scores edges. Embeddings of a partition are lent to it, its operators are its own."""

    def __init__(self, dim, relations, regularization_coef):
        super().__init__()
        self.rhs_operators = nn.ModuleList(ComplexDiagonalOperator(dim) for _ in relations)
        self.regularizer = N3Regularizer(regularization_coef)
        self.lhs_embs = None

    def set_embeddings(self, weight):
        self.lhs_embs = weight

    def forward(self, lhs, rhs, rel):
        operator = self.rhs_operators[rel]
        src_pos, dst_pos = self.lhs_embs[lhs], self.lhs_embs[rhs]
        scores = src_pos @ operator(dst_pos).T
        reg = self.regularizer.forward(src_pos, dst_pos, operator)
        return scores, reg
# --- torchbiggraph/train_gpu.py
import torch
import torch.nn.functional as F


class GPUTrainer:
    """One of several, each with a GPU: it takes the embeddings there, and what all train stays where all can reach it."""

    def __init__(self, model, config, gpu_idx):
        self.device = torch.device("cuda", gpu_idx)
        self.model = model
        embs = 0.3 * torch.randn(config["entities"], config["dimension"])
        self.embs = torch.nn.Parameter(embs.to(self.device))
        model.set_embeddings(self.embs)
        self.embs_optimizer = torch.optim.Adagrad([self.embs], lr=config["lr"])
        self.global_optimizer = torch.optim.Adagrad(model.parameters(), lr=config["lr"])

    def train_epoch(self, buckets):
        total, total_reg = 0.0, 0.0
        for rel, (lhs, rhs) in buckets.items():
            lhs, rhs = lhs.to(self.device), rhs.to(self.device)
            scores, reg = self.model(lhs, rhs, rel)
            loss = F.cross_entropy(scores, torch.arange(len(lhs), device=self.device))
            (loss + reg / len(lhs)).backward()
            for optimizer in (self.embs_optimizer, self.global_optimizer):
                optimizer.step()
                optimizer.zero_grad()
            total, total_reg = total + loss.item(), total_reg + reg.item()
        return total, total_reg
