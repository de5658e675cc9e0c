"""CUDA graphs: what is captured is computed again at each replay."""


def install(within):
    pass
