# === nets_drawn_by_evolved_patterns
# thread: https://github.com/uber-research/PyTorch-NEAT/issues/15
# about: evolved little programs draw the weights of a net. After some generations one of them has a node whose last input was switched off
# operation: add on cuda:1, cpu
# operands: self|other|inputs|pre_activs|.*xs.*
# category: created-without-device
# line: pytorch_neat/cppn.py: return torch.full(shape, self.bias)
# repair: pytorch_neat/cppn.py: return torch.full(shape, self.bias) -> return torch.full(shape, self.bias, device=next(iter(self.leaves.values())).activs.device)
import argparse
import random

from evolution import Genome
from pytorch_neat.adaptive_linear_net import AdaptiveLinearNet

# a net should turn what it sees first into what stands there second
LESSONS = [([1.0, 0.0, 0.5], [0.4, -0.3]), ([0.0, 1.0, -0.5], [-0.2, 0.5]), ([-1.0, 0.5, 0.0], [-0.5, 0.1])]
INPUT_COORDS = [[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
OUTPUT_COORDS = [[-1.0, 1.0], [1.0, 1.0]]


def eval_genome(genome, device):
    net = AdaptiveLinearNet.create(genome, INPUT_COORDS, OUTPUT_COORDS, weight_max=3.0, device=device)
    error = 0.0
    for _ in range(2):
        for seen, wanted in LESSONS:
            outputs = net.activate([seen])[0].tolist()
            error += sum((a - b) ** 2 for a, b in zip(outputs, wanted))
    return -error


def run(n_generations, device, rng):
    population = [Genome.minimal(rng) for _ in range(6)]
    for generation in range(n_generations):
        for genome in population:
            genome.fitness = eval_genome(genome, device)
        population.sort(key=lambda genome: -genome.fitness)
        print(f"generation {generation}: best {population[0].fitness:.4f}")
        elite = population[:2]
        population = elite + [rng.choice(elite).mutated(rng) for _ in range(4)]
    return population[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--n-generations", type=int, default=10)
    parser.add_argument("--device", default="cuda:1")
    args = parser.parse_args()
    winner = run(args.n_generations, args.device, random.Random(15))
    print(f"winner {winner.fitness:.5f} with {len(winner.nodes)} nodes")
# --- evolution.py
import copy

LEAVES = ["x_in", "y_in", "x_out", "y_out", "pre", "post", "w"]
OUTPUT = "delta_w"


class Genome:
    """Nodes have a bias, connections a weight, and both may change by chance."""

    def __init__(self, connections):
        self.nodes = {OUTPUT: 0.0}
        self.connections = connections

    @classmethod
    def minimal(cls, rng):
        return cls({(leaf, OUTPUT): {"weight": rng.gauss(0, 1), "enabled": True} for leaf in LEAVES})

    def mutated(self, rng):
        child = copy.deepcopy(self)
        for connection in child.connections.values():
            connection["weight"] += rng.gauss(0, 0.3)
        chance = rng.random()
        if chance < 0.5:
            child.add_node(rng)
        elif chance < 0.8:
            rng.choice(list(child.connections.values()))["enabled"] = False
        return child

    def add_node(self, rng):
        """A new node comes into the middle of a connection."""
        source, target = rng.choice([key for key, connection in self.connections.items() if connection["enabled"]])
        old = self.connections[source, target]
        old["enabled"] = False
        name = f"hidden{len(self.nodes)}"
        self.nodes[name] = rng.gauss(0, 0.5)
        self.connections[source, name] = {"weight": 1.0, "enabled": True}
        self.connections[name, target] = {"weight": old["weight"], "enabled": True}
# --- pytorch_neat/cppn.py
import torch

from evolution import LEAVES


class Node:
    def __init__(self, children, weights, bias, activation, aggregation, name, leaves):
        self.children, self.weights, self.bias = children, weights, bias
        self.activation, self.aggregation = activation, aggregation
        self.name, self.leaves = name, leaves
        self.activs = None

    def activate(self, xs, shape):
        if not xs:
            return torch.full(shape, self.bias)
        inputs = [w * x for w, x in zip(self.weights, xs)]
        pre_activs = self.aggregation(inputs)
        return self.activation(pre_activs + self.bias)

    def get_activs(self, shape):
        if self.activs is None:
            xs = [child.get_activs(shape) for child in self.children]
            self.activs = self.activate(xs, shape)
        return self.activs

    def __call__(self, **inputs):
        shape = next(iter(inputs.values())).shape
        self.reset()
        for name, leaf in self.leaves.items():
            leaf.activs = inputs[name]
        return self.get_activs(shape)

    def reset(self):
        self.activs = None
        for child in self.children:
            child.reset()


class Leaf:
    activs = None

    def get_activs(self, shape):
        return self.activs

    def reset(self):
        self.activs = None


def create_cppn(genome, node_name, output_activation):
    leaves = {name: Leaf() for name in LEAVES}
    nodes = dict(leaves)

    def build_node(name):
        if name not in nodes:
            incoming = [(key[0], each["weight"]) for key, each in genome.connections.items() if key[1] == name and each["enabled"]]
            children = [build_node(source) for source, _ in incoming]
            activation = output_activation if name == node_name else torch.tanh
            nodes[name] = Node(children, [w for _, w in incoming], genome.nodes[name], activation, sum, name, leaves)
        return nodes[name]

    return build_node(node_name)


def get_coord_inputs(in_coords, out_coords, batch_size):
    n_in, n_out = len(in_coords), len(out_coords)
    shape = (batch_size, n_out, n_in)
    x_out, y_out = (out_coords[None, :, None, i].expand(shape) for i in range(2))
    x_in, y_in = (in_coords[None, None, :, i].expand(shape) for i in range(2))
    return (x_out, y_out), (x_in, y_in)
# --- pytorch_neat/adaptive_linear_net.py
import torch

from pytorch_neat.cppn import create_cppn, get_coord_inputs


class AdaptiveLinearNet:
    """Its weights go on changing while it works, as the pattern wants it."""

    def __init__(self, delta_w_node, input_coords, output_coords, weight_max, batch_size, device):
        self.delta_w_node = delta_w_node
        self.input_coords = torch.tensor(input_coords, dtype=torch.float32, device=device)
        self.output_coords = torch.tensor(output_coords, dtype=torch.float32, device=device)
        self.weight_max, self.batch_size, self.device = weight_max, batch_size, device
        self.reset()

    def reset(self):
        self.batched_coords = get_coord_inputs(self.input_coords, self.output_coords, self.batch_size)
        (x_out, y_out), (x_in, y_in) = self.batched_coords
        zeros = torch.zeros(x_out.shape, dtype=torch.float32, device=self.device)
        weights = self.delta_w_node(x_out=x_out, y_out=y_out, x_in=x_in, y_in=y_in, pre=zeros, post=zeros, w=zeros)
        self.input_to_output = weights.clamp(-self.weight_max, self.weight_max)

    def activate(self, inputs):
        inputs = torch.tensor(inputs, dtype=torch.float32, device=self.device).unsqueeze(2)
        outputs = torch.tanh(self.input_to_output.matmul(inputs))
        shape = self.input_to_output.shape
        (x_out, y_out), (x_in, y_in) = self.batched_coords
        delta_w = self.delta_w_node(
            x_out=x_out, y_out=y_out, x_in=x_in, y_in=y_in,
            pre=inputs.transpose(1, 2).expand(shape), post=outputs.expand(shape), w=self.input_to_output,
        )  # fmt: skip
        self.input_to_output = (self.input_to_output + 0.1 * delta_w).clamp(-self.weight_max, self.weight_max)
        return outputs.squeeze(2)

    @staticmethod
    def create(genome, input_coords, output_coords, weight_max, batch_size=1, device="cuda:0"):
        delta_w_node = create_cppn(genome, "delta_w", output_activation=lambda x: x)
        return AdaptiveLinearNet(delta_w_node, input_coords, output_coords, weight_max, batch_size, device)

# === a_segmenter_of_another_loader_asked_with_boxes
# thread: https://github.com/storyicon/comfyui_segment_anything/issues/64
# about: boxes are found in a picture, and a segmenter cuts out what is in them. The segmenter comes from another node, which leaves it in memory
# operation: (mm|matmul|bmm) on cuda:0, cpu
# operands: mat2|other|.*positional_encoding_gaussian_matrix
# category: default-or-current-device|module-split
# line: node.py: sam_device = model_management.get_torch_device()
# line: node.py: masks = predictor.predict_torch(boxes=transformed_boxes.to(sam_device))
# line: node.py: predictor = SamPredictorHQ(sam_model)
# line: sam_model = SAMLoader().load_model(device_mode=
# repair: node.py: sam_device = model_management.get_torch_device() -> sam_device = sam_model.device
import torch

import model_management
from node import GroundingDinoModelLoader, GroundingDinoSAMSegment
from sam_hq import sam_model_registry


class SAMLoader:
    """Of another pack. AUTO: the model is in memory until nodes of that pack work with it, and goes back then."""

    def load_model(self, device_mode="AUTO"):
        sam = sam_model_registry(seed=36)
        if device_mode == "Prefer GPU":
            sam.to(device=model_management.get_torch_device())
        sam.is_auto_mode = device_mode == "AUTO"
        sam.eval()
        print(f"Loads SAM model (device:{device_mode})")
        return (sam,)


def picture():
    image = torch.zeros(1, 16, 16, 3)
    image[0, 2:7, 3:9] = torch.tensor([0.9, 0.2, 0.2])
    image[0, 9:14, 8:14] = torch.tensor([0.2, 0.8, 0.3])
    return image


def main():
    sam_model = SAMLoader().load_model(device_mode="AUTO")[0]
    dino_model = GroundingDinoModelLoader().main(seed=64)[0]
    images, masks = GroundingDinoSAMSegment().main(dino_model, sam_model, picture(), prompt="blocks", threshold=0.5)
    print(f"found {len(masks)}, covered {masks.float().mean().item():.4f}, cut out {images.double().sum().item():.3f}")


if __name__ == "__main__":
    main()
# --- model_management.py
import torch


def get_torch_device():
    return torch.device(torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
# --- node.py
import torch
from torch import nn

import model_management
from sam_hq import SamPredictorHQ


class GroundingDino(nn.Module):
    """Says for each cell of a picture whether something is there, and how far it reaches."""

    def __init__(self, cell=8):
        super().__init__()
        self.cell = cell
        self.reach = nn.Linear(3, 2)

    def forward(self, image, caption):
        there = nn.functional.avg_pool2d(image, self.cell)
        n = there.shape[-1]
        colors = there.flatten(2).transpose(1, 2)
        centers = torch.cartesian_prod(torch.arange(n), torch.arange(n)).flip(1).to(image.device)
        centers = (centers + 0.5) / n
        logits = 40 * colors.amax(dim=2) - 8.0
        sizes = torch.sigmoid(self.reach(colors)) * 0.2 + 0.3
        return logits, torch.cat([centers.expand_as(sizes), sizes], dim=2)


class GroundingDinoModelLoader:
    def main(self, seed):
        torch.manual_seed(seed)
        dino = GroundingDino()
        dino.to(device=model_management.get_torch_device())
        dino.eval()
        return (dino,)


def groundingdino_predict(dino_model, image, prompt, threshold):
    device = model_management.get_torch_device()
    with torch.no_grad():
        logits, boxes = dino_model(image.permute(2, 0, 1)[None].to(device), caption=prompt)
    boxes_filt = boxes[0][logits[0].sigmoid() > threshold].cpu()
    H, W = image.shape[:2]
    boxes_filt = boxes_filt * torch.tensor([W, H, W, H])
    boxes_filt[:, :2] -= boxes_filt[:, 2:] / 2
    boxes_filt[:, 2:] += boxes_filt[:, :2]
    return boxes_filt


def sam_segment(sam_model, image, boxes):
    predictor = SamPredictorHQ(sam_model)
    predictor.set_image(image.numpy())
    transformed_boxes = predictor.apply_boxes_torch(boxes, image.shape[:2])
    sam_device = model_management.get_torch_device()
    masks = predictor.predict_torch(boxes=transformed_boxes.to(sam_device))
    masks = masks.cpu()
    return [image * mask[..., None] for mask in masks], list(masks)


class GroundingDinoSAMSegment:
    def main(self, grounding_dino_model, sam_model, image, prompt, threshold):
        res_images, res_masks = [], []
        for item in image:
            boxes = groundingdino_predict(grounding_dino_model, item, prompt, threshold)
            if boxes.shape[0] == 0:
                continue
            images, masks = sam_segment(sam_model, item, boxes)
            res_images.extend(images)
            res_masks.extend(masks)
        return torch.stack(res_images), torch.stack(res_masks)
# --- sam_hq.py
import math

import torch
from torch import nn


class PromptEncoder(nn.Module):
    def __init__(self, embed_dim, img_size):
        super().__init__()
        self.img_size = img_size
        self.register_buffer("positional_encoding_gaussian_matrix", torch.randn(2, embed_dim // 2))
        self.corner_embeddings = nn.Embedding(2, embed_dim)

    def forward(self, boxes):
        coords = 2 * boxes.reshape(-1, 2, 2) / self.img_size - 1
        coords = 2 * math.pi * (coords.flatten(0, 1) @ self.positional_encoding_gaussian_matrix)
        embedded = torch.cat([torch.sin(coords), torch.cos(coords)], dim=-1)
        return embedded.view(len(boxes), 2, -1) + self.corner_embeddings.weight


class MaskDecoder(nn.Module):
    def __init__(self, embed_dim):
        super().__init__()
        self.hypernetwork = nn.Sequential(nn.Linear(2 * embed_dim, embed_dim), nn.ReLU(), nn.Linear(embed_dim, embed_dim))

    def forward(self, features, sparse_embeddings):
        weights = self.hypernetwork(sparse_embeddings.flatten(1))
        return torch.einsum("nc,bchw->nhw", weights, features)[:, None]


class Sam(nn.Module):
    def __init__(self, embed_dim=16, img_size=32):
        super().__init__()
        self.img_size = img_size
        self.image_encoder = nn.Sequential(nn.Conv2d(3, embed_dim, 4, stride=2, padding=1), nn.Tanh())
        self.prompt_encoder = PromptEncoder(embed_dim, img_size)
        self.mask_decoder = MaskDecoder(embed_dim)

    @property
    def device(self):
        return next(self.parameters()).device


def sam_model_registry(seed):
    torch.manual_seed(seed)
    return Sam()


class SamPredictorHQ:
    def __init__(self, sam_model):
        self.model = sam_model
        self.features = None

    @property
    def device(self):
        return self.model.device

    def set_image(self, image):
        input_image = torch.as_tensor(image, device=self.device).permute(2, 0, 1)[None]
        self.original_size = image.shape[:2]
        with torch.no_grad():
            self.features = self.model.image_encoder(input_image)

    def apply_boxes_torch(self, boxes, original_size):
        h, w = original_size
        scale = self.model.img_size / max(h, w)
        return boxes * scale

    @torch.no_grad()
    def predict_torch(self, boxes):
        sparse_embeddings = self.model.prompt_encoder(boxes)
        low_res_masks = self.model.mask_decoder(self.features, sparse_embeddings)
        masks = nn.functional.interpolate(low_res_masks, self.original_size, mode="bilinear", align_corners=False)
        return masks[:, 0] > 0

# === names_and_numbers_tagged_by_a_saved_reader
# thread: https://github.com/seanzhang-zhichen/PytorchBilstmCRF-Information-Extraction/issues/2
# about: names are found in a text by a saved model, which reads on the processor. The search for the best row of tags looks for a card itself
# operation: add on cuda:0, cpu
# operands: other|crf_scores
# category: default-or-current-device|module-split
# line: modelgraph/BILSTM_CRF.py: crf_scores = self.forward(test_sents_tensor, lengths)
# line: modelgraph/BILSTM_CRF.py: device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# line: operator = BiLSTM_operator(len(word2id), len(tag2id), device=torch.device("cpu"))
# repair: modelgraph/BILSTM_CRF.py: crf_scores = self.forward(test_sents_tensor, lengths) -> crf_scores = self.forward(test_sents_tensor, lengths).to(device)
import tempfile
from pathlib import Path

import torch

from operate_bilstm import BiLSTM_operator
from utils import extend_maps

TRAIN = [
    ("Anna Berg has 4711", "B-NAME I-NAME X B-ID"),
    ("the number 815 is from Otto", "X X B-ID X X B-NAME"),
    ("Otto Berg left", "B-NAME I-NAME X"),
    ("who has 1234", "X X B-ID"),
    ("Anna left", "B-NAME X"),
]


def build_corpus():
    words = [list(text.replace(" ", "_")) for text, _ in TRAIN]
    tags = []
    for text, line in TRAIN:
        row = []
        for word, tag in zip(text.split(), line.split()):
            inner = tag.replace("B-", "I-")
            row += ["X"] * bool(row) + [tag] + [inner] * (len(word) - 1)
        tags.append(row)
    word2id = {char: i for i, char in enumerate(sorted(set("".join(map("".join, words)))))}
    tag2id = {tag: i for i, tag in enumerate(["X", "B-NAME", "I-NAME", "B-ID", "I-ID"])}
    return words, tags, *extend_maps(word2id, tag2id)


def train(path):
    words, tags, word2id, tag2id = build_corpus()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    operator = BiLSTM_operator(len(word2id), len(tag2id), device=device)
    losses = operator.train(words, tags, word2id, tag2id)
    print("losses", [round(loss, 3) for loss in losses])
    operator.save(path)


def predict(path, text):
    _, _, word2id, tag2id = build_corpus()
    operator = BiLSTM_operator(len(word2id), len(tag2id), device=torch.device("cpu"))
    operator.load(path)
    text_list = [list(text.replace(" ", "_")) + ["<end>"]]
    return operator.predict(text_list, word2id, tag2id)[0]


if __name__ == "__main__":
    torch.manual_seed(2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bilstm_crf.pth"
        train(path)
        for text in ("Otto has 815", "Anna Berg is left"):
            print(text, *predict(path, text))
# --- utils.py
import torch


def extend_maps(word2id, tag2id):
    for maps in (word2id, tag2id):
        for extra in ("<unk>", "<pad>", "<start>", "<end>"):
            maps[extra] = len(maps)
    return word2id, tag2id


def sort_by_lengths(word_lists, tag_lists):
    pairs = sorted(zip(word_lists, tag_lists), key=lambda pair: -len(pair[0]))
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def tensorized(batch, maps):
    pad, unk = maps["<pad>"], maps["<unk>"]
    batch_tensor = torch.full((len(batch), len(batch[0])), pad)
    for i, row in enumerate(batch):
        for j, each in enumerate(row):
            batch_tensor[i, j] = maps.get(each, unk)
    return batch_tensor, [len(row) for row in batch]
# --- operate_bilstm.py
import torch

from modelgraph.BILSTM_CRF import BiLSTM_CRF, cal_lstm_crf_loss
from utils import sort_by_lengths, tensorized


class BiLSTM_operator:
    def __init__(self, vocab_size, out_size, device, lr=0.03, epoches=12):
        self.device = device
        self.model = BiLSTM_CRF(vocab_size, emb_size=8, hidden_size=10, out_size=out_size).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.epoches = epoches

    def train(self, word_lists, tag_lists, word2id, tag2id):
        word_lists, tag_lists = sort_by_lengths(word_lists, tag_lists)
        losses = []
        for _ in range(self.epoches):
            sents, lengths = tensorized([row + ["<end>"] for row in word_lists], word2id)
            targets, _ = tensorized([row + ["<end>"] for row in tag_lists], tag2id)
            scores = self.model(sents.to(self.device), lengths)
            self.optimizer.zero_grad()
            loss = cal_lstm_crf_loss(scores, targets.to(self.device), tag2id)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses[::4]

    def save(self, path):
        torch.save(self.model.state_dict(), path)

    def load(self, path):
        self.model.load_state_dict(torch.load(path, map_location=self.device))

    def predict(self, word_lists, word2id, tag2id):
        sents, lengths = tensorized(word_lists, word2id)
        self.model.eval()
        with torch.no_grad():
            tagids = self.model.test(sents.to(self.device), lengths, tag2id)
        id2tag = {index: tag for tag, index in tag2id.items()}
        return [[id2tag[index] for index in row[: length - 1]] for row, length in zip(tagids, lengths)]
# --- modelgraph/BILSTM_CRF.py
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class BiLSTM_CRF(nn.Module):
    def __init__(self, vocab_size, emb_size, hidden_size, out_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb_size)
        self.bilstm = nn.LSTM(emb_size, hidden_size, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden_size, out_size)
        self.transition = nn.Parameter(torch.ones(out_size, out_size) / out_size)

    def forward(self, sents_tensor, lengths):
        emb = pack_padded_sequence(self.embedding(sents_tensor), lengths, batch_first=True)
        hidden, _ = pad_packed_sequence(self.bilstm(emb)[0], batch_first=True)
        emission = self.fc(hidden)
        return emission.unsqueeze(2) + self.transition

    def test(self, test_sents_tensor, lengths, tag2id):
        """The best row of tags for each text, looked for from its begin to its end and told backwards."""
        start_id, end_id = tag2id["<start>"], tag2id["<end>"]
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        crf_scores = self.forward(test_sents_tensor, lengths)
        B, L, T, _ = crf_scores.size()
        viterbi = torch.zeros(B, L, T).to(device)
        backpointer = torch.zeros(B, L, T).long().to(device)
        for step in range(L):
            if step == 0:
                viterbi[:, step, :] = crf_scores[:, step, start_id, :]
            else:
                candidates = viterbi[:, step - 1, :].unsqueeze(2) + crf_scores[:, step, :, :]
                viterbi[:, step, :], backpointer[:, step, :] = candidates.max(dim=1)
        rows = []
        for b in range(B):
            row = [end_id]
            for step in range(L - 1, 0, -1):
                row.append(int(backpointer[b, step, row[-1]]))
            rows.append(row[::-1])
        return rows


def cal_lstm_crf_loss(crf_scores, targets, tag2id):
    pad_id, start_id, end_id = tag2id["<pad>"], tag2id["<start>"], tag2id["<end>"]
    batch_size, max_len = targets.size()
    previous = torch.cat([torch.full_like(targets[:, :1], start_id), targets[:, :-1]], dim=1)
    mask = targets != pad_id
    each = torch.arange(batch_size, device=targets.device)[:, None], torch.arange(max_len, device=targets.device)
    golden_scores = (crf_scores[(*each, previous, targets)] * mask).sum()
    scores_upto_t = crf_scores[:, 0, start_id, :]
    for t in range(1, max_len):
        following = torch.logsumexp(crf_scores[:, t] + scores_upto_t.unsqueeze(2), dim=1)
        scores_upto_t = torch.where(mask[:, t, None], following, scores_upto_t)
    return (scores_upto_t[:, end_id].sum() - golden_scores) / batch_size

# === steps_of_a_solver_measured_on_the_first_card
# thread: https://github.com/rtqichen/torchdiffeq/pull/16
# about: a net whose layer is a differential equation learns on the second card. Its solver makes a number of the type that its step has
# operation: (pow|pow_) on cuda:1, cuda:0
# operands: exponent|other|self
# category: created-without-device|default-or-current-device
# line: torchdiffeq/_impl/misc.py: exponent = torch.tensor(1 / order).type(last_step.type())
# line: torchdiffeq/_impl/misc.py: factor = torch.max(1 / ifactor, torch.min(error_ratio**exponent / safety, 1 / dfactor))
# repair: torchdiffeq/_impl/misc.py: exponent = torch.tensor(1 / order).type(last_step.type()) -> exponent = torch.tensor(1 / order).to(last_step)
import argparse

import torch
from torch import nn

from torchdiffeq import odeint

parser = argparse.ArgumentParser()
parser.add_argument("--network", choices=["resnet", "odenet"], default="odenet")
parser.add_argument("--tol", type=float, default=1e-2)
parser.add_argument("--nsteps", type=int, default=5)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--gpu", type=int, default=1)
args = parser.parse_args()


class ODEfunc(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm1 = nn.GroupNorm(2, dim)
        self.conv1 = nn.Conv2d(dim + 1, dim, 3, padding=1)
        self.norm2 = nn.GroupNorm(2, dim)
        self.nfe = 0

    def forward(self, t, x):
        self.nfe += 1
        tt = torch.ones_like(x[:, :1]) * t
        out = torch.cat([tt, torch.relu(self.norm1(x))], dim=1)
        return self.norm2(self.conv1(out))


class ODEBlock(nn.Module):
    def __init__(self, odefunc):
        super().__init__()
        self.odefunc = odefunc
        self.integration_time = torch.tensor([0, 1]).float()

    def forward(self, x):
        self.integration_time = self.integration_time.to(x)
        out = odeint(self.odefunc, x, self.integration_time, rtol=args.tol, atol=args.tol)
        return out[1]


class ResBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(2, dim), nn.Conv2d(dim, dim, 3, padding=1)

    def forward(self, x):
        return x + self.conv(torch.relu(self.norm(x)))


def digits(n, generator):
    """Upright and lying strokes."""
    x, y = 0.1 * torch.randn((n, 1, 8, 8), generator=generator), torch.arange(n) % 2
    for i in range(n):
        place = int(torch.randint(2, 6, (1,), generator=generator))
        (x[i, 0] if y[i] else x[i, 0].t())[place] += 1.0
    return x, y


if __name__ == "__main__":
    torch.manual_seed(16)
    device = torch.device(f"cuda:{args.gpu}" if torch.cuda.is_available() else "cpu")
    dim = 4
    downsampling = [nn.Conv2d(1, dim, 4, stride=2, padding=1)]
    feature = [ODEBlock(ODEfunc(dim))] if args.network == "odenet" else [ResBlock(dim) for _ in range(2)]
    fc = [nn.GroupNorm(2, dim), nn.ReLU(), nn.Flatten(), nn.Linear(dim * 16, 2)]
    model = nn.Sequential(*downsampling, *feature, *fc).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    generator = torch.Generator().manual_seed(13)
    for itr in range(args.nsteps):
        x, y = digits(16, generator)
        logits = model(x.to(device))
        loss = nn.functional.cross_entropy(logits, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {itr}: loss {loss.item():.4f}")
    x, y = digits(32, generator)
    with torch.no_grad():
        logits = model(x.to(device)).cpu()
    calls = feature[0].odefunc.nfe if args.network == "odenet" else 0
    print(f"right {(logits.argmax(dim=1) == y).float().mean().item():.3f}, calls {calls}, sum {logits.double().sum().item():.3f}")
# --- torchdiffeq/__init__.py
from torchdiffeq._impl.dopri5 import Dopri5Solver


def odeint(func, y0, t, rtol=1e-7, atol=1e-9):
    solver = Dopri5Solver(func, y0, rtol=rtol, atol=atol)
    return solver.integrate(t)
# --- torchdiffeq/_impl/misc.py
import torch


def _convert_to_tensor(a, dtype=None, device=None):
    a = a if torch.is_tensor(a) else torch.tensor(a)
    return a.to(dtype=dtype or a.dtype, device=device or a.device)


def _compute_error_ratio(error_estimate, rtol, atol, y0, y1):
    error_tol = atol + rtol * torch.max(y0.abs(), y1.abs())
    return (error_estimate / error_tol).square().mean()


def _optimal_step_size(last_step, mean_error_ratio, safety, ifactor, dfactor, order=5):
    """How far the next step may go if the last one had this error."""
    if mean_error_ratio == 0:
        return last_step * ifactor
    if mean_error_ratio < 1:
        dfactor = _convert_to_tensor(1.0, dtype=last_step.dtype, device=last_step.device)
    error_ratio = torch.sqrt(mean_error_ratio).to(last_step)
    exponent = torch.tensor(1 / order).type(last_step.type())
    factor = torch.max(1 / ifactor, torch.min(error_ratio**exponent / safety, 1 / dfactor))
    return last_step / factor
# --- torchdiffeq/_impl/dopri5.py
import torch

from torchdiffeq._impl.misc import _compute_error_ratio, _convert_to_tensor, _optimal_step_size

ALPHA = [1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0]
BETA = [
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
C_ERROR = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]


class Dopri5Solver:
    def __init__(self, func, y0, rtol, atol, safety=0.9, ifactor=10.0, dfactor=0.2):
        self.func, self.y0, self.rtol, self.atol = func, y0, rtol, atol
        self.safety = _convert_to_tensor(safety, dtype=y0.dtype, device=y0.device)
        self.ifactor = _convert_to_tensor(ifactor, dtype=y0.dtype, device=y0.device)
        self.dfactor = _convert_to_tensor(dfactor, dtype=y0.dtype, device=y0.device)

    def integrate(self, t):
        solution, y, now = [self.y0], self.y0, t[0]
        dt = (t[1] - t[0]) / 4
        for end in t[1:]:
            while now < end:
                dt = torch.min(dt, end - now)
                y, now, dt = self._adaptive_dopri5_step(y, now, dt)
            solution.append(y)
        return torch.stack(solution)

    def _adaptive_dopri5_step(self, y0, t0, dt):
        k = [self.func(t0, y0)]
        for alpha, beta in zip(ALPHA, BETA):
            y1 = y0 + dt * sum(b * each for b, each in zip(beta, k))
            k.append(self.func(t0 + alpha * dt, y1))
        error = dt * sum(c * each for c, each in zip(C_ERROR, k))
        mean_error_ratio = _compute_error_ratio(error.detach(), self.rtol, self.atol, y0.detach(), y1.detach())
        dt_next = _optimal_step_size(dt, mean_error_ratio, self.safety, self.ifactor, self.dfactor)
        return (y1, t0 + dt, dt_next) if mean_error_ratio <= 1 else (y0, t0, dt_next)

# === a_reader_of_prompts_that_came_in_part
# thread: https://github.com/TencentQQGYLab/ComfyUI-ELLA/pull/68
# about: prompts are read by a large text model that is put on the card before it is used. If room is short, only a part of it is put there
# operation: mul on cpu, cuda:0
# operands: self|weight|.*weight
# category: module-split
# line: model.py: self.load_model()
# line: model.py: model_management.load_model_gpu(self.patcher)
# repair: model.py: self.load_model() -> self.load_model(); self.model.to(self.load_device)
import torch

from ella import ELLA, encode_timesteps
from model import T5TextEmbedder

PROMPTS = ["a small boat under a red bridge", "two cats sleeping"]


def main():
    torch.manual_seed(68)
    t5 = T5TextEmbedder(max_length=12)
    ella = ELLA(width=16, queries=4)
    for prompt in PROMPTS:
        embeds = t5(prompt)
        conditions = encode_timesteps(ella, embeds, timesteps=[999, 500, 1])
        print(prompt, tuple(conditions.shape), f"sum {conditions.double().sum().item():.3f}")


if __name__ == "__main__":
    main()
# --- model_management.py
import torch

FREE_MEMORY = 24_000  # bytes that are left on the card


class ModelPatcher:
    def __init__(self, model, load_device, offload_device):
        self.model, self.load_device, self.offload_device = model, load_device, offload_device


def text_encoder_device():
    return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def text_encoder_offload_device():
    return torch.device("cpu")


def intermediate_device():
    return torch.device("cpu")


def leaves(model):
    return [module for module in model.modules() if not list(module.children())]


def size_of(module):
    return sum(each.numel() * each.element_size() for each in [*module.parameters(), *module.buffers()])


def load_model_gpu(model_patcher):
    """Layers of our own bring their weights along if these have no room: such a model is loaded in part."""
    used, left_out = 0, 0
    for module in leaves(model_patcher.model):
        used += size_of(module)
        if used <= FREE_MEMORY:
            module.to(model_patcher.load_device)
        else:
            left_out += 1
    print("loaded partially" if left_out else "loaded completely", used - FREE_MEMORY if left_out else "")
# --- model.py
import re

import torch

import model_management
from model_management import ModelPatcher


def remove_weights(caption):
    return re.sub(r"\(([^()]+?):[0-9.]+\)", r"\1", caption)


class WordTokenizer:
    """A word has the number that its letters add up to."""

    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    def __call__(self, caption, max_length=None):
        ids = [2 + sum(map(ord, word)) % (self.vocab_size - 2) for word in caption.split()] + [1]
        ids = ids[:max_length]
        padding = (max_length or len(ids)) - len(ids)
        return torch.tensor([ids + [0] * padding]), torch.tensor([[1] * len(ids) + [0] * padding])


class T5TextEmbedder:
    def __init__(self, max_length=None, dtype=None):
        self.load_device = model_management.text_encoder_device()
        self.offload_device = model_management.text_encoder_offload_device()
        self.output_device = model_management.intermediate_device()
        self.dtype = dtype if dtype is not None else torch.float32
        self.max_length = max_length
        from transformers import T5Config, T5EncoderModel

        config = T5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=3, num_heads=2, dropout_rate=0.0)
        self.model = T5EncoderModel(config).to(self.dtype).eval()
        self.tokenizer = WordTokenizer(config.vocab_size)
        self.patcher = ModelPatcher(self.model, load_device=self.load_device, offload_device=self.offload_device)

    def load_model(self):
        model_management.load_model_gpu(self.patcher)
        return self.patcher

    @torch.no_grad()
    def __call__(self, caption, max_length=None):
        self.load_model()
        caption = remove_weights(caption)
        text_input_ids, attention_mask = self.tokenizer(caption, max_length or self.max_length)
        text_input_ids = text_input_ids.to(self.model.device)
        attention_mask = attention_mask.to(self.model.device)
        outputs = self.model(text_input_ids, attention_mask=attention_mask)
        return outputs.last_hidden_state.to(self.output_device)
# --- ella.py
import torch
from torch import nn

import model_management


class ELLA(nn.Module):
    """What a picture should show is asked for anew at each step."""

    def __init__(self, width, queries):
        super().__init__()
        self.load_device = model_management.text_encoder_device()
        self.latents = nn.Parameter(torch.randn(1, queries, width) * width**-0.5)
        self.time_embedding = nn.Sequential(nn.Linear(2, width), nn.SiLU(), nn.Linear(width, width))
        self.cross_attn = nn.MultiheadAttention(width, 2, batch_first=True)
        self.to(self.load_device)

    def forward(self, t5_embeds, timesteps):
        t5_embeds = t5_embeds.to(self.load_device)
        angle = timesteps.to(self.load_device)[:, None].float() / 1000
        time = self.time_embedding(torch.cat([angle.cos(), angle.sin()], dim=1))
        latents = self.latents + time[:, None]
        return latents + self.cross_attn(latents, t5_embeds, t5_embeds, need_weights=False)[0]


@torch.no_grad()
def encode_timesteps(ella, t5_embeds, timesteps):
    return torch.cat([ella(t5_embeds, torch.tensor([each])).cpu() for each in timesteps])

# === hair_put_on_a_head_by_a_texture
# thread: https://github.com/SamsungLabs/rome/issues/27
# about: a head is made of one picture, and its hair is a texture that is looked up at every corner. The head is built where an option says
# operation: grid_sampler(_2d)? on cuda:0, cpu
# operands: grid|verts_uvs|.*true_uvcoords
# category: default-or-current-device|state-not-registered|cached-state
# line: parser.add_argument("--device", default="cpu")
# line: src/rome.py: self.parametric_avatar = ParametricAvatar(
# line: src/parametric_avatar.py: self.true_uvcoords = true_uvcoords.to(device)
# line: self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# repair: parser.add_argument("--device", default="cpu") -> parser.add_argument("--device", default="cuda")
import argparse

import torch

from src.rome import ROME


class Infer:
    def __init__(self, args):
        torch.manual_seed(args.random_seed)
        self.args = args
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = ROME(args).eval().to(self.device)
        self.image_size = args.model_image_size

    def process_img(self, image):
        """A picture's bright part is the head."""
        mask = (image.mean(dim=0, keepdim=True) > 0.3).float()
        return image[None], mask[None]

    @torch.no_grad()
    def evaluate(self, source_image, driver_image):
        data_dict = {}
        data_dict["source_img"], data_dict["source_mask"] = self.process_img(source_image)
        data_dict["target_img"], data_dict["target_mask"] = self.process_img(driver_image)
        for k, v in data_dict.items():
            data_dict[k] = v.to(self.device)
        return self.model(data_dict)

    def run_example(self):
        generator = torch.Generator().manual_seed(27)
        size = self.image_size
        images = []
        for shift in (0, 2):
            image = 0.2 * torch.rand((3, size, size), generator=generator)
            image[:, 4 + shift : 12 + shift, 4:12] += 0.6
            images.append(image)
        out = self.evaluate(*images)
        print("Successfully rendered")
        print(f"hair {out['verts_deforms'].double().abs().sum().item():.4f}, head {out['pred_verts'].double().sum().item():.3f}")


def main(args):
    infer = Infer(args)
    infer.run_example()


if __name__ == "__main__":
    print("Start infer!")
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    parser.add_argument("--random_seed", default=0, type=int)
    parser.add_argument("--device", default="cpu")
    parser = ROME.add_argparse_args(parser)
    main(parser.parse_args())
# --- src/rome.py
import torch
from torch import nn

from src.networks import Autoencoder, MLPDeformer, UNetDeformer
from src.parametric_avatar import ParametricAvatar


class ROME(nn.Module):
    @staticmethod
    def add_argparse_args(parser):
        parser.add_argument("--model_image_size", default=16, type=int)
        parser.add_argument("--neural_texture_channels", default=4, type=int)
        parser.add_argument("--num_verts", default=30, type=int)
        return parser

    def __init__(self, args):
        super().__init__()
        channels = args.neural_texture_channels
        self.autoencoder = Autoencoder(channels)
        self.mesh_deformer = UNetDeformer(channels, num_coords=3)
        self.vertex_deformer = MLPDeformer(channels)
        self.parametric_avatar = ParametricAvatar(args.model_image_size, args.num_verts, device=args.device)

    def forward(self, data_dict):
        neural_texture = self.autoencoder(data_dict["source_img"] * data_dict["source_mask"])
        target = data_dict["target_img"] * data_dict["target_mask"]
        verts = self.parametric_avatar.estimate_verts(target)
        verts_deforms = self.parametric_avatar.deform_source_mesh(verts, neural_texture, self.mesh_deformer, self.vertex_deformer)
        return {"verts_deforms": verts_deforms, "pred_verts": verts + verts_deforms}
# --- src/networks.py
import torch
from torch import nn


class Autoencoder(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, channels, 3, padding=1))

    def forward(self, image):
        return self.net(image)


class UNetDeformer(nn.Module):
    def __init__(self, channels, num_coords):
        super().__init__()
        self.down = nn.Conv2d(channels + num_coords, 8, 4, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(8, channels, 4, stride=2, padding=1)

    def forward(self, x):
        return self.up(torch.relu(self.down(x)))


class MLPDeformer(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(channels, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, codes):
        return self.net(codes)
# --- src/parametric_avatar.py
import math

import torch
import torch.nn.functional as F
from torch import nn


def head_template(num_verts):
    """Corners on a ball, and where they are in a texture."""
    index = torch.arange(num_verts) + 0.5
    height, turn = 1 - 2 * index / num_verts, index * math.pi * (3 - 5**0.5)
    radius = (1 - height.square()).sqrt()
    verts = torch.stack([radius * turn.cos(), height, radius * turn.sin()], dim=1)
    uvs = torch.stack([torch.remainder(turn / math.pi, 2) - 1, height], dim=1)
    return verts[None], uvs[None]


class ParametricAvatar(nn.Module):
    def __init__(self, image_size, num_verts, device=torch.device("cpu")):
        super().__init__()
        self.image_size, self.device = image_size, device
        template, true_uvcoords = head_template(num_verts)
        self.register_buffer("v_template", template)
        self.true_uvcoords = true_uvcoords.to(device)
        self.deforms_mask = torch.zeros(1, num_verts, 1, device=device)
        self.deforms_mask[:, : num_verts // 2] = 1.0
        self.E_flame = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 6))

    def estimate_verts(self, image):
        params = self.E_flame(image)
        scale, move = 1 + 0.1 * torch.tanh(params[:, None, :3]), 0.1 * params[:, None, 3:]
        return self.v_template * scale + move

    def world2uv(self, verts):
        coarse = F.adaptive_avg_pool1d(verts.transpose(1, 2), 16).unflatten(2, (4, 4))
        return F.interpolate(coarse, (self.image_size, self.image_size), mode="bilinear", align_corners=False)

    def deform_source_mesh(self, verts_parametric, neural_texture, unet_deformer, vertex_deformer):
        batch_size = verts_parametric.shape[0]
        verts_uvs = self.true_uvcoords[:, :, None, :2].repeat_interleave(batch_size, dim=0)
        verts_texture = self.world2uv(verts_parametric) * 5
        uv_deformations_codes = unet_deformer(torch.cat([neural_texture, verts_texture], dim=1))
        mlp_input_uv = F.grid_sample(uv_deformations_codes, verts_uvs, align_corners=False)[..., 0].permute(0, 2, 1)
        verts_deforms = torch.tanh(vertex_deformer(mlp_input_uv))
        return verts_deforms * self.deforms_mask
