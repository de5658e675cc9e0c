# === next_items_ranked_by_the_place_of_the_first_hit
# thread: https://github.com/NVIDIA-Merlin/Transformers4Rec/issues/509
# about: a session-based recommender is judged by mean reciprocal rank. The ranks that hits are divided by are counted off beside the card
# operation: div|true_divide on cuda:1, cpu
# operands: other|.*arange\(k\).*
# category: created-without-device
# line: transformers4rec/torch/ranking_metric.py: values, _ = (topk_labels[:, :k] / (torch.arange(k) + 1)).max(dim=1)
# repair: transformers4rec/torch/ranking_metric.py: values, _ = (topk_labels[:, :k] / (torch.arange(k) + 1)).max(dim=1) -> values, _ = (topk_labels[:, :k] / (torch.arange(k) + 1).to(device=scores.device)).max(dim=1)
import torch

from transformers4rec.torch.model import NextItemPredictionTask, fit_and_evaluate
from transformers4rec.torch.ranking_metric import MeanReciprocalRankAt, PrecisionAt


def sessions(count, length, num_items, generator):
    starts = torch.randint(0, num_items, (count, 1), generator=generator)
    steps = torch.randint(1, 3, (count, length), generator=generator).cumsum(dim=1)
    return (starts + steps) % num_items


if __name__ == "__main__":
    torch.manual_seed(509)
    device = torch.device("cuda:1" if torch.cuda.device_count() > 1 else "cpu")
    metrics = [
        PrecisionAt(top_ks=[2, 4], labels_onehot=True),
        MeanReciprocalRankAt(top_ks=[2, 4], labels_onehot=True),
    ]
    task = NextItemPredictionTask(num_items=12, d_model=16, metrics=metrics).to(device)
    data = sessions(24, 7, 12, torch.Generator().manual_seed(5))
    results = fit_and_evaluate(task, data[:16], data[16:], device, epochs=8)
    for name, value in results.items():
        print(f"eval_/next-item/{name}: {[round(each, 3) for each in value.tolist()]}")
# --- transformers4rec/torch/model.py
import torch
from torch import nn


class NextItemPredictionTask(nn.Module):
    """Predicts the last item of a session out of those before it."""

    def __init__(self, num_items, d_model, metrics):
        super().__init__()
        self.item_embedding = nn.Embedding(num_items, d_model)
        self.encoder = nn.GRU(d_model, d_model, batch_first=True)
        self.bias = nn.Parameter(torch.zeros(num_items))
        self.loss = nn.CrossEntropyLoss()
        self.metrics = nn.ModuleList(metrics)

    def forward(self, item_ids):
        hidden, _ = self.encoder(self.item_embedding(item_ids))
        return hidden[:, -1] @ self.item_embedding.weight.t() + self.bias

    def calculate_metrics(self, predictions, targets):
        for metric in self.metrics:
            metric.update(predictions, targets)

    def compute_metrics(self):
        return {type(metric).__name__: metric.compute() for metric in self.metrics}


def fit_and_evaluate(task, train, evaluation, device, epochs):
    optimizer = torch.optim.Adam(task.parameters(), lr=0.02)
    for _ in range(epochs):
        for batch in train.split(8):
            batch = batch.to(device)
            loss = task.loss(task(batch[:, :-1]), batch[:, -1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    task.eval()
    with torch.no_grad():
        for batch in evaluation.split(4):
            batch = batch.to(device)
            task.calculate_metrics(task(batch[:, :-1]), batch[:, -1])
    return task.compute_metrics()
# --- transformers4rec/torch/ranking_metric.py
import torch
from torch import nn

from transformers4rec.torch.utils import torch_utils


class RankingMetric(nn.Module):
    """The mean of a ranking metric over batches, at several cut-offs."""

    def __init__(self, top_ks=None, labels_onehot=False):
        super().__init__()
        self.top_ks = top_ks or [2, 5]
        self.labels_onehot = labels_onehot
        self.metric_mean = []

    def update(self, preds, target):
        if self.labels_onehot:
            target = torch_utils.tranform_label_to_onehot(target, preds.size(-1))
        metric = self._metric(torch.LongTensor(self.top_ks), preds.view(-1, preds.size(-1)), target)
        self.metric_mean.append(metric)

    def compute(self):
        return torch.cat(self.metric_mean).mean(0)

    def _metric(self, ks, preds, target):
        raise NotImplementedError


class PrecisionAt(RankingMetric):
    def _metric(self, ks, scores, labels):
        ks, scores, labels = torch_utils.check_inputs(ks, scores, labels)
        _, _, topk_labels = torch_utils.extract_topk(ks, scores, labels)
        precisions = torch_utils.create_output_placeholder(scores, ks)
        for index, k in enumerate(ks):
            precisions[:, index] = torch.sum(topk_labels[:, : int(k)], dim=1) / float(k)
        return precisions


class MeanReciprocalRankAt(RankingMetric):
    def _metric(self, ks, scores, labels):
        ks, scores, labels = torch_utils.check_inputs(ks, scores, labels)
        _, _, topk_labels = torch_utils.extract_topk(ks, scores, labels)
        results = torch_utils.create_output_placeholder(scores, ks)
        for index, k in enumerate(ks):
            values, _ = (topk_labels[:, :k] / (torch.arange(k) + 1)).max(dim=1)
            results[:, index] = values
        return results
# --- transformers4rec/torch/utils/torch_utils.py
import torch


def check_inputs(ks, scores, labels):
    if scores.shape != labels.shape:
        raise ValueError("scores and labels must be the same shape")
    return (
        ks.to(dtype=torch.int32, device=scores.device),
        scores.to(dtype=torch.float32, device=scores.device),
        labels.to(dtype=torch.float32, device=scores.device),
    )


def extract_topk(ks, scores, labels):
    topk_scores, topk_indices = torch.topk(scores, int(max(ks)))
    return topk_scores, topk_indices, torch.gather(labels, 1, topk_indices)


def create_output_placeholder(scores, ks):
    return torch.zeros(scores.shape[0], len(ks)).to(device=scores.device, dtype=torch.float32)


def tranform_label_to_onehot(labels, vocab_size):
    return torch.nn.functional.one_hot(labels.reshape(-1), vocab_size).detach()

# === angles_between_neighbours_where_all_is_made_on_the_card
# thread: https://github.com/yzhao062/pytod/issues/11
# about: outliers are found by angles between nearest neighbours. The program makes CUDA the default device; the smallest distances come back from there
# operation: gather on cuda:0, cpu
# operands: index|bk\[1\].*|bk.*
# category: default-or-current-device|input-not-moved|created-without-device
# line: pytod/models/basic_operators.py: return tk[0].cpu(), tk[1].cpu()
# line: pytod/models/intermediate_layers.py: k_inds_mat[index_A[0] : index_A[1], j * k : (j + 1) * k] = batch_inds.gather(
# line: pytod/models/intermediate_layers.py: bk = bottomk(
# line: pytod/models/intermediate_layers.py: batch_inds = torch.arange(
# line: torch.set_default_device("cuda")
# repair: pytod/models/basic_operators.py: return tk[0].cpu(), tk[1].cpu() -> return tk[0], tk[1]
import numpy as np
import torch

from pytod.models.abod import ABOD


def generate_data(n_train, n_features, contamination, seed):
    rng = np.random.RandomState(seed)
    outliers = int(n_train * contamination)
    inliers = rng.normal(size=(n_train - outliers, n_features))
    return np.concatenate([inliers, rng.uniform(-6, 6, size=(outliers, n_features))])


if __name__ == "__main__":
    if torch.cuda.is_available():
        torch.set_default_device("cuda")
    X = torch.tensor(generate_data(40, 3, 0.1, seed=11), dtype=torch.float32)
    clf = ABOD(n_neighbors=5, batch_size=16, device=X.device)
    clf.fit(X)
    print("outliers", np.flatnonzero(clf.labels_).tolist())
    print("scores", round(float(clf.decision_scores_[clf.labels_ == 1].sum()), 5), round(float(np.log(-clf.decision_scores_).sum()), 3))
# --- pytod/models/abod.py
import numpy as np
import torch

from pytod.models.intermediate_layers import get_cosine_similarity, knn_batch
from pytod.utils.utility import get_batch_index


class ABOD:
    """Angle-based outlier detection, among the nearest neighbours."""

    def __init__(self, contamination=0.1, n_neighbors=5, batch_size=None, device="cuda:0"):
        self.contamination = contamination
        self.n_neighbors = n_neighbors
        self.batch_size = batch_size
        self.device = device

    def fit(self, X):
        self.decision_scores_ = self._fit_batch(X)
        self.threshold_ = np.percentile(self.decision_scores_, 100 * (1 - self.contamination))
        self.labels_ = (self.decision_scores_ > self.threshold_).astype(int)
        return self

    def _fit_batch(self, X):
        n_samples = X.shape[0]
        knn_dist, knn_inds = knn_batch(X, X, self.n_neighbors + 1, batch_size=self.batch_size, device=self.device)
        knn_inds = knn_inds[:, 1:]

        # every pair of a sample's neighbours
        n_combs = self.n_neighbors * (self.n_neighbors - 1) // 2
        neighbor_indexs = torch.zeros([n_samples * n_combs, 2])
        self_indexs = torch.arange(0, n_samples).reshape(n_samples, 1).repeat(1, n_combs).view(-1)
        for idx in range(n_samples):
            neighbor_indexs[idx * n_combs : (idx + 1) * n_combs, :] = torch.combinations(knn_inds[idx, :], 2)

        cos_sims = torch.zeros([n_samples * n_combs])
        for start, end in get_batch_index(n_samples * n_combs, self.batch_size * n_combs):
            self_feature = torch.index_select(X, 0, self_indexs[start:end])
            nn_1 = torch.index_select(X, 0, neighbor_indexs[start:end, 0].long()) - self_feature
            nn_2 = torch.index_select(X, 0, neighbor_indexs[start:end, 1].long()) - self_feature
            cos_sims[start:end] = get_cosine_similarity(nn_1, nn_2)
        spread = torch.var(cos_sims.view(-1, n_combs), dim=1)
        return torch.nan_to_num(spread).cpu().numpy() * -1
# --- pytod/models/intermediate_layers.py
import torch

from pytod.models.basic_operators import bottomk
from pytod.utils.utility import get_batch_index


def knn_batch_intermediate(A, B, k, batch_size, device):
    """The map step: the nearest of each part of B."""
    batch_index_A = get_batch_index(A.shape[0], batch_size)
    batch_index_B = get_batch_index(B.shape[0], batch_size)
    k_dist_mat = torch.zeros([A.shape[0], len(batch_index_B) * k])
    k_inds_mat = torch.zeros([A.shape[0], len(batch_index_B) * k]).long()
    for index_A in batch_index_A:
        for j, index_B in enumerate(batch_index_B):
            cdist_mat_batch = torch.cdist(A[index_A[0] : index_A[1], :].to(device), B[index_B[0] : index_B[1], :].to(device))
            # which rows of B these are
            batch_inds = torch.arange(index_B[0], index_B[1]).repeat(index_A[1] - index_A[0], 1)
            bk = bottomk(cdist_mat_batch, k, device=device)
            k_dist_mat[index_A[0] : index_A[1], j * k : (j + 1) * k] = bk[0]
            k_inds_mat[index_A[0] : index_A[1], j * k : (j + 1) * k] = batch_inds.gather(1, bk[1].long())
    return k_dist_mat, k_inds_mat


def get_knn_from_intermediate(intermediate_knn, k):
    """The reduce step: the nearest of these."""
    sorted_ind = torch.argsort(intermediate_knn[0], dim=1)[:, :k]
    return intermediate_knn[0].gather(1, sorted_ind), intermediate_knn[1].gather(1, sorted_ind)


def knn_batch(A, B, k=5, batch_size=None, device="cpu"):
    return get_knn_from_intermediate(knn_batch_intermediate(A, B, k, batch_size, device), k)


def get_cosine_similarity(input1, input2):
    return torch.sum(input1 * input2, dim=1) / (torch.linalg.norm(input1, dim=1) ** 2 * torch.linalg.norm(input2, dim=1) ** 2)
# --- pytod/models/basic_operators.py
import torch


def bottomk(A, k, dim=1, device="cpu"):
    """The k smallest elements along a dimension, and where they are."""
    if len(A.shape) == 1:
        dim = 0
    tk = torch.topk(A.to(device), k, dim=dim, largest=False)
    return tk[0].cpu(), tk[1].cpu()
# --- pytod/utils/utility.py
def get_batch_index(n_samples, batch_size):
    """The first row and the one after the last, of each batch."""
    return [(start, min(start + batch_size, n_samples)) for start in range(0, n_samples, batch_size)]

# === agents_that_remember_one_after_another
# thread: https://github.com/thesouther/MARL/issues/2
# about: agents of QMIX walk through an episode. What each remembers of it begins as zeros, when an episode begins
# operation: mm|addmm|linear|matmul|gru_cell on cpu, cuda:0
# operands: self|input|hx|h_in|hidden_state|.*eval_hidden.*
# category: created-without-device|cached-state
# line: policy.py: self.eval_hidden = torch.zeros((episode_num, self.n_agents, self.conf.drqn_hidden_dim))
# line: agent.py: hidden_state = self.policy.eval_hidden[:, agent_num, :]
# line: agent.py: q_value, self.policy.eval_hidden[:, agent_num, :] = self.policy.eval_drqn_net(inputs, hidden_state)
# line: NN.py: h_in = hidden_state.reshape(-1, self.conf.drqn_hidden_dim)
# repair: policy.py: self.eval_hidden = torch.zeros((episode_num, self.n_agents, self.conf.drqn_hidden_dim)) -> self.eval_hidden = torch.zeros((episode_num, self.n_agents, self.conf.drqn_hidden_dim), device=self.device)
# repair: policy.py: self.target_hidden = torch.zeros((episode_num, self.n_agents, self.conf.drqn_hidden_dim)) -> self.target_hidden = torch.zeros((episode_num, self.n_agents, self.conf.drqn_hidden_dim), device=self.device)
from types import SimpleNamespace

import numpy as np
import torch

from agent import Agents


class Corridor:
    """Two agents are to meet in the middle of a corridor."""

    def __init__(self, conf):
        self.conf = conf

    def reset(self):
        self.places = np.array([0.0, 4.0])

    def get_obs(self):
        return np.stack([[place / 4, (self.places.sum() - place) / 4] for place in self.places])

    def step(self, actions):
        self.places = np.clip(self.places + np.array(actions) - 1, 0, 4)
        return -abs(self.places[0] - self.places[1])


def generate_episode(env, agents, conf):
    env.reset()
    agents.policy.init_hidden(1)
    last_action = np.zeros((conf.n_agents, conf.n_actions))
    episode = {"o": [], "u": [], "r": []}
    for _ in range(conf.episode_limit):
        obs = env.get_obs()
        actions = [agents.choose_action(obs[i], last_action[i], i) for i in range(conf.n_agents)]
        last_action = np.eye(conf.n_actions)[actions]
        episode["o"].append(np.hstack((obs, np.eye(conf.n_agents))))
        episode["u"].append(actions)
        episode["r"].append(env.step(actions))
    return {key: np.array(value) for key, value in episode.items()}


if __name__ == "__main__":
    torch.manual_seed(2)
    np.random.seed(2)
    conf = SimpleNamespace(
        device=torch.device("cuda:0" if torch.cuda.is_available() else "cpu"),
        n_agents=2, n_actions=3, obs_shape=2, episode_limit=4, drqn_hidden_dim=8,
        gamma=0.9, epsilon=0.3, learning_rate=0.01,
    )  # fmt: skip
    env, agents = Corridor(conf), Agents(conf)
    for epoch in range(3):
        episodes = [generate_episode(env, agents, conf) for _ in range(2)]
        batch = {key: np.stack([episode[key] for episode in episodes]) for key in episodes[0]}
        loss = agents.policy.learn(batch)
        print(f"epoch {epoch}: reward {batch['r'].sum():.1f}, loss {loss:.4f}")
# --- agent.py
import numpy as np
import torch

from policy import QMIX


class Agents:
    def __init__(self, conf):
        self.conf = conf
        self.device = conf.device
        self.policy = QMIX(conf)

    def choose_action(self, obs, last_action, agent_num):
        agents_id = np.zeros(self.conf.n_agents)
        agents_id[agent_num] = 1.0
        inputs = np.hstack((obs, agents_id))
        hidden_state = self.policy.eval_hidden[:, agent_num, :]
        inputs = torch.tensor(inputs, dtype=torch.float32).unsqueeze(0).to(self.device)

        with torch.no_grad():
            q_value, self.policy.eval_hidden[:, agent_num, :] = self.policy.eval_drqn_net(inputs, hidden_state)
        if np.random.uniform() < self.conf.epsilon:
            return int(np.random.choice(self.conf.n_actions))
        return int(torch.argmax(q_value))
# --- policy.py
import torch

from NN import DRQN


class QMIX:
    """The mixing of agents is their sum, here."""

    def __init__(self, conf):
        self.conf = conf
        self.device = conf.device
        self.n_agents = conf.n_agents
        input_shape = conf.obs_shape + conf.n_agents
        self.eval_drqn_net = DRQN(input_shape, conf).to(self.device)
        self.target_drqn_net = DRQN(input_shape, conf).to(self.device)
        self.target_drqn_net.load_state_dict(self.eval_drqn_net.state_dict())
        self.optimizer = torch.optim.RMSprop(self.eval_drqn_net.parameters(), lr=conf.learning_rate)
        self.eval_hidden = None
        self.target_hidden = None

    def learn(self, batch):
        o = torch.tensor(batch["o"], dtype=torch.float32).to(self.device)
        u = torch.tensor(batch["u"], dtype=torch.long).to(self.device)
        r = torch.tensor(batch["r"], dtype=torch.float32).to(self.device)
        self.init_hidden(o.shape[0])
        q_evals, q_targets = self.get_q_values(o)
        q_total = q_evals.gather(3, u.unsqueeze(3)).squeeze(3).sum(dim=2)
        q_next = q_targets.max(dim=3)[0].sum(dim=2)
        targets = r[:, :-1] + self.conf.gamma * q_next[:, 1:]
        loss = (q_total[:, :-1] - targets.detach()).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def get_q_values(self, o):
        q_evals, q_targets = [], []
        for transition_idx in range(o.shape[1]):
            inputs = o[:, transition_idx].reshape(o.shape[0] * self.n_agents, -1)
            self.eval_hidden = self.eval_hidden.to(self.device)
            self.target_hidden = self.target_hidden.to(self.device)
            q_eval, self.eval_hidden = self.eval_drqn_net(inputs, self.eval_hidden)
            q_target, self.target_hidden = self.target_drqn_net(inputs, self.target_hidden)
            q_evals.append(q_eval.view(o.shape[0], self.n_agents, -1))
            q_targets.append(q_target.view(o.shape[0], self.n_agents, -1))
        return torch.stack(q_evals, dim=1), torch.stack(q_targets, dim=1)

    def init_hidden(self, episode_num):
        self.eval_hidden = torch.zeros((episode_num, self.n_agents, self.conf.drqn_hidden_dim))
        self.target_hidden = torch.zeros((episode_num, self.n_agents, self.conf.drqn_hidden_dim))
# --- NN.py
import torch.nn.functional as F
from torch import nn


class DRQN(nn.Module):
    def __init__(self, input_shape, conf):
        super().__init__()
        self.conf = conf
        self.fc1 = nn.Linear(input_shape, conf.drqn_hidden_dim)
        self.rnn = nn.GRUCell(conf.drqn_hidden_dim, conf.drqn_hidden_dim)
        self.fc2 = nn.Linear(conf.drqn_hidden_dim, conf.n_actions)

    def forward(self, obs, hidden_state):
        x = F.relu(self.fc1(obs))
        h_in = hidden_state.reshape(-1, self.conf.drqn_hidden_dim)
        h = self.rnn(x, h_in)
        return self.fc2(h), h

# === a_controller_copied_before_the_learner_moves
# thread: https://github.com/uoe-agents/epymarl/issues/1
# about: proximal policy optimisation for many agents compares with the controller as it was. The learner has a copy of it, and a method that brings its networks to the card
# operation: addmm|linear|mm on cpu, cuda:0
# operands: mat1|input|inputs|agent_inputs|.*fc1\.weight.*|.*fc1\.bias|weight|mat2|self|bias
# category: module-split
# line: learners/ppo_learner.py: self.mac.cuda()
# line: learners/ppo_learner.py: def cuda(self):
# repair: learners/ppo_learner.py: self.mac.cuda() -> self.old_mac.cuda(), self.mac.cuda()
from types import SimpleNamespace

import torch as th

from components.episode_buffer import EpisodeBatch
from controllers.basic_controller import BasicMAC
from learners.ppo_learner import PPOLearner


def run_sequential(args):
    mac = BasicMAC(args.obs_shape, args)
    learner = PPOLearner(mac, args)
    if args.use_cuda:
        learner.cuda()
    generator = th.Generator().manual_seed(args.seed)
    losses = []
    for episode in range(2):
        batch = EpisodeBatch.sample(4, 5, args, generator)
        batch.to("cuda" if args.use_cuda else "cpu")
        losses.append(learner.train(batch))
    return losses


if __name__ == "__main__":
    th.manual_seed(1)
    args = SimpleNamespace(
        use_cuda=th.cuda.is_available(), n_agents=3, n_actions=4, obs_shape=5, hidden_dim=8, lr=0.01,
        gamma=0.95, eps_clip=0.2, entropy_coef=0.01, epochs=3, seed=7,
    )  # fmt: skip
    for pg_loss, critic_loss in run_sequential(args):
        print(f"pg_loss {pg_loss:.5f} critic_loss {critic_loss:.5f}")
# --- learners/ppo_learner.py
import copy

import torch as th
from torch import nn
from torch.optim import Adam


class PPOLearner:
    def __init__(self, mac, args):
        self.args = args
        self.mac = mac
        self.old_mac = copy.deepcopy(mac)
        self.agent_optimiser = Adam(params=mac.parameters(), lr=args.lr)

        self.critic = nn.Sequential(nn.Linear(args.n_agents * args.obs_shape, 16), nn.ReLU(), nn.Linear(16, args.n_agents))
        self.target_critic = copy.deepcopy(self.critic)
        self.critic_optimiser = Adam(params=self.critic.parameters(), lr=args.lr)

    def train(self, batch):
        rewards = batch["reward"][:, :-1]
        actions = batch["actions"][:, :-1]
        with th.no_grad():
            old_pi = self.unroll(self.old_mac, batch)
        old_log_pi_taken = th.log(th.gather(old_pi, dim=3, index=actions).squeeze(3) + 1e-10)

        for _ in range(self.args.epochs):
            pi = self.unroll(self.mac, batch)
            advantages, critic_loss = self.train_critic(batch, rewards)
            log_pi_taken = th.log(th.gather(pi, dim=3, index=actions).squeeze(3) + 1e-10)
            ratios = th.exp(log_pi_taken - old_log_pi_taken)
            surr1 = ratios * advantages
            surr2 = th.clamp(ratios, 1 - self.args.eps_clip, 1 + self.args.eps_clip) * advantages
            entropy = -th.sum(pi * th.log(pi + 1e-10), dim=-1)
            pg_loss = -(th.min(surr1, surr2) + self.args.entropy_coef * entropy).mean()
            self.agent_optimiser.zero_grad()
            pg_loss.backward()
            self.agent_optimiser.step()

        self.old_mac.load_state(self.mac)
        self.target_critic.load_state_dict(self.critic.state_dict())
        return pg_loss.item(), critic_loss

    def unroll(self, mac, batch):
        mac.init_hidden(batch.batch_size)
        outs = [mac.forward(batch, t=t) for t in range(batch.max_seq_length - 1)]
        return th.stack(outs, dim=1)

    def train_critic(self, batch, rewards):
        states = batch["obs"].flatten(2)
        with th.no_grad():
            targets = rewards + self.args.gamma * self.target_critic(states[:, 1:])
        values = self.critic(states[:, :-1])
        loss = (targets - values).square().mean()
        self.critic_optimiser.zero_grad()
        loss.backward()
        self.critic_optimiser.step()
        return (targets - values).detach(), loss.item()

    def cuda(self):
        self.mac.cuda()
        self.critic.cuda()
        self.target_critic.cuda()
# --- controllers/basic_controller.py
import torch as th
from torch import nn


class RNNAgent(nn.Module):
    def __init__(self, input_shape, args):
        super().__init__()
        self.hidden_dim = args.hidden_dim
        self.fc1 = nn.Linear(input_shape, args.hidden_dim)
        self.rnn = nn.GRUCell(args.hidden_dim, args.hidden_dim)
        self.fc2 = nn.Linear(args.hidden_dim, args.n_actions)

    def init_hidden(self):
        return self.fc1.weight.new_zeros(1, self.hidden_dim)

    def forward(self, inputs, hidden_state):
        x = th.relu(self.fc1(inputs))
        h = self.rnn(x, hidden_state.reshape(-1, self.hidden_dim))
        return self.fc2(h), h


class BasicMAC:
    """Agents that share their parameters."""

    def __init__(self, obs_shape, args):
        self.n_agents = args.n_agents
        self.agent = RNNAgent(obs_shape + args.n_agents, args)
        self.hidden_states = None

    def forward(self, ep_batch, t):
        agent_inputs = self._build_inputs(ep_batch, t)
        agent_outs, self.hidden_states = self.agent(agent_inputs, self.hidden_states)
        return th.softmax(agent_outs, dim=-1).view(ep_batch.batch_size, self.n_agents, -1)

    def init_hidden(self, batch_size):
        self.hidden_states = self.agent.init_hidden().unsqueeze(0).expand(batch_size, self.n_agents, -1)

    def parameters(self):
        return self.agent.parameters()

    def load_state(self, other_mac):
        self.agent.load_state_dict(other_mac.agent.state_dict())

    def cuda(self):
        self.agent.cuda()

    def _build_inputs(self, batch, t):
        ids = th.eye(self.n_agents, device=batch.device).unsqueeze(0).expand(batch.batch_size, -1, -1)
        return th.cat([batch["obs"][:, t], ids], dim=-1).flatten(0, 1)
# --- components/episode_buffer.py
import torch as th


class EpisodeBatch:
    def __init__(self, data, batch_size, max_seq_length):
        self.data = data
        self.batch_size, self.max_seq_length = batch_size, max_seq_length
        self.device = th.device("cpu")

    @staticmethod
    def sample(batch_size, length, args, generator):
        shape = (batch_size, length, args.n_agents)
        data = {
            "obs": th.randn(*shape, args.obs_shape, generator=generator),
            "actions": th.randint(0, args.n_actions, (*shape, 1), generator=generator),
            "reward": th.rand(batch_size, length, 1, generator=generator),
        }
        return EpisodeBatch(data, batch_size, length)

    def __getitem__(self, key):
        return self.data[key]

    def to(self, device):
        self.device = device
        self.data = {key: value.to(device) for key, value in self.data.items()}

# === where_a_forecast_changes_its_slope
# thread: https://github.com/ourownstory/neural_prophet/pull/1010
# about: a forecast has a trend of pieces; the times at which its slope changes are worked out as the network is made. They are compared with the times of a batch
# operation: ge|ge_|greater_equal on cuda:0, cpu
# operands: other|.*trend_changepoints_t.*
# category: state-not-registered|created-without-device
# line: neuralprophet/time_net.py: self.trend_changepoints_t = torch.tensor(
# line: neuralprophet/time_net.py: past_next_changepoint = t.unsqueeze(dim=2) >= self.trend_changepoints_t
# repair: neuralprophet/time_net.py: self.trend_changepoints_t = torch.tensor(config_trend.changepoints, requires_grad=False, dtype=torch.float) -> self.register_buffer("trend_changepoints_t", torch.tensor(config_trend.changepoints, requires_grad=False, dtype=torch.float))
import numpy as np
import torch

from neuralprophet.forecaster import NeuralProphet


def air_passengers(length):
    t = np.arange(length)
    return 1.0 + 0.02 * t + 0.03 * np.maximum(t - length // 2, 0) + 0.2 * np.sin(2 * np.pi * t / 12)


if __name__ == "__main__":
    torch.manual_seed(1002)
    accelerator = "gpu" if torch.cuda.is_available() else "cpu"
    model = NeuralProphet(n_changepoints=4, epochs=12, learning_rate=0.05, accelerator=accelerator)
    metrics = model.fit(air_passengers(60))
    print(f"MAE {metrics['MAE']:.4f}")
    print("forecast", [round(value, 3) for value in model.predict(np.arange(58, 64))])
# --- neuralprophet/configure.py
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Trend:
    n_changepoints: int
    changepoints_range: float = 0.8
    changepoints: np.ndarray = field(init=False)

    def __post_init__(self):
        linear_t = np.arange(self.n_changepoints + 1).astype(float)
        self.changepoints = self.changepoints_range * linear_t / (self.n_changepoints + 1)


@dataclass
class Train:
    learning_rate: float
    epochs: int
    batch_size: int = 20
    trend_reg: float = 0.01
# --- neuralprophet/forecaster.py
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from neuralprophet import configure
from neuralprophet.time_net import TimeNet


class NeuralProphet:
    def __init__(self, n_changepoints, epochs, learning_rate, accelerator):
        self.config_trend = configure.Trend(n_changepoints)
        self.config_train = configure.Train(learning_rate, epochs)
        self.device = torch.device("cuda" if accelerator == "gpu" else "cpu")
        self.model = None

    def fit(self, y):
        self.length = len(y)
        t = torch.from_numpy(np.arange(len(y)) / self.length).float().unsqueeze(1)
        targets = torch.from_numpy(y).float().view(-1, 1, 1)
        loader = DataLoader(TensorDataset(t, targets), batch_size=self.config_train.batch_size)
        self.model = TimeNet(self.config_trend, self.config_train).to(self.device)
        optimizer = self.model.configure_optimizers()
        for _ in range(self.config_train.epochs):
            for batch in loader:
                loss = self.model.training_step([each.to(self.device) for each in batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        with torch.no_grad():
            errors = self.model(t.to(self.device)) - targets.to(self.device)
        return {"MAE": errors.abs().mean().item()}

    @torch.no_grad()
    def predict(self, times):
        t = torch.from_numpy(times / self.length).float().unsqueeze(1)
        return self.model(t.to(self.device)).flatten().tolist()
# --- neuralprophet/time_net.py
import numpy as np
import torch
from torch import nn


def new_param(dims):
    return nn.Parameter(nn.init.xavier_normal_(torch.randn(dims)), requires_grad=True)


class TimeNet(nn.Module):
    """A trend of linear pieces, and yearly waves."""

    def __init__(self, config_trend, config_train):
        super().__init__()
        self.config_trend, self.config_train = config_trend, config_train
        self.quantiles = [0.5]
        self.bias = nn.Parameter(torch.zeros(len(self.quantiles)))
        self.trend_k0 = new_param([len(self.quantiles), 1, 1])
        self.trend_changepoints_t = torch.tensor(config_trend.changepoints, requires_grad=False, dtype=torch.float)
        self.trend_deltas = new_param([len(self.quantiles), 1, config_trend.n_changepoints + 1])
        self.season_params = nn.ParameterDict({"yearly": new_param([len(self.quantiles), 1, 4])})
        self.loss_func = nn.SmoothL1Loss()

    def _piecewise_linear_trend(self, t):
        past_next_changepoint = t.unsqueeze(dim=2) >= self.trend_changepoints_t[1:].unsqueeze(dim=0)
        segment_id = past_next_changepoint.sum(dim=2)
        current_segment = nn.functional.one_hot(segment_id, num_classes=self.config_trend.n_changepoints + 1)
        k_t = torch.sum(current_segment.unsqueeze(dim=2) * self.trend_deltas.permute(1, 0, 2).unsqueeze(dim=1), dim=-1)
        previous_deltas_t = torch.sum(
            past_next_changepoint.unsqueeze(dim=2) * self.trend_deltas.permute(1, 0, 2)[:, :, :-1].unsqueeze(dim=0), dim=-1
        )
        k_t = k_t + previous_deltas_t
        gammas = -self.trend_changepoints_t[1:] * self.trend_deltas[:, :, 1:]
        m_t = torch.sum(past_next_changepoint.unsqueeze(dim=2) * gammas.permute(1, 0, 2).unsqueeze(1), dim=-1).detach()
        return (self.trend_k0.permute(1, 2, 0) + k_t) * torch.unsqueeze(t, dim=2) + m_t

    def seasonality(self, t):
        waves = torch.cat([f(2 * np.pi * 5 * n * t) for n in (1, 2) for f in (torch.sin, torch.cos)], dim=-1)
        return torch.sum(waves.unsqueeze(1).unsqueeze(2) * self.season_params["yearly"], dim=-1)

    def forward(self, t):
        return self._piecewise_linear_trend(t) + self.seasonality(t) + self.bias

    def training_step(self, batch):
        t, targets = batch
        return self.loss_func(self(t), targets) + self.config_train.trend_reg * self.trend_deltas.abs().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.config_train.learning_rate)

# === the_blur_of_a_picture_judged_on_gpu_one
# thread: https://github.com/satellogic/iquaflow/pull/9
# about: a network tells how much pictures were blurred. Which card it is on is an option; the crops and what they are to be go to one without a number
# operation: _?(slow_)?conv.*|cudnn_convolution on cuda:0, cuda:1
# operands: weight|input|x|.*weight|self|inputs?
# category: default-or-current-device
# line: iquaflow/quality_metrics/regressor.py: x = x.cuda()
# line: iquaflow/quality_metrics/regressor.py: self.device = torch.device(
# repair: iquaflow/quality_metrics/regressor.py: yreg = yreg.cuda() -> yreg = yreg.to(self.device)
# repair: iquaflow/quality_metrics/regressor.py: x = x.cuda() -> x = x.to(self.device)
# repair: iquaflow/quality_metrics/regressor.py: target = target.cuda() -> target = target.to(self.device)
import argparse

import torch

from iquaflow.quality_metrics.dataloader import crops_of
from iquaflow.quality_metrics.regressor import Regressor


def parse_params_cfg(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuda", default=False, action="store_true")
    parser.add_argument("--gpus", type=str, default="0")
    parser.add_argument("--seed", type=int, default=9)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--num_regs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.05)
    return parser.parse_args(argv)


if __name__ == "__main__":
    args = parse_params_cfg(["--cuda", "--gpus", "1"])
    torch.manual_seed(args.seed)
    reg = Regressor(args)
    train_loader = crops_of(32, args.batch_size, reg.yclasses, seed=1)
    val_loader = crops_of(16, args.batch_size, reg.yclasses, seed=2)
    for epoch in range(args.epochs):
        train_loss, _ = reg.train_val_epoch(train_loader)
        val_loss, precision = reg.train_val_epoch(val_loader, validate=True)
    print(f"train {train_loss:.4f}, val {val_loss:.4f}, precision {precision:.3f}")
# --- iquaflow/quality_metrics/dataloader.py
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def crops_of(count, batch_size, sigmas, seed):
    """Crops of noise, each blurred by one of the sigmas."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 1, 12, 12, generator=generator)
    y = sigmas[torch.randint(0, len(sigmas), (count,), generator=generator)]
    places = torch.arange(-2, 3).float()
    blurred = []
    for crop, sigma in zip(x, y):
        kernel = torch.exp(-places.square() / (2 * sigma**2))
        kernel = torch.outer(kernel, kernel) / kernel.sum() ** 2
        blurred.append(F.conv2d(crop.unsqueeze(0), kernel.view(1, 1, 5, 5), padding=2))
    return DataLoader(TensorDataset(torch.cat(blurred), y), batch_size=batch_size)
# --- iquaflow/quality_metrics/tools.py
import torch
from torch import nn


def create_network(num_regs):
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, num_regs),
    )


def get_precision(output, target):
    """Of how many crops the strongest class is the right one."""
    return (output.argmax(dim=1) == target.argmax(dim=1)).float().mean().item()


def regression_classes(num_regs):
    return torch.linspace(0.5, 2.0, num_regs)
# --- iquaflow/quality_metrics/regressor.py
from bisect import bisect_right

import torch
from torch import nn

from iquaflow.quality_metrics.tools import create_network, get_precision, regression_classes


class Regressor:
    def __init__(self, args):
        self.num_regs = args.num_regs
        self.yclasses = regression_classes(args.num_regs)
        self.criterion = nn.BCELoss()
        self.net = create_network(args.num_regs)

        # GPU options
        self.cuda = args.cuda
        self.gpus = args.gpus
        self.device = torch.device("cuda:" + self.gpus if torch.cuda.is_available() else "cpu")
        if "cuda" in self.device.type:
            self.cuda = True
        if self.cuda:
            torch.cuda.empty_cache()
            print(f"=> using gpu id: '{self.gpus}'")
            if not torch.cuda.is_available():
                raise Exception("No GPU found or Wrong gpu id, please run without --cuda")
            self.criterion = self.criterion.to(self.device)
            self.net = self.net.to(self.device)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=args.lr, momentum=0.9)

    def train_val_epoch(self, dataset_loader, validate=False):
        self.net.train(not validate)
        losses, precs = [], []
        for x, y in dataset_loader:
            # blurs become the classes of a regression
            yreg = torch.tensor([bisect_right(self.yclasses.tolist(), each) - 1 for each in y.tolist()])
            if self.cuda:
                yreg = yreg.cuda()
                x = x.cuda()
            with torch.set_grad_enabled(not validate):
                prediction = self.net(x)
                target = torch.eye(self.num_regs)[yreg.cpu()]
                if self.cuda:
                    target = target.cuda()
                loss = self.criterion(torch.sigmoid(prediction), target)
            if not validate:
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            losses.append(loss.item())
            precs.append(get_precision(prediction, target))
        return sum(losses) / len(losses), sum(precs) / len(precs)
