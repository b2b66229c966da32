"""Processes of the program's own, forked and spawned, with classes and functions of the main module."""

import multiprocessing
import os

import torch
import torch.multiprocessing
from audit_shown import show


class Result:
    def __init__(self, number, tensor):
        self.number, self.tensor = number, tensor


def work(number):
    torch.manual_seed(number)
    weight = torch.randn(3, requires_grad=True)
    weight.exp().sum().backward()
    return Result(number, weight.grad.tolist())


def fill(shared, number):
    shared[number] += number
    raise SystemExit(number)


if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:
            for result in pool.map(work, range(3)):
                print(method, type(result).__module__, result.number)
                show(tensor=result.tensor)
        shared = torch.zeros(3).share_memory_()
        context = torch.multiprocessing.get_context(method)
        processes = [context.Process(target=fill, args=(shared, number)) for number in range(3)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        print([process.exitcode for process in processes], shared)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        torch.ones(3).add_(1)
        os.write(write, b"from the child")
        os._exit(4)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.read(read, 99))
