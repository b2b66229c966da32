"""A student learns from a frozen teacher; a part of the student was copied from it; layers are unfrozen later."""

import copy

import torch
from audit_shown import show_training
from clean_tools import batches, blobs, classifier

torch.manual_seed(0)
x, y = blobs()
teacher = classifier(width=32).eval()
student = classifier(width=32)
student[0].load_state_dict(teacher[0].state_dict())
student[1] = copy.deepcopy(teacher[1])
student[0].requires_grad_(False)
optimizer = torch.optim.Adam([{"params": student[1].parameters()}, {"params": student[4].parameters(), "lr": 0.02}])
for epoch in range(4):
    if epoch == 2:
        student[0].requires_grad_(True)
        optimizer.add_param_group({"params": student[0].parameters(), "lr": 1e-3})
    for batch in batches(len(x)):
        with torch.no_grad():
            wanted = teacher(x[batch]).softmax(1)
        out = student(x[batch])
        loss = torch.nn.functional.kl_div(out.log_softmax(1), wanted, reduction="batchmean")
        loss = loss + 0.1 * torch.nn.functional.cross_entropy(out, y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())
show_training(student, optimizer)
show_training(teacher)
