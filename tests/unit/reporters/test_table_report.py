import io

import pytest
import torch
from rich.console import Console

from torchcopy.reporters import doctor, table
from torchcopy.reporters.as_json import to_json
from torchcopy.reporters.files import write_text
from torchcopy.semantics.catalogue import CopyMethod
from torchcopy.semantics.machine import diagnose
from torchcopy.semantics.probe import probe, truth_table


@pytest.fixture
def printed(monkeypatch):
    """What a report prints on a terminal of 80 columns."""

    def show(module, record):
        stream = io.StringIO()
        monkeypatch.setattr(module, "console", lambda: Console(file=stream, width=80, color_system=None))
        module.show(record)
        return stream.getvalue()

    return show


def test_the_table_fits_80_columns_and_cuts_nothing(printed):
    text = printed(table, truth_table())
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert lines["clone"] == ["clone", "yes", "yes", "no", "own", "1×"]
    assert lines["data"] == ["data", "no", "no", "yes", "own", "0"]
    assert lines["deepcopy"][1] == "raises"
    assert lines["lazy_clone"][3] == "lazy"


def test_notes_explain_the_marks(printed):
    text = printed(table, truth_table(["tensor", "deepcopy", "copy.copy"]))
    assert "warns: UserWarning: To copy construct from a tensor" in text
    assert "raises RuntimeError: Only Tensors created explicitly" in text
    assert "requires grad as a new leaf" in text


def test_one_method_is_shown_on_every_source(printed):
    text = printed(table, truth_table(["deepcopy"]))
    assert "Prefer detach_clone" in text
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "8×" in lines["slice"].split() or "slice" in text
    assert any(line.startswith(" slice") and "8×" in line for line in text.splitlines())
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_a_wrong_gradient_shows(printed):
    wrong = probe(CopyMethod("double", "double(t)", lambda t: t * 2 - t.detach()))
    assert "WRONG" in printed(table, [wrong, probe("clone")])
    assert "| wrong |" in table.as_markdown([wrong])
    assert "the gradient that arrives is not the one that was sent" in table.remarks(wrong.main)


def test_remarks_on_what_a_method_does_to_its_source_and_values():
    changed = probe(CopyMethod("a", "a", lambda t: t.data.add_(1).clone())).main
    assert "the call changes the source" in table.remarks(changed)
    assert "NaN or infinity does not survive" in table.remarks(probe(CopyMethod("b", "b", torch.nan_to_num)).main)
    assert "the values differ from the source's" in table.remarks(probe(CopyMethod("c", "c", lambda t: t + 1)).main)


def test_markdown_has_a_row_a_method_and_escapes():
    rows = truth_table(["clone", "detach"])
    pipe = probe(CopyMethod("either", "t | t", lambda t: t.clone()))
    lines = table.as_markdown([*rows, pipe]).splitlines()
    assert len(lines) == 5
    assert lines[2].startswith("| clone | `t.clone()` | yes | yes | no | own | 1× |")
    assert "`t \\| t`" in lines[4]


def test_doctor_fits_80_columns(printed):
    text = printed(doctor, diagnose())
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert torch.__version__ in text
    assert text.count("works") == len(diagnose().fast_paths)


def test_json_is_strict():
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json({"x": float("nan")})
    assert to_json({"µ": [1]}) == '{\n  "µ": [\n    1\n  ]\n}'


def test_files_are_written_whole_or_not_at_all(tmp_path):
    from torchcopy import InputError

    path = tmp_path / "out.txt"
    write_text(path, "first")
    write_text(path, "second")
    assert path.read_text() == "second"
    with pytest.raises(InputError, match="cannot write"):
        write_text(tmp_path / "missing" / "out.txt", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot write"):
        write_text(tmp_path / "folder", "x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["folder", "out.txt"]
