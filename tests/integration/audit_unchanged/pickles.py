"""Pickles of the main module's own classes, `torch.save` and `torch.load`, whole and weights only, to a file."""

import io
import pickle
import tempfile
from pathlib import Path

import torch
from audit_shown import show


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.tied = self.layer.weight

    def forward(self, x):
        return self.layer(x)


torch.manual_seed(0)
model = Model()
again = pickle.loads(pickle.dumps(model))
print(type(again) is Model, Model.__module__, again.tied is again.layer.weight)
buffer = io.BytesIO()
torch.save({"model": model.state_dict(), "view": model.tied[0], "rng": torch.get_rng_state()}, buffer)
show(file=buffer.getvalue())
buffer.seek(0)
loaded = torch.load(buffer, weights_only=True)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "model.pt")
    torch.save(model, path)
    whole = torch.load(path, weights_only=False)
    mapped = torch.load(path, weights_only=False, mmap=True)
    try:
        torch.load(path)
    except pickle.UnpicklingError as error:
        print(str(error).splitlines()[0])
show(loaded=loaded, whole=whole.state_dict(), mapped=mapped.state_dict(), pickled=again.state_dict())
print(pickle.loads(pickle.dumps(torch.arange(4)[1:3])).untyped_storage().nbytes())
