"""Work that makes the allocator grow, shrink and reuse, for any of its back ends. With `cpu` on the CPU. Prints results as JSON."""

import json
import sys

import torch


def main():
    torch.set_num_threads(1)
    torch.manual_seed(19)
    cpu = "cpu" in sys.argv
    devices = ["cpu", "cpu"] if cpu else ["cuda:0", "cuda:1"]
    sums, kept = [], []
    for round_ in range(6):
        made = [torch.randn(1 << (10 + round_ * 2)).to(d) for d in devices]
        sums += [tensor.double().sum().item() for tensor in made]
        kept.append((made[0][:512] * made[1][:512].to(devices[0])).clone())
        if round_ % 2:
            kept.pop(0)
            del made
            if not cpu:
                torch.cuda.empty_cache()
    large = torch.arange(3 << 20, dtype=torch.float32).to(devices[1])  # 12 MiB: several pages of an expandable segment
    sums.append(large.view(3, -1).double().mean(dim=1).cpu().tolist())
    if not cpu:
        stream = torch.cuda.Stream(devices[0])
        with torch.cuda.stream(stream):
            side = kept[-1] * 2
        side.record_stream(torch.cuda.current_stream(devices[0]))
        torch.cuda.current_stream(devices[0]).wait_stream(stream)
    else:
        side = kept[-1] * 2
    sums.append(side.double().sum().item())
    backend = None if cpu else torch.cuda.get_allocator_backend()
    segments = [] if cpu or backend != "native" else sorted({segment["is_expandable"] for segment in torch.cuda.memory_snapshot()})
    print(json.dumps({"sums": sums, "kept": [tensor.double().sum().item() for tensor in kept], "about": [backend, segments]}))


if __name__ == "__main__":
    main()
