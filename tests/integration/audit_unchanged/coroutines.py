"""Coroutines and generators that hold grad modes and contexts over many turns, and exceptions that cross them."""

import asyncio
import contextlib

import torch
from audit_shown import show

torch.manual_seed(0)
weight = torch.randn(3, requires_grad=True)


async def worker(number, queue):
    for _ in range(3):
        await asyncio.sleep(0)
        (weight * number).exp().sum().backward()
        await queue.put((number, weight.grad.clone(), torch.is_grad_enabled()))


async def main():
    queue = asyncio.Queue()
    await asyncio.gather(*(worker(number, queue) for number in range(3)))
    loop = asyncio.get_running_loop()
    in_thread = await loop.run_in_executor(None, lambda: torch.ones(3).clone().sum().item())
    return [queue.get_nowait() for _ in range(queue.qsize())], in_thread


@contextlib.contextmanager
def frozen():
    with torch.no_grad():
        try:
            yield weight.clone()
        except ValueError as error:
            print("crossed", error, torch.is_grad_enabled())


with frozen() as kept:
    raise ValueError("out of the block")
seen, value = asyncio.run(main())
show(kept=kept, seen=seen, value=value, grad=weight.grad)


def batches():
    with torch.inference_mode():
        for _ in range(3):
            yield torch.randn(2)


print([t.is_inference() for t in batches()], torch.is_inference_mode_enabled())
