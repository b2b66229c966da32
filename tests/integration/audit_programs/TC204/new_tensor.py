"""`new_tensor` of a tensor, in a class."""

import torch


class Queue:
    def __init__(self, like):
        self.like, self.items = like, []

    def push(self, item):
        self.items.append(self.like.new_tensor(item))  # TC204: copied


torch.manual_seed(0)
queue, buffer = Queue(torch.zeros(1, dtype=torch.float64)), torch.zeros(8)
for step in range(3):
    buffer.fill_(step)
    queue.push(buffer)
print(torch.stack(queue.items).sum(1))
