"""Reports as an audit would write them, put together by hand."""

from torchcopy.auditing.records import CopySite, Finding, Place, Report, SourceLine

TRAIN = '''\
"""Trains a classifier of digits, and keeps the best weights."""

import copy

import torch
from torch import nn

from model import build


def evaluate(model, images, labels):
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def train(model, optimizer, batches, images, labels):
    best, best_accuracy = None, 0.0
    history = []
    for images_now, labels_now in batches:
        images_now = images_now.double().float()
        loss = nn.functional.cross_entropy(model(images_now), labels_now)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss)
        snapshot = copy.deepcopy(model.state_dict())
        accuracy = evaluate(model, images.clone(), labels)
        if accuracy > best_accuracy:
            best, best_accuracy = model.state_dict(), accuracy
    model.load_state_dict(best)
    return history, snapshot  # torchcopy: ignore[TC205]
'''
MODEL = """\
from torch import nn


def build(width=256):
    return nn.Sequential(Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, 10))


class Flatten(nn.Module):
    def forward(self, x):
        return x.permute(0, 2, 1).reshape(len(x), -1).contiguous().clone()
"""
SOURCES = {"train.py": TRAIN, "model.py": MODEL}
VERSIONS = {"torch": "2.13.0", "torchcopy": "0.1.0", "python": "3.11.2"}


def source_line(path, expression, function="train", through="", sources=SOURCES):
    """The line of a file that holds the expression, with its columns."""
    for number, text in enumerate(sources[path].splitlines(), 1):
        if expression in text:
            column = text.index(expression) + 1
            return SourceLine(path, number, column, column + len(expression), text, function, through)
    raise AssertionError(expression)


def site(line, kind, count, each_bytes, seconds, **counts):
    """Copies of one size; `counts` are those of each status."""
    sizes = {status: number * each_bytes for status, number in counts.items()}
    return CopySite(line, kind, count, count * each_bytes, seconds, counts, sizes)


def hazard():
    return Finding(
        "TC101",
        "this snapshot changed under you: `state_dict()` holds the live tensors, and training wrote them",
        (
            Place("taken here", source_line("train.py", "model.state_dict(), accuracy")),
            Place("overwritten by optimizer.step", source_line("train.py", "optimizer.step()")),
            Place("used here", source_line("train.py", "model.load_state_dict(best)")),
        ),
        count=1,
        bytes=814_120,
        notes=("4 of its 4 tensors were written between: `1.weight`, `1.bias`, `3.weight`, `3.bias`",),
        fix="`best = tc.copy(model.state_dict())`, or `tc.History(model=model, keep_best={'accuracy': 'max'})`",
    )


def growing_graph():
    return Finding(
        "TC105",
        "a graph is kept for each of 938 iterations, and grows",
        (Place("kept here", source_line("train.py", "history.append(loss)")),),
        count=938,
        bytes=412_000_000,
        fix="`history.append(loss.detach())`",
    )


def wasted():
    return (
        Finding(
            "TC208",
            "`copy.deepcopy` of 4 tensors in a hot loop",
            (Place("copied here", source_line("train.py", "copy.deepcopy(model.state_dict())")),),
            count=938,
            bytes=763_644_560,
            seconds=1.31,
            notes=("Looked for: writes to either side by any operator, through views, and by fused optimizers.",),
            fix="take it once, after the loop, or `tc.History(model=model, mode='lazy')`",
        ),
        Finding(
            "TC202",
            "a copy of a copy: `contiguous()` had made one already",
            (
                Place("copied here", source_line("model.py", "x.permute(0, 2, 1).reshape(len(x), -1)", "forward")),
                Place("and again", source_line("model.py", "clone()", "forward", "torch.Tensor.clone")),
            ),
            count=938,
            bytes=188_000_000,
            seconds=0.112,
            fix="drop `.clone()`",
        ),
    )


def idiom():
    line = source_line("train.py", "model(images).argmax(1)", "evaluate")
    return Finding("TC301", "a read through `.data`", (Place("read here", line),), count=3, fix="`detach()`")


def copies():
    return (
        site(
            source_line("train.py", "copy.deepcopy(model.state_dict())"), "clone", 938, 814_120, 1.31, redundant=938
        ),
        site(
            source_line("train.py", "images_now.double()"),
            "conversion",
            938,
            401_408,
            0.2,
            redundant=900,
            needed=38,
        ),
        site(source_line("train.py", "images.clone()"), "clone", 938, 200_704, 0.1, repeated=937, unknown=1),
        site(source_line("model.py", "clone()", "forward"), "clone", 938, 200_704, 0.11, redundant=938),
        site(source_line("model.py", "reshape(len(x), -1)", "forward"), "layout", 938, 200_704, 0.13, needed=938),
        site(
            source_line("train.py", "optimizer.step()", "train", "torch.optim.Adam.step"),
            "into",
            4,
            8,
            0.0,
            unknown=4,
        ),
    )


def report(**changes):
    """A run with two hazards, two kinds of waste, an idiom, something opaque and an unused ignore."""
    given = {
        "findings": (hazard(), growing_graph(), *wasted(), idiom()),
        "copies": copies(),
        "opaque": {"torch.compile: model.forward": 938},
        "unused_ignores": (source_line("train.py", "# torchcopy: ignore[TC205]"),),
        "timeline": tuple((0.1 * at, 9_000_000 + 3_000_000 * (at % 7) * (at % 3)) for at in range(1, 125)),
        "sources": SOURCES,
        "program": "train.py --epochs 1",
        "seconds": 12.4,
        "steps": 938,
        "audited_steps": 938,
        "versions": VERSIONS,
    }
    return Report(**{**given, **changes})


def large(lines=5_000, sites=10_000):
    """A file of many lines, and a table of many rows: two kinds of copies a line."""
    text = "\n".join(
        f"    x{number} = model.layer_{number}(x).clone().to(torch.float64)" for number in range(lines)
    )
    made = []
    for at in range(sites):
        number = at % lines + 1
        line = SourceLine("big.py", number, 5, 20, text.split("\n", number)[number - 1] if at < 50 else "", "f")
        made.append(
            site(
                line,
                ("clone", "conversion")[at // lines % 2],
                1 + at % 9,
                8 * (at + 1),
                1e-6 * at,
                needed=1 + at % 9,
            )
        )
    made.sort(key=lambda each: -each.bytes)
    last = SourceLine("big.py", lines, 5, 8, text.rsplit("\n", 1)[-1], "f")
    finding = Finding("TC201", "neither side was written", (Place("copied here", last),), count=7, bytes=56)
    return report(findings=(finding,), copies=tuple(made), sources={"big.py": text + "\n"}, unused_ignores=())
