"""Training with activation checkpointing, autocast and a gradient scaler together."""

import torch
from audit_shown import show_training
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(20, 16)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True) for _ in range(3)
        )
        self.head = torch.nn.Linear(16, 20, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        for number, layer in enumerate(self.layers):
            x = checkpoint(layer, x, use_reentrant=number == 1)
        return self.head(x)


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
for _ in range(8):
    tokens = torch.randint(20, (4, 7))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(out.flatten(0, 1).float(), tokens[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(loss.item())
show_training(model, optimizer)
