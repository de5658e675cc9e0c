"""One model split over ranks: its layers' matrices, its layers, its sequences. Each gives what the whole one gives on the CPU."""

import copy
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.nn.functional as F
from ranks import device, rank, run, same, world
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.experimental._attention import context_parallel_unshard
from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel, parallelize_module
from torch.nn.attention import SDPBackend, sdpa_kernel


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def make(blocks=2, width=16, classes=16):
    torch.manual_seed(3)
    return nn.Sequential(*[Block(width) for _ in range(blocks)], nn.Linear(width, classes))


torch.manual_seed(5)
DATA, TARGET = torch.randn(3, 8, 8, 16), torch.randint(16, (3, 8, 8))  # the most ranks divide all that is split


def sgd(model):
    # PyTorch 2.11's foreach functions take another value than the others where a DTensor's gradient is partial, over gloo, too.
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)


def train(model, data, target, optimizer=None):
    optimizer = optimizer or sgd(model)
    losses = []
    for x, y in zip(data, target):
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)
    return losses


def tensors():
    mesh = init_device_mesh("cuda", (world,))
    torch.manual_seed(7)
    a, b = torch.randn(4 * world, 6), torch.randn(6, 2 * world)
    split = lambda tensor, dim: distribute_tensor(tensor.cuda(), mesh, [Shard(dim)])
    same([split(a, 0) @ split(b, 1), split(a, 1).sum(), split(a, 0).redistribute(placements=[Shard(1)])], [a @ b, a.sum(), a])
    same([split(a, 0).softmax(0), split(a, 0).mean(0)], [a.softmax(0), a.mean(0)])
    part = DTensor.from_local(torch.full((2,), float(rank), device=device), mesh, [Shard(0)])
    same([part.redistribute(placements=[Replicate()])], [torch.arange(world).repeat_interleave(2).float()])


def tensor_parallel():
    wanted = make()
    mesh = init_device_mesh("cuda", (world,))
    model = make().cuda()
    for block in model[:2]:
        parallelize_module(block, mesh, {
            "norm": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1)), "down": RowwiseParallel(output_layouts=Shard(1)),
        })
    parallelize_module(model, mesh, {
        "0": PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1), use_local_output=True),
        "2": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
    })
    with loss_parallel():
        losses = train(model, DATA.cuda(), TARGET.cuda())
    same(losses, train(wanted, DATA, TARGET))
    same(model.parameters(), wanted.parameters())


def sharded_tensor_parallel():
    wanted = make()
    mesh = init_device_mesh("cuda", (2, world // 2), mesh_dim_names=("data", "tensor"))
    model = make().cuda()
    for block in model[:2]:
        parallelize_module(block, mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(block, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    half = mesh["data"].get_local_rank()
    losses = train(model, DATA[:, 4 * half:4 * half + 4].cuda(), TARGET[:, 4 * half:4 * half + 4].cuda())
    for loss in losses:
        dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)
    same(losses, train(wanted, DATA, TARGET))
    same(model.parameters(), wanted.parameters())


def transformers_tensor_parallel():
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    whole_one = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=8,
                                             num_key_value_heads=8, max_position_embeddings=32, initializer_range=0.3)).eval()
    if rank == 0:
        whole_one.save_pretrained("llama")
    dist.barrier()
    model = AutoModelForCausalLM.from_pretrained("llama", tp_plan="auto").eval()
    assert model.model.layers[0].mlp.up_proj.weight.to_local().shape[0] == 64 // world
    words = torch.tensor([[5, 60, 7, 33, 11, 9], [50, 3, 44, 12, 40, 41]])
    got, wanted = model(words.cuda(), labels=words.cuda()), whole_one(words, labels=words)
    same([got.loss, got.logits], [wanted.loss, wanted.logits], rtol=1e-4, atol=1e-4)
    how = dict(max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=None)
    assert model.generate(words.cuda(), **how).tolist() == whole_one.generate(words, **how).tolist()


STAGES = {
    "ScheduleGPipe": 1, "Schedule1F1B": 1, "ScheduleInterleaved1F1B": 2, "ScheduleLoopedBFS": 2, "ScheduleInterleavedZeroBubble": 2, "ScheduleZBVZeroBubble": 2,
}


def pipelines():
    loss_of = lambda output, target: F.cross_entropy(output.flatten(0, 1), target.flatten())
    for name, each in STAGES.items():
        count = each * world
        torch.manual_seed(3)
        layers = [Block() for _ in range(count - 1)] + [nn.Linear(16, 16)]
        wanted = nn.Sequential(*copy.deepcopy(layers))
        loss = loss_of(wanted(DATA[0]), TARGET[0])
        loss.backward()
        # ZBV goes forth and back: the first rank has the last stage, too.
        own = [rank, 2 * world - 1 - rank] if "ZBV" in name else list(range(rank, count, world))
        stages = [PipelineStage(layers[i].cuda(), i, count, device) for i in own]
        schedule = getattr(schedules, name)(stages if each > 1 else stages[0], n_microbatches=8, loss_fn=loss_of)
        losses, last = [], count - 1 in own
        output = schedule.step(*([DATA[0].cuda()] if 0 in own else []), **({"target": TARGET[0].cuda(), "losses": losses} if last else {}))
        for i in own:
            same([p.grad for p in layers[i].parameters()], [p.grad for p in wanted[i].parameters()])
        if last:
            same([torch.stack(losses).mean(), output], [loss, wanted(DATA[0])])


def sequences():
    torch.manual_seed(9)
    q, k, v = torch.randn(3, 2, 4, 64 * world, 8)  # the memory-efficient kernel takes multiples of 32
    wanted = [t.clone().requires_grad_() for t in (q, k, v)]
    out = F.scaled_dot_product_attention(*wanted, is_causal=True)
    out.sum().backward()
    mesh = init_device_mesh("cuda", (world,))
    for backend in (SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION):
        half = backend == SDPBackend.FLASH_ATTENTION
        got = [t.to(torch.bfloat16 if half else torch.float32).cuda() for t in (q, k, v)]
        with sdpa_kernel(backend), context_parallel(mesh, buffers=got, buffer_seq_dims=[2] * 3):
            for t in got:
                t.requires_grad_()
            part = F.scaled_dot_product_attention(*got, is_causal=True)
            part.sum().backward()
            parts = context_parallel_unshard(mesh, [part.detach(), *[t.grad for t in got]], [2] * 4)
            for t in got:
                t.requires_grad_(False)
        same([t.float() for t in parts], [out, *[t.grad for t in wanted]], **(dict(rtol=0.05, atol=0.05) if half else {}))


def checkpoints():
    """The first two steps, then a checkpoint; who finds one, with as many ranks as it may have, takes the third."""
    wanted = make()
    train(wanted, DATA, TARGET)
    model = make().cuda()
    for part in [*model, model]:
        fully_shard(part)
    optimizer = sgd(model)
    later = Path("checkpoint").exists()
    if later:
        parameters, states = get_state_dict(model, optimizer)
        checkpoint.load({"model": parameters, "optimizer": states}, checkpoint_id="checkpoint")
        set_state_dict(model, optimizer, model_state_dict=parameters, optim_state_dict=states)
    steps = slice(2, 3) if later else slice(2)
    train(model, DATA[steps].cuda(), TARGET[steps].cuda(), optimizer)
    if later:
        same(model.parameters(), wanted.parameters())
        return
    parameters, states = get_state_dict(model, optimizer)
    checkpoint.save({"model": parameters, "optimizer": states}, checkpoint_id="checkpoint")


CHECKS = (tensors, tensor_parallel, sharded_tensor_parallel, transformers_tensor_parallel, pipelines, sequences, checkpoints)
run([check for check in CHECKS if check.__name__ in sys.argv[1:] or not sys.argv[1:]])
