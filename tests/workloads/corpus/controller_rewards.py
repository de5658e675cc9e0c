# EXPECT {"kind":"refused-op","operation":"add","devices":["cuda:0","cuda:1"],"operands":["rewards","entropies|mul"],"category":"default or current device","line":["rewards = torch.tensor("],"error":"on the same device","thread":"https://github.com/VITA-Group/AutoGAN/issues/11"}
# FIX rewards = torch.tensor(rewards, requires_grad=False).cuda() -> rewards = torch.tensor(rewards, requires_grad=False).to(entropies.device)
import torch
import torch.nn as nn
from torch.distributions import Categorical


class Controller(nn.Module):
    """An LSTM that writes the architecture of a generator, one choice after the other."""

    def __init__(self, hid_size, n_choices, n_ops):
        super(Controller, self).__init__()
        self.hid_size, self.n_choices = hid_size, n_choices
        self.lstm = nn.LSTMCell(hid_size, hid_size)
        self.decoder = nn.Linear(hid_size, n_ops)

    def sample(self, batch_size):
        x = torch.zeros(batch_size, self.hid_size, device=self.decoder.weight.device)
        h = None
        archs, log_probs, entropies = [], [], []
        for _ in range(self.n_choices):
            h = self.lstm(x, h)
            x = h[0]
            choice = Categorical(logits=self.decoder(x))
            action = choice.probs.argmax(dim=-1)
            archs.append(action)
            log_probs.append(choice.log_prob(action))
            entropies.append(choice.entropy())
        return torch.stack(archs, 1), torch.stack(log_probs, 1), torch.stack(entropies, 1)


def inception_score(arch):
    return 1.5 + 0.1 * float(arch.sum())


def train_controller(controller, optimizer, steps, entropy_coeff=1e-2, baseline_decay=0.9):
    baseline = None
    for _ in range(steps):
        archs, selected_log_probs, entropies = controller.sample(batch_size=3)
        rewards = [inception_score(arch) for arch in archs]
        rewards = torch.tensor(rewards, requires_grad=False).cuda()
        rewards = rewards.unsqueeze(-1) + entropy_coeff * entropies
        baseline = rewards if baseline is None else baseline_decay * baseline.detach() + (1 - baseline_decay) * rewards
        loss = (-selected_log_probs * (rewards - 0.9 * baseline)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return rewards.mean().item()


torch.manual_seed(12345)
ctrl = Controller(hid_size=6, n_choices=3, n_ops=4).cuda(1)
ctrl_optimizer = torch.optim.Adam(ctrl.parameters(), lr=3e-4)
print(f"mean reward {train_controller(ctrl, ctrl_optimizer, steps=2):.3f}")
