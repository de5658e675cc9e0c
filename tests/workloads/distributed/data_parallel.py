"""DDP in its ways, FSDP and FSDP2: each trains on its rank's share of the rows, and gives what one process gives on all of them on the CPU."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from ranks import device, local, rank, run, same, whole, world
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(5)
DATA, TARGET = torch.randn(3, 8 * world, 6), torch.randn(3, 8 * world, 4)


class Net(nn.Module):
    def __init__(self, unused=False):
        super().__init__()
        torch.manual_seed(3)
        self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 4)
        self.unused = nn.Linear(4, 4) if unused else None

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


def train(model, share=False, accumulates=False):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for x, y in zip(DATA, TARGET):
        if share:
            x, y = (t.view(world, 8, -1)[rank].to(device) for t in (x, y))
        if accumulates:
            with model.no_sync():
                (F.mse_loss(model(x[:4]), y[:4]) / 2).backward()
            (F.mse_loss(model(x[4:]), y[4:]) / 2).backward()
        with torch.set_grad_enabled(not accumulates):
            loss = F.mse_loss(model(x), y)
        if not accumulates:
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        loss = loss.detach().clone()
        if share:
            dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        losses.append(loss)
    return losses


ALONE = Net()
LOSSES = train(ALONE)


def compare(losses, parameters):
    parameters = [whole(each) for each in parameters]
    same([*losses, *parameters], [*LOSSES, *ALONE.parameters()])
    every = [None] * world
    dist.all_gather_object(every, parameters)
    assert all(torch.equal(a, b) for each in every for a, b in zip(each, every[0]))


def replicated(accumulates=False, **options):
    model = DistributedDataParallel(Net("find_unused_parameters" in options).to(device), device_ids=[local], **options)
    compare(train(model, True, accumulates), [each for name, each in model.module.named_parameters() if "unused" not in name])


def bucket_views():
    replicated(gradient_as_bucket_view=True)


def unused_parameters():
    replicated(find_unused_parameters=True)


def static_graph():
    replicated(static_graph=True)


def accumulated():
    replicated(accumulates=True)


def fsdp():
    model = FullyShardedDataParallel(Net().to(device), use_orig_params=True)
    losses = train(model, True)
    with FullyShardedDataParallel.summon_full_params(model):
        compare(losses, model.parameters())


def fsdp2():
    model = Net().to(device)
    for part in (model.a, model.b, model):
        fully_shard(part)
    compare(train(model, True), model.parameters())


def fsdp2_of_replicas():
    mesh = init_device_mesh("cuda", (world // 2, 2), mesh_dim_names=("replicas", "shards"))
    model = Net().to(device)
    for part in (model.a, model.b, model):
        fully_shard(part, mesh=mesh)
    compare(train(model, True), model.parameters())


run((bucket_views, unused_parameters, static_graph, accumulated, fsdp, fsdp2, fsdp2_of_replicas))
