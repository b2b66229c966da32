"""The page of an audit, as text. What it does in a browser is tested in tests/integration/test_audit_page.py."""

import base64
import dataclasses
import hashlib
import html.parser
import re

import pytest

import audit_reports
from torchcopy.auditing.records import Finding, Place, SourceLine
from torchcopy.reporters import audit_html, audit_source_view
from torchcopy.reporters.audit_snippets import snippets
from torchcopy.reporters.audit_timeline import timeline

NASTY = "\"><script>alert(1)</script><img src=x onerror=alert(2)>'{{ 7 * 7 }}"
SPOOFED = "a\u202eb\x00c\udc80"


class _Page(html.parser.HTMLParser):
    """The tags of a page, its text, and whether each one closes."""

    VOID = ("meta", "link", "input", "br")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.words, self.in_style = [], [], [], False
        self.feed(text)
        self.close()
        self.ids = {given["id"] for _, given in self.tags if "id" in given}
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def all(self, tag, **wanted):
        return [given for name, given in self.tags if name == tag and wanted.items() <= given.items()]


def nasty_report():
    line = SourceLine(f"{NASTY}.py", 1, 1, 5, NASTY, NASTY, NASTY)
    finding = Finding("TC201", NASTY, (Place(NASTY, line),), notes=(NASTY, f"`{NASTY}`"), fix=f"`{NASTY}`")
    return audit_reports.report(
        findings=(finding,),
        copies=(audit_reports.site(line, "clone", 1, 8, 0.1, needed=1),),
        opaque={NASTY: 1},
        unused_ignores=(line,),
        sources={line.path: NASTY},
        program=NASTY,
        ended_by=NASTY,
        versions={NASTY: NASTY},
    )


@pytest.mark.parametrize(
    "report",
    [
        audit_reports.report(),
        audit_reports.report(findings=(), copies=(), sources={}, timeline=(), opaque={}, unused_ignores=()),
        audit_reports.report(program="", seconds=0.0, steps=0, audited_steps=0, sources={}),
        nasty_report(),
        audit_reports.large(lines=300, sites=600),
    ],
    ids=["full", "clean", "no-source", "nasty", "large"],
)
def test_every_page_is_whole_fetches_nothing_and_has_no_dead_link(report):
    text = audit_html.render(report)
    page = _Page(text)
    assert page.open == []
    links = [given["href"] for _, given in page.tags if "href" in given]
    assert {link[1:] for link in links if link.startswith("#")} <= page.ids
    assert [link for link in links if not link.startswith("#")] == ["data:,"]
    assert not [given for _, given in page.tags if {"src", "srcset", "action"} & set(given)]
    assert not re.search(r"url\(|@import|fetch\(|XMLHttp", text)
    ids = [given["id"] for _, given in page.tags if "id" in given]
    assert len(ids) == len(set(ids))


def test_hazards_stand_before_waste_and_waste_before_bytes():
    text = audit_html.render(audit_reports.report())
    order = ["TC101", "TC105", "TC208", "TC202", "TC301"]
    places = [text.index(f'<span class="code">{code}</span>') for code in order]
    places += [text.index(f'<h2 id="{name}"') for name in ("bytes", "timeline", "copies", "source", "rest")]
    assert places == sorted(places)


def test_a_finding_is_told_whole():
    finding = audit_reports.hazard()
    page = _Page(audit_html.render(audit_reports.report(findings=(finding,))))
    for words in (finding.message, *finding.notes, finding.fix, *(place.role for place in finding.places)):
        assert words.replace("`", "") in page.text
    for place in finding.places:
        assert place.line.text.strip() in page.text
    assert "once · 814 kB at risk" in page.text
    assert "torchcopy explain TC101" in page.text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "2 hazards make results wrong, and 1.50 GB of the 1.70 GB copied (88%) were not needed."),
        ({"findings": (audit_reports.hazard(),)}, "1 hazard makes results wrong, and 1.50 GB"),
        ({"findings": (), "copies": ()}, "No hazard was found, and nothing was copied."),
        (
            {"findings": (), "copies": audit_reports.copies()[4:]},
            "No hazard was found, and none of the 188 MB copied is known to be wasted.",
        ),
    ],
    ids=["both", "one", "nothing", "needed"],
)
def test_one_sentence_says_what_was_found(changes, words):
    report = audit_reports.report(**changes)
    assert audit_html.sentence(report).startswith(words)
    assert words in _Page(audit_html.render(report)).text


def test_what_limits_the_report_is_said_first():
    changes = {"ended_by": "KeyboardInterrupt", "audited_steps": 100}
    page = _Page(audit_html.render(audit_reports.report(**changes)))
    assert "The program ended with KeyboardInterrupt." in page.text
    assert "The first 100 of 938 optimizer steps were audited." in page.text
    assert page.text.index("KeyboardInterrupt") < page.text.index("Hazards: ")
    assert "torch.compile: model.forward, 938 times" in page.text
    assert "Ignores that silence nothing train.py:31" in page.text


def test_nothing_of_the_program_is_taken_as_html():
    text = audit_html.render(nasty_report())
    page = _Page(text)
    assert len(page.all("script")) == 1
    assert page.all("img") == []
    assert "{{ 7 * 7 }}" in page.text  # nor as a template
    assert page.text.count("<script>alert(1)</script>") > 10


def test_only_the_pages_own_script_may_run():
    text = audit_html.render(nasty_report())
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = _Page(text).all("meta", **{"http-equiv": "Content-Security-Policy"})
    assert f"script-src 'sha256-{digest}'" in policy["content"]
    assert "default-src 'none'" in policy["content"]


def test_backticks_mark_code_and_are_not_shown():
    line = SourceLine("a.py", 1, 1, 2, "ab")
    finding = Finding("TC101", "`x < y` is <b>", (Place("kept in `losses`", line),), fix="a lone ` stays")
    text = audit_html.render(audit_reports.report(findings=(finding,), sources={"a.py": "ab"}))
    assert "<code>x &lt; y</code> is &lt;b&gt;" in text
    assert ">kept in losses<" in text
    assert "a lone ` stays" in text


def test_characters_that_hide_others_are_shown():
    line = SourceLine("a.py", 1, 1, 2, SPOOFED)
    finding = Finding("TC101", SPOOFED, (Place("here", line),))
    text = audit_html.render(audit_reports.report(findings=(finding,), sources={"a.py": SPOOFED}, program=SPOOFED))
    text.encode("utf-8")
    assert not re.search("[\x00\u202e\udc80]", text)
    assert "␀" in text


# --- snippets ------------------------------------------------------------------------------------------------


def underlined(text, column, end_column=None):
    (shown,) = snippets([Place("here", SourceLine("a.py", 1, column, end_column, text))], lambda line: None)
    return shown


@pytest.mark.parametrize(
    ("text", "column", "end_column", "parts"),
    [
        ("    x = y.clone()", 9, 18, ("x = ", "y.clone()", "")),
        ("    x = y.clone() + 1", 9, 18, ("x = ", "y.clone()", " + 1")),
        ("    x = y.clone(  # why", 9, None, ("x = ", "y.clone(  # why", "")),
        ("    x = y.clone()", None, None, ("", "", "x = y.clone()")),
        ("    x = y", 40, 44, ("", "", "x = y")),
        ("    x = y", 9, 400, ("x = ", "y", "")),
        ("", 1, 4, ("", "", "")),
    ],
    ids=["end", "middle", "several-lines", "no-column", "beyond", "end-beyond", "no-source"],
)
def test_what_is_underlined(text, column, end_column, parts):
    shown = underlined(text, column, end_column)
    (part,) = shown.parts
    assert (shown.text[: part.start], shown.text[part.start : part.end], shown.text[part.end :]) == parts
    assert shown.carets(part) == "^" * len(parts[1])
    assert [piece for piece in shown.pieces() if piece[1]] == ([(parts[1], True)] if parts[1] else [])


def test_carets_stand_below_wide_characters_and_tabs():
    shown = underlined("\t日本 = x.clone()", 7, 16)
    assert list(shown.pieces()) == [("日本 = ", False), ("x.clone()", True)]
    assert shown.indent(shown.parts[0]) == " " * 7
    shown = underlined("日本.clone()", 1, 3)
    assert shown.carets(shown.parts[0]) == "^^^^"


def test_indentation_that_all_lines_share_is_left_out():
    places = [
        Place("", SourceLine("a.py", n, 9, None, text)) for n, text in ((1, "        a"), (2, "            b"))
    ]
    assert [shown.text for shown in snippets(places, lambda line: None)] == ["a", "    b"]
    places.append(Place("", SourceLine("a.py", 3, 2, None, "\tc")))
    first, *_ = snippets(places, lambda line: None)
    assert first.text == "        a"


def test_a_line_that_has_several_parts_in_a_finding_is_shown_once():
    line = audit_reports.source_line("train.py", "images_now.double().float()")
    inner = dataclasses.replace(line, end_column=line.column + len("images_now.double()"))
    finding = Finding("TC202", "message", (Place("copied here", inner), Place("and again", line)))
    page = _Page(audit_html.render(audit_reports.report(findings=(finding,))))
    assert [tag for tag, given in page.tags].count("mark") == 2
    shown = spaced(page)
    assert shown.count("images_now = images_now.double().float()") == 2  # in the finding, and in the file
    assert re.search(r"\^ copied here \S*\^ and again", shown)


@pytest.mark.parametrize("at", [1, 3_000, 5_990])
def test_of_a_very_long_line_the_part_that_matters_is_shown(at):
    shown = underlined("x" * (at - 1) + "y.clone()" + "z" * (6_000 - at), at, at + 9)
    assert [text for text, is_underlined in shown.pieces() if is_underlined] == ["y.clone()"]
    assert len(shown.text) <= 240
    assert shown.text.startswith("…") == (at > 1)
    assert shown.text.endswith("…")


# --- source --------------------------------------------------------------------------------------------------


def test_the_source_shows_bytes_and_findings_of_each_line():
    page = _Page(audit_html.render(audit_reports.report()))
    assert "26 764 MB snapshot = copy.deepcopy(model.state_dict()) TC208 : copied here" in spaced(page)
    assert "10 377 MB return x.permute(0, 2, 1).reshape(len(x), -1).contiguous().clone() TC202" in spaced(page)
    assert "938 needed (188 MB), 938 redundant (188 MB)" in {given.get("title") for _, given in page.tags}


def spaced(page):
    return " ".join(" ".join(page.words).split())


@pytest.mark.parametrize(
    ("text", "count"), [("a\r\nb\rc\nd", 4), ("a\x0cb\u2028c\x85d\n", 1), ("", 0), ("\n\n", 2), ("a\n", 1)]
)
def test_lines_are_counted_as_python_counts_them(text, count):
    report = audit_reports.report(findings=(), copies=(), sources={"a.py": text}, unused_ignores=())
    view = audit_source_view.SourceView(report, {})
    assert sum(map(len, view.files[0].chunks)) == count


def test_of_a_huge_program_the_lines_near_findings_are_shown():
    sources = {"big.py": "x\n" * 30_000, **audit_reports.SOURCES}
    line = SourceLine("big.py", 20_000, text="x")
    finding = Finding("TC101", "message", (Place("here", line),))
    view = audit_source_view.SourceView(
        audit_reports.report(sources=sources, findings=(finding,)),
        {"big.py": {20_000: [audit_source_view.Mark("f1", "TC101", "hazard", "here")]}},
    )
    big = next(file for file in view.files if file.path == "big.py")
    lines = [each for chunk in big.chunks for each in chunk]
    assert [each.number for each in lines if not each.left_out] == list(range(19_995, 20_006))
    assert [each.left_out for each in lines if each.left_out] == [19_994, 9_995]
    assert view.anchor(line) == f"{big.anchor}-20000"
    assert view.anchor(SourceLine("big.py", 3)) is None
    assert view.lines_left_out >= 29_989


# --- timeline ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "seconds"),
    [
        (((1.0, 100),), 1.0),
        (((0.5, 10), (0.5, 90), (2.0, 300)), 4.0),
        (tuple((0.1 * at, at) for at in range(1, 2_000)), 250.0),
        (((0.0, 7),), 1e-6),
        (((5.0, 7),), 1.0),
    ],
    ids=["one", "jump", "many", "at-once", "late"],
)
def test_the_bars_add_up_to_what_was_copied(points, seconds):
    drawn = timeline(points, seconds)
    top = float_bytes(drawn.sizes[-1].text)
    assert sum(bar.height * top / 100 for bar in drawn.bars) == pytest.approx(sum(size for _, size in points))
    assert 0 < max(bar.height for bar in drawn.bars) <= 100 + 1e-9
    assert drawn.times[0].percent == 0
    assert all(tick.percent <= 100 + 1e-6 for tick in drawn.times)


def float_bytes(text):
    number, unit = text.split()
    return float(number) * {"B": 1, "kB": 1e3, "MB": 1e6}[unit]


def test_bytes_stand_where_they_were_copied():
    drawn = timeline(((1.0, 0), (2.0, 50), (4.0, 0)), 4.0)
    heights = [bar.height for bar in drawn.bars]
    third = len(heights) // 4
    assert sum(heights[:third]) == sum(heights[2 * third :]) == 0
    assert heights[third : 2 * third] == pytest.approx([heights[third]] * third)
    assert heights[third] > 0


@pytest.mark.parametrize(("points", "seconds"), [((), 3.0), (((1.0, 0),), 3.0), (((0.0, 5),), 0.0)])
def test_nothing_is_drawn_where_nothing_was_copied(points, seconds):
    assert timeline(points, seconds) is None
