"""What the copying benchmark copies: models, a training state, a batch, a tree of Python objects."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import workloads
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


@dataclasses.dataclass(frozen=True)
class Subject:
    """One workload, built.

    Attributes:
        whole: what is copied: a module, a tuple of module and optimizer, a dict, a tree.
        state: its tensors by name, as `state_dict()` gives them; None where there is no such dict.
        tensors: its tensors, each memory once.
        tensors_of: lists the tensors of `whole` or of a copy of it, in one order.
    """

    whole: Any
    state: dict[str, Tensor] | None
    tensors: list[Tensor]
    tensors_of: Callable[[Any], list[Tensor]]

    @property
    def bytes(self) -> int:
        """Bytes of the tensors."""
        return sum(t.nbytes for t in self.tensors)


@dataclasses.dataclass(frozen=True)
class Workload:
    """Something to copy.

    Attributes:
        id: `W1`, …
        title: what it is, in a few words.
        build: makes it on a device.
    """

    id: str
    title: str
    build: Callable[[torch.device], Subject]


# --- models --------------------------------------------------------------------------------------------------


class _Filled(TorchFunctionMode):
    """Parameters begin as a constant: what they hold is the same to a copy, and random numbers take seconds."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.normal_, Tensor.uniform_):
            return args[0].fill_(0.02)
        return func(*args, **(kwargs or {}))


def _filled(factory: Callable[[], nn.Module], device: torch.device) -> nn.Module:
    with _Filled():
        return factory().to(device)


def _distinct(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Each memory once: tied weights stand in a state_dict under several names."""
    return list({(t.data_ptr(), t.shape, t.stride()) if t.numel() else id(t): t.detach() for t in tensors}.values())


def _tensors_of_model(model: nn.Module) -> list[Tensor]:
    return list(model.state_dict().values())


def _model(factory: Callable[[], nn.Module]) -> Callable[[torch.device], Subject]:
    def build(device: torch.device) -> Subject:
        model = _filled(factory, device)
        state = dict(model.state_dict())
        return Subject(model, state, _distinct(state.values()), _tensors_of_model)

    return build


def _tiny() -> nn.Module:
    """Has weights, floating and integer buffers, and two names for one weight: for a test of the benchmark."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 8), nn.Linear(8, 8))
    model[3].weight = model[2].weight
    return model


def _tensors_of_training(training: tuple[nn.Module, torch.optim.Optimizer]) -> list[Tensor]:
    model, optimizer = training
    moments = [v for state in optimizer.state.values() for v in state.values() if isinstance(v, Tensor)]
    return [*model.state_dict().values(), *moments]


def _training_state(device: torch.device) -> Subject:
    model = _filled(workloads.gpt2_small, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()  # a step of zero gradients: it makes the state, and writes all of it
    optimizer.zero_grad(set_to_none=True)
    training = (model, optimizer)
    return Subject(training, None, _distinct(_tensors_of_training(training)), _tensors_of_training)


# --- a batch -------------------------------------------------------------------------------------------------


def _batch(device: torch.device) -> Subject:
    """Twenty tensors of nine dtypes, 64 MB, as a loader of several modalities puts them together."""
    rows = 32
    shapes: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {
        "images": (torch.float32, (rows, 3, 224, 224)),
        "crops": (torch.uint8, (rows, 8, 3, 96, 96)),
        "depth": (torch.float16, (rows, 1, 224, 224)),
        "masks": (torch.bool, (rows, 4, 224, 224)),
        "boxes": (torch.float32, (rows, 100, 4)),
        "box_labels": (torch.int64, (rows, 100)),
        "box_scores": (torch.float32, (rows, 100)),
        "audio": (torch.float32, (rows, 80_000)),
        "spectrogram": (torch.bfloat16, (rows, 128, 1024)),
        "tokens": (torch.int64, (rows, 4096)),
        "positions": (torch.int64, (rows, 4096)),
        "attention_mask": (torch.bool, (rows, 4096)),
        "segments": (torch.int8, (rows, 4096)),
        "embeddings": (torch.float32, (rows, 512, 98)),
        "targets": (torch.int64, (rows,)),
        "weights": (torch.float64, (rows,)),
        "lengths": (torch.int32, (rows,)),
        "indices": (torch.int64, (rows,)),
        "temperature": (torch.float32, ()),
        "step": (torch.int64, ()),
    }
    batch = {name: torch.ones(shape, dtype=dtype, device=device) for name, (dtype, shape) in shapes.items()}
    batch["images"] = batch["images"].to(memory_format=torch.channels_last)
    batch["embeddings"] = batch["embeddings"].transpose(1, 2)
    return Subject(batch, batch, _distinct(batch.values()), _tensors_of_mapping)


def _tensors_of_mapping(mapping: Mapping[str, Any]) -> list[Tensor]:
    return [mapping[name] for name in mapping.keys()]  # noqa: SIM118  # a TensorDict iterates over its rows


# --- a tree of small objects ---------------------------------------------------------------------------------


class Step:
    """A small class of a user's."""

    def __init__(self, index: int, action: str, reward: float) -> None:
        self.index, self.action, self.reward = index, action, reward


@dataclasses.dataclass
class Box:
    """A small dataclass of a user's."""

    corner: tuple[float, float]
    size: list[float]
    label: str


@dataclasses.dataclass
class Record:
    """One of many."""

    key: int
    name: str
    features: Tensor
    steps: list[Step]
    boxes: list[Box]
    tags: dict[str, Any]
    source: dict[str, Any]


TREE_RECORDS = 1000


def _tree(device: torch.device) -> Subject:
    """100,000 objects, counted as a walk meets them, ints and strings included; 1,000 of them are tensors."""
    rng = random.Random(0)
    source = {"split": "train", "version": (1, 2, 3), "classes": [f"class {k}" for k in range(20)]}
    records = [_record(key, source, rng, device) for key in range(TREE_RECORDS)]
    tree = {"name": "records", "records": records, "by_name": {record.name: record for record in records}}
    return Subject(tree, None, [record.features for record in records], _tensors_of_tree)


def _record(key: int, source: dict[str, Any], rng: random.Random, device: torch.device) -> Record:
    return Record(
        key=key,
        name=f"record {key}",
        features=torch.full((64,), float(key), device=device),
        steps=[Step(k, rng.choice(("left", "right", "wait")), rng.random()) for k in range(9)],
        boxes=[Box((rng.random(), rng.random()), [rng.random(), rng.random()], f"box {k}") for k in range(4)],
        tags={"kind": "a", "scores": [rng.random() for _ in range(12)], "at": (key, key + 1), "note": None},
        source=source,
    )


def _tensors_of_tree(tree: dict[str, Any]) -> list[Tensor]:
    return [record.features for record in tree["records"]]


def count_objects(root: Any) -> int:
    """Objects as a walk meets them: each container and instance once, each leaf wherever it stands."""
    seen: set[int] = set()
    waiting, count = [root], 0
    while waiting:
        x = waiting.pop()
        count += 1
        if isinstance(x, dict):
            children = [*x.keys(), *x.values()]
        elif isinstance(x, (list, tuple)):
            children = list(x)
        elif isinstance(x, (Step, Box, Record)):
            children = list(vars(x).values())
        else:
            continue
        if id(x) not in seen:
            seen.add(id(x))
            waiting += children
    return count


# --- views ---------------------------------------------------------------------------------------------------


def _views(device: torch.device) -> Subject:
    """64 views of one storage of 128 MB, overlapping in pairs, which reach half of it."""
    base, length = torch.ones(2**25, device=device), 2**18
    views = {f"view {k}": base[k * length : k * length + length + 1000 * (k % 2 == 0)] for k in range(64)}
    return Subject(views, views, list(views.values()), _tensors_of_mapping)


WORKLOADS = {
    each.id: each
    for each in (
        Workload("W1", "GPT-2 small", _model(workloads.gpt2_small)),
        Workload("W2", "ResNet-50", _model(workloads.resnet_50)),
        Workload("W3", "4,000 parameters of 16×16", _model(workloads.many_small)),
        Workload("W4", "GPT-2 small with the state of AdamW", _training_state),
        Workload("W5", "a batch: a dict of 20 tensors", _batch),
        Workload("W6", "a tree of 100,000 small Python objects", _tree),
        Workload("tiny", "a small convolutional network", _model(_tiny)),
        Workload("views", "64 views of one half of a storage", _views),
    )
}
