"""Escapes in words and as data, and what a call of `copy` says of them."""

import dataclasses
import json
import warnings

import pytest
import torch
from torch import nn

import torchcopy as tc
from torchcopy import EscapeError, EscapeWarning, _torch_private
from torchcopy.copying.escapes.reports import Escape, report_escapes

ESCAPE = Escape(
    copy_path="copy.act.__closure__['model'].fc.weight",
    source_path="source.fc.weight",
    through="closure",
    tensor="float32[2, 3] cpu",
    more_tensors=12,
)


def test_an_escape_in_words():
    assert str(ESCAPE) == (
        "copy.act.__closure__['model'].fc.weight is source.fc.weight\n"
        "    (float32[2, 3] cpu, reached through a closure, as are 12 more)"
    )
    assert str(dataclasses.replace(ESCAPE, more_tensors=0)).endswith(
        "(float32[2, 3] cpu, reached through a closure)"
    )
    assert str(dataclasses.replace(ESCAPE, more_tensors=1)).endswith("through a closure, as is 1 more)")
    assert str(dataclasses.replace(ESCAPE, more_tensors=None)).endswith("through a closure, as are others)")


def test_an_escape_as_data():
    assert json.loads(json.dumps(ESCAPE.to_dict())) == {
        "copy_path": "copy.act.__closure__['model'].fc.weight",
        "source_path": "source.fc.weight",
        "through": "closure",
        "tensor": "float32[2, 3] cpu",
        "more_tensors": 12,
    }


def test_the_warning():
    with pytest.warns(EscapeWarning) as caught:
        report_escapes([ESCAPE] * 7, "warn")
    (warning,) = caught
    lines = str(warning.message).splitlines()
    assert lines[0] == (
        "the copy still reaches tensors of its source, so that what is written to them through one is seen by both:"
    )
    assert lines[1:3] == f"  {ESCAPE}".splitlines()
    assert len(lines) == 1 + 5 * 2 + 1 + 1
    assert lines[-2] == "  and 2 more such places"
    assert "register the hook there" in lines[-1]
    assert "`share=`" in lines[-1]
    assert '`on_escape="ignore"`' in lines[-1]
    assert warning.filename == __file__


def library_call(stacklevel):
    report_escapes([ESCAPE], "warn", stacklevel=stacklevel)


@pytest.mark.parametrize(
    ("stacklevel", "function"), [(1, "library_call"), (2, "test_the_line_that_the_warning_names")]
)
def test_the_line_that_the_warning_names(stacklevel, function):
    with pytest.warns(EscapeWarning) as caught:
        library_call(stacklevel)
    code = globals()[function].__code__
    assert caught[0].lineno in [line for *_, line in code.co_lines()]


def test_the_error():
    with pytest.raises(EscapeError, match=r"(?s)copy\.act\.__closure__\['model'\].* is source\.fc\.weight.*share="):
        report_escapes([ESCAPE], "error")


def test_a_filter_can_make_errors_of_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(EscapeWarning, match=r"source\.fc\.weight"):
            report_escapes([ESCAPE], "warn")


@pytest.mark.parametrize("on_escape", ["warn", "error", "ignore"])
def test_nothing_to_tell(on_escape):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report_escapes([], on_escape)
        if on_escape == "ignore":
            report_escapes([ESCAPE], on_escape)


# --- as `copy` says it ------------------------------------------------------------------------------------------


@pytest.fixture
def net():
    made = nn.Linear(2, 3)
    made.act = lambda x: made(x)
    return made


def test_copy_warns_on_the_line_that_called_it(net):
    with pytest.warns(EscapeWarning, match=r"copy\.act\.__closure__\['made'\]\.weight is source\.weight") as caught:
        copied = tc.copy(net)
    assert caught[0].filename == __file__
    assert copied.act is net.act


@pytest.mark.parametrize("on_escape", ["warn", "error"])
def test_a_copy_that_is_refused_leaves_nothing_half_done(net, on_escape):
    before = net.weight.detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((EscapeWarning, EscapeError)):
            tc.copy(net, on_escape=on_escape)
        copied = tc.copy(net, on_escape="ignore")
    with torch.no_grad():
        copied.weight.zero_()
    assert torch.equal(net.weight, before)


def test_what_the_message_advises_helps(net):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tc.copy(net, share=(net.act,))
        with_hook = tc.copy(net, on_escape="ignore")
        with_hook.act = lambda x: with_hook(x)
    with pytest.warns(EscapeWarning):
        tc.copy(with_hook)


def test_an_escape_that_is_an_error_is_found_before_values_are_copied(monkeypatch):
    copied = []
    monkeypatch.setattr(_torch_private, "foreach_copy_", lambda targets, sources: copied.extend(targets))
    model = nn.Linear(1000, 1000)
    tc.copy(model)
    assert [t.shape for t in copied] == [model.weight.shape]
    model.register_forward_hook(lambda *_: model.weight)
    copied.clear()
    with pytest.raises(tc.EscapeError):
        tc.copy(model, on_escape="error")
    assert copied == []


def test_a_memo_of_the_callers_has_values_also_after_an_escape_was_an_error():
    model = nn.Linear(1000, 1000)
    model.register_forward_hook(lambda *_: model.weight)
    memo = {}
    with pytest.raises(tc.EscapeError):
        tc.copy(model, on_escape="error", memo=memo)
    copied = memo[id(model.weight)]
    assert torch.equal(copied, model.weight)
    with torch.no_grad():
        model.weight.zero_()
        assert copied.any()
        copied.fill_(2)
    assert not model.weight.any()
