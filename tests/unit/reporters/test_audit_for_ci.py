"""Findings as GitHub annotations and as SARIF."""

import json
import os
from pathlib import Path

import pytest

import audit_reports
from torchcopy.auditing.records import Finding, Place, SourceLine
from torchcopy.reporters.diagnostics import Diagnostic, of_audit
from torchcopy.reporters.github_annotations import as_github_annotations
from torchcopy.reporters.sarif import as_sarif
from torchcopy.semantics.codes import CODES


def one(**changes):
    return Diagnostic(**{"code": "TC101", "message": "wrong", "path": "a.py", "line": 3, **changes})


def results(*diagnostics):
    (run,) = as_sarif(diagnostics)["runs"]
    return run["results"]


@pytest.mark.skipif(os.name == "nt", reason="names of files are texts there")
@pytest.mark.parametrize("folder", ["", "/tmp/"])
def test_a_path_that_is_no_text_ends_nothing(folder):
    (result,) = results(one(path=os.fsdecode(f"{folder}a".encode() + b"\xff b.py")))
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == (f"file://{folder}a%FF%20b.py" if folder else "a%FF%20b.py")


@pytest.mark.parametrize(
    ("code", "level"), [("TC101", "error"), ("TC208", "warning"), ("TC301", "note"), ("TC999", "note")]
)
def test_levels(code, level):
    assert one(code=code).level == level
    assert results(one(code=code))[0]["level"] == level
    assert as_github_annotations([one(code=code)]).startswith(f"::{'notice' if level == 'note' else level} ")


def test_a_finding_becomes_its_first_line_and_the_others():
    (made,) = of_audit(audit_reports.report(findings=(audit_reports.hazard(),)))
    finding = audit_reports.hazard()
    first, *others = finding.places
    assert (made.path, made.line, made.column) == ("train.py", first.line.line, first.line.column)
    assert (made.end_column, made.message, made.fix) == (first.line.end_column, finding.message, finding.fix)
    assert [(each.line, each.message) for each in made.related] == [(p.line.line, p.role) for p in others]


def test_a_finding_without_a_place():
    (made,) = of_audit(audit_reports.report(findings=(Finding("TC101", "wrong", ()),)))
    assert as_github_annotations([made]) == "::error title=torchcopy TC101::wrong\n"
    assert results(made)[0]["locations"] == []


# --- GitHub --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("diagnostic", "line"),
    [
        (one(), "::error file=a.py,line=3,endLine=3,title=torchcopy TC101::wrong"),
        (one(line=0), "::error file=a.py,title=torchcopy TC101::wrong"),
        (
            one(column=5, end_column=9),
            "::error file=a.py,line=3,endLine=3,col=5,endColumn=9,title=torchcopy TC101::wrong",
        ),
        (one(column=5), "::error file=a.py,line=3,endLine=3,col=5,title=torchcopy TC101::wrong"),
        (
            one(fix="copy", count=1200),
            "::error file=a.py,line=3,endLine=3,title=torchcopy TC101::wrong (1,200 times)%0AFix: copy",
        ),
        (
            one(path="a,b:c%.py", message="100 %\r\n::error::x"),
            "::error file=a%2Cb%3Ac%25.py,line=3,endLine=3,title=torchcopy TC101::100 %25%0D%0A::error::x",
        ),
        (one(path="src\\a.py"), "::error file=src/a.py,line=3,endLine=3,title=torchcopy TC101::wrong"),
    ],
    ids=["plain", "no-line", "columns", "column", "fix", "escaped", "windows"],
)
def test_an_annotation(diagnostic, line):
    assert as_github_annotations([diagnostic]) == f"{line}\n"


def test_an_annotation_tells_the_other_lines():
    text = as_github_annotations([one(related=(one(line=7, message="written here"),))])
    assert text.endswith("::wrong%0Aa.py:7: written here\n")
    assert as_github_annotations([]) == ""


# --- SARIF ---------------------------------------------------------------------------------------------------


def test_the_log_is_one_run_with_all_codes_as_rules():
    log = as_sarif([])
    assert json.loads(json.dumps(log, allow_nan=False)) == log
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "torchcopy"
    assert [rule["id"] for rule in driver["rules"]] == [code.code for code in CODES]
    assert run["results"] == []
    rule = driver["rules"][0]
    assert (rule["name"], rule["shortDescription"]["text"]) == ("StaleStateDict", CODES[0].title)
    assert rule["defaultConfiguration"] == {"level": "error", "enabled": True}
    (idiom,) = [rule for rule in driver["rules"] if rule["id"] == "TC301"]
    assert idiom["defaultConfiguration"] == {"level": "note", "enabled": False}


def test_a_result_points_to_its_rule_and_its_lines():
    report = audit_reports.report()
    (run,) = as_sarif(of_audit(report))["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [rules[each["ruleIndex"]] for each in run["results"]] == [finding.code for finding in report.findings]
    first = run["results"][0]
    place = report.findings[0].places[0].line
    assert first["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "train.py", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": place.line, "startColumn": place.column, "endColumn": place.end_column},
            }
        }
    ]
    related = [(each["message"]["text"], each["id"]) for each in first["relatedLocations"]]
    assert related == [("overwritten by optimizer.step", 1), ("used here", 2)]
    assert [each["occurrenceCount"] for each in run["results"]] == [finding.count for finding in report.findings]
    assert first["message"]["text"].endswith(report.findings[0].fix)


def test_a_code_of_a_later_version_is_a_rule_too():
    (run,) = as_sarif([one(code="TC199"), one(code="TC101")])["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert rules[run["results"][0]["ruleIndex"]] == {"id": "TC199", "defaultConfiguration": {"level": "error"}}
    assert rules[run["results"][1]["ruleIndex"]]["id"] == "TC101"


@pytest.mark.parametrize(
    ("path", "artifact"),
    [
        ("src/a b#1.py", {"uri": "src/a%20b%231.py", "uriBaseId": "%SRCROOT%"}),
        ("src\\ä.py", {"uri": "src/%C3%A4.py", "uriBaseId": "%SRCROOT%"}),
        (str(Path("/opt/a b.py").absolute()), {"uri": "file:///opt/a%20b.py"}),
        ("<string>", {"uri": "%3Cstring%3E", "uriBaseId": "%SRCROOT%"}),
    ],
    ids=["space", "windows", "absolute", "no-file"],
)
def test_paths_are_uris(path, artifact):
    assert results(one(path=path))[0]["locations"][0]["physicalLocation"]["artifactLocation"] == artifact


def test_what_is_not_known_is_left_out():
    place = results(one(line=0))[0]["locations"][0]["physicalLocation"]
    assert "region" not in place
    place = results(one(end_column=4))[0]["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 3}
    finding = Finding("TC101", "x", (Place("a", SourceLine("a.py", 1)), Place("b", SourceLine("", 0))))
    (made,) = of_audit(audit_reports.report(findings=(finding,)))
    assert "relatedLocations" not in results(made)[0]
