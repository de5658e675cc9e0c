"""A server with several processes, and the clients that ask it: server.py KIND. Prints the answers, sorted.

Each kind shares its work in another way. There are processes that are there before (prefork), a process or a thread a connection, a pool, a manager,
workers that a pipe feeds, event loops.
"""

import asyncio
import http.client
import http.server
import json
import multiprocessing
import os
import signal
import socket
import socketserver
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.managers import BaseManager

REQUESTS = 12


def work(number: int) -> int:
    return sum(n * n for n in range(number))


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(work(int(self.path[1:]))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def ask(address, number: int) -> int:
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.request("GET", f"/{number}")
    return json.loads(connection.getresponse().read())


def ask_all(address) -> list[int]:
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda number: ask(address, number), range(REQUESTS)))


def serve(mixin) -> list[int]:
    class Server(mixin, http.server.HTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        answers = ask_all(server.server_address)
        server.shutdown()
        thread.join()
    return answers


def prefork() -> list[int]:
    """Three processes wait for connections of one socket; a signal ends them."""
    server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
    workers = []
    for _ in range(3):
        if (pid := os.fork()) == 0:
            server.serve_forever()
        workers.append(pid)
    answers = ask_all(server.server_address)
    for pid in workers:
        os.kill(pid, signal.SIGTERM)
    ends = [os.waitpid(pid, 0)[1] for pid in workers]
    assert ends == [signal.SIGTERM] * 3, ends
    return answers


def pool(method: str) -> list[int]:
    with multiprocessing.get_context(method).Pool(3, maxtasksperchild=2) as workers:
        return workers.map(work, range(REQUESTS), chunksize=1)


def executor() -> list[int]:
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as workers:
        return list(workers.map(work, range(REQUESTS)))


class Manager(BaseManager):
    pass


Manager.register("work", work)


def manager() -> list[int]:
    with Manager() as server:
        return [server.work(number)._getvalue() for number in range(REQUESTS)]


def consume(tasks, results) -> None:
    while (number := tasks.get()) is not None:
        results.put(work(number))


def queues() -> list[int]:
    tasks, results = multiprocessing.Queue(), multiprocessing.Queue()
    workers = [multiprocessing.Process(target=consume, args=(tasks, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for number in [*range(REQUESTS), *[None] * 3]:
        tasks.put(number)
    answers = [results.get() for _ in range(REQUESTS)]
    for worker in workers:
        worker.join()
    return answers


def descriptors() -> list[int]:
    """The parent accepts and hands the connection on to a worker."""
    listener = socket.create_server(("127.0.0.1", 0))
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if (pid := os.fork()) == 0:
        for _ in range(REQUESTS):
            _, received, _, _ = socket.recv_fds(theirs, 1, 1)
            with socket.socket(fileno=received[0]) as connection:
                connection.sendall(str(work(int(connection.recv(64)))).encode())
        os._exit(0)
    answers = []
    for number in range(REQUESTS):
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        socket.send_fds(mine, [b"x"], [accepted.fileno()])
        accepted.close()
        client.sendall(str(number).encode())
        answers.append(int(client.recv(64)))
        client.close()
    assert os.waitpid(pid, 0)[1] == 0
    return answers


def event_loop() -> list[int]:
    """An event loop whose work is done by child processes."""
    async def one(number: int) -> int:
        code = f"print(sum(n * n for n in range({number})))"
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
        return int((await child.communicate())[0])

    async def all_of_them():
        return await asyncio.gather(*map(one, range(4)))

    return asyncio.run(all_of_them())


def tensors() -> list[int]:
    """PyTorch's processes, which share the memory of tensors."""
    import torch

    shared = torch.zeros(REQUESTS, dtype=torch.long).share_memory_()
    torch.multiprocessing.spawn(fill, args=(shared,), nprocs=2)
    return shared.tolist()


def fill(rank: int, shared) -> None:
    for number in range(rank, REQUESTS, 2):
        shared[number] = work(number)


def collectives() -> list[int]:
    """Processes that a rendezvous brings together, by Gloo."""
    import torch

    torch.multiprocessing.spawn(reduce, args=(os.path.abspath("rendezvous"),), nprocs=2)
    return [work(number) for number in range(REQUESTS)]


def reduce(rank: int, file: str) -> None:
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    sums = torch.tensor([work(number) for number in range(REQUESTS)])
    dist.all_reduce(sums)
    assert sums.tolist() == [2 * work(number) for number in range(REQUESTS)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(2, 4)).sum().backward()
    dist.destroy_process_group()


KINDS = {
    "forking": lambda: serve(socketserver.ForkingMixIn),
    "threading": lambda: serve(socketserver.ThreadingMixIn),
    "prefork": prefork,
    "pool-fork": lambda: pool("fork"),
    "pool-spawn": lambda: pool("spawn"),
    "pool-forkserver": lambda: pool("forkserver"),
    "executor": executor,
    "manager": manager,
    "queues": queues,
    "descriptors": descriptors,
    "event-loop": event_loop,
    "tensors": tensors,
    "collectives": collectives,
}

if __name__ == "__main__":
    print(sorted(KINDS[sys.argv[1]]()))
