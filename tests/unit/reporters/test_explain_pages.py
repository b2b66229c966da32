"""The pages about the codes are what the table says, and so are those in the documentation."""

import re
from pathlib import Path

import pytest

from torchcopy.reporters.explain_pages import as_markdown, pages, write_pages
from torchcopy.semantics.codes import CODES, find_code

DOCS = Path(__file__).parents[3] / "docs" / "codes"


def test_the_pages_in_the_documentation_are_what_the_table_says():
    there = {path.name: path.read_text(encoding="utf-8") for path in DOCS.iterdir()}
    assert there == pages()


def test_writing_replaces_old_pages_and_removes_those_of_no_code(tmp_path):
    folder = tmp_path / "codes"
    write_pages(folder)
    (folder / "TC999.md").write_text("of a code that is no more")
    (folder / "TC101.md").write_text("old")
    (folder / "notes.md").write_text("not ours")
    write_pages(str(folder))
    assert {path.name for path in folder.iterdir()} == {*pages(), "notes.md"}
    assert (folder / "TC101.md").read_text(encoding="utf-8") == as_markdown(find_code("TC101"))


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.code)
def test_a_page_has_both_programs_and_every_link(code):
    page = as_markdown(code)
    assert page.startswith(f"# {code.code}: {code.title}\n")
    assert re.findall(r"```python\n(.*?)```\n", page, re.S) == [code.wrong, code.right]
    links = re.findall(r"^- \[[\w./#-]+\]\((\S+)\)$", page, re.M)
    assert tuple(links) == code.threads


@pytest.mark.parametrize("code", [code for code in CODES if code.linted], ids=lambda code: code.code)
def test_a_page_says_what_the_linter_sees_and_how_to_silence_it(code):
    section = as_markdown(code).split("\n## In source\n\n")[1].split("\n## ")[0]
    lines = re.search(r"```diff\n(.*?)```\n", section, re.S)[1].splitlines()
    assert [line[1:] for line in lines if line[0] in " -"] == code.in_source.before.splitlines()
    assert [line[1:] for line in lines if line[0] in " +"] == code.in_source.after.splitlines()
    assert f"`# torchcopy: ignore[{code.code}]`" in section
    assert f"`# noqa: {code.code}`" in section


def test_other_codes_are_links_to_their_pages():
    page = as_markdown(find_code("TC102"))
    assert "([TC103](TC103.md))" in page
    assert "[TC102](" not in page
    opt_in = as_markdown(find_code("TC301"))
    assert "([TC102](TC102.md))" in opt_in
    assert "`--select TC301`" in opt_in


def test_threads_are_named_as_people_name_them():
    assert "- [pytorch/pytorch#34765](https://github.com/pytorch/pytorch/issues/34765)" in as_markdown(CODES[0])


def test_the_index_lists_every_page_twice():
    index = pages()["index.md"]
    for code in CODES:
        assert f"| [{code.code}]({code.code}.md) | {code.title} |" in index
        assert f"\n{code.code}\n" in index.split("```{toctree}")[1]
