"""What a program sees that catches errors: type, text, notes, and the innermost line of its own."""

import traceback

import torch

model = torch.nn.Linear(2, 2)
leaf = torch.ones(2, requires_grad=True)
saved = leaf.exp()
attempts = {
    "shape": lambda: model(torch.ones(3)),
    "leaf in place": lambda: leaf.add_(1),
    "view of a leaf": lambda: leaf.view(2).mul_(2),
    "saved and overwritten": lambda: (saved.add_(1), saved.sum().backward()),
    "no graph": lambda: torch.ones(1).backward(),
    "not scalar": lambda: (leaf * 2).backward(),
    "numpy of a leaf": lambda: leaf.numpy(),
    "deepcopy of a result": lambda: __import__("copy").deepcopy(leaf * 2),
    "item of two": lambda: leaf.item(),
    "truth of two": lambda: bool(leaf),
    "index": lambda: leaf[5],
    "dtype": lambda: torch.ones(2) @ torch.ones(2, dtype=torch.long),
    "keys": lambda: model.load_state_dict({"weight": torch.ones(3, 3)}),
    "singular": lambda: torch.linalg.inv(torch.zeros(2, 2)),
    "one element": lambda: torch.nn.BatchNorm1d(2)(torch.ones(1, 2)),
    "overlap": lambda: torch.ones(1).expand(3).add_(1),
    "from numpy": lambda: torch.from_numpy(torch.ones(3).numpy()[::-1]),
    "memory": lambda: torch.empty(1 << 60),
}
for name, attempt in attempts.items():
    try:
        print(name, attempt())
    except Exception as error:  # noqa: BLE001
        lines = [line.lineno for line in traceback.extract_tb(error.__traceback__) if line.filename == __file__]
        print(
            name,
            type(error).__name__,
            str(error).split("CPUAllocator")[-1],
            lines,
            error.__cause__,
            error.__context__,
        )
        print(getattr(error, "__notes__", None))
