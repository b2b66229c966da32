"""The bench in the terminal, as a figure and as a page, from records made up for the purpose."""

import dataclasses
import html.parser
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import matplotlib
import pytest

from torchcopy._errors import InputError
from torchcopy.bench.compare import compare
from torchcopy.bench.records import BenchReport, Limit, Measurement, with_ratios
from torchcopy.reporters import bench, bench_html, bench_plot
from torchcopy.reporters.bench_files import as_data
from torchcopy.reporters.files import write_bytes
from torchcopy.semantics.allocation import Allocation
from torchcopy.semantics.catalogue import find_methods
from torchcopy.semantics.machine import describe_machine
from torchcopy.semantics.sources import SOURCE_KINDS
from torchcopy.semantics.timing import Timing

SIZES = (1, 2**10, 2**26)
FREE = {"assignment": "share", "detach": "share", "view": "share", "data": "share", "lazy_clone": "lazy"}


def timing(median, spread=0.03):
    return Timing(median, median * (1 - spread), median * (1 + spread), 12)


def measure(method, source, numel, seconds):
    memory = FREE.get(method, "own")
    size = 4 * numel if memory == "own" else 0
    return Measurement(
        method,
        f"{method}(t)",
        source,
        numel,
        4 * numel,
        timing=timing(seconds),
        allocation=Allocation(size, size, size),
        data_ptr_differs=memory == "own",
        memory=memory,
    )


def make(methods=None, *, sources=("no_grad",), sizes=SIZES, change=1.0, **fields):
    """A report of the catalogue's methods, each a little slower than the one before."""
    methods = methods or [entry.id for entry in find_methods()]
    measurements = [
        measure(method, source, numel, change * 1e-6 * (1 + place / 10 + numel / 1000))
        for source in sources
        for numel in sizes
        for place, method in enumerate(methods)
    ]
    limits = [Limit(s, numel, 4 * numel, timing(1e-6 * (0.5 + numel / 1000))) for s in sources for numel in sizes]
    plain = {
        "kind": "tensors",
        "subject": "tensors",
        "machine": describe_machine(),
        "device": "cpu",
        "dtype": "float32",
        "sources": tuple(sources),
        "sizes": tuple(sizes),
        "methods": tuple(methods),
        "limits": tuple(limits),
        "measurements": with_ratios(measurements, limits),
        "max_seconds": 60.0,
        "seconds": 12.0,
        "others_share": 0.0,
    }
    return BenchReport(**{**plain, **fields})


def change(report, method, **fields):
    measurements = tuple(dataclasses.replace(m, **fields) if m.method == method else m for m in report.measurements)
    return dataclasses.replace(report, measurements=measurements)


RAISES = {"timing": None, "memory": None, "allocation": None, "data_ptr_differs": None, "ratio_to_best": None}
RAISES |= {"ratio_to_limit": None}


@pytest.fixture
def shown(capsys, monkeypatch):
    def show(report, comparison=None, width=80):
        monkeypatch.setenv("COLUMNS", str(width))
        bench.show(report)
        if comparison is not None:
            bench.show_comparison(comparison)
        return capsys.readouterr().out

    return show


# --- words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (1, "1.00×"), (9.996, "10.0×"), (99.96, "100×"), (1234.5, "1234×")]
)
def test_ratios(value, text):
    assert bench.ratio(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (1, "100 %"), (0.984, "98 %"), (0.0123, "1 %"), (0.0041, "0.41 %")]
)
def test_shares(value, text):
    assert bench.percent(value) == text


def test_spread_is_half_the_distance_of_the_quartiles():
    assert bench.spread(Timing(2.0, 1.9, 2.3, 5)) == "±10%"
    assert bench.spread(Timing(1.0, 1.0, 99.0, 5)) == "±>999%"


# --- terminal ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [SIZES, (2**26,), tuple(2**k for k in range(27))])
def test_80_columns_are_enough(shown, sizes):
    out = shown(make(sizes=sizes))
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    for entry in find_methods():
        assert re.search(rf"^{re.escape(entry.id)} ", out, flags=re.MULTILINE)


def test_the_table_says_what_was_measured(shown):
    out = shown(make(["clone", "deepcopy", "detach"]))
    row = next(line for line in out.splitlines() if line.startswith("deepcopy"))
    assert re.split(r"\s{2,}|(?<=%) +(?=1)", row.strip())[0].startswith("deepcopy")
    assert "1.1 µs" in row
    assert row.endswith("100 %")
    assert re.search(r"^limit: warm copy_ .*100 %$", out, flags=re.MULTILINE)
    detach = [line for line in out.splitlines() if line.startswith("detach")]
    assert re.search(r"–\s+–$", detach[0])
    assert detach[1].split() == ["detach", "0", "B", "0", "B", "no", "share"]


def test_fastest_copies_come_first_and_what_is_no_copy_last(shown):
    out = shown(make(["detach", "deepcopy", "clone", "lazy_clone"], change=1.0))
    order = [line.split()[0] for line in out.splitlines() if line.split(" ")[0] in (*FREE, "clone", "deepcopy")]
    assert order[:4] == ["deepcopy", "clone", "detach", "lazy_clone"]


def test_nothing_is_left_out_silently(shown):
    report = change(make(["clone", "deepcopy", "to"]), "deepcopy", error="RuntimeError: only leaves", **RAISES)
    skipped = tuple(
        dataclasses.replace(m, timing=None, skipped="it is too large for 2 s") if m.numel == 2**26 else m
        for m in change(report, "to", timing=None, skipped="no time").measurements
    )
    out = shown(dataclasses.replace(report, measurements=skipped, limits=report.limits[:2]))
    text = " ".join(out.split())
    assert "! deepcopy raises on no_grad: RuntimeError: only leaves" in text
    assert "of 9 were not timed: `--max-seconds` gives more time" in text
    assert "Left out: no_grad of 2^26 elements: it is too large for 2 s." in text
    assert "Left out: no_grad: to on 1, to on 2^10 elements: no time." in text


def test_a_busy_machine_is_named(shown):
    assert "Other programs used 25% of the processors" in shown(make(["clone"], others_share=0.25))
    for quiet in (0.05, None):
        assert "Other programs" not in shown(make(["clone"], others_share=quiet))


def test_a_report_without_any_time(shown):
    report = change(make(["clone"], sizes=(8,), limits=()), "clone", skipped="no time", **RAISES)
    out = shown(report)
    assert "no time" in out


def test_a_model_with_its_expressions(shown):
    report = make(["deepcopy_model"], sizes=(1000,), sources=("model",), kind="model", subject="pkg:build")
    out = shown(report)
    assert "Copies of model pkg:build: 1 tensors, 4.00 kB, float32 on cpu" in out
    assert "deepcopy_model: deepcopy_model(t)" in out


def test_no_colour_where_none_is_wanted(shown, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in shown(make(["clone"]))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[(3|9)\d", shown(make(["clone"])))


def test_a_comparison(shown):
    old = make(["clone", "deepcopy", "gone"])
    new = change(make(["clone", "deepcopy", "new"], change=2.0), "deepcopy", error="RuntimeError: x", **RAISES)
    out = shown(new, compare(old, new))
    assert "Compared: 3 now raising, 3 slower, 3 gone, 3 new" in out
    assert re.search(r"^slower clone +no_grad 2\^26 .* 2\.00×$", out, flags=re.MULTILINE)
    assert "gone: gone on no_grad, 1 elements: not asked for this time" in out
    assert "new: new on no_grad, 1 elements: not measured then" in out
    assert "deepcopy raises now on no_grad: RuntimeError: x" in out
    assert max(map(len, out.splitlines())) <= 80
    assert as_data(new, compare(old, new))["comparison"]["slower"] == 6


def test_nothing_changed(shown):
    out = shown(make(["clone"]), compare(make(["clone"]), make(["clone"])))
    assert out.rstrip().endswith("Compared: 3 the same beyond noise")


# --- figure --------------------------------------------------------------------------------------------------


def test_plots_are_what_their_names_say(tmp_path):
    bench_plot.write_plot(tmp_path / "a.png", make())
    bench_plot.write_plot(tmp_path / "a.SVG", make())
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(tmp_path / "a.SVG").getroot().tag.endswith("svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.SVG", "a.png"]


def test_a_plot_leaves_matplotlib_as_it_was(tmp_path):
    import sys

    before, backend = dict(matplotlib.rcParams), matplotlib.get_backend(auto_select=False)
    pyplot = "matplotlib.pyplot" in sys.modules
    bench_plot.write_plot(tmp_path / "a.png", make())
    assert dict(matplotlib.rcParams) == before
    assert matplotlib.get_backend(auto_select=False) == backend
    assert ("matplotlib.pyplot" in sys.modules) is pyplot


def texts(figure):
    return {text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()}


def labels(figure):
    """What can be read on the figure, each with its box; ticks beyond the axes' ends are not drawn."""
    figure.draw_without_rendering()
    hidden = set()
    for axes in figure.findobj(matplotlib.axes.Axes):
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:
                    hidden |= {tick.label1, tick.label2}
    found = [text for text in figure.findobj(matplotlib.text.Text) if text not in hidden and text.get_visible()]
    return [(text.get_text(), text.get_window_extent()) for text in found if text.get_text().strip()]


def overlaps(figure):
    """Pairs of labels on the figure that lie over each other."""
    boxes = [(text, box.padded(-1.5)) for text, box in labels(figure)]
    return [(a, b) for i, (a, one) in enumerate(boxes) for b, other in boxes[:i] if one.overlaps(other)]


REPORTS = {
    "catalogue": make(),
    "all sizes": make(sizes=tuple(2**k for k in range(27))),
    "one size": make(sizes=(2**26,)),
    "few methods": make(["clone", "detach"]),
    "three sources": make(sources=SOURCE_KINDS[:3]),
    "model": make(["deepcopy_model", "lazy_clone"], sizes=(9,), sources=("model",), kind="model", subject="a:b"),
}


@pytest.mark.parametrize("name", REPORTS)
def test_labels_do_not_lie_over_each_other(name):
    assert overlaps(bench_plot.draw(REPORTS[name])) == []


@pytest.mark.parametrize("name", REPORTS)
def test_labels_lie_within_the_figure(name):
    figure = bench_plot.draw(REPORTS[name])
    for text, box in labels(figure):
        assert box.padded(-1).x0 >= 0, text
        assert box.padded(-1).y0 >= 0, text
        assert box.padded(-1).x1 <= figure.bbox.width, text
        assert box.padded(-1).y1 <= figure.bbox.height, text


def test_every_method_is_named_in_the_figure():
    named = " ".join(texts(bench_plot.draw(make())))
    for entry in find_methods():
        assert entry.id in named
    assert "limit: a warm copy_" in named


def test_the_figure_shows_the_records():
    figure = bench_plot.draw(make(["clone", "detach"]))
    left, right = figure.subfigs[0].axes
    assert (left.get_xscale(), left.get_yscale(), right.get_xscale()) == ("log", "log", "log")
    lines = {line.get_color(): line.get_ydata() for line in left.get_lines()}
    assert lines[bench_plot._LIMIT_COLOUR][0] == pytest.approx(0.501e-6)
    assert lines[bench_plot._COLOURS[0]][0] == pytest.approx(1.001e-6)
    assert any(list(line.get_ydata()) == [100, 100] for line in right.get_lines())
    assert len(left.collections) == 3  # the spread of the limit and of both methods


def test_a_report_without_times_is_a_figure_that_says_so():
    report = change(make(["clone"], sizes=(8,), limits=()), "clone", skipped="no time", **RAISES)
    assert "nothing was timed" in texts(bench_plot.draw(report))


def test_text_of_the_figure_takes_the_colours_of_the_page():
    svg = bench_plot.as_svg(make(sizes=(2**26,)))
    assert "currentColor" in svg and "var(--grid)" in svg and "var(--paper)" in svg  # noqa: PT018
    assert not re.search(r"#0[1-9]0[1-9]0[1-9]", svg)
    assert "#000000" not in svg


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    kept = tmp_path / "kept.png"
    kept.write_bytes(b"old")
    kept.with_name(".kept.png.part").mkdir()
    with pytest.raises(InputError, match="cannot write"):
        write_bytes(kept, b"new")
    assert kept.read_bytes() == b"old"


# --- page ----------------------------------------------------------------------------------------------------


class _Page(html.parser.HTMLParser):
    """Collects what a page would fetch, its rows, and whether its tags close."""

    VOID = ("meta", "link", "input", "br")

    def __init__(self, text):
        super().__init__()
        self.fetched, self.open, self.rows = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.fetched += [given[name] for name in ("src", "href", "srcset", "action") if given.get(name)]
        if tag == "tr" and "data-method" in given:
            self.rows.append(given)
        if tag not in self.VOID and tag not in ("path", "use"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        given = dict(attributes)
        self.fetched += [given[name] for name in ("src", "href") if given.get(name)]

    def handle_endtag(self, tag):
        if tag not in ("path", "use"):
            assert self.open.pop() == tag


def test_the_page_is_whole_and_fetches_nothing():
    text = bench_html.render(make(sources=("no_grad", "slice")))
    page = _Page(text)
    assert page.open == []
    assert all(target.startswith("data:") for target in page.fetched)
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttp", text)
    assert "<svg" in text
    assert len(page.rows) == 2 * len(SIZES) * len(find_methods())


def test_the_page_has_every_figure():
    report = change(make(["clone", "deepcopy"]), "deepcopy", error="RuntimeError: only <leaves>", **RAISES)
    text = bench_html.render(report, compare(make(["clone", "deepcopy"]), report))
    assert "RuntimeError: only &lt;leaves&gt;" in text
    assert "only <leaves>" not in text
    assert "What changed" in text and "now raising" in text  # noqa: PT018
    assert bench.percent(report.measurements[0].ratio_to_limit) in text
    assert "prefers-color-scheme: dark" in text
    assert "width=device-width" in text


def test_names_of_the_users_cannot_break_out_of_the_page():
    nasty = '"><script>alert(1)</script>'
    report = make(["clone"], sources=(nasty,), kind="values", subject=nasty, dtype=nasty)
    text = bench_html.render(report)
    assert "<script>alert" not in text
    assert _Page(text).open == []


def test_the_page_without_matplotlib(monkeypatch):
    monkeypatch.setattr(bench_html, "has_matplotlib", lambda: False)
    text = bench_html.render(make(["clone"]))
    assert "<svg" not in text
    assert "Every measurement" in text


def test_the_script_of_the_page_can_be_read(tmp_path):
    node = shutil.which("node")
    if node is None:
        pytest.skip("no JavaScript engine here")
    (script,) = re.findall(r"<script>(.*?)</script>", bench_html.render(make(["clone"])), flags=re.DOTALL)
    (tmp_path / "page.js").write_text(script)
    subprocess.run([node, "--check", tmp_path / "page.js"], check=True)


def test_reports_are_json():
    assert json.loads(json.dumps(as_data(make(), None)))["schema"] == "torchcopy-bench"
