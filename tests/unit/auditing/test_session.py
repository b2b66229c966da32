"""`tc.audit()`: what it takes, when it ends, what it leaves, what it is told to leave out."""

import copy
import gc
import re
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    is_in_torch_dispatch_mode,
)

import torchcopy as tc
from torchcopy._errors import InputError
from torchcopy.auditing.detectors.deepcopy_costs import told_costs
from torchcopy.auditing.naming import sites


def keep_and_load(model):
    best = model.state_dict()  # noqa: TC101
    with torch.no_grad():
        model.weight.add_(1)
    model.load_state_dict(best)


def codes(report):
    return [finding.code for finding in report.findings]


def test_the_function_is_there_whatever_was_imported_before():
    from torchcopy.auditing.records import Report

    assert callable(tc.audit)
    assert tc.Report is Report


def test_what_happens_outside_is_not_seen():
    model = nn.Linear(2, 2)
    keep_and_load(model)
    with tc.audit() as audit:
        model(torch.ones(1, 2))
    keep_and_load(model)
    assert codes(audit.report) == []
    assert audit.report.copies == ()


def test_a_decorated_function_is_audited_in_each_call():
    watched = tc.audit(select=["TC1"])

    @watched
    def run(wrong):
        model = nn.Linear(2, 2)
        if wrong:
            keep_and_load(model)
        return model

    assert isinstance(run(True), nn.Linear)
    assert codes(watched.report) == ["TC101"]
    run(False)
    assert codes(watched.report) == []


def test_the_report_is_made_when_the_block_raises_and_the_error_goes_on():
    audit = tc.audit()

    @audit
    def program():
        keep_and_load(nn.Linear(2, 2))
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        program()
    assert codes(audit.report) == ["TC101"]
    assert audit.report.ended_by == "ValueError: mine"


def test_the_report_can_be_read_while_the_audit_runs():
    with tc.audit() as audit:
        keep_and_load(nn.Linear(2, 2))
        assert codes(audit.report) == ["TC101"]
    assert codes(audit.report) == ["TC101"]


def test_nothing_is_left_behind():
    before = {
        "data": torch.Tensor.__dict__.get("data"),
        "numpy": torch.Tensor.__dict__.get("numpy"),
        "state_dict": nn.Module.state_dict,
        "save": torch.save,
        "thread": threading.Thread._bootstrap_inner,
        "backward": torch.autograd._engine_run_backward,
    }
    with tc.audit():
        assert nn.Module.state_dict is not before["state_dict"]
    assert torch.Tensor.__dict__.get("data") is before["data"]
    assert torch.Tensor.__dict__.get("numpy") is before["numpy"]
    assert nn.Module.state_dict is before["state_dict"]
    assert torch.save is before["save"]
    assert threading.Thread._bootstrap_inner is before["thread"]
    assert torch.autograd._engine_run_backward is before["backward"]
    assert torch._C._len_torch_dispatch_stack() == 0


def test_no_tensor_is_kept_alive():
    with tc.audit() as audit:
        model = nn.Linear(2, 2)
        best = model.state_dict()
        copied = model.weight.detach().clone()
        gone = [weakref.ref(t) for t in (model.weight, best["weight"], copied)]
        del model, best, copied
        gc.collect()
        assert [reference() for reference in gone] == [None] * 3
    assert audit.report.copies[0].count == 1


def test_only_the_first_steps_are_audited():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tc.audit(first_steps=2) as audit:
        for _ in range(5):
            model(torch.ones(1, 2).clone()).sum().backward()
            optimizer.step()
        assert torch._C._len_torch_dispatch_stack() == 0
    assert (audit.report.steps, audit.report.audited_steps) == (5, 2)
    assert audit.report.copies[0].count == 2


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, ["TC101", "TC201"]),
        ({"select": ["TC1"]}, ["TC101"]),
        ({"select": ["TC201"]}, ["TC201"]),
        ({"ignore": ["TC2"]}, ["TC101"]),
        ({"select": ["TC1", "TC2"], "ignore": ["TC101"]}, ["TC201"]),
        ({"select": []}, []),
    ],
    ids=str,
)
def test_codes_are_selected_and_ignored_by_their_beginnings(options, found):
    with tc.audit(**options) as audit:
        keep_and_load(nn.Linear(2, 2))
        for _ in range(2):
            torch.ones(3).clone()
    assert codes(audit.report) == found


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"select": "TC1"}, "must be a list of codes"),
        ({"select": ["TC9999"]}, "TC9999"),
        ({"select": [1]}, "got 1"),
        ({"ignore": ["101"]}, "101"),
        ({"first_steps": 0}, "from 1 on"),
        ({"first_steps": True}, "got True"),
        ({"first_steps": 1.5}, "got 1.5"),
    ],
    ids=str,
)
def test_bad_options_are_refused_before_anything_is_watched(options, words):
    with pytest.raises(InputError, match=words):
        tc.audit(**options)
    assert torch._C._len_torch_dispatch_stack() == 0


def test_there_is_one_audit_at_a_time():
    with tc.audit() as audit:
        with pytest.raises(InputError, match="one at a time"), tc.audit():
            pass
        keep_and_load(nn.Linear(2, 2))
    assert codes(audit.report) == ["TC101"]


def test_there_is_no_report_before_anything_was_audited():
    with pytest.raises(InputError, match="nothing was audited yet"):
        _ = tc.audit().report


def test_a_comment_silences_a_finding_and_one_that_silences_nothing_is_told():
    with tc.audit() as audit:
        model = nn.Linear(2, 2)
        best = model.state_dict()  # torchcopy: ignore[TC101]
        with torch.no_grad():
            model.weight.add_(1)
        model.load_state_dict(best)
        _ = torch.ones(3) + 1  # torchcopy: ignore[TC201]
    assert codes(audit.report) == []
    assert [line.text.strip() for line in audit.report.unused_ignores] == [
        "_ = torch.ones(3) + 1  # torchcopy: ignore[TC201]"
    ]


def test_the_report_comes_back_from_its_file(tmp_path):
    with tc.audit() as audit:
        keep_and_load(nn.Linear(2, 2))
        torch.ones(3).clone()
    audit.report.save(tmp_path / "audit.json")
    assert tc.Report.load(tmp_path / "audit.json") == audit.report
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(InputError, match="no audit report"):
        tc.Report.load(tmp_path / "other.json")
    with pytest.raises(InputError, match="cannot read"):
        tc.Report.load(tmp_path / "missing.json")


def test_a_thread_that_is_started_meanwhile_is_watched():
    def work():
        keep_and_load(nn.Linear(2, 2))

    with tc.audit() as audit:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert codes(audit.report) == ["TC101"]


class Counting(TorchDispatchMode):
    """Counts what it sees."""

    seen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen += 1
        return func(*args, **(kwargs or {}))


def test_an_audit_that_ends_before_a_mode_that_began_in_it_leaves_that_one_alone():
    before = _get_current_dispatch_mode_stack()
    audit, mode = tc.audit(), Counting()
    audit.__enter__()
    mode.__enter__()
    torch.ones(2).clone()
    audit.__exit__(None, None, None)
    seen = mode.seen
    torch.ones(2).clone()
    assert mode.seen == seen + 2
    assert _get_current_dispatch_mode_stack() == [*before, mode]
    mode.__exit__(None, None, None)
    assert _get_current_dispatch_mode_stack() == before
    assert not is_in_torch_dispatch_mode()
    assert sum(site.count for site in audit.report.copies) == 1


def test_an_audit_whose_mode_somebody_has_taken_away_ends_without_a_word():
    with tc.audit():
        _pop_mode()
    assert _get_current_dispatch_mode_stack() == []
    assert not is_in_torch_dispatch_mode()


def test_an_error_shows_no_frame_that_stands_in_for_the_program():
    module = torch.nn.Linear(2, 2)
    with tc.audit():
        with pytest.raises(RuntimeError, match="Missing key") as caught:
            module.load_state_dict({})
        names = [entry.name for entry in caught.traceback]
    assert names.count("test_an_error_shows_no_frame_that_stands_in_for_the_program") == 1


def test_code_that_is_made_in_a_loop_is_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(sites, "_MOST_CODES", 50)
    names = {"t": torch.ones(2)}
    with tc.audit() as audit:
        made = [weakref.ref(compile("t.clone()", "<string>", "eval")) for _ in range(2)]
        for _ in range(200):
            code = compile("t.clone()", "<string>", "eval")
            made.append(weakref.ref(code))
            eval(code, names)
        del code
        alive = sum(each() is not None for each in made)
    assert 10 < alive <= 50
    copies = {(row.line.path == "<string>", row.count) for row in audit.report.copies if row.kind == "clone"}
    assert sum(count for _, count in copies) == 200
    assert {of_eval for of_eval, _ in copies} == {True, False}  # those of the rest are the loop's


def test_deep_copies_in_a_loop_are_told_with_what_other_ways_would_have_taken():
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = torch.get_rng_state()
    with tc.audit() as audit:
        for _ in range(6):
            kept = copy.deepcopy(model.state_dict())
            model(torch.ones(1, 16)).sum().backward()
            optimizer.step()
    (found,) = [f for f in audit.report.findings if f.code == "TC208"]
    assert (found.count, found.bytes) == (6, 6 * sum(t.nbytes for t in kept.values()))
    time = r"[\d.]+ (?:ns|µs|ms|s)"
    way = rf"`torchcopy\.copy` of such tensors takes {time}, and `History`, which .* is there, {time}"
    assert re.fullmatch(rf"each time its tensors took {time}; measured here, {way}", found.notes[0])
    assert torch.equal(torch.get_rng_state(), state)
    before = kept["0.weight"].clone()
    with torch.no_grad():
        model[0].weight.zero_()
    assert torch.equal(kept["0.weight"], before)
    kept["0.weight"].fill_(2)
    assert not model[0].weight.any()


@pytest.mark.parametrize(("tensors", "size"), [(1, 300_000_000), (5_000, 5_000), (3, 1)])
def test_what_is_measured_in_place_of_deep_copies_takes_little_memory(tensors, size):
    with tc.audit() as audit:
        told = told_costs(tensors, size, 0.001)
    assert told.startswith("each time its tensors took 1 ms; measured here, ")
    assert sum(row.bytes for row in audit.report.copies) <= 20 * 64_000_000
