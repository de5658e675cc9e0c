import torch

# What all models of the library are on; may be set before one is made.
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
