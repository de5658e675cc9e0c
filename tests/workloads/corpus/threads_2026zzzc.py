# === classes_drawn_to_the_corners_of_a_simplex
# thread: https://github.com/tding1/Neural-Collapse/issues/4
# about: how far the last layer of a classifier has collapsed is measured after training. The card is chosen by a number, and one of the measures
#   makes its own matrix
# operation: sub|subtract|rsub on cuda:1, cuda:0
# operands: other|sub|.*sub.*
# category: default-or-current-device|created-without-device
# line: validate_NC.py: sub = (torch.eye(K) - 1 / K * torch.ones((K, K))).cuda()
# line: validate_NC.py: ETF_metric = torch.norm(WWT - sub
# repair: validate_NC.py: sub = (torch.eye(K) - 1 / K * torch.ones((K, K))).cuda() / pow(K - 1, 0.5) -> sub = (torch.eye(K) - 1 / K * torch.ones((K, K))).to(W.device) / pow(K - 1, 0.5)
import torch

from args import parse_eval_args
from datasets import make_dataset
from models import MLP, train
from validate_NC import FCFeatures, evaluate

if __name__ == "__main__":
    args = parse_eval_args([])
    args.device = torch.device("cuda:" + str(args.gpu_id) if torch.cuda.is_available() else "cpu")
    trainloader, num_classes = make_dataset(args)
    torch.manual_seed(args.seed)
    model = MLP(args.features, args.hidden, num_classes).to(args.device)
    train(args, model, trainloader)
    fc_features = FCFeatures()
    model.fc.register_forward_pre_hook(fc_features)
    info_dict = evaluate(args, model, fc_features, trainloader)
    print(", ".join(f"{name} {value:.3f}" for name, value in info_dict.items()))
# --- args.py
import argparse


def parse_eval_args(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu_id", type=int, default=1)
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--features", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=10)
    parser.add_argument("--num_classes", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.1)
    return parser.parse_args(argv)
# --- datasets.py
import torch
from torch.utils.data import DataLoader, TensorDataset


def make_dataset(args, per_class=9):
    generator = torch.Generator().manual_seed(args.seed)
    centers = 2.0 * torch.randn((args.num_classes, args.features), generator=generator)
    targets = torch.arange(args.num_classes).repeat_interleave(per_class)
    inputs = centers[targets] + 0.5 * torch.randn((len(targets), args.features), generator=generator)
    order = torch.randperm(len(targets), generator=generator)
    return DataLoader(TensorDataset(inputs[order], targets[order]), batch_size=args.batch_size), args.num_classes
# --- models.py
import torch
from torch import nn


class MLP(nn.Module):
    def __init__(self, features, hidden, num_classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.fc = nn.Linear(hidden, num_classes)

    def forward(self, x):
        return self.fc(self.layers(x))


def train(args, model, trainloader):
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    for _ in range(args.epochs):
        for inputs, targets in trainloader:
            inputs, targets = inputs.to(args.device), targets.to(args.device)
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
# --- validate_NC.py
import numpy as np
import torch


class FCFeatures:
    """Keeps what the last layer is given."""

    def __init__(self):
        self.outputs = []

    def __call__(self, module, module_in):
        self.outputs.append(module_in)

    def clear(self):
        self.outputs = []


def compute_info(args, model, fc_features, dataloader):
    sums, counts, right, seen = {}, {}, 0, 0
    for inputs, targets in dataloader:
        inputs, targets = inputs.to(args.device), targets.to(args.device)
        with torch.no_grad():
            outputs = model(inputs)
        features = fc_features.outputs[0][0]
        fc_features.clear()
        for y in targets.unique().tolist():
            chosen = features[targets == y]
            sums[y] = sums.get(y, 0) + chosen.sum(dim=0)
            counts[y] = counts.get(y, 0) + len(chosen)
        right += (outputs.argmax(dim=1) == targets).sum().item()
        seen += len(targets)
    mu_c_dict = {y: sums[y] / counts[y] for y in sums}
    mu_G = sum(sums.values()) / seen
    return mu_G, mu_c_dict, 100 * right / seen


def compute_Sigma_W(args, model, fc_features, mu_c_dict, dataloader):
    Sigma_W, seen = 0, 0
    for inputs, targets in dataloader:
        inputs, targets = inputs.to(args.device), targets.to(args.device)
        with torch.no_grad():
            model(inputs)
        features = fc_features.outputs[0][0]
        fc_features.clear()
        apart = features - torch.stack([mu_c_dict[y] for y in targets.tolist()])
        Sigma_W = Sigma_W + apart.t() @ apart
        seen += len(targets)
    return (Sigma_W / seen).cpu().numpy()


def compute_Sigma_B(mu_c_dict, mu_G):
    apart = torch.stack([mu_c_dict[y] for y in sorted(mu_c_dict)]) - mu_G
    return (apart.t() @ apart / len(mu_c_dict)).cpu().numpy()


def compute_ETF(W):
    K = W.shape[0]
    WWT = torch.mm(W, W.T)
    WWT = WWT / torch.norm(WWT, p="fro")
    sub = (torch.eye(K) - 1 / K * torch.ones((K, K))).cuda() / pow(K - 1, 0.5)
    ETF_metric = torch.norm(WWT - sub, p="fro")
    return ETF_metric.detach().cpu().item()


def compute_Wh_b_relation(W, mu_G, b):
    Wh = torch.mv(W, mu_G)
    return torch.norm(Wh + b, p=2).detach().cpu().item()


def evaluate(args, model, fc_features, loader):
    mu_G, mu_c_dict, accuracy = compute_info(args, model, fc_features, loader)
    Sigma_W = compute_Sigma_W(args, model, fc_features, mu_c_dict, loader)
    Sigma_B = compute_Sigma_B(mu_c_dict, mu_G)
    info_dict = {"collapse_metric": np.trace(Sigma_W @ np.linalg.pinv(Sigma_B, rcond=1e-4)) / len(mu_c_dict)}
    info_dict["ETF_metric"] = compute_ETF(model.fc.weight)
    info_dict["Wh_b_relation_metric"] = compute_Wh_b_relation(model.fc.weight, mu_G, model.fc.bias)
    info_dict["accuracy"] = accuracy
    return info_dict

# === actions_a_search_liked_are_learned
# thread: https://github.com/opendilab/LightZero/issues/166
# about: a policy over continuous actions learns from actions that a tree search sampled, and from how often it went there. Actions are brought
#   back to before the tanh
# operation: clamp on cuda:0, cpu
# operands: min|low|.*min.*
# category: created-without-device
# line: lzero/policy/sampled_efficientzero.py: low, high = torch.tensor(-1 + 1e-6), torch.tensor(1 - 1e-6)
# line: lzero/policy/sampled_efficientzero.py: target_sampled_actions_clamped = torch.clamp(
# repair: lzero/policy/sampled_efficientzero.py: low, high = torch.tensor(-1 + 1e-6), torch.tensor(1 - 1e-6) -> low, high = torch.tensor(-1 + 1e-6, device=mu.device), torch.tensor(1 - 1e-6, device=mu.device)
import torch

from lzero.mcts.game_buffer import SampledEfficientZeroGameBuffer
from lzero.policy.sampled_efficientzero import SampledEfficientZeroPolicy
from zoo.lunarlander_cont_config import policy_config

if __name__ == "__main__":
    cfg = policy_config(cuda=torch.cuda.is_available())
    torch.manual_seed(cfg.seed)
    policy = SampledEfficientZeroPolicy(cfg)
    buffer = SampledEfficientZeroGameBuffer(cfg)
    for train_iter in range(cfg.update_per_collect):
        log_vars = policy.forward_learn(buffer.sample(cfg.batch_size))
        print("iter", train_iter, {name: round(value, 3) for name, value in log_vars.items()})
# --- zoo/lunarlander_cont_config.py
from types import SimpleNamespace


def policy_config(cuda):
    model = SimpleNamespace(
        observation_shape=8, action_space_size=2, num_of_sampled_actions=5, latent_state_dim=16, continuous_action_space=True
    )
    return SimpleNamespace(
        model=model,
        device="cuda" if cuda else "cpu",
        seed=0,
        num_unroll_steps=2,
        batch_size=6,
        update_per_collect=4,
        learning_rate=0.01,
        policy_loss_type="cross_entropy",
        policy_entropy_loss_weight=5e-3,
        value_loss_weight=0.25,
    )
# --- lzero/mcts/game_buffer.py
import numpy as np


class SampledEfficientZeroGameBuffer:
    """What was played and searched, as arrays. Actions that were squashed hard lie at the border."""

    def __init__(self, cfg, size=32):
        self._cfg, self._rng = cfg, np.random.default_rng(cfg.seed)
        steps, sampled, actions = cfg.num_unroll_steps + 1, cfg.model.num_of_sampled_actions, cfg.model.action_space_size
        self.obs = self._rng.normal(size=(size, cfg.model.observation_shape)).astype(np.float32)
        self.played = np.tanh(self._rng.normal(size=(size, steps, actions))).astype(np.float32)
        self.child_sampled_actions = np.tanh(4 * self._rng.normal(size=(size, steps, sampled, actions, 1))).astype(np.float32)
        self.child_visits = self._rng.dirichlet(np.ones(sampled), size=(size, steps)).astype(np.float32)
        self.values = self._rng.normal(size=(size, steps)).astype(np.float32)

    def sample(self, batch_size):
        chosen = self._rng.choice(len(self.obs), size=batch_size, replace=False)
        mask = np.ones((batch_size, self._cfg.num_unroll_steps + 1), dtype=np.float32)
        mask[0, -1] = 0.0
        current_data = self.obs[chosen], self.played[chosen], self.child_sampled_actions[chosen], mask
        target_data = self.values[chosen], self.child_visits[chosen]
        return current_data, target_data
# --- lzero/model/sampled_efficientzero_model_mlp.py
import torch
from torch import nn


class SampledEfficientZeroModelMLP(nn.Module):
    def __init__(self, observation_shape, action_space_size, latent_state_dim):
        super().__init__()
        self.representation_network = nn.Sequential(nn.Linear(observation_shape, latent_state_dim), nn.ReLU())
        self.dynamics_network = nn.Sequential(nn.Linear(latent_state_dim + action_space_size, latent_state_dim), nn.Tanh())
        self.mu = nn.Linear(latent_state_dim, action_space_size)
        self.log_sigma = nn.Linear(latent_state_dim, action_space_size)
        self.fc_value = nn.Linear(latent_state_dim, 1)

    def _prediction(self, latent_state):
        sigma = self.log_sigma(latent_state).clamp(-5, 2).exp()
        return self.fc_value(latent_state), torch.cat([self.mu(latent_state), sigma], dim=-1)

    def initial_inference(self, obs):
        latent_state = self.representation_network(obs)
        return latent_state, *self._prediction(latent_state)

    def recurrent_inference(self, latent_state, action):
        latent_state = self.dynamics_network(torch.cat([latent_state, action], dim=-1))
        return latent_state, *self._prediction(latent_state)
# --- lzero/policy/sampled_efficientzero.py
import torch
from torch.distributions import Independent, Normal

from lzero.model.sampled_efficientzero_model_mlp import SampledEfficientZeroModelMLP


class SampledEfficientZeroPolicy:
    def __init__(self, cfg):
        self._cfg = cfg
        model = SampledEfficientZeroModelMLP(cfg.model.observation_shape, cfg.model.action_space_size, cfg.model.latent_state_dim)
        self._learn_model = model.to(cfg.device)
        self._optimizer = torch.optim.Adam(model.parameters(), lr=cfg.learning_rate)

    def forward_learn(self, data):
        current_data, target_data = data
        obs, action_batch, child_sampled_actions_batch, mask_batch = (torch.from_numpy(each).to(self._cfg.device) for each in current_data)
        target_value, target_policy = (torch.from_numpy(each).to(self._cfg.device) for each in target_data)

        latent_state, value, policy_logits = self._learn_model.initial_inference(obs)
        policy_loss = torch.zeros(len(obs), device=self._cfg.device)
        value_loss, entropy = torch.zeros_like(policy_loss), 0.0
        for step_k in range(self._cfg.num_unroll_steps + 1):
            if step_k:
                latent_state, value, policy_logits = self._learn_model.recurrent_inference(latent_state, action_batch[:, step_k - 1])
            policy_loss, policy_entropy = self._calculate_policy_loss_cont(
                policy_loss, policy_logits, target_policy, mask_batch, child_sampled_actions_batch, unroll_step=step_k
            )
            value_loss = value_loss + (value.squeeze(-1) - target_value[:, step_k]).square() * mask_batch[:, step_k]
            entropy = entropy + policy_entropy

        weighted_total_loss = (policy_loss + self._cfg.value_loss_weight * value_loss).mean()
        weighted_total_loss = weighted_total_loss - self._cfg.policy_entropy_loss_weight * entropy
        self._optimizer.zero_grad()
        weighted_total_loss.backward()
        torch.nn.utils.clip_grad_norm_(self._learn_model.parameters(), 10.0)
        self._optimizer.step()
        return {"total_loss": weighted_total_loss.item(), "policy_loss": policy_loss.mean().item(), "policy_entropy": entropy.item()}

    def _calculate_policy_loss_cont(self, policy_loss, policy_logits, target_policy, mask_batch, child_sampled_actions_batch, unroll_step):
        size = self._cfg.model.action_space_size
        mu, sigma = policy_logits[:, :size], policy_logits[:, -size:]
        dist = Independent(Normal(mu, sigma), 1)
        target_normalized_visit_count = target_policy[:, unroll_step]
        target_sampled_actions = child_sampled_actions_batch[:, unroll_step].squeeze(-1)

        # the inverse of tanh is not defined at the border
        low, high = torch.tensor(-1 + 1e-6), torch.tensor(1 - 1e-6)
        log_prob_sampled_actions = []
        for k in range(self._cfg.model.num_of_sampled_actions):
            y = 1 - target_sampled_actions[:, k, :].pow(2)
            target_sampled_actions_clamped = torch.clamp(target_sampled_actions[:, k, :], low, high)
            target_sampled_actions_before_tanh = torch.arctanh(target_sampled_actions_clamped)
            log_prob = dist.log_prob(target_sampled_actions_before_tanh).unsqueeze(-1)
            log_prob = log_prob - torch.log(y + 1e-6).sum(-1, keepdim=True)
            log_prob_sampled_actions.append(log_prob.squeeze(-1))
        log_prob_sampled_actions = torch.stack(log_prob_sampled_actions, dim=-1).log_softmax(dim=-1)

        if self._cfg.policy_loss_type == "KL":
            target_log_prob = torch.log(target_normalized_visit_count + 1e-6)
            loss = (target_log_prob.exp() * (target_log_prob - log_prob_sampled_actions)).sum(-1)
        else:
            loss = -torch.sum(target_normalized_visit_count * log_prob_sampled_actions, 1)
        return policy_loss + loss * mask_batch[:, unroll_step], dist.entropy().mean()

# === words_swapped_until_a_classifier_is_fooled
# thread: https://github.com/thunlp/OpenAttack/issues/265
# about: words of a sentence are swapped for others that a masked language model would put there, until a classifier says something else. Which
#   words matter is found by leaving each one out
# operation: ne|not_equal on cpu, cuda:0
# operands: other|orig_label|.*label.*|target|.*target.*
# category: input-not-moved|input|cached-state
# line: OpenAttack/attackers/bert_attack.py: (leave_1_probs_argmax != orig_label).float()
# line: OpenAttack/attackers/bert_attack.py: important_scores = self.get_important_scores(
# line: OpenAttack/attack_eval.py: goal = ClassifierGoal(self.victim.get_pred([x])[0], targeted=False)
# line: victim.py: return self._logits(input_).argmax(dim=-1)
# repair: OpenAttack/attackers/bert_attack.py: (leave_1_probs_argmax != orig_label).float() -> (leave_1_probs_argmax != orig_label.to(torch.device("cpu"))).float()
import torch

from OpenAttack.attack_eval import AttackEval
from OpenAttack.attackers.bert_attack import BERTAttacker
from victim import VOCAB, SentimentClassifier

SENTENCES = [
    "the film is a warm and funny story of an old man",
    "a dull plot and a bad cast made the evening long",
    "no scene of the story is good but the music is fine",
    "an odd and slow film with a great end",
]

if __name__ == "__main__":
    torch.manual_seed(265)
    victim = SentimentClassifier(device=torch.device("cuda:0" if torch.cuda.is_available() else "cpu"))
    attacker = BERTAttacker(VOCAB, k=6, filter_words=["the", "a", "an", "of", "and", "is"])
    summary = AttackEval(attacker, victim).eval(SENTENCES)
    print("success", summary["success"], "scores", summary["scores"], "|".join(summary["adversarial"]))
# --- victim.py
import torch
from torch import nn

VOCAB = "[UNK] the a an of and is with but no film scene story plot cast music man evening end".split()
VOCAB += "warm funny old dull bad good fine odd slow great long made".split()


class SentimentClassifier:
    """A victim. It answers for lists of sentences."""

    def __init__(self, device, width=12):
        self.device = device
        self.word2id = {word: i for i, word in enumerate(VOCAB)}
        self.model = nn.Sequential(nn.EmbeddingBag(len(VOCAB), width), nn.Tanh(), nn.Linear(width, 2)).to(device).eval()

    @torch.no_grad()
    def _logits(self, input_):
        ids = [torch.tensor([self.word2id.get(word, 0) for word in sentence.split()]) for sentence in input_]
        offsets = torch.tensor([0] + [len(each) for each in ids[:-1]]).cumsum(dim=0)
        embedded = self.model[0](torch.cat(ids).to(self.device), offsets.to(self.device))
        return 3 * self.model[1:](embedded)

    def get_pred(self, input_):
        return self._logits(input_).argmax(dim=-1)

    def get_prob(self, input_):
        return self._logits(input_).softmax(dim=-1).cpu().numpy()
# --- OpenAttack/attack_eval.py
class ClassifierGoal:
    def __init__(self, target, targeted):
        self.target, self.targeted = target, targeted

    def check(self, adversarial_sample, prediction):
        return bool(prediction == self.target) if self.targeted else bool(prediction != self.target)


class AttackEval:
    def __init__(self, attacker, victim):
        self.attacker, self.victim = attacker, victim

    def eval(self, sentences):
        adversarial, scores = [], []
        for x in sentences:
            goal = ClassifierGoal(self.victim.get_pred([x])[0], targeted=False)
            found, importance = self.attacker.attack(self.victim, x, goal)
            adversarial.append(found or "-")
            scores.append(round(float(importance.sum()), 3))
        return {"success": sum(each != "-" for each in adversarial), "scores": scores, "adversarial": adversarial}
# --- OpenAttack/attackers/bert_attack.py
import copy

import torch
from torch import nn


class MaskedLM(nn.Module):
    """Stands for BERT: what it would put at a place is said by the words around it."""

    def __init__(self, vocab_size, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, width)
        self.encoder = nn.Conv1d(width, width, 3, padding=1)
        self.decoder = nn.Linear(width, vocab_size)

    def forward(self, input_ids):
        hidden = self.encoder(self.embed(input_ids).transpose(1, 2)).transpose(1, 2)
        return self.decoder(torch.tanh(hidden))


class BERTAttacker:
    def __init__(self, vocab, k, filter_words, device=None):
        self.vocab = vocab
        self.word2id = {word: i for i, word in enumerate(vocab)}
        if device is not None:
            self.device = device
        else:
            self.device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
        self.mlm_model = MaskedLM(len(vocab)).to(self.device).eval()
        self.k = k
        self.filter_words = set(filter_words)

    @torch.no_grad()
    def attack(self, victim, sentence, goal):
        words = sentence.lower().split(" ")
        orig_probs = torch.Tensor(victim.get_prob([sentence]))[0]
        current_prob = orig_probs.max()

        input_ids = torch.tensor([[self.word2id[word] for word in words]])
        word_predictions = self.mlm_model(input_ids.to(self.device))[0]
        _, word_predictions = torch.topk(word_predictions, self.k, -1)

        important_scores = self.get_important_scores(words, victim, current_prob, goal.target, orig_probs)
        list_of_index = sorted(enumerate(important_scores), key=lambda x: x[1], reverse=True)
        final_words = copy.deepcopy(words)
        changed = 0
        for top_index, _ in list_of_index:
            if changed > int(0.4 * len(words)):
                break
            if words[top_index] in self.filter_words:
                continue
            most_gap, candidate = 0.0, None
            for token in word_predictions[top_index].tolist():
                substitute = self.vocab[token]
                if substitute in self.filter_words or substitute == words[top_index]:
                    continue
                temp_words = [*final_words[:top_index], substitute, *final_words[top_index + 1:]]
                temp_prob = torch.Tensor(victim.get_prob([" ".join(temp_words)]))[0]
                if goal.check(temp_words, torch.argmax(temp_prob)):
                    return " ".join(temp_words), important_scores
                gap = current_prob - temp_prob[goal.target]
                if gap > most_gap:
                    most_gap, candidate = gap, substitute
            if candidate is not None:
                changed += 1
                current_prob = current_prob - most_gap
                final_words[top_index] = candidate
        return None, important_scores

    def get_important_scores(self, words, tgt_model, orig_prob, orig_label, orig_probs):
        texts = [" ".join([*words[:i], "[UNK]", *words[i + 1:]]) for i in range(len(words) - 1)]
        leave_1_probs = torch.Tensor(tgt_model.get_prob(texts))
        leave_1_probs_argmax = torch.argmax(leave_1_probs, dim=-1)
        import_scores = (
            orig_prob
            - leave_1_probs[:, orig_label]
            +
            (leave_1_probs_argmax != orig_label).float()
            * (leave_1_probs.max(dim=-1)[0] - torch.index_select(orig_probs, 0, leave_1_probs_argmax))
        )
        return import_scores.data.cpu().numpy()

# === a_face_is_seen_from_the_side
# thread: https://github.com/seasonSH/LiftedGAN/pull/1
# about: a generator of faces learns their depth, too. What it made is turned and drawn again by a renderer, whose camera was set up once
# operation: (bmm|matmul|baddbmm) on cuda:0, cpu
# operands: mat2|other|.*R
# category: created-without-device|default-or-current-device|state-not-registered|cached-state
# line: models/renderers/renderer.py: R = look_at_rotation(
# line: pytorch3d/renderer/cameras.py: self.R = R
# line: pytorch3d/renderer/cameras.py: return points @ self.R
# line: models/renderers/renderer.py: self.cameras = OpenGLPerspectiveCameras(
# repair: models/renderers/renderer.py: R = look_at_rotation(((0, 0, 0),), at=((0, 0, 1),), up=((0, -1, 0),)) -> R = look_at_rotation(((0, 0, 0),), at=((0, 0, 1),), up=((0, -1, 0),), device=self.device)
import torch

from models.lifted_gan import LiftedGAN

CONFIG = {"device": "cuda", "image_size": 12, "z_dim": 6, "min_depth": 0.9, "max_depth": 1.1, "fov": 10, "lr": 0.02, "num_steps": 4}

if __name__ == "__main__":
    torch.manual_seed(1)
    network = LiftedGAN(CONFIG)
    for step in range(CONFIG["num_steps"]):
        print("step", step, f"loss {network.train_step():.4f}")
    im = network.rotate(yaw=0.4)
    print(f"seen from the side: mean {im.mean().item():.3f}, spread {im.std().item():.3f}")
# --- models/lifted_gan.py
import torch
from torch import nn

from models.renderers.renderer import Renderer


class Generator(nn.Module):
    def __init__(self, z_dim, image_size):
        super().__init__()
        self.image_size = image_size
        self.body = nn.Sequential(nn.Linear(z_dim, 24), nn.ReLU())
        self.to_image = nn.Linear(24, 3 * image_size**2)
        self.to_depth = nn.Linear(24, image_size**2)

    def forward(self, z):
        h, size = self.body(z), self.image_size
        return torch.sigmoid(self.to_image(h)).view(-1, 3, size, size), torch.tanh(self.to_depth(h)).view(-1, size, size)


class LiftedGAN:
    def __init__(self, config):
        self.config, self.device = config, config["device"]
        self.generator = Generator(config["z_dim"], config["image_size"]).to(self.device)
        self.renderer = Renderer(**config)
        self.optimizer = torch.optim.Adam(self.generator.parameters(), lr=config["lr"])
        self.random = torch.Generator().manual_seed(7)

    def _generate(self, batch):
        z = torch.randn((batch, self.config["z_dim"]), generator=self.random).to(self.device)
        image, depth = self.generator(z)
        low, high = self.config["min_depth"], self.config["max_depth"]
        return image, low + (depth + 1) / 2 * (high - low)

    def train_step(self):
        """A turned face shall be as bright as it was, and turned little, look alike."""
        image, depth = self._generate(3)
        yaws = 0.2 * torch.randn(3, generator=self.random)
        turned = self.renderer.render(depth, image, yaws.to(self.device))
        loss = (turned.mean(dim=(2, 3)) - image.mean(dim=(2, 3))).square().mean() + 0.1 * (turned - image).abs().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def rotate(self, yaw):
        image, depth = self._generate(2)
        return self.renderer.render(depth, image, torch.full((2,), yaw, device=self.device))
# --- models/renderers/renderer.py
import math

import torch

from pytorch3d.renderer.cameras import OpenGLPerspectiveCameras, look_at_rotation


class Renderer(torch.nn.Module):
    def __init__(self, **cfgs):
        super().__init__()
        self.device = cfgs.get("device", "cuda")
        self.image_size = cfgs.get("image_size", 64)
        self.rot_center_depth = (cfgs.get("min_depth", 0.9) + cfgs.get("max_depth", 1.1)) / 2
        self.fov = cfgs.get("fov", 10)

        fx = (self.image_size - 1) / 2 / math.tan(self.fov / 2 * math.pi / 180)
        cx = (self.image_size - 1) / 2
        K = torch.FloatTensor([[fx, 0.0, cx], [0.0, fx, cx], [0.0, 0.0, 1.0]]).to(self.device)
        self.inv_K = torch.inverse(K).unsqueeze(0)

        R = look_at_rotation(((0, 0, 0),), at=((0, 0, 1),), up=((0, -1, 0),))
        self.cameras = OpenGLPerspectiveCameras(device=self.device, fov=self.fov, R=R)

    def depth_to_3d_grid(self, depth):
        b, h, w = depth.shape
        v, u = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        grid_2d = torch.stack([u, v, torch.ones_like(u)], dim=-1).float().to(depth.device)
        return (grid_2d.view(1, h * w, 3) @ self.inv_K.transpose(2, 1)) * depth.view(b, h * w, 1)

    def rotate_pts(self, pts, yaws):
        centroid = torch.FloatTensor([0.0, 0.0, self.rot_center_depth]).to(pts.device).view(1, 1, 3)
        cos, sin, zero, one = yaws.cos(), yaws.sin(), torch.zeros_like(yaws), torch.ones_like(yaws)
        rot_mat = torch.stack([cos, zero, sin, zero, one, zero, -sin, zero, cos], dim=-1).view(-1, 3, 3)
        return (pts - centroid) @ rot_mat.transpose(2, 1) + centroid

    def render(self, canon_depth, canon_im, yaws):
        b, h, w = canon_depth.shape
        verts = self.rotate_pts(self.depth_to_3d_grid(canon_depth), yaws)
        rgb = canon_im.permute(0, 2, 3, 1).reshape(b, h * w, 3)
        return self.splat(self.cameras.transform_points_ndc(verts), rgb, h, w)

    def splat(self, ndc, rgb, h, w, softness=0.5):
        """Each pixel takes the colours of the points near it."""
        pixels = (1 - ndc[..., :2]) * (w - 1) / 2
        v, u = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        centers = torch.stack([u, v], dim=-1).view(1, h * w, 2).float().to(rgb.device).expand(len(rgb), -1, -1)
        weight = torch.softmax(-torch.cdist(centers, pixels).square() / softness, dim=-1)
        return (weight @ rgb).view(-1, h, w, 3).permute(0, 3, 1, 2)
# --- pytorch3d/renderer/cameras.py
"""A small stand-in for the part of PyTorch3D that is needed here."""

import math

import torch
import torch.nn.functional as F


def look_at_rotation(camera_position, at=((0, 0, 0),), up=((0, 1, 0),), device="cpu"):
    camera_position, at, up = (torch.tensor(each, dtype=torch.float32, device=device) for each in (camera_position, at, up))
    z_axis = F.normalize(at - camera_position, eps=1e-5)
    x_axis = F.normalize(torch.cross(up, z_axis, dim=1), eps=1e-5)
    y_axis = F.normalize(torch.cross(z_axis, x_axis, dim=1), eps=1e-5)
    return torch.cat((x_axis[:, None, :], y_axis[:, None, :], z_axis[:, None, :]), dim=1).transpose(1, 2)


class OpenGLPerspectiveCameras:
    def __init__(self, fov, R, T=None, device="cpu"):
        self.device = device
        self.R = R
        self.T = torch.zeros((1, 1, 3), device=device) if T is None else T
        self.focal = 1 / math.tan(fov / 2 * math.pi / 180)

    def get_world_to_view(self, points):
        return points @ self.R + self.T

    def transform_points_ndc(self, points):
        view = self.get_world_to_view(points)
        return torch.cat([self.focal * view[..., :2] / view[..., 2:], view[..., 2:]], dim=-1)

# === captions_and_pictures_ranked_twice
# thread: https://github.com/salesforce/LAVIS/issues/68
# about: pictures are found for captions, and captions for pictures: first by how alike two vectors are, then the best few once more by a model that
#   reads both. The many features of pictures are kept where there is room
# operation: (index|__getitem__) on cpu, cuda:0
# operands: indices|topk_idx|.*topk_idx.*
# error: indices should be either on cpu or on the same device as the indexed tensor
# category: cached-state|input-not-moved|input
# line: lavis/models/blip_models/__init__.py: encoder_output = image_feats[topk_idx].to(model.device)
# line: lavis/models/blip_models/__init__.py: image_feats.append(image_feat.cpu())
# line: lavis/models/blip_models/__init__.py: image_feats = torch.cat(image_feats, dim=0)
# repair: lavis/models/blip_models/__init__.py: encoder_output = image_feats[topk_idx].to(model.device) -> encoder_output = image_feats[topk_idx.cpu()].to(model.device)
import torch

from lavis.datasets.retrieval import RetrievalEvalDataset
from lavis.models.blip_models.blip_retrieval import BlipRetrieval
from lavis.tasks.retrieval import RetrievalTask

if __name__ == "__main__":
    torch.manual_seed(68)
    model = BlipRetrieval(vocab=20, embed_dim=8).to("cuda" if torch.cuda.is_available() else "cpu").eval()
    dataset = RetrievalEvalDataset(images=6, captions_per_image=2, vocab=20, seed=3)
    task = RetrievalTask(k_test=4)
    metrics = task.evaluation(model, dataset.loader(batch_size=4))
    print(metrics)
# --- lavis/datasets/retrieval.py
import torch
from torch.utils.data import DataLoader, Dataset


class RetrievalEvalDataset(Dataset):
    def __init__(self, images, captions_per_image, vocab, seed):
        generator = torch.Generator().manual_seed(seed)
        self.image = torch.rand((images, 3, 8, 8), generator=generator)
        self.text = torch.randint(2, vocab, (images * captions_per_image, 5), generator=generator).tolist()
        self.img2txt = {i: [i * captions_per_image + j for j in range(captions_per_image)] for i in range(images)}

    def __len__(self):
        return len(self.image)

    def __getitem__(self, index):
        return {"image": self.image[index], "index": index}

    def loader(self, batch_size):
        return DataLoader(self, batch_size=batch_size)
# --- lavis/models/blip_models/blip_retrieval.py
import torch
from torch import nn

from lavis.models.blip_models import compute_sim_matrix


class VisionTransformerEncoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, width, 4, stride=4)
        self.cls_token = nn.Parameter(0.1 * torch.randn(1, 1, width))
        self.block = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)

    def forward_features(self, image):
        patches = self.patch_embed(image).flatten(2).transpose(1, 2)
        return self.block(torch.cat([self.cls_token.expand(len(image), -1, -1), patches], dim=1))


class XBertEncoder(nn.Module):
    """Reads words alone, or words beside a picture."""

    def __init__(self, vocab, width):
        super().__init__()
        self.embeddings = nn.Embedding(vocab, width)
        self.layer = nn.TransformerDecoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)

    def forward_features(self, input_ids):
        words = self.embeddings(input_ids)
        return self.layer(words, words)

    def forward_bert(self, input_ids, encoder_hidden_states):
        return self.layer(self.embeddings(input_ids), encoder_hidden_states)


class BlipRetrieval(nn.Module):
    def __init__(self, vocab, embed_dim, width=12):
        super().__init__()
        self.visual_encoder = VisionTransformerEncoder(width)
        self.text_encoder = XBertEncoder(vocab, width)
        self.vision_proj = nn.Linear(width, embed_dim)
        self.text_proj = nn.Linear(width, embed_dim)
        self.itm_head = nn.Linear(width, 2)

    @property
    def device(self):
        return next(self.parameters()).device

    def tokenizer(self, texts, cls_id=0):
        return torch.tensor([[cls_id, *text] for text in texts]).to(self.device)

    @torch.no_grad()
    def compute_sim_matrix(self, data_loader, k_test):
        return compute_sim_matrix(model=self, data_loader=data_loader, k_test=k_test)
# --- lavis/models/blip_models/__init__.py
import torch
import torch.nn.functional as F

ENC_TOKEN_ID = 1


def compute_sim_matrix(model, data_loader, k_test):
    texts = data_loader.dataset.text
    text_bs = 5
    text_ids, text_embeds = [], []
    for i in range(0, len(texts), text_bs):
        text_input = model.tokenizer(texts[i : i + text_bs])
        text_output = model.text_encoder.forward_features(text_input)
        text_embeds.append(F.normalize(model.text_proj(text_output[:, 0, :]), dim=-1))
        text_ids.append(text_input)
    text_embeds = torch.cat(text_embeds, dim=0)
    text_ids = torch.cat(text_ids, dim=0)
    text_ids[:, 0] = ENC_TOKEN_ID

    image_feats, image_embeds = [], []
    for samples in data_loader:
        image = samples["image"].to(model.device)
        image_feat = model.visual_encoder.forward_features(image)
        image_embed = F.normalize(model.vision_proj(image_feat[:, 0, :]), dim=-1)
        image_feats.append(image_feat.cpu())
        image_embeds.append(image_embed)
    image_feats = torch.cat(image_feats, dim=0)
    image_embeds = torch.cat(image_embeds, dim=0)

    sims_matrix = image_embeds @ text_embeds.t()
    score_matrix_i2t = torch.full((len(image_feats), len(texts)), -100.0).to(model.device)
    for i, sims in enumerate(sims_matrix):
        topk_sim, topk_idx = sims.topk(k=k_test, dim=0)
        encoder_output = image_feats[i].repeat(k_test, 1, 1).to(model.device)
        output = model.text_encoder.forward_bert(text_ids[topk_idx], encoder_output)
        score_matrix_i2t[i, topk_idx] = model.itm_head(output[:, 0, :])[:, 1] + topk_sim

    sims_matrix = sims_matrix.t()
    score_matrix_t2i = torch.full((len(texts), len(image_feats)), -100.0).to(model.device)
    for i, sims in enumerate(sims_matrix):
        topk_sim, topk_idx = sims.topk(k=k_test, dim=0)
        encoder_output = image_feats[topk_idx].to(model.device)
        output = model.text_encoder.forward_bert(text_ids[i].repeat(k_test, 1), encoder_output)
        score_matrix_t2i[i, topk_idx] = model.itm_head(output[:, 0, :])[:, 1] + topk_sim

    return score_matrix_i2t.cpu().numpy(), score_matrix_t2i.cpu().numpy()
# --- lavis/tasks/retrieval.py
class RetrievalTask:
    def __init__(self, k_test):
        self.k_test = k_test

    def evaluation(self, model, data_loader):
        score_i2t, score_t2i = model.compute_sim_matrix(data_loader, k_test=self.k_test)
        img2txt = data_loader.dataset.img2txt
        txt2img = {text: image for image, texts in img2txt.items() for text in texts}
        hits_i2t = [any(text in img2txt[i] for text in row.argsort()[::-1][:2]) for i, row in enumerate(score_i2t)]
        hits_t2i = [txt2img[i] in row.argsort()[::-1][:2] for i, row in enumerate(score_t2i)]
        metrics = {"txt_r2": sum(hits_i2t) / len(hits_i2t), "img_r2": sum(hits_t2i) / len(hits_t2i)}
        metrics["best"] = round(float(score_i2t.max(axis=1).sum() + score_t2i.max(axis=1).sum()), 3)
        return metrics

# === which_entity_completes_a_fact
# thread: https://github.com/Sujit-O/pykg2vec/pull/182
# about: a graph of facts is learned as vectors. While it is trained, facts that were held back are tried: what stands at which rank among all that
#   could complete them
# operation: embedding|index_select on cuda:0, cpu
# operands: index|indices|input|.*_tensor|t|h|r
# category: input-not-moved|input|created-without-device
# line: pykg2vec/utils/evaluator.py: h_tensor, r_tensor, t_tensor = (torch.LongTensor([each]) for each in (h, r, t))
# line: pykg2vec/utils/evaluator.py: rank = self.model.predict_head_rank(t, r, topk=topk)
# line: pykg2vec/utils/evaluator.py: rank = self.model.predict_tail_rank(h, r, topk=topk)
# repair: pykg2vec/utils/evaluator.py: h_tensor, r_tensor, t_tensor = (torch.LongTensor([each]) for each in (h, r, t)) -> h_tensor, r_tensor, t_tensor = (torch.LongTensor([each]).to(self.config.device) for each in (h, r, t))
from pykg2vec.common import Config, KnowledgeGraph
from pykg2vec.models.pairwise import TransE
from pykg2vec.utils.trainer import Trainer

if __name__ == "__main__":
    config = Config(device="cuda", epochs=6, test_step=3, hidden_size=8, batch_size=12, learning_rate=0.05, margin=1.0)
    config.knowledge_graph = KnowledgeGraph(tot_entity=12, tot_relation=3, seed=182)
    trainer = Trainer(TransE, config)
    trainer.build_model()
    scores = trainer.train_model()
    print("mean rank, reciprocal rank, last loss", *(f"{each:.3f}" for each in scores))
# --- pykg2vec/common.py
import random
from dataclasses import dataclass


class KnowledgeGraph:
    """Entities sit on a ring; a relation leads some steps on."""

    def __init__(self, tot_entity, tot_relation, seed):
        self.tot_entity, self.tot_relation = tot_entity, tot_relation
        triples = [(h, r, (h + r + 1) % tot_entity) for h in range(tot_entity) for r in range(tot_relation)]
        random.Random(seed).shuffle(triples)
        held_back = len(triples) // 4
        self.triplets_valid, self.triplets_train = triples[:held_back], triples[held_back:]


@dataclass
class Config:
    device: str
    epochs: int
    test_step: int
    hidden_size: int
    batch_size: int
    learning_rate: float
    margin: float
    knowledge_graph: KnowledgeGraph = None
# --- pykg2vec/models/pairwise.py
import torch
import torch.nn.functional as F
from torch import nn


class TransE(nn.Module):
    def __init__(self, tot_entity, tot_relation, hidden_size):
        super().__init__()
        self.tot_entity = tot_entity
        self.ent_embeddings = nn.Embedding(tot_entity, hidden_size)
        self.rel_embeddings = nn.Embedding(tot_relation, hidden_size)
        for table in (self.ent_embeddings, self.rel_embeddings):
            nn.init.xavier_uniform_(table.weight)

    def embed(self, h, r, t):
        return self.ent_embeddings(h), self.rel_embeddings(r), self.ent_embeddings(t)

    def forward(self, h, r, t):
        h_e, r_e, t_e = self.embed(h, r, t)
        return torch.norm(F.normalize(h_e, dim=-1) + r_e - F.normalize(t_e, dim=-1), p=1, dim=-1)

    def _all_entities(self):
        return F.normalize(self.ent_embeddings.weight, dim=-1)

    def _entity(self, h):
        return self.ent_embeddings(h)

    def predict_tail_rank(self, h, r, topk):
        wanted = F.normalize(self._entity(h), dim=-1) + self.rel_embeddings(r)
        score = torch.norm(wanted - self._all_entities(), p=1, dim=-1)
        return torch.topk(score, k=topk, largest=False).indices

    def predict_head_rank(self, t, r, topk):
        wanted = F.normalize(self._entity(t), dim=-1) - self.rel_embeddings(r)
        score = torch.norm(wanted - self._all_entities(), p=1, dim=-1)
        return torch.topk(score, k=topk, largest=False).indices
# --- pykg2vec/utils/evaluator.py
import numpy as np
import torch


class MetricCalculator:
    def __init__(self):
        self.reset()

    def reset(self):
        self.rank_head, self.rank_tail = [], []

    def append_result(self, trank, hrank, h, r, t):
        self.rank_tail.append(int(np.flatnonzero(trank == t)[0]) + 1)
        self.rank_head.append(int(np.flatnonzero(hrank == h)[0]) + 1)

    def settle(self):
        ranks = np.array(self.rank_head + self.rank_tail, dtype=np.float64)
        return ranks.mean(), (1 / ranks).mean()


class Evaluator:
    def __init__(self, model, config):
        self.model, self.config = model, config
        self.eval_data = config.knowledge_graph.triplets_valid
        self.metric_calculator = MetricCalculator()

    def test_tail_rank(self, h, r, topk):
        rank = self.model.predict_tail_rank(h, r, topk=topk)
        return rank.cpu().numpy()

    def test_head_rank(self, r, t, topk):
        rank = self.model.predict_head_rank(t, r, topk=topk)
        return rank.cpu().numpy()

    @torch.no_grad()
    def mini_test(self):
        self.metric_calculator.reset()
        tot_entity = self.config.knowledge_graph.tot_entity
        for h, r, t in self.eval_data:
            h_tensor, r_tensor, t_tensor = (torch.LongTensor([each]) for each in (h, r, t))
            hrank = self.test_head_rank(r_tensor, t_tensor, tot_entity)
            trank = self.test_tail_rank(h_tensor, r_tensor, tot_entity)
            self.metric_calculator.append_result(trank, hrank, h, r, t)
        return self.metric_calculator.settle()
# --- pykg2vec/utils/trainer.py
import torch

from pykg2vec.utils.evaluator import Evaluator


class Trainer:
    def __init__(self, model_class, config):
        self.model_class, self.config = model_class, config

    def build_model(self):
        torch.manual_seed(0)
        kg = self.config.knowledge_graph
        self.model = self.model_class(kg.tot_entity, kg.tot_relation, self.config.hidden_size).to(self.config.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=self.config.learning_rate)
        self.evaluator = Evaluator(self.model, self.config)

    def train_step_pairwise(self, pos, neg):
        pos_h, pos_r, pos_t = pos.to(self.config.device).t()
        neg_h, neg_r, neg_t = neg.to(self.config.device).t()
        pos_preds, neg_preds = self.model(pos_h, pos_r, pos_t), self.model(neg_h, neg_r, neg_t)
        return torch.relu(pos_preds + self.config.margin - neg_preds).sum()

    def train_model_epoch(self, generator):
        acc_loss = 0.0
        triples = torch.LongTensor(self.config.knowledge_graph.triplets_train)
        for pos in triples[torch.randperm(len(triples), generator=generator)].split(self.config.batch_size):
            neg = pos.clone()
            neg[:, 2] = torch.randint(0, self.config.knowledge_graph.tot_entity, (len(pos),), generator=generator)
            loss = self.train_step_pairwise(pos, neg)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            acc_loss += loss.item()
        return acc_loss

    def train_model(self):
        generator = torch.Generator().manual_seed(1)
        for epoch in range(self.config.epochs):
            loss = self.train_model_epoch(generator)
            if (epoch + 1) % self.config.test_step == 0:
                mr, mrr = self.evaluator.mini_test()
        return mr, mrr, loss
