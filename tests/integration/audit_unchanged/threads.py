"""Training on threads of the program's own, an executor that is never shut down, and an exception on a thread."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from audit_shown import show

results = {}


def train(number):
    generator = torch.Generator().manual_seed(number)
    weight = torch.randn(4, 1, generator=generator, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.1)
    for _ in range(10):
        loss = (torch.randn(8, 4, generator=generator) @ weight).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        results[number] = (weight.clone(), torch.is_grad_enabled(), torch._C._len_torch_function_stack())


threads = [threading.Thread(target=train, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
pool = ThreadPoolExecutor(2)
list(pool.map(train, range(4, 8)))
show(**{f"thread {number}": results[number] for number in sorted(results)})
failing = threading.Thread(target=lambda: print({}["missing"]), name="failing")
threading.excepthook = lambda args: print(args.exc_type.__name__, args.exc_value, args.thread.name)
failing.start()
failing.join()
shared = torch.zeros(3)
late = threading.Thread(target=lambda: (threading.Event().wait(0.3), print("late", shared.add_(1))))
late.start()
print("end of the main thread")
