# EXPECT {"kind":"refused-op","operation":"index_select|embedding","devices":["cpu","cuda:0"],"operands":["token_embedding.weight|weight","input_ids|index|input"],"category":"module split|input not moved","line":["embeds.py: hidden = self.text_encoder.text_model(","embeds.py: tokens = tokenize(prompts).to("],"error":"on the same device","thread":"https://github.com/damian0815/compel/issues/121","hard":"the hook that fetches the weights is on the module around the one that is called"}
# FIX embeds.py: hidden = self.text_encoder.text_model(tokens["input_ids"], skip_norm=True) -> hidden = self.text_encoder(tokens["input_ids"], skip_norm=True)
import torch
from torch import nn

from embeds import EmbeddingsProvider
from pipeline import Pipeline, TextEncoder


class UNet(nn.Module):
    def __init__(self, channels=4, width=8):
        super().__init__()
        self.inward, self.outward = nn.Conv2d(channels, width, 3, padding=1), nn.Conv2d(width, channels, 3, padding=1)
        self.attend = nn.Linear(width, width)

    def forward(self, latents, encoder_hidden_states):
        hidden = self.inward(latents) + self.attend(encoder_hidden_states.mean(1))[:, :, None, None]
        return self.outward(torch.relu(hidden))


torch.manual_seed(0)
pipe = Pipeline(text_encoder=TextEncoder(), unet=UNet())
pipe.enable_model_cpu_offload(gpu_id=0)
provider = EmbeddingsProvider(pipe.text_encoder, device=pipe.execution_device)
with torch.no_grad():
    prompt_embeds = provider.get_embeddings(["a cat playing with a ball++ in the forest", "a dog"])
    image = pipe(prompt_embeds, latents=torch.randn(2, 4, 4, 4))
print("image", tuple(image.shape), round(image.abs().mean().item(), 4))
