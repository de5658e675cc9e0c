"""A server of a swarm: it holds a span of a LLaMA's blocks and the key/value caches of its clients' sessions.

    python server.py            version 2.3: a session's cache is allocated on the CPU: PyTorch refuses (petals#575)
    python server.py --version 2.2   the release before
    python server.py --fixed    version 2.3, repaired where keys are joined
    python server.py --cpu      everything on the CPU
"""

import argparse
import importlib
import json

import torch

from block import LlamaBlock

VERSIONS = {"2.2": "memory_cache_v2_2", "2.3": "memory_cache_v2_3"}


class Server:
    def __init__(self, version: str, device: str, blocks: int = 2, cache_follows: bool = False):
        torch.manual_seed(575)
        self.device = torch.device(device)
        self.blocks = torch.nn.ModuleList(LlamaBlock(cache_follows=cache_follows) for _ in range(blocks)).eval().to(self.device)
        self.cache = importlib.import_module(VERSIONS[version]).MemoryCache(self.device)

    def open_session(self, batch: int, longest: int) -> list[int]:
        """Handles of the session's caches, one a block."""
        return [self.cache.allocate(block.cache_shape(batch, longest)) for block in self.blocks]

    @torch.inference_mode()
    def step(self, handles: list[int], hidden_states: torch.Tensor, prefix: int) -> torch.Tensor:
        """hidden_states: [batch, new tokens, width] as the network brings them, on the CPU; prefix: tokens of the session before these."""
        hidden_states = hidden_states.to(self.device)
        for block, handle in zip(self.blocks, handles):
            keys, values = self.cache.read(handle, prefix)
            hidden_states, (keys, values) = block(hidden_states, past_key_value=(keys, values))
            self.cache.write(handle, prefix, keys, values)
        return hidden_states.cpu()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=VERSIONS, default="2.3")
    variant = parser.add_mutually_exclusive_group()
    variant.add_argument("--fixed", action="store_true", help="cached keys and values go to the device of the new ones")
    variant.add_argument("--cpu", action="store_true", help="use no GPU")
    options = parser.parse_args()

    server = Server(options.version, "cpu" if options.cpu else "cuda:0", cache_follows=options.fixed)
    handles = server.open_session(batch=1, longest=32)
    tokens = torch.randn(1, 9, 64, generator=torch.Generator().manual_seed(9))
    prefix, sums = 0, []
    for chunk in tokens.split([5, 1, 1, 2], dim=1):
        answer = server.step(handles, chunk, prefix)
        prefix += chunk.shape[1]
        sums.append(answer[0, -1, :8].tolist())
    print(json.dumps({"version": options.version, "device": str(server.device), "answers": sums}))


if __name__ == "__main__":
    main()
