# about: The seed of a pipeline on the GPU comes from a generator of the CPU (the question behind diffusers' randn_tensor and its many threads).
# category: generator
# operands:
# fails: latents = torch.randn((1, 4, 8, 8), generator=generator, device="cuda")
# fix: generator = torch.Generator(device="cuda:0")  # where generator is made



import torch

generator = torch.Generator().manual_seed(7)
latents = torch.randn((1, 4, 8, 8), generator=generator, device="cuda")
