# thread: https://github.com/pytorch/pytorch/issues/149196
# about: a tensor's handle is sent to another process, which opens it where the sender had it, by the sender's numbering of the devices.
# category: inter-process
# operands: weights cuda:1, x cuda:0
# fails: y = x @ weights
# fix: y = x @ weights.to(x.device)
# alone: yes



import torch
import torch.multiprocessing as multiprocessing


def work(queue):
    weights = queue.get()
    x = torch.ones(2, 4, device="cuda:0")
    try:
        y = x @ weights
        print(y)
    except RuntimeError:
        print(f"{__file__} refused", flush=True)


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    weights = torch.ones(4, 4, device="cuda:1")
    queue.put(weights)
    process.join()
