import torch
from peft import LoraConfig, inject_adapter_in_model


class LoraLoaderMixin:
    """Puts adapters from files into the pipeline's transformer."""

    def load_lora_weights(self, file, adapter_name="default", low_cpu_mem_usage=False):
        model = self.transformer
        state_dict = torch.load(file, map_location="cpu")
        state_dict = self.named_for(adapter_name, state_dict)
        rank = next(weight for name, weight in state_dict.items() if ".lora_A." in name).shape[0]
        targets = sorted({name.split(".lora_")[0] for name in state_dict})
        config = LoraConfig(r=rank, lora_alpha=rank, target_modules=targets, init_lora_weights=False)
        # With little memory to spare the layers are made without weights, and the file's become theirs.
        inject_adapter_in_model(config, model, adapter_name=adapter_name, low_cpu_mem_usage=low_cpu_mem_usage)
        if low_cpu_mem_usage:
            model.load_state_dict(state_dict, strict=False, assign=True)
        else:
            model.load_state_dict(state_dict, strict=False)

    @staticmethod
    def named_for(adapter_name, state_dict):
        return {name.replace(".weight", f".{adapter_name}.weight"): weight for name, weight in state_dict.items()}
