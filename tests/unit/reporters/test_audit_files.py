"""What a report is saved to, and that the schema of the JSON is documented field by field."""

import json
import re
from pathlib import Path

import pytest

import audit_reports
import torchcopy
from torchcopy import InputError
from torchcopy.auditing.records import Report, SourceLine
from torchcopy.reporters.audit_files import save

SCHEMA = Path(torchcopy.__file__).parents[2] / "docs" / "audit-report-schema.md"


def as_read(data):
    """Plain data as it comes back from JSON: tuples are lists."""
    return json.loads(json.dumps(data))


def test_json_comes_back_as_it_was(tmp_path):
    report = audit_reports.report()
    report.save(tmp_path / "report.json")
    assert Report.load(tmp_path / "report.json") == report
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == as_read(report.to_dict())


def test_a_page_is_written(tmp_path):
    save(audit_reports.report(), tmp_path / "Report.HTML")
    text = (tmp_path / "Report.HTML").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "this snapshot changed under you" in text


@pytest.mark.parametrize("name", ["report.txt", "report", "html", ".json", "report.html.gz"])
def test_another_ending_is_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(InputError, match=r"has to end in \.html or \.json"):
        save(audit_reports.report(), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", ["html", "json"])
def test_a_file_that_cannot_be_written_leaves_what_was_there(tmp_path, ending):
    kept = tmp_path / f"kept.{ending}"
    kept.write_text("old")
    kept.with_name(f".{kept.name}.part").mkdir()
    with pytest.raises(InputError, match="cannot write"):
        save(audit_reports.report(), kept)
    assert kept.read_text() == "old"


@pytest.mark.parametrize("ending", ["html", "json"])
def test_file_names_that_are_no_unicode_are_no_obstacle(tmp_path, ending):
    report = audit_reports.report(program="a\udc80.py", unused_ignores=(SourceLine("a\udc80.py", 1),))
    save(report, tmp_path / f"report.{ending}")
    if ending == "json":
        assert Report.load(tmp_path / "report.json") == report
    else:
        assert "a\ufffd.py" in (tmp_path / "report.html").read_text(encoding="utf-8")


# --- docs/audit-report-schema.md -----------------------------------------------------------------------------


def documented():
    """The fields of each table of the page, by its heading; a heading ends in the name of what it tells of."""
    fields = {}
    for section in re.split(r"^## ", SCHEMA.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        fields[heading.strip().strip("`")] = set(re.findall(r"^\| `(\w+)` \|", body, flags=re.MULTILINE))
    return fields


def test_every_field_is_documented_and_no_other():
    data = audit_reports.report().to_dict()
    finding, site = data["findings"][0], data["copies"][0]
    written = {
        "The report": data,
        "findings": finding,
        "places": finding["places"][0],
        "line": finding["places"][0]["line"],
        "copies": site,
    }
    told = documented()
    # A site has the fields of its line, which are told where lines are.
    told["copies"] |= told["line"]
    assert {heading: told[heading] for heading in written} == {name: set(each) for name, each in written.items()}


def test_the_examples_of_the_schema_are_of_this_version():
    (example,) = re.findall(r"```json\n(.*?)```", SCHEMA.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert as_read(Report.from_dict(json.loads(example)).to_dict()) == json.loads(example)
