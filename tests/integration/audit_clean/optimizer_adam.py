"""Training with Adam, one tensor at a time, AMSGrad; its checkpoint is loaded and trained on."""

import io

import torch
from audit_shown import show, show_training
from clean_tools import batches, blobs, classifier

torch.manual_seed(0)
x, y = blobs()


def make():
    model = classifier()
    return model, torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True, foreach=False)


def train(model, optimizer, epochs):
    for _ in range(epochs):
        total = 0.0
        for batch in batches(len(x)):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        print(total)


model, optimizer = make()
train(model, optimizer, 3)
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
train(model, optimizer, 2)
show_training(model, optimizer)
resumed, its = make()
file.seek(0)
checkpoint = torch.load(file)
resumed.load_state_dict(checkpoint["model"])
its.load_state_dict(checkpoint["optimizer"])
train(resumed, its, 2)
show_training(resumed, its)
resumed.eval()
with torch.no_grad():
    show(accuracy=(resumed(x).argmax(1) == y).float().mean())
