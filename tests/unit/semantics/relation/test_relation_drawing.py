from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from torch import nn

from torchcopy.semantics.relation import relate, svg_sheet

SVG = "{http://www.w3.org/2000/svg}"


def pairs():
    x = torch.arange(6.0).view(2, 3).requires_grad_()
    base = torch.arange(100.0)
    lazy, many = torch.arange(6.0), torch.zeros(100_000)
    deep = x
    for _ in range(40):
        deep = deep.sin()
    array = np.arange(4.0)
    first, second = (x * 2).unbind()
    return {
        "same": (x, x.detach()),
        "overlap": (base[:60], base[40:]),
        "interleaved": (base[::2], base[1::2]),
        "lazy": (lazy, torch._lazy_clone(lazy)),
        "separate": (x, x.detach().clone()),
        "graph": (x, (x * 2).exp()),
        "deep": (deep, x),
        "common": (first, second),
        "far-common": (deep.exp(), deep.cos().tan().exp().sin().cos().tan().exp().sin()),
        "one-object": (x, x),
        "empty": (base[:0], base),
        "no-bytes": (torch.empty(0), torch.empty(0)),
        "meta": (torch.ones(3, device="meta"), x),
        "numpy": (torch.from_numpy(array), torch.from_numpy(array)),
        "sparse": (torch.eye(3).to_sparse(), torch.eye(3)),
        "many-runs": (many[::2], many[::3]),
        "a-list": ([x, base], [x.detach(), base.clone()]),
        "empty-lists": ([], {}),
        "long": ({f"a.very.long.path.{'x' * 90}.{k}": x for k in range(60)}, {"other": x}),
        "hostile": ({"</svg><script>alert(1)</script>\"'`#;|&]": x}, {"]\n\x00-->": x}),
    }


@pytest.fixture(params=pairs(), scope="module")
def relation(request):
    return relate(*pairs()[request.param])


def drawn(relation):
    return ET.fromstring(relation.to_svg())


def boxes(root):
    for element in root.iter():
        if element.tag == f"{SVG}text":
            width = len(element.text or "") * (7.3 if "tc-text" in element.get("class") else 7.6)
            x = float(element.get("x"))
            left = {"start": x, "middle": x - width / 2, "end": x - width}[element.get("text-anchor", "start")]
            yield element.text, left, left + width, float(element.get("y"))
        elif element.tag == f"{SVG}rect":
            x, width = float(element.get("x", 0)), float(element.get("width"))
            yield "rect", x, x + width, float(element.get("y", 0)) + float(element.get("height"))


class TestEverySvg:
    def test_nothing_sticks_out(self, relation):
        root = drawn(relation)
        _, _, width, height = map(float, root.get("viewBox").split())
        for what, left, right, bottom in boxes(root):
            assert left >= 0, what
            assert right <= width, what
            assert bottom <= height, what

    def test_words_do_not_run_into_each_other(self, relation):
        words = [box for box in boxes(drawn(relation)) if box[0] != "rect"]
        for k, (what, left, right, y) in enumerate(words):
            for other, other_left, other_right, other_y in words[:k]:
                if abs(y - other_y) < 9:
                    assert right <= other_left or other_right <= left, (what, other)

    def test_it_says_the_sentence(self, relation):
        text = " ".join(e.text for e in drawn(relation).iter(f"{SVG}text") if "tc-prose" in e.get("class"))
        assert "".join(text.split()) == "".join(svg_sheet._printable(str(relation)).split())

    def test_it_stands_alone_and_knows_the_dark(self, relation):
        svg = relation.to_svg()
        assert "prefers-color-scheme: dark" in svg
        assert not re.search(r"(href|url\(|<script|<image|@import)", svg)
        assert "id=" not in svg  # two pictures on one page must not find each other's parts
        colours = set(re.findall(r"tc-(?:fill|stroke)-(\w+)", svg.partition("</style>")[2]))
        assert colours <= set(svg_sheet._COLOURS)


def test_ranges_are_to_scale():
    x = torch.arange(100.0)
    relation = relate(x[:60], x[40:])
    bars = {}
    for colour in ("a", "b", "both"):
        (bar,) = bars_of(relation, colour)
        bars[colour] = float(bar.get("x")), float(bar.get("width"))
    left, full = bars["a"][0], bars["a"][1] / 0.6
    assert bars["b"] == pytest.approx((left + 0.4 * full, 0.6 * full))
    assert bars["both"] == pytest.approx((left + 0.4 * full, 0.2 * full))


def bars_of(relation, colour):
    """What is drawn of the bytes of a, of b or of both; swatches and boxes have other heights."""
    rectangles = drawn(relation).iter(f"{SVG}rect")
    return [e for e in rectangles if e.get("class").split()[0] == f"tc-fill-{colour}" and e.get("height") == "14"]


def test_interleaved_bytes_are_drawn_apart():
    x = torch.arange(100.0)
    relation = relate(x[::2], x[1::2])
    assert len(bars_of(relation, "a")) == len(bars_of(relation, "b")) == 50
    assert bars_of(relation, "both") == []


def test_more_runs_than_pixels_are_drawn_faint():
    x = torch.zeros(100_000)
    (bar,) = bars_of(relate(x[::2], x[1::2]), "a")
    assert "tc-faint" in bar.get("class")
    assert bars_of(relate(x[::2], x[1::2]), "both") == []
    (both,) = bars_of(relate(x[::2], x[::3]), "both")
    assert "tc-faint" in both.get("class")


def test_lazy_storages_are_dashed():
    x = torch.ones(4)
    assert "tc-dashed" not in relate(x, x[1:]).to_svg().partition("</style>")[2]
    assert "tc-dashed" in relate(x, torch._lazy_clone(x)).to_svg().partition("</style>")[2]


def words_of(relation):
    return [e.text for e in drawn(relation).iter(f"{SVG}text")]


def test_the_way_is_drawn_in_order():
    x = torch.ones(3, requires_grad=True)
    words = words_of(relate(x, (x * 2).exp()))
    assert words.index("a") < words.index("MulBackward0") < words.index("ExpBackward0")
    assert "gradients flow the other way" in words[-1]


def test_a_long_way_shows_its_ends():
    y = x = torch.ones(3, requires_grad=True)
    for _ in range(40):
        y = y.sin()
    assert words_of(relate(x, y.exp())).count("SinBackward0") == 5
    assert "… 35 more …" in words_of(relate(x, y.exp()))


# --- Mermaid ------------------------------------------------------------------------------------------------------

LABEL = r'"[^"\n`<>{}|\\]+"'
NODE = rf"\w+(\[{LABEL}\]|\(\[{LABEL}\]\)|\[\({LABEL}\)\])"
MERMAID = [
    r"flowchart LR",
    rf"    subgraph \w+\[{LABEL}\]",
    r"    end",
    rf"    (    )?{NODE}",
    rf"    \w+ (---|-\.-|===)(\|{LABEL}\|)? \w+",
    r"    \w+ ~~~ \w+",
    rf"    \w+ --> \w+(\(\[{LABEL}\]\))?",
]


def test_every_line_of_mermaid_is_of_a_known_kind(relation):
    text = relation.to_mermaid()
    for line in text.splitlines():
        assert any(re.fullmatch(kind, line) for kind in MERMAID), line
    assert text.count("subgraph") == len(re.findall(r"^    end$", text, re.MULTILINE))


def test_every_mermaid_edge_joins_two_nodes(relation):
    text = relation.to_mermaid()
    nodes = set(re.findall(r"(\w+)[\[(]+\"", text))
    for line in text.splitlines():
        if edge := re.fullmatch(r"    (\w+) (?:---|-\.-|===|~~~|-->)(?:\|.*\|)? (\w+)(?:\(.*)?", line):
            assert {edge[1], edge[2]} <= nodes, line


def test_mermaid_tells_the_graph():
    x = torch.ones(3, requires_grad=True)
    text = relate(x, (x * 2).exp()).to_mermaid()
    assert '    a --> b0(["MulBackward0"])\n    b0 --> b1(["ExpBackward0"])\n    b1 --> b\n' in text
    common = relate(x.sin(), x.cos()).to_mermaid()
    assert '    common(["AccumulateGrad"])\n    common --> a0(["SinBackward0"])\n' in common


# --- HTML ---------------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_html_is_balanced_and_safe(relation):
    parsed = Tags()
    parsed.feed(relation._repr_html_())
    assert parsed.open == []
    assert "script" not in parsed.tags
    assert parsed.tags[0] == "div"
    assert "table" in parsed.tags


def test_html_of_containers_shows_what_deviates_first():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    other = {k: t.clone() for k, t in net.state_dict().items()}
    other["1.bias"] = net.state_dict()["1.bias"]
    page = relate(net.state_dict(), other)._repr_html_()
    assert re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td>", page)[0] == ("[&#x27;1.bias&#x27;]", "same memory")
