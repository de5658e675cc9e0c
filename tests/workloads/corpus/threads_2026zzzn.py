# === a_citation_graph_said_before_the_question
# thread: https://github.com/franciscoliu/graphprompter/issues/6
# about: a graph's embedding is put in front of a question for a language model. Between stand the embeddings of special tokens
# operation: (index_select|embedding) on cuda:0, cpu
# operands: index|indices|input
# category: created-without-device|input-not-moved|input
# line: src/model/graph_llm.py: pad_embeds = self.word_embedding(
# line: src/model/graph_llm.py: bos_embeds = self.word_embedding(
# repair: src/model/graph_llm.py: pad_embeds = self.word_embedding(torch.tensor(self.tokenizer.pad_token_id)).unsqueeze(0) ->
#   pad_embeds = self.word_embedding(torch.tensor(self.tokenizer.pad_token_id).to(self.model.device)).unsqueeze(0)
# repair: src/model/graph_llm.py: bos_embeds = self.word_embedding(torch.tensor(self.tokenizer.bos_token_id)).unsqueeze(0) ->
#   bos_embeds = self.word_embedding(torch.tensor(self.tokenizer.bos_token_id).to(self.model.device)).unsqueeze(0)
import torch

from src.dataset.cora import CoraDataset, collate_fn
from src.model.graph_llm import GraphLLM


def main():
    torch.manual_seed(6)
    dataset = CoraDataset(papers=12)
    model = GraphLLM(dataset.words, in_channels=dataset[0]["x"].shape[-1], max_txt_len=6)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=0.02)
    train_loader = torch.utils.data.DataLoader(dataset, batch_size=4, collate_fn=collate_fn)
    losses = []
    for _ in range(3):
        for batch in train_loader:
            optimizer.zero_grad()
            loss = model(batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    print("trainable", sum(p.numel() for p in params), "loss", [f"{loss:.4f}" for loss in losses[::3]])


if __name__ == "__main__":
    main()
# --- src/dataset/cora.py
import torch

TOPICS = ["theory", "vision", "agents"]
TITLES = ["bounds for learners", "seeing with two eyes of glass", "who plans the day", "a proof by chance", "edges in noise"]
QUESTION = "which topic has the paper ?"


class CoraDataset(torch.utils.data.Dataset):
    """Papers, each with those around it, and the topic that most of them have."""

    def __init__(self, papers):
        self.words = sorted(set(" ".join([*TOPICS, *TITLES, QUESTION]).split()))
        generator = torch.Generator().manual_seed(1)
        self.samples = []
        for index in range(papers):
            label, nodes = index % 3, 4 + index % 2
            x = 0.3 * torch.randn(nodes, 5, generator=generator)
            x[:, label] += 1
            edge_index = torch.tensor([[node, 0] for node in range(1, nodes)]).T
            sample = {"id": index, "x": x, "edge_index": edge_index, "desc": TITLES[index % 5], "question": QUESTION, "label": TOPICS[label]}
            self.samples.append(sample)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


def collate_fn(original_batch):
    batch = {key: [sample[key] for sample in original_batch] for key in original_batch[0]}
    counts = torch.tensor([0] + [len(x) for x in batch["x"]]).cumsum(0)
    batch["mapping"] = counts[:-1]
    batch["edge_index"] = torch.cat([edges + begin for edges, begin in zip(batch["edge_index"], counts)], dim=1)
    batch["x"] = torch.cat(batch["x"])
    return batch
# --- src/model/gnn.py
import torch
from torch import nn


class GraphSAGE(nn.Module):
    def __init__(self, in_channels, hidden_channels):
        super().__init__()
        self.own = nn.Linear(in_channels, hidden_channels)
        self.around = nn.Linear(in_channels, hidden_channels)

    def forward(self, x, edge_index):
        source, target = edge_index
        total = torch.zeros_like(x).index_add(0, target, x[source])
        return torch.relu(self.own(x) + self.around(total))
# --- src/model/graph_llm.py
from types import SimpleNamespace

import torch
import torch.nn as nn
from transformers import LlamaConfig, LlamaForCausalLM

from src.model.gnn import GraphSAGE

ignore_index = -100


class Tokenizer:
    """A token for a word."""

    pad_token_id, bos_token_id, eos_token_id = 0, 1, 2

    def __init__(self, words):
        self.vocab = {word: index for index, word in enumerate(["<pad>", "<s>", "</s>", *words])}

    def __len__(self):
        return len(self.vocab)

    def __call__(self, texts):
        return SimpleNamespace(input_ids=[[self.vocab[word] for word in text.split()] for text in texts])


class GraphLLM(torch.nn.Module):
    def __init__(self, words, in_channels, max_txt_len):
        super().__init__()
        self.max_txt_len = max_txt_len
        self.tokenizer = Tokenizer(words)
        config = LlamaConfig(
            vocab_size=len(self.tokenizer), hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
            max_position_embeddings=48, initializer_range=0.3,
        )  # fmt: skip
        model = LlamaForCausalLM(config).to("cuda" if torch.cuda.is_available() else "cpu")

        print("Freezing LLAMA!")
        for name, param in model.named_parameters():
            param.requires_grad = False
        self.model = model

        self.graph_encoder = GraphSAGE(in_channels, 12).to(self.model.device)
        self.projector = nn.Sequential(nn.Linear(12, 20), nn.Sigmoid(), nn.Linear(20, 16)).to(self.model.device)
        self.word_embedding = self.model.model.get_input_embeddings()

    def encode_graphs(self, samples):
        x = samples['x'].to(self.model.device)
        edge_index = samples['edge_index'].to(self.model.device)
        mapping = samples['mapping'].to(self.model.device)
        n_embeds = self.graph_encoder(x, edge_index)
        return self.projector(n_embeds[mapping])

    def forward(self, samples):
        # encode description, questions and labels
        questions = self.tokenizer(samples["question"])
        descriptions = self.tokenizer(samples["desc"])
        labels = self.tokenizer(samples["label"])

        # encode special tokens
        pad_embeds = self.word_embedding(torch.tensor(self.tokenizer.pad_token_id)).unsqueeze(0)
        bos_embeds = self.word_embedding(torch.tensor(self.tokenizer.bos_token_id)).unsqueeze(0)

        # encode graphs
        graph_embeds = self.encode_graphs(samples)

        batch_size = len(samples['id'])
        batch_inputs_embeds, batch_attention_mask, batch_label_input_ids = [], [], []
        for i in range(batch_size):
            label_input_ids = labels.input_ids[i] + [self.tokenizer.eos_token_id]
            input_ids = descriptions.input_ids[i][:self.max_txt_len] + questions.input_ids[i] + label_input_ids
            inputs_embeds = self.word_embedding(torch.tensor(input_ids).to(self.model.device))
            inputs_embeds = torch.cat([bos_embeds, graph_embeds[i].unsqueeze(0), inputs_embeds], dim=0)
            batch_inputs_embeds.append(inputs_embeds)
            batch_attention_mask.append([1] * inputs_embeds.shape[0])
            batch_label_input_ids.append([ignore_index] * (inputs_embeds.shape[0] - len(label_input_ids)) + label_input_ids)

        # pad inputs_embeds
        max_length = max(x.shape[0] for x in batch_inputs_embeds)
        for i in range(batch_size):
            pad_length = max_length - batch_inputs_embeds[i].shape[0]
            batch_inputs_embeds[i] = torch.cat([pad_embeds.repeat(pad_length, 1), batch_inputs_embeds[i]])
            batch_attention_mask[i] = [0] * pad_length + batch_attention_mask[i]
            batch_label_input_ids[i] = [ignore_index] * pad_length + batch_label_input_ids[i]

        outputs = self.model(
            inputs_embeds=torch.stack(batch_inputs_embeds, dim=0),
            attention_mask=torch.tensor(batch_attention_mask).to(self.model.device),
            labels=torch.tensor(batch_label_input_ids).to(self.model.device),
        )
        return outputs.loss

# === earthquakes_counted_in_hidden_states
# thread: https://github.com/jmschrei/pomegranate/issues/1131
# about: a hidden Markov model is made of distributions that have no parameters yet, brought to the GPU and fitted without weights of samples
# operation: (add|add_) on cpu, cuda:0
# operands: self|_w_sum|.*_w_sum|other|sample_weight
# category: state-not-registered|module-split
# line: pomegranate/hmm.py: self.distributions = distributions
# repair: pomegranate/hmm.py: self.distributions = distributions -> self.distributions = torch.nn.ModuleList(distributions)
import torch

from pomegranate.distributions import Normal
from pomegranate.hmm import DenseHMM


def years(seed=1131):
    """Counts of a quiet and of an unquiet earth, which change every ten to twenty years."""
    generator = torch.Generator().manual_seed(seed)
    means = torch.tensor([14.0, 26.0]).repeat_interleave(torch.tensor([12, 18])).repeat(3)
    return (means + 3 * torch.randn(90, generator=generator)).round().reshape(3, 30, 1)


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    X = years().to(device)
    model = DenseHMM([Normal(), Normal()], max_iter=6).to(device)
    model.fit(X)
    states = model.predict(X)
    print("logp", [f"{logp:.2f}" for logp in model.history])
    print("means", [f"{node.means.item():.2f}" for node in model.distributions], "years of the second state", states.sum(dim=1).tolist())
# --- pomegranate/_utils.py
import torch


def _cast_as_parameter(value):
    return torch.nn.Parameter(torch.as_tensor(value, dtype=torch.float32), requires_grad=False)


def _reshape_weights(X, sample_weight, device="cpu"):
    """A weight for each value: of none, ones."""
    if sample_weight is None:
        sample_weight = torch.ones(1, device=device).expand(X.shape[0], 1)
    return sample_weight.reshape(-1, 1).expand(-1, X.shape[1])


def _update_parameter(value, new_value, inertia):
    value[:] = inertia * value + (1 - inertia) * new_value
# --- pomegranate/distributions.py
import torch

from ._utils import _cast_as_parameter, _reshape_weights, _update_parameter

LOG_2_PI = 1.83787706641


class Distribution(torch.nn.Module):
    def __init__(self, inertia):
        super(Distribution, self).__init__()
        self._device = _cast_as_parameter([0.0])
        self.inertia = inertia
        self._initialized = False

    @property
    def device(self):
        return next(self.parameters()).device

    @property
    def dtype(self):
        return next(self.parameters()).dtype

    def fit(self, X, sample_weight=None):
        self.summarize(X, sample_weight=sample_weight)
        self.from_summaries()
        return self

    def summarize(self, X, sample_weight=None):
        if not self._initialized:
            self._initialize(len(X[0]))
        return X, _reshape_weights(X, sample_weight, device=self.device)


class Normal(Distribution):
    """Of independent features."""

    def __init__(self, means=None, covs=None, min_cov=0.1, inertia=0.0):
        super().__init__(inertia=inertia)
        self.min_cov = min_cov
        if means is not None:
            self.means, self.covs = _cast_as_parameter(means), _cast_as_parameter(covs)
            self._initialized, self.d = True, len(means)
            self._reset_cache()

    def _initialize(self, d):
        self.means = _cast_as_parameter(torch.zeros(d, dtype=self.dtype, device=self.device))
        self.covs = _cast_as_parameter(torch.ones(d, dtype=self.dtype, device=self.device))
        self._initialized, self.d = True, d
        self._reset_cache()

    def _reset_cache(self):
        for name in ("_w_sum", "_xw_sum", "_xxw_sum"):
            self.register_buffer(name, torch.zeros(self.d, dtype=self.dtype, device=self.device))

    def log_probability(self, X):
        return -0.5 * (LOG_2_PI + torch.log(self.covs) + (X - self.means) ** 2 / self.covs).sum(dim=-1)

    def summarize(self, X, sample_weight=None):
        X, sample_weight = super().summarize(X, sample_weight=sample_weight)
        self._w_sum += torch.sum(sample_weight, dim=0)
        self._xw_sum += torch.sum(X * sample_weight, dim=0)
        self._xxw_sum += torch.sum(X ** 2 * sample_weight, dim=0)

    def from_summaries(self):
        means = self._xw_sum / self._w_sum
        covs = self._xxw_sum / self._w_sum - means ** 2
        _update_parameter(self.means, means, self.inertia)
        _update_parameter(self.covs, covs.clamp(min=self.min_cov), self.inertia)
        self._reset_cache()
# --- pomegranate/hmm.py
import torch

from ._utils import _cast_as_parameter
from .distributions import Distribution


class DenseHMM(Distribution):
    """A hidden Markov model in which any state may follow any."""

    def __init__(self, distributions=None, max_iter=1000, inertia=0.0):
        super().__init__(inertia=inertia)
        self.distributions = distributions
        self.max_iter = max_iter
        self.history = []
        n = len(distributions)
        self.starts = _cast_as_parameter(torch.full((n,), 1 / n).log())
        self.edges = _cast_as_parameter((torch.full((n, n), 0.2 / max(n - 1, 1)).fill_diagonal_(0.8)).log())

    def _initialize(self, X=None, sample_weight=None):
        X = X.reshape(-1, X.shape[-1])
        if sample_weight is None:
            sample_weight = torch.ones(1, dtype=self.dtype, device=self.device).expand(X.shape[0], 1)
        n = len(self.distributions)
        order = X[:, 0].argsort(stable=True)
        y_hat = torch.empty_like(order)
        y_hat[order] = torch.arange(len(X), device=X.device) * n // len(X)
        for i in range(n):
            self.distributions[i].fit(X[y_hat == i], sample_weight=sample_weight[y_hat == i])
        self._initialized = True

    def _emission_matrix(self, X):
        return torch.stack([node.log_probability(X) for node in self.distributions], dim=-1)

    def forward_backward(self, X):
        e = self._emission_matrix(X)
        f, b = [self.starts + e[:, 0]], [torch.zeros_like(e[:, 0])]
        for t in range(1, X.shape[1]):
            f.append(torch.logsumexp(f[-1].unsqueeze(-1) + self.edges, dim=1) + e[:, t])
            b.append(torch.logsumexp(self.edges + (b[-1] + e[:, -t]).unsqueeze(1), dim=-1))
        f, b = torch.stack(f, dim=1), torch.stack(b[::-1], dim=1)
        logp = torch.logsumexp(f[:, -1], dim=-1)
        xi = f[:, :-1].unsqueeze(-1) + self.edges + (e + b)[:, 1:].unsqueeze(2) - logp.view(-1, 1, 1, 1)
        return f + b - logp.view(-1, 1, 1), xi.exp().sum(dim=(0, 1)), logp

    def fit(self, X, sample_weight=None):
        if not self._initialized:
            self._initialize(X, sample_weight)
        for _ in range(self.max_iter):
            r, xi, logp = self.forward_backward(X)
            self.history.append(logp.sum().item())
            for i, node in enumerate(self.distributions):
                node.fit(X.reshape(-1, X.shape[-1]), sample_weight=r[..., i].exp().reshape(-1, 1))
            self.edges[:] = (xi / xi.sum(dim=1, keepdim=True)).log()
        return self

    def predict(self, X):
        return self.forward_backward(X)[0].argmax(dim=-1)

# === spoken_keywords_laid_among_the_words
# thread: https://github.com/atosystem/SpeechCLIP/issues/8
# about: speech is made into keywords, which a text encoder reads between its start and its end. The whole model is brought to the GPU to encode
# operation: (index_select|embedding) on cuda:0, cpu
# operands: index|indices|input|text
# category: cached-state|created-without-device|default-or-current-device|input-not-moved|input
# line: avssl/module/clip_official.py: text = torch.zeros([bsz, 77], device=self.device, dtype=int)
# line: avssl/module/clip_official.py: self.device = device
# line: avssl/module/clip_official.py: def to(self, *args, **kwargs):
# line: avssl/module/clip_official.py: x = self.model.token_embedding(text)
# line: avssl/model/kwClip.py: audio_feat = self.clip.encode_keywords(keywords, self.keyword_num)
# line: example.py: model.to(device)
# repair: avssl/module/clip_official.py: text = torch.zeros([bsz, 77], device=self.device, dtype=int) ->
#   text = torch.zeros([bsz, 77], device=keywords.device, dtype=int)
import example

if __name__ == "__main__":
    example.main()
# --- example.py
import torch

from avssl.model.kwClip import KWClip_GeneralTransformer


def main():
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(8)
    model = KWClip_GeneralTransformer({"keyword_num": 3, "audio_dim": 10, "text_width": 12, "embed_dim": 6})
    model.to(device)
    model.eval()
    generator = torch.Generator().manual_seed(15)
    wav_data = [torch.randn(length, generator=generator).to(device) for length in (480, 640)]
    with torch.no_grad():
        image_feat = model.encode_image(torch.rand(2, 3, 8, 8, generator=generator).to(device))
        output = model.encode_speech(wav=wav_data)["cascaded_audio_feat"]
    scores = torch.nn.functional.normalize(output, dim=-1) @ torch.nn.functional.normalize(image_feat, dim=-1).T
    print("cascaded", tuple(output.shape), [[round(score, 3) for score in row] for row in scores.tolist()])
# --- avssl/model/kwClip.py
import torch
from torch import nn

from avssl.module.clip_official import ClipModel


class KW_CascadedBranch(nn.Module):
    """Queries take keywords from the audio; the nearest of the text encoder's embeddings are what they say."""

    def __init__(self, config, text_dim, clip):
        super().__init__()
        self.keyword_num = config["keyword_num"]
        self.clip = clip
        self.cls = nn.Parameter(torch.randn(1, self.keyword_num, config["audio_dim"]))
        self.self_att = nn.TransformerEncoderLayer(config["audio_dim"], 2, 16, batch_first=True, dropout=0.0)
        self.linear_proj = nn.Linear(config["audio_dim"], text_dim)

    def forward(self, audio_feat):
        src = torch.cat([self.cls.expand(len(audio_feat), -1, -1), audio_feat], dim=1)
        keywords = self.linear_proj(self.self_att(src)[:, :self.keyword_num])
        vocabulary = self.clip.model.token_embedding.weight
        prob = (nn.functional.normalize(keywords, dim=-1) @ nn.functional.normalize(vocabulary, dim=-1).T / 0.1).softmax(dim=-1)
        keywords = prob @ vocabulary
        audio_feat = self.clip.encode_keywords(keywords, self.keyword_num)
        return audio_feat, prob.argmax(dim=-1)


class KWClip_GeneralTransformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.audio_encoder = nn.Conv1d(1, config["audio_dim"], 80, stride=40)
        self.clip = ClipModel("ViT-B/32", config["text_width"], config["embed_dim"])
        self.cascaded_branch = KW_CascadedBranch(config, self.clip.out_dim, self.clip)

    def forward_audio(self, wav):
        feats = [self.audio_encoder(each[None]).T for each in wav]
        return nn.utils.rnn.pad_sequence(feats, batch_first=True)

    def encode_image(self, image):
        return self.clip.encode_image(image)

    def encode_speech(self, wav):
        audio_feat = self.forward_audio(wav)
        cascaded_audio_feat, keywords = self.cascaded_branch(audio_feat)
        return {"cascaded_audio_feat": cascaded_audio_feat, "keywords": keywords}
# --- avssl/module/clip_official.py
import torch
from torch import nn

SOT_TOKEN, EOT_TOKEN = 28, 29


class CLIP(nn.Module):
    def __init__(self, width, embed_dim, context_length=77, vocab_size=30):
        super().__init__()
        self.visual = nn.Sequential(nn.Conv2d(3, width, 4, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * width, embed_dim))
        self.token_embedding = nn.Embedding(vocab_size, width)
        self.positional_embedding = nn.Parameter(0.1 * torch.randn(context_length, width))
        self.transformer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0)
        self.ln_final = nn.LayerNorm(width)
        self.text_projection = nn.Parameter(torch.randn(width, embed_dim))


class ClipModel(nn.Module):
    def __init__(self, name, width, embed_dim, device="cpu"):
        super().__init__()
        self.name = name
        self.device = device
        self.model = CLIP(width, embed_dim).to(device)
        self.out_dim = width
        self.freeze_models()

    def freeze_models(self):
        for p in self.model.parameters():
            p.requires_grad = False

    def encode_image(self, image):
        return self.model.visual(image)

    def encode_keywords(self, keywords, keyword_num):
        bsz = keywords.size(0)
        text = torch.zeros([bsz, 77], device=self.device, dtype=int)
        text[:, 0] = SOT_TOKEN
        text[:, keyword_num + 1] = EOT_TOKEN

        x = self.model.token_embedding(text)
        x[:, 1 : 1 + keyword_num] = keywords
        x = x + self.model.positional_embedding
        x = x.permute(1, 0, 2)  # NLD -> LND
        x = self.model.transformer(x)
        x = x.permute(1, 0, 2)  # LND -> NLD
        x = self.model.ln_final(x)

        # the feature of the end, which is the highest number in each sequence
        return x[torch.arange(x.shape[0]), text.argmax(dim=-1)] @ self.model.text_projection

    def to(self, *args, **kwargs):
        super().to(*args, **kwargs)
        self.device = self.model.token_embedding.weight.device
        return self

# === an_actor_that_went_without_its_critic
# thread: https://github.com/ChenglongChen/pytorch-DRL/issues/2
# about: an agent of an actor and a critic learns on the GPU to walk along a corridor
# operation: (addmm|mm|linear) on cpu, cuda:0, cpu
# operands: mat1|input|weight|mat2|bias|.*fc1.*
# category: module-split
# line: A2C.py: self.actor.cuda()
# line: A2C.py: self.critic = CriticNetwork(
# repair: A2C.py: self.actor.cuda() -> self.actor.cuda(); self.critic.cuda()
import numpy as np
import torch as th

from A2C import A2C


class Corridor:
    """Six rooms in a row, and cheese in the last."""

    def __init__(self, rooms=6):
        self.rooms = rooms

    def reset(self):
        self.room, self.steps = 0, 0
        return np.eye(self.rooms)[self.room]

    def step(self, action):
        self.room = max(0, self.room + (1 if action == 1 else -1))
        self.steps += 1
        done = self.room == self.rooms - 1 or self.steps == 20
        return np.eye(self.rooms)[self.room], 1.0 if self.room == self.rooms - 1 else -0.05, done, {}


if __name__ == "__main__":
    np.random.seed(2)
    th.manual_seed(2)
    a2c = A2C(Corridor(), memory_capacity=40, state_dim=6, action_dim=2, batch_size=20, n_steps=5, actor_lr=0.02, critic_lr=0.02, use_cuda=True)
    while a2c.n_episodes < 30:
        a2c.interact()
        a2c.train()
    (actor_loss, critic_loss), reward = a2c.losses[-1], a2c.evaluation(Corridor())
    print(f"actor {actor_loss:.3f} critic {critic_loss:.3f} reward {reward:.2f}")
# --- A2C.py
import torch as th
from torch import nn
from torch.optim import RMSprop
import numpy as np

from common.Memory import ReplayMemory
from common.Model import ActorNetwork, CriticNetwork
from common.utils import entropy, index_to_one_hot, to_tensor_var


class A2C(object):
    def __init__(self, env, memory_capacity, state_dim, action_dim, actor_hidden_size=16, actor_lr=0.001, critic_hidden_size=16, critic_lr=0.001,
                 entropy_reg=0.01, use_cuda=False, batch_size=10, n_steps=5, reward_gamma=0.95):
        self.memory = ReplayMemory(memory_capacity)
        self.env, self.env_state = env, env.reset()
        self.state_dim, self.action_dim = state_dim, action_dim
        self.n_steps, self.batch_size = n_steps, batch_size
        self.n_episodes, self.losses = 0, []
        self.reward_gamma, self.entropy_reg = reward_gamma, entropy_reg

        self.actor = ActorNetwork(self.state_dim, actor_hidden_size, self.action_dim)
        self.critic = CriticNetwork(self.state_dim, self.action_dim, critic_hidden_size, 1)
        self.actor_optimizer = RMSprop(self.actor.parameters(), lr=actor_lr)
        self.critic_optimizer = RMSprop(self.critic.parameters(), lr=critic_lr)
        self.use_cuda = use_cuda and th.cuda.is_available()
        if self.use_cuda:
            self.actor.cuda()

    def _discount_reward(self, rewards, final_r):
        discounted_r = np.zeros_like(rewards)
        running_add = final_r
        for t in reversed(range(0, len(rewards))):
            running_add = running_add * self.reward_gamma + rewards[t]
            discounted_r[t] = running_add
        return discounted_r

    # agent interacts with the environment to collect experience
    def interact(self):
        states, actions, rewards = [], [], []
        for i in range(self.n_steps):
            states.append(self.env_state)
            action = self.exploration_action(self.env_state)
            next_state, reward, done, _ = self.env.step(action)
            actions.append(index_to_one_hot(action, self.action_dim))
            rewards.append(reward)
            self.env_state = next_state
            if done:
                self.env_state = self.env.reset()
                break
        if done:
            final_r = 0.0
            self.n_episodes += 1
        else:
            final_r = self.value(next_state, index_to_one_hot(self.action(next_state), self.action_dim))
        self.memory.push(states, actions, self._discount_reward(rewards, final_r))

    # train on a roll out batch
    def train(self):
        states, actions, rewards = self.memory.sample(self.batch_size)
        states_var = to_tensor_var(states, self.use_cuda).view(-1, self.state_dim)
        actions_var = to_tensor_var(actions, self.use_cuda).view(-1, self.action_dim)
        rewards_var = to_tensor_var(rewards, self.use_cuda).view(-1, 1)

        self.actor_optimizer.zero_grad()
        softmax_actions = self.actor(states_var)
        advantages = rewards_var - self.critic(states_var, actions_var).detach()
        neg_logloss = - th.sum(th.log(softmax_actions) * actions_var, 1, keepdim=True)
        actor_loss = th.mean(neg_logloss * advantages) - th.mean(entropy(softmax_actions)) * self.entropy_reg
        actor_loss.backward()
        self.actor_optimizer.step()

        self.critic_optimizer.zero_grad()
        critic_loss = nn.MSELoss()(self.critic(states_var, actions_var), rewards_var)
        critic_loss.backward()
        self.critic_optimizer.step()
        self.losses.append((actor_loss.item(), critic_loss.item()))

    def _softmax_action(self, state):
        return self.actor(to_tensor_var([state], self.use_cuda)).data.cpu().numpy()[0]

    def exploration_action(self, state):
        return int(np.random.rand() < self._softmax_action(state)[1])

    def action(self, state):
        return int(np.argmax(self._softmax_action(state)))

    def value(self, state, action):
        state_var = to_tensor_var([state], self.use_cuda)
        action_var = to_tensor_var([action], self.use_cuda)
        return self.critic(state_var, action_var).data.cpu().numpy()[0, 0]

    def evaluation(self, env):
        state, done, rewards = env.reset(), False, 0
        while not done:
            state, reward, done, _ = env.step(self.action(state))
            rewards += reward
        return rewards
# --- common/Memory.py
import random


class ReplayMemory(object):
    def __init__(self, capacity):
        self.capacity, self.memory, self.random = capacity, [], random.Random(5)

    def push(self, states, actions, rewards):
        self.memory.extend(zip(states, actions, rewards))
        self.memory = self.memory[-self.capacity:]

    def sample(self, batch_size):
        return zip(*self.random.sample(self.memory, min(batch_size, len(self.memory))))
# --- common/Model.py
import torch as th
from torch import nn


class ActorNetwork(nn.Module):
    def __init__(self, state_dim, hidden_size, output_size):
        super(ActorNetwork, self).__init__()
        self.fc1 = nn.Linear(state_dim, hidden_size)
        self.fc2 = nn.Linear(hidden_size, output_size)

    def __call__(self, state):
        out = nn.functional.relu(self.fc1(state))
        return nn.functional.softmax(self.fc2(out), dim=-1)


class CriticNetwork(nn.Module):
    def __init__(self, state_dim, action_dim, hidden_size, output_size=1):
        super(CriticNetwork, self).__init__()
        self.fc1 = nn.Linear(state_dim + action_dim, hidden_size)
        self.fc2 = nn.Linear(hidden_size, output_size)

    def __call__(self, state, action):
        out = th.cat([state, action], 1)
        out = nn.functional.relu(self.fc1(out))
        return self.fc2(out)
# --- common/utils.py
import numpy as np
import torch as th


def entropy(p):
    return -th.sum(p * th.log(p), 1)


def index_to_one_hot(index, dim):
    one_hot = np.zeros(dim)
    one_hot[index] = 1.
    return one_hot


def to_tensor_var(x, use_cuda=False):
    x = th.from_numpy(np.array(x, dtype=np.float32))
    return x.cuda() if use_cuda else x

# === scans_between_words_on_another_card
# thread: https://github.com/mirthAI/Med3DVLM/issues/5
# about: a model for scans of the body is spread over two GPUs. What it sees is set into the embeddings of a prompt, and a caption follows
# operation: cat on cuda:0, cuda:1, cuda:0
# operands: tensors|image_features
# category: module-split|input-not-moved|input
# line: src/model/vlm.py: image_features = self.encode_images(images)
# line: src/model/vlm.py: inputs_embeds = torch.cat(
# line: src/model/vlm.py: return image_features
# line: src/model/vlm.py: (inputs_embeds[:, :1, :], image_features, inputs_embeds[:, (self.proj_out_num + 1):, :]), dim=1
# line: src/eval/eval_caption.py: "model.mm_projector": 1
# repair: src/model/vlm.py: image_features = self.encode_images(images) ->
#   image_features = self.encode_images(images).to(inputs_embeds.device)
import torch

from src.eval.eval_caption import load_model, M3DCapDataset

if __name__ == "__main__":
    model = load_model(seed=5)
    device = torch.device("cuda:0")
    for sample in M3DCapDataset(model.proj_out_num):
        input_id = sample["question"].to(device=device)
        image = sample["image"].to(device=device)
        with torch.inference_mode():
            generation, confidence = model.generate(image, input_id, max_new_tokens=6)
        print("caption", generation.tolist(), f"{confidence:.4f}")
# --- src/eval/eval_caption.py
import torch
from accelerate import dispatch_model

from src.model.vlm import VLMForCausalLM

DEVICE_MAP = {
    "model.embed_tokens": 0,
    "model.layers.0": 0,
    "model.layers.1": 1,
    "model.norm": 1,
    "model.vision_tower": 1,
    "model.mm_projector": 1,
    "lm_head": 1,
}


class M3DCapDataset(torch.utils.data.Dataset):
    """Scans, and prompts with room for what is seen in them."""

    def __init__(self, proj_out_num, size=2):
        self.image_tokens = [1] * proj_out_num
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError(index)
        generator = torch.Generator().manual_seed(100 + index)
        image = torch.rand(1, 1, 4, 8, 8, generator=generator)
        prompt = [2, *self.image_tokens, 5, 9 + index, 7]
        return {"image": image, "question": torch.tensor([prompt])}


def load_model(seed):
    torch.manual_seed(seed)
    model = VLMForCausalLM(vocab_size=24, hidden_size=16, proj_out_num=4).eval()
    return dispatch_model(model, device_map=DEVICE_MAP)
# --- src/model/vlm.py
import torch
from torch import nn


class DCFormer(nn.Module):
    """Blocks of a volume, each an embedding."""

    def __init__(self, hidden_size):
        super().__init__()
        self.patch = nn.Conv3d(1, hidden_size, (2, 4, 4), stride=(2, 4, 4))
        self.norm = nn.LayerNorm(hidden_size)

    def forward(self, images):
        return self.norm(self.patch(images).flatten(2).transpose(1, 2))


class MixerProjector(nn.Module):
    def __init__(self, patches, hidden_size, out_size, out_num):
        super().__init__()
        self.tokens = nn.Linear(patches, out_num)
        self.channels = nn.Linear(hidden_size, out_size)

    def forward(self, x):
        return self.channels(torch.relu(self.tokens(x.transpose(1, 2)).transpose(1, 2)))


class DecoderLayer(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.input_layernorm = nn.LayerNorm(hidden_size)
        self.qkv_proj = nn.Linear(hidden_size, 3 * hidden_size)
        self.mlp = nn.Sequential(nn.LayerNorm(hidden_size), nn.Linear(hidden_size, 2 * hidden_size), nn.GELU(), nn.Linear(2 * hidden_size, hidden_size))

    def forward(self, hidden_states):
        q, k, v = self.qkv_proj(self.input_layernorm(hidden_states)).unsqueeze(1).chunk(3, dim=-1)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        hidden_states = hidden_states + attended.squeeze(1)
        return hidden_states + self.mlp(hidden_states)


class VLMModel(nn.Module):
    def __init__(self, vocab_size, hidden_size, proj_out_num):
        super().__init__()
        self.embed_tokens = nn.Embedding(vocab_size, hidden_size)
        self.vision_tower = DCFormer(12)
        self.mm_projector = MixerProjector(8, 12, hidden_size, proj_out_num)
        self.layers = nn.ModuleList(DecoderLayer(hidden_size) for _ in range(2))
        self.norm = nn.LayerNorm(hidden_size)

    def get_vision_tower(self):
        return self.vision_tower

    def forward(self, inputs_embeds):
        hidden_states = inputs_embeds
        for layer in self.layers:
            hidden_states = layer(hidden_states)
        return self.norm(hidden_states)


class VLMForCausalLM(nn.Module):
    def __init__(self, vocab_size, hidden_size, proj_out_num):
        super().__init__()
        self.proj_out_num = proj_out_num
        self.model = VLMModel(vocab_size, hidden_size, proj_out_num)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)

    def get_model(self):
        return self.model

    def encode_images(self, images):
        image_features = self.get_model().get_vision_tower()(images)
        image_features = self.get_model().mm_projector(image_features)
        return image_features

    def prepare_inputs_for_multimodal(self, input_ids, images):
        inputs_embeds = self.get_model().embed_tokens(input_ids)
        image_features = self.encode_images(images)
        inputs_embeds = torch.cat(
            (inputs_embeds[:, :1, :], image_features, inputs_embeds[:, (self.proj_out_num + 1):, :]), dim=1
        )
        return inputs_embeds

    def generate(self, images, inputs, max_new_tokens):
        inputs_embeds = self.prepare_inputs_for_multimodal(inputs, images)
        generated, confidence = [], 0.0
        for _ in range(max_new_tokens):
            logits = self.lm_head(self.model(inputs_embeds))[:, -1]
            token = logits.argmax(dim=-1).to(inputs.device)
            confidence += logits.log_softmax(dim=-1).max().item()
            generated.append(token)
            inputs_embeds = torch.cat([inputs_embeds, self.model.embed_tokens(token)[:, None]], dim=1)
        return torch.stack(generated, dim=1)[0], confidence / max_new_tokens

# === a_camera_out_of_place_measured_in_centimetres
# thread: https://github.com/IIPCVLAB/LCCNet/pull/4
# about: a network says how far a camera has moved against a laser scanner. What it is wrong by is added up over a batch of the validation
# operation: (add|add_) on cpu, cuda:0
# operands: self|total_trasl_error
# category: created-without-device
# line: train_with_sacred.py: total_trasl_error = torch.tensor(0.0)
# line: train_with_sacred.py: total_trasl_error += torch.norm(target_transl[j] - transl_err[j]) * 100.
# repair: train_with_sacred.py: total_trasl_error = torch.tensor(0.0) -> total_trasl_error = torch.tensor(0.0).cuda()
import torch

from train_with_sacred import main

if __name__ == "__main__":
    _config = {
        "loss": "simple", "epochs": 2, "BASE_LEARNING_RATE": 0.01, "max_t": 0.5, "max_r": 10.0, "batch_size": 6,
        "rescale_rot": 1.0, "rescale_transl": 2.0,
    }  # fmt: skip
    torch.manual_seed(4)
    for train_loss, val_t, val_r in main(_config):
        print(f"loss {train_loss:.4f} translation {val_t:.2f} cm rotation {val_r:.2f} degrees")
# --- DatasetLidarCamera.py
import math

import torch


class DatasetLidarCamera(torch.utils.data.Dataset):
    """A wall seen by a camera, the depth that a scanner out of place has of it, and how far it is out of place."""

    def __init__(self, split, max_t, max_r, size=18):
        generator = torch.Generator().manual_seed(0 if split == "train" else 1)
        self.rgb = torch.rand(size, 3, 8, 16, generator=generator)
        self.tr_error = (2 * torch.rand(size, 3, generator=generator) - 1) * max_t
        angle = (2 * torch.rand(size, generator=generator) - 1) * max_r * math.pi / 180
        self.rot_error = torch.stack([(angle / 2).cos(), (angle / 2).sin(), 0 * angle, 0 * angle], dim=1)
        columns = torch.linspace(-1, 1, 16)
        depth = self.rgb.mean(dim=1) + self.tr_error[:, 2, None, None] + self.tr_error[:, 0, None, None] * columns
        self.depth = (depth + angle[:, None, None] * torch.linspace(-1, 1, 8)[:, None])[:, None]

    def __len__(self):
        return len(self.rgb)

    def __getitem__(self, idx):
        return {"rgb": self.rgb[idx], "depth": self.depth[idx], "tr_error": self.tr_error[idx], "rot_error": self.rot_error[idx]}
# --- quaternion_distances.py
import torch


def quatmultiply(q, r, device):
    """Of batches of quaternions, their products."""
    a, b = q[:, :1], q[:, 1:]
    c, d = r[:, :1], r[:, 1:]
    t = torch.zeros(q.shape[0], 4, device=device)
    t[:, :1] = a * c - (b * d).sum(dim=1, keepdim=True)
    t[:, 1:] = a * d + c * b + torch.linalg.cross(b, d)
    return t


def quaternion_distance(q, r, device):
    inverse = r * torch.tensor([1.0, -1.0, -1.0, -1.0], device=device)
    t = quatmultiply(q, inverse, device)
    return 2 * torch.atan2(torch.norm(t[:, 1:], dim=1), torch.abs(t[:, 0]))
# --- models/LCCNet.py
import torch
from torch import nn
import torch.nn.functional as F


class LCCNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net_rgb = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.LeakyReLU(0.1), nn.MaxPool2d(2))
        self.net_lidar = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.LeakyReLU(0.1), nn.MaxPool2d(2))
        self.fc1 = nn.Linear(12 * 4 * 8, 24)
        self.fc1_trasl = nn.Linear(24, 3)
        self.fc1_rot = nn.Linear(24, 4)

    def forward(self, rgb, lidar):
        x = torch.cat([self.net_rgb(rgb), self.net_lidar(lidar)], dim=1)
        x = F.leaky_relu(self.fc1(x.flatten(1)), 0.1)
        return self.fc1_trasl(x), F.normalize(self.fc1_rot(x), dim=1)
# --- train_with_sacred.py
import math

import torch
import torch.nn as nn
import torch.optim as optim

from DatasetLidarCamera import DatasetLidarCamera
from models.LCCNet import LCCNet
from quaternion_distances import quaternion_distance


class ProposedLoss(nn.Module):
    def __init__(self, rescale_trans, rescale_rot):
        super().__init__()
        self.rescale_trans, self.rescale_rot = rescale_trans, rescale_rot
        self.transl_loss = nn.SmoothL1Loss()

    def forward(self, target_transl, target_rot, transl_err, rot_err):
        loss_transl = self.transl_loss(transl_err, target_transl)
        loss_rot = quaternion_distance(rot_err, target_rot, rot_err.device).mean()
        return {'total_loss': self.rescale_trans * loss_transl + self.rescale_rot * loss_rot}


# CCN training
def train(model, optimizer, rgb_img, refl_img, target_transl, target_rot, loss_fn):
    model.train()
    optimizer.zero_grad()
    transl_err, rot_err = model(rgb_img, refl_img)
    losses = loss_fn(target_transl, target_rot, transl_err, rot_err)
    losses['total_loss'].backward()
    optimizer.step()
    return losses


# CNN test
def val(model, rgb_img, refl_img, target_transl, target_rot, loss_fn):
    model.eval()
    with torch.no_grad():
        transl_err, rot_err = model(rgb_img, refl_img)
    losses = loss_fn(target_transl, target_rot, transl_err, rot_err)

    total_trasl_error = torch.tensor(0.0)
    total_rot_error = quaternion_distance(target_rot, rot_err, target_rot.device)
    total_rot_error = total_rot_error * 180. / math.pi
    for j in range(rgb_img.shape[0]):
        total_trasl_error += torch.norm(target_transl[j] - transl_err[j]) * 100.

    return losses, total_trasl_error.item(), total_rot_error.sum().item()


def main(_config):
    loaders = {}
    for split in ('train', 'val'):
        dataset = DatasetLidarCamera(split, _config['max_t'], _config['max_r'])
        loaders[split] = torch.utils.data.DataLoader(dataset, batch_size=_config['batch_size'])
    loss_fn = ProposedLoss(_config['rescale_transl'], _config['rescale_rot'])
    model = LCCNet().cuda()
    optimizer = optim.Adam(model.parameters(), lr=_config['BASE_LEARNING_RATE'], weight_decay=5e-6)

    for _ in range(_config['epochs']):
        total_train_loss = total_val_t = total_val_r = 0.
        for sample in loaders['train']:
            sample = {key: value.cuda() for key, value in sample.items()}
            losses = train(model, optimizer, sample['rgb'], sample['depth'], sample['tr_error'], sample['rot_error'], loss_fn)
            total_train_loss += losses['total_loss'].item() * len(sample['rgb'])
        for sample in loaders['val']:
            sample = {key: value.cuda() for key, value in sample.items()}
            losses, trasl_e, rot_e = val(model, sample['rgb'], sample['depth'], sample['tr_error'], sample['rot_error'], loss_fn)
            total_val_t += trasl_e
            total_val_r += rot_e
        size = len(loaders['val'].dataset)
        yield total_train_loss / len(loaders['train'].dataset), total_val_t / size, total_val_r / size
