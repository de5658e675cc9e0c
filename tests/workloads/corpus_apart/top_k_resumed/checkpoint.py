import torch


class ModelCheckpoint:
    """Keeps the names of the epochs that did best by one of the metrics."""

    def __init__(self, monitor, save_top_k):
        self.monitor, self.save_top_k = monitor, save_top_k
        self.best_k_models = {}

    def state_dict(self):
        return {"best_k_models": self.best_k_models}

    def load_state_dict(self, state):
        self.best_k_models = state["best_k_models"]

    @property
    def kth_best_model_path(self):
        return max(self.best_k_models, key=self.best_k_models.get)

    def check_monitor_top_k(self, current):
        if len(self.best_k_models) < self.save_top_k:
            return True
        best = self.best_k_models[self.kth_best_model_path]
        if torch.lt(current, best):
            del self.best_k_models[self.kth_best_model_path]
            return True
        return False

    def on_validation_end(self, trainer):
        current = trainer.callback_metrics[self.monitor]
        if self.check_monitor_top_k(current):
            self.best_k_models[f"epoch={trainer.epoch}"] = current
