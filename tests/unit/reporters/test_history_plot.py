"""The figure of a history: what it shows, for runs of all shapes, and what it leaves alone."""

import math
import re
import sys
import xml.etree.ElementTree as ElementTree

import matplotlib
import numpy as np
import pytest
import torch
from torch import nn

import torchcopy as tc
from torchcopy.history.comparing.movement import movement
from torchcopy.history.overview import overview
from torchcopy.reporters import history_heatmap, history_plot

VAL_LOSS = [0.9, 0.4, 0.6, math.nan, 0.5, 0.7]


def stack(layers=3):
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(layers)))


@torch.no_grad()
def grow(module, factor):
    for p in module.parameters():
        p.mul_(factor)


def trained(model, steps=6, *, keep=3, frozen=(), labels=None, **options):
    """A history of a model whose weights grow by 10 % a step."""
    history = tc.History(model=model, keep=keep, rng=False, **options)
    for step in range(steps):
        history.take(**(labels(step) if labels else {"step": 100 * step, "val_loss": VAL_LOSS[step % 6]}))
        for k, layer in enumerate(model):
            if k not in frozen:
                grow(layer, 1.1)
    return history


def texts(figure):
    return {text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()}


def meshes(figure):
    return figure.findobj(matplotlib.collections.QuadMesh)


def heatmap(figure):
    """The values of the heatmap's cells, as a masked array."""
    found = next(mesh for mesh in meshes(figure) if mesh.axes.get_ylabel() == "layer")
    return found.get_array()


def lines(figure):
    """The points of every line, by the line's label."""
    return {line.get_label(): line.get_xydata() for line in figure.findobj(matplotlib.lines.Line2D)}


# --- the figures behind it -----------------------------------------------------------------------------------


def test_the_movement_of_a_layer_is_the_change_over_what_was():
    model = stack()
    with torch.no_grad():
        model[0].weight.copy_(torch.full((4, 4), 3.0))
        model[0].bias.copy_(torch.full((4,), 4.0))
    history = tc.History(model=model, rng=False)
    history.take()
    with torch.no_grad():
        model[0].bias.add_(2.0)
    history.take()
    grow(model, 1.5)
    history.take()
    moved = movement(tuple(history))
    assert moved.layers == ("0", "1", "2")
    norm = math.sqrt(16 * 9 + 4 * 16)
    assert moved.relative[0] == pytest.approx((4 / norm, 0.5))
    assert moved.relative[1] == pytest.approx((0.0, 0.5))


@pytest.mark.parametrize("mode", ["eager", "lazy", "background"])
def test_the_movement_is_alike_in_every_mode(mode):
    history = trained(stack(), 4, frozen=(1,), mode=mode)
    moved = movement(tuple(history))
    for layer, row in zip(moved.layers, moved.relative, strict=True):
        assert row == pytest.approx([0.0 if layer == "1" else 0.1] * 2, rel=1e-5)


def test_the_movement_where_weights_were_zero_or_are_not_finite():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.BatchNorm1d(2))
    with torch.no_grad():
        grow(model[0], 0.0)
    history = tc.History(model=model, rng=False)
    history.take()
    model(torch.randn(8, 2))  # moves the running statistics, which are no weights
    with torch.no_grad():
        model[0].weight.add_(1.0)
        model[1].weight[0, 0] = math.nan
    history.take()
    history.take()
    moved = movement(tuple(history))
    assert moved.relative == ((math.inf, 0.0), (math.inf, 0.0), (0.0, 0.0))
    assert moved.to_dict()["relative"] == [["inf", 0.0], ["inf", 0.0], [0.0, 0.0]]


class Masked(nn.Linear):
    """Has a persistent mask of infinities, and its bias and another weight are one tensor."""

    def __init__(self):
        super().__init__(4, 4)
        self.register_buffer("mask", torch.full((4, 4), -math.inf).triu(1))
        self.other = self.bias


@pytest.mark.parametrize("mode", ["eager", "lazy", "background"])
def test_the_movement_of_a_layer_is_what_compare_says_of_it(mode):
    model = nn.Sequential(Masked(), nn.Linear(4, 4), Masked().half())
    history = tc.History(model=model, rng=False, mode=mode)
    history.take()
    with torch.no_grad():
        model[0].weight.mul_(1.5)
        model[0].bias.sub_(1.0)
        model[1].weight.add_(0.25)
    history.take()
    with torch.no_grad():
        model[1].weight.sub_(2.0)
        model[2].weight.fill_(6e4)
    history.take()
    moved = movement(tuple(history))
    for k, layer in enumerate(moved.layers):
        for step in range(2):
            expected = tc.compare(history[step], history[step + 1]).module(layer).relative
            assert math.isfinite(expected)
            assert moved.relative[k][step] == pytest.approx(expected, rel=1e-12)
    assert [row[0] > 0 for row in moved.relative] == [True, True, False]


def test_a_layer_of_other_shapes_or_in_one_snapshot_alone_has_no_movement():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    history = tc.History(model=model, rng=False)
    history.take()
    model[0].weight = nn.Parameter(torch.ones(3, 2))
    model.append(nn.Linear(2, 2))
    history.take()
    moved = movement(tuple(history))
    assert moved.layers == ("0", "1", "2")
    assert [math.isnan(value) for (value,) in moved.relative] == [True, False, True]
    assert moved.to_dict()["relative"] == [["nan"], [0.0], ["nan"]]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.complex64])
def test_the_movement_of_other_dtypes(dtype):
    w = torch.full((100,), 2.0, dtype=dtype)
    history = tc.History(rng=False, w=w)
    history.take()
    w.mul_(1.5)
    history.take()
    assert movement(tuple(history)).relative == ((pytest.approx(0.5),),)


def test_long_histories_are_looked_at_in_places():
    history = trained(stack(1), 20, keep=None)
    moved = movement(tuple(history), most=5)
    assert moved.snapshots == (0, 4, 8, 12, 16, 19)
    assert moved.relative[0] == pytest.approx([1.1**4 - 1] * 4 + [1.1**3 - 1], rel=1e-4)
    titles = texts(history_plot.draw(overview(history), moved))
    assert any("from one of 6 (of the 20 kept snapshots) to the next" in title for title in titles)


def test_two_modules_are_told_apart_and_one_can_be_chosen():
    a, b = stack(1), stack(1)
    history = tc.History(actor=a, critic=b, rng=False)
    history.take()
    grow(b, 2.0)
    history.take()
    assert movement(tuple(history)).layers == ("actor.0", "critic.0")
    assert movement(tuple(history), part="critic").relative == ((pytest.approx(1.0),),)
    with pytest.raises(tc.InputError, match="no part 'model'"):
        history.plot(part="model")


def test_records_are_of_all_that_were_taken():
    history = trained(stack(), keep=2, keep_best={"val_loss": "min"})
    seen = overview(history)
    assert [each.number for each in seen.taken if each.kept] == [1, 4, 5]
    assert [each.labels["step"] for each in history.records] == [0, 100, 200, 300, 400, 500]
    assert [each.best for each in seen.snapshots] == [("val_loss",), (), ()]
    assert (seen.counter, seen.metrics) == ("step", ("val_loss",))
    assert seen.to_dict()["taken"][3]["labels"] == {"step": 300, "val_loss": "nan"}
    history.clear()
    assert history.records == ()


def test_a_record_is_of_its_own():
    history = trained(stack())
    history.records[0].labels["step"] = "changed"
    assert history.records[0].labels["step"] == 0


# --- what is drawn -------------------------------------------------------------------------------------------


def test_curves_are_whole_and_marks_say_what_is_kept():
    history = trained(stack(), keep=2, keep_best={"val_loss": "min"})
    figure = history.plot()
    drawn = lines(figure)
    curve = drawn["val_loss: best 0.4 at step 100"]
    assert curve[:, 0].tolist() == [0, 100, 200, 300, 400, 500]
    np.testing.assert_array_equal(curve[:, 1], VAL_LOSS)
    dots, star = (
        [line.get_xydata().tolist() for line in figure.findobj(matplotlib.lines.Line2D) if found(line)]
        for found in (
            lambda line: (
                line.get_marker() == "o"
                and line.get_linestyle() == "None"
                and line.get_markersize() == 6
                and line.axes
            ),
            lambda line: line.get_marker() == "*" and line.axes,
        )
    )
    assert [[100, 0.4], [400, 0.5], [500, 0.7]] in dots
    assert [[100, 0.4]] in star
    assert {"kept", "taken, not kept any more", "best", "not finite"} <= texts(figure)


def test_the_heatmap_has_a_row_for_each_layer_and_what_stood_still_is_grey():
    figure = trained(stack(), keep=4, frozen=(1,)).plot()
    cells = heatmap(figure)
    assert cells.shape == (3, 3)
    assert cells.mask.tolist() == [[False] * 3, [True] * 3, [False] * 3]
    assert cells[0].tolist() == pytest.approx([0.1] * 3, rel=1e-4)
    assert {"0", "1", "2", "200", "500", "did not move", "layer"} <= texts(figure)
    assert "NaN, infinite, or not in both" not in texts(figure)


def test_a_single_step_is_drawn_as_bars():
    figure = trained(stack(), keep=2, frozen=(1,)).plot()
    assert meshes(figure) == []
    bars = [p for p in figure.findobj(matplotlib.patches.Rectangle) if p.get_height() == pytest.approx(0.8)]
    ends = [bar.get_x() + bar.get_width() for bar in bars]
    assert ends[::2] == pytest.approx([0.1, 0.1], rel=1e-4)
    assert bars[1].get_width() < 0.01 < bars[0].get_width()
    assert {"did not move", "from step 400 to 500"} <= texts(figure)


def test_metrics_that_end_alike_share_a_panel():
    def labels(step):
        return {"step": step, "epoch": step, "train_loss": 1.0, "val_loss": 2.0, "val/acc": 0.5, "note": "x"}

    figure = trained(stack(), labels=labels).plot()
    titles = [axes.get_title(loc="left") for axes in figure.findobj(matplotlib.axes.Axes)]
    assert titles[:2] == ["loss", "val/acc"]
    assert {"train_loss", "val_loss"} <= texts(figure)
    assert not {"epoch", "note"} & texts(figure)


def test_metrics_without_a_panel_are_named():
    figure = trained(stack(), labels=lambda step: {f"m{k}": step for k in range(9)}).plot()
    assert "Not drawn: m6, m7, m8" in texts(figure)
    assert "snapshot" in texts(figure)


def emptied():
    history = trained(stack(), 1)
    history.remove(history[0])
    return history


def weightless():
    history = tc.History(numbers={"a": 1}, rng=False)
    history.take(loss=1.0)
    history.take(loss=0.5)
    return history


SHAPES = {
    "all removed": (emptied, "no snapshot is kept"),
    "no weights": (weightless, "no part with weights"),
    "one snapshot": (lambda: trained(stack(), 1), "only one snapshot is kept"),
    "no metrics": (lambda: trained(stack(), 4, labels=lambda step: {}), "kept snapshots, by number"),
    "nothing moved": (lambda: trained(stack(), 4, frozen=(0, 1, 2)), "did not move"),
    "one snapshot, no metrics": (lambda: trained(stack(), 1, labels=lambda step: {}), "nothing to compare"),
    "all NaN": (lambda: trained(stack(), 4, labels=lambda step: {"loss": math.nan}), "not finite"),
    "an infinite loss": (lambda: trained(stack(), 4, labels=lambda step: {"loss": math.inf}), "not finite"),
    "steps that go back": (lambda: trained(stack(), 4, labels=lambda s: {"step": s % 2, "loss": s}), "loss"),
    "a NaN step": (lambda: trained(stack(), 4, labels=lambda s: {"step": math.nan, "loss": s}), "snapshot"),
    "150 layers": (lambda: trained(stack(150), 4), "0 …"),
    "letters of mathematics": (
        lambda: trained(stack(), labels=lambda s: {"$a": s, "b_$": s, r"$\frac$": s, "_e": s}),
        "frac",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_runs_of_all_shapes(name, tmp_path):
    make, expected = SHAPES[name]
    figure = make().plot(tmp_path / "a.png")
    assert any(expected in text for text in texts(figure))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_taken_is_an_error():
    with pytest.raises(tc.InputError, match="has taken no snapshot yet"):
        tc.History(model=stack()).plot()


@pytest.mark.parametrize("layers", [3, 40, 41, 150])
def test_labels_are_few_and_cover_all_rows(layers):
    names = [f"h.{k // 6}.{part}" for k, part in zip(range(layers), "abcdef" * layers, strict=False)]
    groups = history_heatmap.row_groups(names)
    assert len(groups) <= 40
    assert [first for first, _, _ in groups] == [0, *(end for _, end, _ in groups[:-1])]
    assert groups[-1][1] == layers
    if layers > 40:
        assert groups[0] == (0, 6, "h.0")


def test_labels_that_would_overlap_are_joined():
    groups = [(0, 1, "conv1"), (1, 2, "bn1"), (2, 10, "layer1"), (10, 11, "fc")]
    assert history_heatmap.spaced(groups, rows_apart=1.5) == [(0, 2, "conv1, bn1"), *groups[2:]]


# --- files ---------------------------------------------------------------------------------------------------


def test_plots_are_what_their_names_say(tmp_path):
    history = trained(stack())
    figure = history.plot(tmp_path / "a.png")
    history.plot(str(tmp_path / "a.SVG"))
    assert isinstance(figure, matplotlib.figure.Figure)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(tmp_path / "a.SVG").getroot().tag.endswith("svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.SVG", "a.png"]


def test_an_svg_follows_the_readers_scheme(tmp_path):
    trained(stack()).plot(tmp_path / "a.svg")
    svg = (tmp_path / "a.svg").read_text()
    rules = re.search(r"prefers-color-scheme: dark\)\{(.*)\}</style>", svg).group(1)
    drawn = svg.split("</style>", 1)[1]
    turned = set(re.findall(r'style\*="([^"]*)"', rules))
    assert {"fill: #1c1c1c", "stroke: #1c1c1c", "stroke: #dcdcdc", "fill: #ffffff"} <= turned
    assert all(colour in drawn for colour in turned - {"fill: #dcdcdc", "stroke: #ffffff"})
    assert "#000000" not in svg


def test_a_plot_leaves_matplotlib_as_it_was():
    before, backend = dict(matplotlib.rcParams), matplotlib.get_backend(auto_select=False)
    pyplot = "matplotlib.pyplot" in sys.modules
    trained(stack()).plot()
    assert dict(matplotlib.rcParams) == before
    assert matplotlib.get_backend(auto_select=False) == backend
    assert ("matplotlib.pyplot" in sys.modules) is pyplot


@pytest.mark.parametrize(("name", "message"), [("a.pdf", "must end in .png or .svg"), ("no/a.png", "no folder")])
def test_a_name_that_cannot_be_written_is_refused(tmp_path, name, message):
    with pytest.raises(tc.InputError, match=message):
        trained(stack()).plot(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(history_plot, "has_matplotlib", lambda: False)
    with pytest.raises(tc.InputError, match=r"pip install 'torchcopy\[plots\]'"):
        trained(stack()).plot()


def test_drawing_changes_neither_run_nor_snapshots():
    model = stack()
    history = trained(model, 4, mode="lazy")
    live = [p.clone() for p in model.parameters()]
    held = [t.clone() for each in history for t in each.state_dict("model").values()]
    history.plot()
    grow(model, 2.0)
    assert all(torch.equal(p, 2 * before) for p, before in zip(model.parameters(), live, strict=True))
    after = [t for each in history for t in each.state_dict("model").values()]
    assert all(map(torch.equal, after, held))
