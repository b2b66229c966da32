"""The page of an audit in a real browser: Debian's Chromium, headless, driven by Playwright."""

import itertools
import shutil

import pytest
from playwright.sync_api import sync_playwright

import audit_reports
from torchcopy.auditing.records import Finding, Place, SourceLine
from torchcopy.reporters.audit_files import save

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    pytest.skip(
        "no Chromium here, so the audit's page is NOT tested in a browser: `apt-get install chromium`",
        allow_module_level=True,
    )

NARROW = {"width": 375, "height": 700}
NASTY = '"><script>document.title = "taken over"</script><img src=x onerror="document.title = 1">'


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Writes a report; the same one once."""
    folder = tmp_path_factory.mktemp("pages")
    made = {}

    def write(name):
        if name not in made:
            made[name] = folder / f"{name}.html"
            save(REPORTS[name](), made[name])
        return made[name].as_uri()

    return write


def nasty():
    line = SourceLine(NASTY, 1, 1, 5, NASTY, NASTY, NASTY)
    return audit_reports.report(
        findings=(Finding("TC101", NASTY, (Place(NASTY, line),), notes=(NASTY,), fix=NASTY),),
        copies=(audit_reports.site(line, "clone", 1, 8, 0.1, needed=1),),
        sources={NASTY: NASTY},
        program=NASTY,
        opaque={NASTY: 2},
        unused_ignores=(line,),
    )


def long_words():
    """Names without a place to break them at."""
    path, text = "p" * 300 + ".py", "v" * 900
    line = SourceLine(path, 1, 1, 900, text, "f" * 200, "t" * 200)
    finding = Finding("TC101", "m" * 400, (Place("r" * 200, line),), notes=("n" * 400,), fix="x" * 400)
    return audit_reports.report(
        findings=(finding,),
        copies=(audit_reports.site(line, "clone", 1, 8, 0.1, needed=1),),
        sources={path: text},
        program="q" * 300,
        opaque={"o" * 300: 1},
        unused_ignores=(line,),
    )


REPORTS = {
    "full": audit_reports.report,
    "nasty": nasty,
    "large": audit_reports.large,
    "long-words": long_words,
    "clean": lambda: audit_reports.report(findings=(), copies=(), opaque={}, unused_ignores=(), timeline=()),
}


@pytest.fixture
def visit(browser, saved):
    """Opens the page of a report; in the end nothing was requested but the page, and no error was reported."""
    contexts, requested, errors, pages = [], [], [], set()

    def open_page(name="full", fragment="", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requested.append(request.url.partition("#")[0]))
        pages.add(saved(name))
        page.goto(saved(name) + fragment)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
    assert {url for url in requested if url != "data:,"} == pages


def cells(page, column):
    """What the table of copies shows in a column."""
    return page.locator(f"#sites tbody tr > :nth-child({column})").all_inner_texts()


def head(page, name):
    return page.locator("#sites thead th", has=page.get_by_role("button", name=name, exact=True))


def in_view(page, selector):
    return page.locator(selector).evaluate(
        "e => { const r = e.getBoundingClientRect(); return r.bottom > 0 && r.top < innerHeight && r.height > 0; }"
    )


@pytest.mark.parametrize("name", list(REPORTS))
def test_every_page_opens_without_errors_or_requests(visit, name):
    page = visit(name)
    assert page.title().startswith("Audit of")
    assert page.get_by_role("heading", level=1).count() == 1
    assert page.get_by_role("main").count() == page.get_by_role("navigation").count() == 1


def test_nothing_of_the_program_runs(visit):
    page = visit("nasty")
    assert page.title() == f"Audit of {NASTY}"
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 1
    assert page.locator(".card h3").inner_text() == f"TC101 {NASTY}"
    page.locator("#search").fill("<script>")
    assert page.locator("#sites tbody tr").count() == 1


# --- the table -----------------------------------------------------------------------------------------------


def test_every_column_sorts_both_ways(visit):
    page = visit()
    for column in range(1, page.locator("#sites thead th").count() + 1):
        button = page.locator(f"#sites thead th:nth-child({column}) button")
        orders = []
        for _ in range(2):
            button.click()
            order = page.locator(f"#sites thead th:nth-child({column})").get_attribute("aria-sort")
            values = page.locator(f"#sites tbody tr > :nth-child({column})").evaluate_all(
                "cells => cells.map((cell) => cell.dataset.value ?? null)"
            )
            if None in values:
                values = cells(page, column)
                # The line numbers are compared as numbers: line 9 before line 10.
                keys = [
                    (word.rpartition(":")[0], int(word.rpartition(":")[2])) if column == 1 else word.lower()
                    for word in values
                ]
            else:
                keys = [float(value) for value in values]
            assert keys == sorted(keys, reverse=order == "descending"), (column, order)
            assert len(values) == 6
            orders.append(order)
            assert (
                page.locator("#sites thead th[aria-sort=ascending], #sites th[aria-sort=descending]").count() == 1
            )
        assert sorted(orders) == ["ascending", "descending"]


def test_most_bytes_come_first_and_a_click_turns_that_round(visit):
    page = visit()
    assert head(page, "bytes").get_attribute("aria-sort") == "descending"
    before = cells(page, 4)
    page.get_by_role("button", name="bytes", exact=True).click()
    assert cells(page, 4) == before[::-1]


def test_sorting_by_keyboard(visit):
    page = visit()
    page.get_by_role("button", name="count", exact=True).focus()
    page.keyboard.press("Enter")
    assert head(page, "count").get_attribute("aria-sort") == "descending"
    page.keyboard.press("Space")
    assert head(page, "count").get_attribute("aria-sort") == "ascending"
    assert cells(page, 3)[0] == "4"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "bytes"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_a_slash_leads_to_the_search_and_words_filter(visit):
    page = visit()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("MODEL.py clone")
    assert cells(page, 1) == ["model.py:10", "model.py:10"]
    assert page.get_by_role("status").inner_text() == "2 of 6 lines"
    page.keyboard.type("/")
    assert page.locator("#search").input_value() == "MODEL.py clone/"
    assert page.locator("#sites tbody tr").count() == 0
    page.locator("#search").fill("redundant")
    assert len(cells(page, 1)) == 3
    page.keyboard.press("Escape")
    assert len(cells(page, 1)) == 6
    assert page.get_by_role("status").inner_text() == "6 lines"


def test_a_sorted_table_stays_sorted_while_searched(visit):
    page = visit()
    page.get_by_role("button", name="place", exact=True).click()
    page.locator("#search").fill("train.py")
    assert cells(page, 1) == ["train.py:20", "train.py:24", "train.py:26", "train.py:27"]


# --- links ---------------------------------------------------------------------------------------------------


def test_findings_and_lines_are_linked_both_ways(visit):
    page = visit()
    page.locator("#f1 a.number").first.click()
    target = page.evaluate("location.hash")
    assert "best, best_accuracy = model.state_dict()" in page.locator(target).inner_text()
    assert in_view(page, target)
    page.locator(f"{target} .marks a").click()
    assert page.evaluate("location.hash") == "#f1"
    assert in_view(page, "#f1 h3")
    assert page.evaluate("document.activeElement.id") == "f1"
    page.locator("#sites tbody a").first.click()
    assert "copy.deepcopy" in page.locator(page.evaluate("location.hash")).inner_text()


def test_a_link_into_a_folded_file_unfolds_it(visit):
    page = visit()
    page.locator("details.file").last.locator("summary").click()
    assert page.locator("details.file").last.get_attribute("open") is None
    page.locator("#sites tbody a", has_text="model.py").first.click()
    assert page.locator("details.file").last.get_attribute("open") is not None
    target = page.evaluate("location.hash")
    assert in_view(page, target)
    assert "contiguous().clone()" in page.locator(target).inner_text()


def test_lines_with_findings_are_marked(visit):
    page = visit()
    numbers = page.locator(".l.marked > a").all_inner_texts()
    assert sorted(map(int, numbers)) == [10, 13, 24, 25, 26, 29, 30]
    plain, marked = (
        page.locator(selector).first.evaluate("e => getComputedStyle(e).backgroundColor")
        for selector in (".l:not(.marked)", ".l.marked")
    )
    assert plain != marked


# --- looks ---------------------------------------------------------------------------------------------------

_LUMINANCE = """selector => {
  const part = (text) => text.match(/[\\d.]+/g).slice(0, 3).reduce((sum, n) => sum + Number(n), 0) / 765;
  const style = getComputedStyle(document.querySelector(selector));
  return [part(style.backgroundColor), part(style.color)];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_system_says_light_or_dark_and_the_button_overrules_it(visit, scheme):
    page = visit(color_scheme=scheme)
    ground, ink = page.evaluate(_LUMINANCE, "body")
    assert (ground > ink) == (scheme == "light")
    button = page.locator("#theme")
    assert button.inner_text() == {"light": "Dark", "dark": "Light"}[scheme]
    button.focus()
    page.keyboard.press("Enter")
    ground, ink = page.evaluate(_LUMINANCE, "body")
    assert (ground > ink) == (scheme == "dark")
    assert button.inner_text() == scheme.capitalize()
    page.reload()
    assert page.evaluate(_LUMINANCE, "body") == [ground, ink]
    button.click()
    ground, ink = page.evaluate(_LUMINANCE, "body")
    assert (ground > ink) == (scheme == "light")


def test_the_look_follows_the_system_while_the_page_is_open(visit):
    page = visit(color_scheme="light")
    page.emulate_media(color_scheme="dark")
    ground, ink = page.evaluate(_LUMINANCE, "body")
    assert ground < ink
    assert page.locator("#theme").inner_text() == "Light"


@pytest.mark.parametrize("name", ["full", "long-words", "nasty", "clean"])
@pytest.mark.parametrize("width", [320, 375, 768, 1920])
def test_no_width_scrolls_sideways(visit, name, width):
    page = visit(name, viewport={"width": width, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # What is wider than its place scrolls by itself, and can be reached by keyboard.
    loose = page.evaluate(
        """() => [...document.querySelectorAll("body *")].filter((e) => e.scrollWidth > e.clientWidth + 1
          && ["auto", "scroll"].includes(getComputedStyle(e).overflowX) && e.tabIndex !== 0)
          .map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert loose == []


def test_on_a_phone_the_underlined_words_stay_marked(visit):
    page = visit(viewport=NARROW)
    assert page.locator("#f1 mark").first.evaluate("e => getComputedStyle(e).textDecorationLine") == "underline"
    assert not page.locator("#f1 .carets").first.is_visible()
    assert page.locator("#f1 .what").first.is_visible()
    assert visit().locator("#f1 .carets").first.is_visible()


def test_carets_stand_below_what_they_mean(visit):
    page = visit()
    for at in range(3):
        marked = page.locator("#f1 mark").nth(at).bounding_box()
        carets = page.locator("#f1 .carets").nth(at).bounding_box()
        assert abs(marked["x"] - carets["x"]) < 1
        assert carets["y"] > marked["y"]


def test_tables_have_heads_for_rows_and_columns(visit):
    page = visit()
    for table in ("#sites", "#shares"):
        assert page.locator(f"{table} thead th:not([scope=col])").count() == 0
        rows = page.locator(f"{table} tbody tr").count()
        assert page.locator(f"{table} tbody th[scope=row]").count() == rows > 0
    levels = page.locator("h1, h2, h3").evaluate_all("heads => heads.map((head) => Number(head.tagName[1]))")
    assert levels[0] == 1
    assert all(next_one - level <= 1 for level, next_one in itertools.pairwise(levels))


def test_everything_that_can_be_used_has_a_name_and_shows_its_focus(visit):
    page = visit()
    unnamed = page.locator("a, button, input, [tabindex='0']").evaluate_all(
        """all => all.filter((e) => e.checkVisibility() && !(e.textContent.trim() || e.ariaLabel
          || e.labels?.length || e.getAttribute("aria-labelledby"))).map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    for _ in range(25):
        page.keyboard.press("Tab")
        shown = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert shown in ("solid", "auto"), page.evaluate("document.activeElement.outerHTML")


# --- size ----------------------------------------------------------------------------------------------------


def test_a_large_report_can_be_used(visit):
    page = visit("large")
    assert page.locator("#sites tbody tr").count() == 200
    assert page.get_by_role("status").inner_text() == "10,000 lines, the first 200 are shown"
    page.get_by_role("button", name="count", exact=True).click()
    assert set(cells(page, 3)) == {"9"}
    page.locator("#search").fill("big.py:4321 conversion")
    assert cells(page, 1) == ["big.py:4321"]
    assert page.get_by_role("status").inner_text() == "1 of 10,000 lines"
    page.locator("#sites tbody a").click()
    target = page.evaluate("location.hash")
    assert page.locator(f"{target} > code").inner_text() == (
        "    x4320 = model.layer_4320(x).clone().to(torch.float64)"
    )
    assert in_view(page, target)
    page.locator("#search").fill("")
    page.get_by_role("button", name="Show 200 more").click()
    assert page.locator("#sites tbody tr").count() == 400
    page.get_by_role("button", name="Show all 10,000").click()
    assert page.locator("#sites tbody tr").count() == 10_000
    assert not page.get_by_role("button", name="Show all").is_visible()
    assert page.locator(".l").count() == 5_000


def test_without_scripts_the_page_still_reads(visit):
    page = visit("large", java_script_enabled=False)
    assert page.locator("#sites tbody tr").count() == 200
    assert page.get_by_text("the other 9,800 are shown where scripts may run").is_visible()
    assert not page.locator("#theme").is_visible()
