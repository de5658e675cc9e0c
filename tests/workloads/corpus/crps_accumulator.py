# EXPECT {"kind":"refused-op","operation":"add","devices":["cuda:0","cpu"],"operands":["crps","q_loss|q_loss / denominator"],"category":"created without device","line":["crps = torch.tensor(0.0)"],"error":"on the same device","thread":"https://github.com/WenjieDu/PyPOTS/pull/837","hard":"a number on the CPU may meet any device, but not be added to in place"}
# FIX crps = torch.tensor(0.0) -> crps = torch.tensor(0.0, device=predictions.device)
import torch


def quantile_loss(target, forecast, q, mask):
    return 2 * torch.sum(torch.abs((forecast - target) * mask * ((target <= forecast) * 1.0 - q)))


def calc_quantile_crps(predictions, targets, masks, scale=1.0):
    """How far the predicted quantiles are from what came, over all of them."""
    targets, predictions = targets * scale, predictions * scale
    quantiles = [q / 20 for q in range(1, 20)]
    denominator = torch.sum(torch.abs(targets * masks))
    crps = torch.tensor(0.0)
    for i in range(len(quantiles)):
        q_pred = torch.quantile(predictions, quantiles[i], dim=1)
        q_loss = quantile_loss(targets, q_pred, quantiles[i], masks)
        crps += q_loss / denominator
    return crps.item() / len(quantiles)


torch.manual_seed(0)
network = torch.nn.Linear(6, 5 * 6).to("cuda:0")
history = torch.rand(2, 6)
with torch.no_grad():
    samples = network(history.to("cuda:0")).view(2, 5, 6)
truth = torch.rand(2, 6)
score = calc_quantile_crps(samples, truth.to("cuda:0"), torch.ones_like(truth).to("cuda:0"))
print("crps", round(score, 3))
