"""The judged places are well formed, and are compared with findings as `measure.py` says."""

import importlib.util
import re
import sys
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from torchcopy.semantics.codes import find_code

FOLDER = Path(__file__).parents[2] / "fixtures" / "lint"


@pytest.fixture(scope="module")
def measure():
    return _loaded("measure")


@pytest.fixture(scope="module")
def archives():
    return _loaded("archives")


def _loaded(name):
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(FOLDER))
    return module


@pytest.fixture(scope="module")
def judged(measure):
    return measure.read_judged()


def test_every_place_has_the_fields_and_no_others(measure, judged):
    for place in judged:
        assert {name: type(value) for name, value in place.items()} == measure.FIELDS


def test_every_place_is_named_so_that_it_can_be_found_again(measure, judged):
    for place in judged:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", place["package"])
        assert re.match(r"\d", place["version"])
        assert place["archive"] in {"sdist", "wheel"}
        assert place["path"].endswith(".py")
        assert not place["path"].startswith(("/", "../"))
        assert place["line"] >= 1
        assert find_code(place["code"]).code == place["code"]
        assert place["split"] in measure.SPLITS
        assert place["found_by"] in {"search", "lint"}


def test_a_reason_is_a_few_words_on_one_line(judged):
    for place in judged:
        assert 5 <= len(place["reason"]) <= 120
        assert "\n" not in place["reason"]


def test_a_place_is_judged_once_for_a_code(judged):
    places = Counter((place["package"], place["path"], place["line"], place["code"]) for place in judged)
    assert places.most_common(1)[0][1] == 1


def test_a_package_has_one_version_and_is_in_one_split(judged):
    facts = {}
    for place in judged:
        version_and_split = place["version"], place["archive"], place["split"]
        assert facts.setdefault(place["package"], version_and_split) == version_and_split


@pytest.mark.parametrize("code", ["TC101", "TC105"])
def test_recall_is_measured_on_mistakes_and_near_twins_in_each_split(measure, judged, code):
    searched = [place for place in judged if place["code"] == code and place["found_by"] == "search"]
    assert len(searched) >= 60
    kinds = Counter((place["split"], place["judgement"]) for place in searched)
    for split in measure.SPLITS:
        assert min(kinds[split, True], kinds[split, False]) >= 10, split


def _place(line, judgement, found_by="search"):
    return {
        "path": "a.py",
        "line": line,
        "code": "TC101",
        "judgement": judgement,
        "reason": "r",
        "found_by": found_by,
    }


def test_precision_counts_judged_findings_and_recall_what_was_searched(measure):
    judged = [_place(3, True), _place(8, True), _place(12, False), _place(20, False), _place(30, True, "lint")]
    findings = [
        ("a.py", "TC101", {3}, 3, "m"),
        ("a.py", "TC101", {12, 13}, 12, "m"),
        ("a.py", "TC101", {30}, 30, "m"),
        ("a.py", "TC101", {50}, 50, "m"),
        ("b.py", "TC101", {8}, 8, "m"),
        ("a.py", "TC105", {8}, 8, "m"),
    ]
    tallies, wrong = measure.compare(judged, findings)
    tally = tallies["TC101"]
    assert tally.precision == pytest.approx(2 / 3)
    assert tally.recall == pytest.approx(1 / 2)
    assert (tally.unjudged, tallies["TC105"].unjudged) == (2, 1)
    assert Counter(what for what, _ in wrong) == {"unjudged": 3, "missed": 1, "false": 1}


def test_a_finding_stands_where_a_line_with_a_part_in_it_was_judged(measure):
    tallies, _ = measure.compare([_place(3, True)], [("a.py", "TC101", {9, 3}, 9, "m")])
    assert tallies["TC101"].recall == 1


def test_a_finding_whose_own_line_was_judged_says_nothing_of_the_others(measure):
    judged = [_place(3, False), _place(9, True)]
    tallies, _ = measure.compare(judged, [("a.py", "TC101", {9, 3}, 9, "m")])
    assert (tallies["TC101"].precision, tallies["TC101"].false_found) == (1, 0)


def test_no_ratio_without_anything_to_count(measure):
    assert (measure.Tally().precision, measure.Tally().recall) == (None, None)


def test_nothing_of_a_package_is_run(measure, tmp_path):
    for name in ("typer", "torch", "torchcopy", "ast", "rich"):
        (tmp_path / f"{name}.py").write_text("open('was_run', 'w').close()\n")
    (tmp_path / "bad.py").write_text("import torch\n\ndef f(t: torch.Tensor):\n    return t.clone().detach()\n")
    assert [(path, code, line) for path, code, _, line, _ in measure.lint(tmp_path)] == [("bad.py", "TC203", 4)]
    assert not (tmp_path / "was_run").exists()


def test_a_tree_that_is_half_unpacked_is_not_taken_for_a_whole_one(archives, tmp_path, monkeypatch):
    (tmp_path / "a-1").mkdir()
    for name in ("one.py", "two.py"):
        (tmp_path / "a-1" / name).write_text("x = 1\n")
    archive = tmp_path / "a-1.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        made.add(tmp_path / "a-1", "a-1")
    real = archives._python_files

    def interrupted(path):
        yield next(real(path))
        raise KeyboardInterrupt

    sources = tmp_path / "sources" / "a-1"
    monkeypatch.setattr(archives, "_python_files", interrupted)
    with pytest.raises(KeyboardInterrupt):
        archives.unpack_python_files(archive, sources)
    assert not sources.exists()
    monkeypatch.setattr(archives, "_python_files", real)
    archives.unpack_python_files(archive, sources)
    assert sorted(path.name for path in sources.iterdir()) == ["one.py", "two.py"]
    assert sorted(path.name for path in sources.parent.iterdir()) == ["a-1"]
