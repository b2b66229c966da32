"""A history and a comparison in the terminal: the figures, order, width, and what names from files may do."""

import math

import pytest
import torch
from rich.cells import cell_len
from torch import nn

import torchcopy as tc
from torchcopy.history.overview import overview
from torchcopy.reporters import history as report


def model():
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))


def taken(labels, **options):
    """A history of one snapshot for each dict of labels."""
    history = tc.History(model=model(), rng=False, **options)
    for each in labels:
        history.take(**each)
    return history


@pytest.fixture
def printed(capsys, monkeypatch):
    """What a report prints, in lines, in a terminal of some width."""

    def call(show, *arguments, width=80, **options):
        monkeypatch.setenv("COLUMNS", str(width))
        show(*arguments, **options)
        lines = capsys.readouterr().out.splitlines()
        assert max(map(cell_len, lines)) <= width
        assert not any("\x1b" in line for line in lines)
        return lines

    return call


def cells(lines, first):
    """The cells of the line that begins with a cell."""
    return next(line.split() for line in lines if line.split()[:1] == [first])


# --- show ----------------------------------------------------------------------------------------------------


def test_a_line_for_each_kept_snapshot(printed):
    labels = [{"step": 100 * k, "val_loss": loss} for k, loss in enumerate([0.5, 0.25, 0.75, math.nan])]
    lines = printed(report.show, overview(taken(labels, keep=2, keep_best={"val_loss": "min"})), "runs/h")
    assert lines[0] == "runs/h: 3 of 4 snapshots kept, 276 B"
    assert lines[1] == "Parts: model."
    assert lines[2].split() == ["no.", "step", "val_loss", "tensors", "size", "best", "by"]
    assert cells(lines, "1") == ["1", "100", "0.25", "4", "92", "B", "val_loss"]
    assert cells(lines, "2") == ["2", "200", "0.75", "4", "92", "B", "–"]
    assert cells(lines, "3") == ["3", "300", "nan", "4", "92", "B", "–"]
    assert lines[-1] == "Best by: val_loss (min)."


def test_labels_for_which_there_is_no_room_are_named_and_the_most_important_stay(printed):
    labels = [{f"metric_{k}": k / 3 for k in range(12)} | {"val_loss": 0.5, "epoch": 3}]
    history = taken(labels, keep_best={"val_loss": "min"})
    narrow = printed(report.show, overview(history), "h")
    assert narrow[2].split()[:4] == ["no.", "epoch", "val_loss", "metric_0"]
    said = " ".join(narrow[-2:])
    assert "No room for:" in said
    assert "metric_11" in said
    wide = printed(report.show, overview(history), "h", width=250)
    assert "metric_11" in wide[2]
    assert not any("No room" in line for line in wide)


def test_labels_of_all_kinds(printed):
    labels = [{"note": "a" * 60, "ok": True, "gone": None}, {"other": -math.inf}]
    lines = printed(report.show, overview(taken(labels)), "h", width=120)
    assert cells(lines, "0")[:5] == ["0", "a" * 23 + "…", "True", "None", "–"]
    assert cells(lines, "1")[:5] == ["1", "–", "–", "–", "-inf"]


@pytest.mark.parametrize("name", ["no.", "size", "tensors", "parts", "best by"])
def test_labels_with_the_name_of_another_column(printed, name):
    labels = [{"loss": 0.5, name: "own_0"}, {"loss": 0.25, name: "own_1"}]
    lines = printed(report.show, overview(taken(labels)), "h")
    assert lines[2].split() == ["no.", "loss", *name.split(), "tensors", "size", "best", "by"]
    assert cells(lines, "0") == ["0", "0.5", "own_0", "4", "92", "B", "–"]
    assert cells(lines, "1") == ["1", "0.25", "own_1", "4", "92", "B", "–"]


def test_labels_in_wide_characters_leave_room_for_the_others(printed):
    long, short = "训练" * 20, "验证损失"
    history = taken([{"step": 7, "备注": long, short: 0.5, "梯度裁剪之后的范数在所有参数上": 1.0}])
    lines = printed(report.show, overview(history), "h")
    assert lines[2].split() == ["no.", "step", "备注", short, "tensors", "size", "best", "by"]
    assert cells(lines, "0") == ["0", "7", "训练" * 5 + "训…", "0.5", "4", "92", "B", "–"]
    assert any(line.startswith("No room for: 梯度裁剪之后的范数在所有参数上;") for line in lines)


def test_who_reads_a_history_by_program_gets_every_label(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    labels = {f"metric_{k}": k / 3 for k in range(40)}
    report.show(overview(taken([labels])), "h")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split() == ["no.", *labels, "tensors", "size", "best", "by"]
    assert not any("No room" in line for line in lines)


def test_nothing_is_kept(printed):
    assert printed(report.show, overview(tc.History(model=model())), "h") == ["h: 0 of 0 snapshots kept, 0 B"]


def test_what_a_terminal_would_obey_is_escaped(printed):
    history = tc.History(rng=False, **{"m\x1b[2J": torch.ones(1)})
    history.take(**{"a\nb": "c\x1b[31m[bold]\u202e"})
    text = "\n".join(printed(report.show, overview(history), "h\x07"))
    assert r"c\x1b[31m[bold]\u202e" in text
    assert r"a\nb" in text
    assert r"m\x1b[2J" in text
    assert r"h\x07" in text


# --- compare -------------------------------------------------------------------------------------------------


def moved():
    """Two snapshots between which the second layer has moved further than the first, and one tensor not at all."""
    net = model()
    history = tc.History(model=net, rng=False)
    with torch.no_grad():
        net[2].bias.fill_(1.0)
    history.take(step=0)
    with torch.no_grad():
        net[0].weight.mul_(1.25)
        net[2].weight.mul_(3.0)
        net[2].bias[0] += 0.5
    history.take(step=1)
    return tc.compare(history[0], history[1])


def test_what_moved_most_comes_first(printed):
    lines = printed(report.show_comparison, moved(), width=100)
    assert lines[0] == "from snapshot 0 step=0 to snapshot 1 step=1"
    assert lines[1].startswith("3 of 4 tensors moved, relative ")
    assert lines[2].split() == ["tensor", "elements", "relative", "L2", "max", "cosine", "changed"]
    assert [line.split()[0] for line in lines[4:7]] == ["2.weight", "2.bias", "0.weight"]
    assert cells(lines, "2.weight")[1:3] == ["6", "2"]
    assert cells(lines, "2.weight")[5:] == ["1.000000", "100.00%"]
    assert cells(lines, "2.bias")[1:] == ["2", "0.354", "0.5", "0.5", "0.980581", "50.00%"]


def test_the_command_and_str_agree_in_order_and_figures(printed):
    compared = moved()
    lines = printed(report.show_comparison, compared, width=120)
    said = str(compared).splitlines()
    assert said[:2] == lines[:2]
    rows = [line.split() for line in said[3:]]
    assert len(rows) == 3
    for there, here in zip(rows, lines[4:7], strict=True):
        name, elements, relative, l2, largest, _cosine, changed = here.split()
        assert [name, elements, relative, l2, largest, changed] == there


def test_by_module(printed):
    lines = printed(report.show_comparison, moved(), by="module", width=100)
    assert lines[2].split()[:3] == ["module", "tensors", "relative"]
    assert [line.split()[:2] for line in lines[4:6]] == [["2", "2"], ["0", "2"]]


def test_names_without_modules(printed):
    compared = tc.compare({"a": torch.ones(2)}, {"a": torch.zeros(2)})
    lines = printed(report.show_comparison, compared, by="module")
    assert lines[4].split() == ["(all", "of", "it)", "1", "1", "1.41", "1", "–", "100.00%"]


def test_top_limits_the_lines_and_says_so(printed):
    lines = printed(report.show_comparison, moved(), top=1, width=100)
    assert [line.split()[0] for line in lines[4:6]] == ["2.weight", "…"]
    assert "… and 2 more: --top 3 or --json." in lines


def test_nothing_moved(printed):
    t = {"a.w": torch.ones(2)}
    lines = printed(report.show_comparison, tc.compare(t, t))
    assert lines == ["from dict of 1 to dict of 1", "0 of 1 tensors moved"]


def test_what_was_not_compared_is_listed_with_its_reason(printed):
    a = {"same": torch.ones(2), "only.here": torch.ones(2), "shape": torch.ones(2)}
    b = {"same": torch.ones(2), "only.there": torch.ones(3), "shape": torch.ones(3)}
    text = "\n".join(printed(report.show_comparison, tc.compare(a, b)))
    assert "Not compared: 3" in text
    assert "only.here: only in a: float32[2] cpu" in text
    assert "only.there: only in b: float32[3] cpu" in text


NAME = "transformer.h.11.attn.a_projection_with_a_long_name.c_attn.weight"


def test_long_names_keep_their_end_in_a_narrow_terminal(printed):
    compared = tc.compare({NAME: torch.ones(2)}, {NAME: torch.zeros(2)})
    (row,) = [line for line in printed(report.show_comparison, compared) if "c_attn" in line]
    assert row.startswith("…")
    assert row.split()[0].endswith("long_name.c_attn.weight")
    (row,) = [line for line in printed(report.show_comparison, compared, width=120) if "c_attn" in line]
    assert row.split()[0] == NAME


def test_names_in_wide_characters_keep_their_end_and_all_columns(printed):
    name = "编码器" * 20 + ".weight"
    compared = tc.compare({name: torch.ones(2)}, {name: torch.zeros(2)})
    lines = printed(report.show_comparison, compared)
    (row,) = [line.split() for line in lines if ".weight" in line]
    assert row[0].startswith("…")
    assert row[0].endswith("编码器编码器.weight")
    assert row[1:] == ["1", "1.41", "1", "–", "100.00%"]


def test_who_reads_by_program_gets_the_names_whole(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    report.show_comparison(tc.compare({NAME: torch.ones(2)}, {NAME: torch.zeros(2)}))
    assert any(line.split()[:2] == [NAME, "2"] for line in capsys.readouterr().out.splitlines())
