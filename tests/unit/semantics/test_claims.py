"""The verdicts, the lies that would be caught, and the traces that are not left."""

import copy
import dataclasses
import warnings

import pytest
import torch
from torch import nn

from torchcopy import InputError, MeasurementError
from torchcopy.semantics.catalogue import CopyMethod, registry
from torchcopy.semantics.claims import (
    ARTICLES,
    CLAIMS,
    VERDICTS,
    check_claims,
    find_claims,
    measurements,
    parse_verdict,
    run_reproduction,
    running,
)
from torchcopy.semantics.claims.checks import Containing, gives, outcome, shown, verdict_of
from torchcopy.semantics.claims.measurements import Measurements
from torchcopy.semantics.claims.timed import decide_growth, decide_order, decide_range, place_of
from torchcopy.semantics.timing import TimeRatio

# What each claim has to come to, written down by hand and not taken from the code; all claims that are not named
# here, and are not about time, hold.
DOES_NOT_HOLD = {
    "copying-methods/warning-wording",
    "copying-methods/graph-duplicated",
    "copying-methods/clone-allocates-better",
    "copying-methods/item-needs-a-copy",
    "deepcopy-vs-clone/deepcopy-copies-gradients",
    "deepcopy-vs-clone/no-shared-references",
    "deepcopy-vs-clone/tensors-immutable",
    "deepcopy-vs-clone/deepcopy-by-element",
    "deepcopy-vs-clone/clone-shallow",
    "deepcopy-vs-clone/clone-shares-memory",
    "deepcopy-vs-clone/clone-example-memory",
    "deepcopy-vs-clone/clone-attributes",
    "deepcopy-vs-clone/clone-applies-to-models",
    "deepcopy-vs-clone/mutable-needs-deepcopy",
    "deepcopy-vs-clone/detach-copies",
    "tensor-copy/requires-grad-called",
    "tensor-copy/torch-new-tensor",
    "tensor-copy/graph-copied",
    "clone-detach-copy/clone-prints-node",
    "clone-detach-copy/clone-first-is-usual",
    "clone-detach-deepcopy/leaf-write-no-error",
    "clone-detach-deepcopy/detach-copies",
    "clone-detach-deepcopy/deepcopy-copies-history",
}
DEPENDS = {
    "deepcopy-vs-clone/deepcopy-copies-tensors",
    "deepcopy-vs-clone/structure-kept",
    "deepcopy-vs-clone/deepcopy-more-memory",
    "tensor-copy/detach-guarantees-gradient",
    "tensor-copy/tensor-equals-clone-detach",
    "tensor-copy/tensor-grad-equals",
    "clone-detach-copy/copy-keeps-requires-grad",
    "clone-detach-deepcopy/clone-avoids-in-place-errors",
    "clone-detach-deepcopy/deepcopy-new-metadata",
}
# The table of the Korean article, transcribed once more: row, requires_grad as the source's, in the graph, shared.
TABLE = {
    "copy": (True, True, False),
    "data": (False, False, True),
    "detach": (False, False, True),
    "clone": (True, True, False),
    "clone-detach": (False, False, False),
    "tensor": (False, False, False),
    "new-tensor": (False, False, False),
}
# What a reader has to see in the output of the five lines.
PROOFS = {
    "copying-methods/warning-wording": "use sourceTensor.detach().clone() or sourceTensor.detach().clone().req",
    "copying-methods/graph-duplicated": "one new node: CloneBackward0\nand behind it y's own: True",
    "copying-methods/clone-allocates-better": "4000000 bytes\n4000000 bytes",
    "copying-methods/item-needs-a-copy": "logged: 25.0\ngradient: tensor([30.])",
    "deepcopy-vs-clone/deepcopy-copies-tensors": "tensor([1.], requires_grad=True)\nRuntimeError: Only Tensors",
    "deepcopy-vs-clone/deepcopy-copies-gradients": "original: tensor([[1.]])\ncopy:     None",
    "deepcopy-vs-clone/no-shared-references": "sees the original: True",
    "deepcopy-vs-clone/structure-kept": "same memory: True\nsame memory: False",
    "deepcopy-vs-clone/tensors-immutable": "tensor([10,  2,  3])",
    "deepcopy-vs-clone/deepcopy-more-memory": "4000 bytes\n4000 bytes\n4000 bytes\n32000 bytes",
    "deepcopy-vs-clone/deepcopy-by-element": "10 elements: 5 objects visited\n10000 elements: 5 objects visited",
    "deepcopy-vs-clone/clone-shallow": "4000 bytes of its own: True",
    "deepcopy-vs-clone/clone-shares-memory": "tensor([1, 2, 3, 4, 5]) same memory: False",
    "deepcopy-vs-clone/clone-example-memory": "tensor([1, 2, 3, 4, 5]) same memory: False",
    "deepcopy-vs-clone/clone-attributes": "True False",
    "deepcopy-vs-clone/clone-applies-to-models": "Tensor True\nLinear False\nOrderedDict False\nlist False",
    "deepcopy-vs-clone/mutable-needs-deepcopy": "tensor([1, 2, 3, 4, 5]) same memory: False",
    "deepcopy-vs-clone/detach-copies": "tensor([10.,  0.,  0.], requires_grad=True)",
    "tensor-copy/detach-guarantees-gradient": "x.grad: tensor([0.]) where 2 is right",
    "tensor-copy/tensor-equals-clone-detach": "torch.tensor(t):    Tensor\nt.clone().detach(): Mine",
    "tensor-copy/tensor-grad-equals": "torch.tensor(t):    Tensor\nt.clone().detach(): Mine",
    "tensor-copy/requires-grad-called": "TypeError: 'bool' object is not callable",
    "tensor-copy/torch-new-tensor": "torch.new_tensor:        False\ntorch.Tensor.new_tensor: True",
    "tensor-copy/graph-copied": "one new node: CloneBackward0\nand behind it y's own: True",
    "clone-detach-copy/clone-prints-node": "grad_fn=<CloneBackward0>",
    "clone-detach-copy/clone-first-is-usual": "recommended to use sourceTensor.detach().clone() or",
    "clone-detach-copy/copy-keeps-requires-grad": "True False",
    "clone-detach-deepcopy/clone-avoids-in-place-errors": "modified by an inplace operation",
    "clone-detach-deepcopy/leaf-write-no-error": "RuntimeError: a leaf Variable that requires grad is",
    "clone-detach-deepcopy/detach-copies": "tensor([10.,  0.,  0.], requires_grad=True)",
    "clone-detach-deepcopy/deepcopy-new-metadata": "Tensor {'tag': 'mine'} tensor([1.])\nParameter {} None",
    "clone-detach-deepcopy/deepcopy-copies-history": "RuntimeError: Only Tensors created",
}
TIMED = [claim.id for claim in CLAIMS if claim.timing]
UNTIMED = [claim.id for claim in CLAIMS if not claim.timing]


@pytest.fixture(scope="module")
def found():
    return {result.id: result for result in check_claims(UNTIMED)}


@pytest.fixture
def no_times(monkeypatch):
    """Every ratio is 1.5, at once."""
    monkeypatch.setattr(measurements, "time_ratio", lambda call, base: (call(), base(), ratio(1.4, 1.5, 1.6))[-1])
    monkeypatch.setattr(running, "run_reproduction", lambda code: "not run")


def ratio(low, median, high):
    return TimeRatio(median, low, high, 15)


def verdict(claim_id):
    return check_claims([claim_id])[0].verdict


# --- the claims ----------------------------------------------------------------------------------------------


def test_ids_are_unique_and_begin_with_their_article():
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
    assert {claim.article for claim in CLAIMS} == {article.slug for article in ARTICLES}
    assert len(ARTICLES) == 5


def test_the_expected_verdicts_name_only_claims_there_are():
    assert DOES_NOT_HOLD | DEPENDS | set(PROOFS) <= set(UNTIMED)
    assert not DOES_NOT_HOLD & DEPENDS
    assert set(PROOFS) == DOES_NOT_HOLD | DEPENDS


@pytest.mark.parametrize("claim_id", UNTIMED)
def test_verdict(found, claim_id):
    expected = "does not hold" if claim_id in DOES_NOT_HOLD else "depends" if claim_id in DEPENDS else "holds"
    assert found[claim_id].verdict == expected, found[claim_id].evidence


@pytest.mark.parametrize("row", TABLE)
def test_the_table_is_transcribed_cell_by_cell(row):
    follows, graph, shared = TABLE[row]
    words = {claim.id: claim.claim for claim in find_claims(articles=["tensor-copy"])}
    assert words[f"tensor-copy/{row}-requires-grad"].endswith("as the source's." if follows else "`False`.")
    assert words[f"tensor-copy/{row}-graph"].endswith(
        "in the graph of the source." if graph else "leaf of its own."
    )
    assert words[f"tensor-copy/{row}-memory"].endswith("memory is shared." if shared else "memory is not shared.")


@pytest.mark.parametrize(
    ("claim_id", "number"),
    [
        ("clone-detach-copy/gradient-first", "2.0"),
        ("clone-detach-copy/gradient-sum", "5.0"),
        ("clone-detach-copy/gradient-of-clone", "None"),
        ("clone-detach-copy/clone-of-no-grad", "None"),
        ("clone-detach-copy/clone-of-no-grad-own", "2.0"),
        ("clone-detach-copy/detach-example-own", "3.0"),
        ("clone-detach-copy/detach-example-source", "2.0"),
        ("tensor-copy/data-wrong-gradient", "tensor([0.])"),
        ("clone-detach-copy/copy-into-integers", "[[7, 8, 9], [7, 8, 9]]"),
        ("clone-detach-deepcopy/leaf-write-no-error", "a leaf Variable that requires grad"),
        ("deepcopy-vs-clone/clone-shallow", "16,384"),
    ],
)
def test_the_evidence_carries_what_was_seen(found, claim_id, number):
    assert number in found[claim_id].evidence


def test_evidence_is_of_one_line_and_ends_a_sentence(found):
    for result in found.values():
        assert "\n" not in result.evidence
        assert result.evidence.endswith(".")
        assert result.evidence.count("`") % 2 == 0


# --- the reproductions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.reproduction], ids=lambda claim: claim.id)
def test_reproductions_have_at_most_five_lines_that_fit_a_terminal(claim):
    lines = claim.reproduction.splitlines()
    assert len(lines) <= 5
    assert all(line.strip() and len(line) <= 76 for line in lines)


@pytest.mark.parametrize("claim_id", PROOFS)
def test_the_five_lines_prove_the_point(found, claim_id):
    claim = find_claims([claim_id])[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        printed = run_reproduction(claim.reproduction)
    assert PROOFS[claim_id] in printed
    assert found[claim_id].reproduction == claim.reproduction
    assert PROOFS[claim_id] in found[claim_id].reproduction_output


def test_what_holds_has_no_reproduction(found):
    holding = [result for result in found.values() if result.verdict == "holds"]
    assert all(result.reproduction is None and result.reproduction_output is None for result in holding)


def test_every_timing_claim_has_five_lines_in_case_it_does_not_hold():
    assert all(claim.reproduction for claim in find_claims(TIMED))


def test_a_reproduction_that_fails_says_how():
    assert run_reproduction("print(1)\nraise ValueError('no')") == "1\nValueError: no"


# --- a check catches a lie -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "run", "claim_id", "expected"),
    [
        ("clone", lambda t: t.detach(), "deepcopy-vs-clone/clone-shares-memory", "holds"),
        ("clone", lambda t: t.detach(), "tensor-copy/clone-graph", "does not hold"),
        ("clone", lambda t: t * 2, "clone-detach-copy/clone-identity", "does not hold"),
        ("clone", lambda t: t.double(), "clone-detach-copy/clone-keeps-shape-dtype-device", "does not hold"),
        ("clone", lambda t: t.detach(), "deepcopy-vs-clone/clone-shallow", "holds"),
        ("data", lambda t: t.detach().clone(), "tensor-copy/data-memory", "does not hold"),
        ("data", lambda t: t.detach(), "tensor-copy/data-untracked", "does not hold"),
        ("tensor", lambda t: t.detach().clone(), "copying-methods/tensor-warns", "does not hold"),
        ("detach_clone", lambda t: t.new_tensor(t), "copying-methods/others-silent", "depends"),
        ("new_tensor", lambda t: t.detach(), "tensor-copy/new-tensor-equals-clone-detach", "depends"),
        ("empty_like_copy_", lambda t: t.detach().clone(), "tensor-copy/copy-requires-grad", "depends"),
        ("empty_like_copy_", lambda t: t.detach().clone(), "copying-methods/graph-differs", "does not hold"),
        ("deepcopy", lambda t: t.detach().clone(), "deepcopy-vs-clone/deepcopy-more-memory", "does not hold"),
    ],
)
def test_a_method_that_does_something_else_changes_the_verdict(monkeypatch, method, run, claim_id, expected):
    assert verdict(claim_id) != expected
    entry = registry.find_method(method)
    monkeypatch.setitem(registry._methods, method, CopyMethod(method, entry.code, run))
    assert verdict(claim_id) == expected


@pytest.mark.parametrize(
    ("where", "name", "lie", "claim_id", "expected"),
    [
        (torch.Tensor, "clone", lambda t: t * 2, "clone-detach-copy/gradient-sum", "does not hold"),
        (torch.Tensor, "clone", lambda t: t.detach(), "deepcopy-vs-clone/clone-example-memory", "holds"),
        (torch.Tensor, "detach", lambda t: t.data, "tensor-copy/detach-raises", "does not hold"),
        (copy, "deepcopy", lambda x, memo=None: x, "deepcopy-vs-clone/deepcopy-example-copy", "does not hold"),
        (copy, "deepcopy", lambda x, memo=None: x, "deepcopy-vs-clone/deepcopy-keeps-stages", "does not hold"),
        (copy, "deepcopy", lambda x, memo=None: x, "deepcopy-vs-clone/deepcopy-copies-gradients", "holds"),
        (nn.Module, "clone", lambda m: m, "clone-detach-deepcopy/module-has-no-clone", "does not hold"),
        (torch, "new_tensor", torch.tensor, "tensor-copy/torch-new-tensor", "holds"),
    ],
)
def test_a_pytorch_that_did_something_else_would_change_the_verdict(
    monkeypatch, where, name, lie, claim_id, expected
):
    assert verdict(claim_id) != expected
    monkeypatch.setattr(where, name, lie, raising=False)
    assert verdict(claim_id) == expected


# --- deciding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agreements", "expected"),
    [([True, True], "holds"), ([False], "does not hold"), ([True, False], "depends")],
)
def test_verdict_of(agreements, expected):
    assert verdict_of(agreements) == expected


SLOWER, FASTER, CLOSE = ratio(1.4, 1.5, 1.6), ratio(0.5, 0.6, 0.7), ratio(0.9, 1.05, 1.1)


@pytest.mark.parametrize(
    ("ratios", "said", "expected"),
    [
        ([SLOWER, SLOWER], "slower", "holds"),
        ([FASTER, FASTER], "slower", "does not hold"),
        ([SLOWER, FASTER], "slower", "depends"),
        ([SLOWER, CLOSE], "slower", "depends"),
        ([FASTER, CLOSE], "slower", "depends"),
        ([CLOSE, CLOSE], "slower", "depends"),
        ([CLOSE, CLOSE], "too close to call", "holds"),
        ([SLOWER, CLOSE], "too close to call", "depends"),
        ([SLOWER, FASTER], "too close to call", "does not hold"),
        ([ratio(1.01, 1.02, 1.03)], "slower", "depends"),
    ],
)
def test_decide_order(ratios, said, expected):
    assert decide_order(ratios, said) == expected


@pytest.mark.parametrize(
    ("measured", "place"),
    [
        (ratio(2.4, 2.5, 2.6), "inside"),
        (ratio(1.4, 1.5, 1.6), "outside"),
        (ratio(3.4, 3.5, 3.6), "outside"),
        (ratio(1.9, 2.2, 2.4), "too close to call"),
        (ratio(2.9, 2.95, 2.97), "too close to call"),
        (ratio(1.5, 2.5, 3.5), "too close to call"),
    ],
)
def test_place_of(measured, place):
    assert place_of(measured, 2, 3) == place


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([ratio(2.4, 2.5, 2.6)] * 2, "holds"),
        ([SLOWER, FASTER], "does not hold"),
        ([SLOWER, ratio(2.4, 2.5, 2.6)], "depends"),
        ([ratio(1.9, 2.0, 2.1)], "depends"),
    ],
)
def test_decide_range(ratios, expected):
    assert decide_range(ratios, 2, 3) == expected


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(FASTER, SLOWER, "holds"), (SLOWER, FASTER, "does not hold"), (SLOWER, ratio(1.5, 1.7, 1.8), "depends")],
)
def test_decide_growth(first, last, expected):
    assert decide_growth(first, last) == expected


@pytest.mark.parametrize("claim_id", TIMED)
def test_a_timing_claim_has_a_verdict_and_a_spread(no_times, claim_id):
    result = check_claims([claim_id])[0]
    assert result.verdict in VERDICTS
    assert result.timing
    assert result.ratios
    assert all(r.ratio.low <= r.ratio.median <= r.ratio.high for r in result.ratios)
    assert "quartiles 1.40 to 1.60" in result.evidence


def test_fabricated_ratios_decide(no_times):
    assert verdict("copying-methods/tensor-slower") == "holds"
    assert verdict("copying-methods/tensor-2-to-3") == "does not hold"
    assert verdict("copying-methods/empty-like-for-speed") == "does not hold"
    assert verdict("copying-methods/differences-not-significant") == "does not hold"
    assert verdict("copying-methods/slower-when-large") == "depends"


def test_times_are_measured_in_earnest():
    result = check_claims(["copying-methods/tensor-2-to-3"])[0]
    assert result.verdict in VERDICTS
    assert [r.source for r in result.ratios] == ["2^10 elements", "2^14 elements", "2^20 elements"]
    assert all(r.ratio.rounds == 15 and 0 < r.ratio.low <= r.ratio.high for r in result.ratios)


def test_a_ratio_is_measured_once_in_a_run(no_times):
    measured = Measurements()
    first = measured.ratio("tensor", "detach_clone", numel=8)
    assert measured.ratio("tensor", "detach_clone", numel=8) is first
    assert measured.ratio("tensor", "detach_clone", numel=16) is not first
    assert (
        measured.ratio("tensor", "detach_clone", numel=8, source="non_leaf").source == "2^3 elements, requires grad"
    )


# --- no trace ------------------------------------------------------------------------------------------------


def test_random_state_filters_and_threads_are_left_alone(no_times):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    filters, threads = list(warnings.filters), torch.get_num_threads()
    check_claims([*TIMED, *UNTIMED])
    assert torch.equal(torch.rand(3), expected)
    assert warnings.filters == filters
    assert torch.get_num_threads() == threads


def test_threads_are_restored_when_a_measurement_breaks_off(monkeypatch):
    def broken(call, base):
        raise RuntimeError("no clock")

    monkeypatch.setattr(measurements, "time_ratio", broken)
    threads = torch.get_num_threads()
    with pytest.raises(MeasurementError, match=r"claim 'copying-methods/tensor-slower' could not .*: no clock"):
        check_claims(["copying-methods/tensor-slower"])
    assert torch.get_num_threads() == threads


SURROUNDINGS = [
    "clone-detach-deepcopy/clone-prints",
    "clone-detach-copy/gradient-sum",
    "clone-detach-copy/copy-keeps-device",
    "tensor-copy/detach-raises",
    "deepcopy-vs-clone/deepcopy-copies-models",
]


def test_verdicts_do_not_depend_on_the_default_dtype():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert {r.verdict for r in check_claims(SURROUNDINGS)} == {"holds"}
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(before)


def test_verdicts_do_not_depend_on_the_default_device():
    torch.set_default_device("meta")
    try:
        assert {r.verdict for r in check_claims(SURROUNDINGS)} == {"holds"}
        assert torch.get_default_device().type == "meta"
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_verdicts_do_not_depend_on_the_grad_mode(mode):
    with mode():
        assert {r.verdict for r in check_claims(SURROUNDINGS)} == {"holds"}


# --- looking up ----------------------------------------------------------------------------------------------


def test_find_claims_keeps_the_order_of_the_articles():
    ids = ["tensor-copy/clone-memory", "copying-methods/all-copy"]
    assert [claim.id for claim in find_claims(ids)] == ids[::-1]
    assert {claim.article for claim in find_claims(articles=["tensor-copy"])} == {"tensor-copy"}
    assert find_claims() == CLAIMS


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ids": ["nothing"]}, "there is no claim 'nothing': `torchcopy claims --json` lists them all"),
        ({"ids": ["tensor-copy/clone-memry"]}, "did you mean 'tensor-copy/clone-memory'?"),
        ({"articles": ["korean"]}, "there is no article 'korean': there are copying-methods, deepcopy-vs-clone"),
        ({"ids": ["tensor-copy/clone-memory"], "articles": ["deepcopy-vs-clone"]}, "ids begin with their article"),
    ],
)
def test_an_unknown_claim_or_article_is_refused(arguments, message):
    with pytest.raises(InputError) as caught:
        check_claims(**arguments)
    assert message in str(caught.value)


def test_parse_verdict():
    assert parse_verdict("does-not-hold") == parse_verdict("does not hold") == "does not hold"
    with pytest.raises(InputError, match="there is no verdict 'wrong': use `holds`"):
        parse_verdict("wrong")


def test_each_claim_is_announced():
    seen = []
    check_claims(SURROUNDINGS[:2], on_claim=seen.append)
    assert sorted(seen) == sorted(SURROUNDINGS[:2])


def test_to_dict_is_plain(found):
    plain = found["deepcopy-vs-clone/clone-shares-memory"].to_dict()
    assert set(plain) == {f.name for f in dataclasses.fields(found["deepcopy-vs-clone/clone-shares-memory"])}
    assert plain["ratios"] == []
    assert plain["article"] == "deepcopy-vs-clone"


# --- words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, "yes"),
        (False, "no"),
        (16384, "16,384"),
        ("no error", "no error"),
        ("tensor([10,  2])", "`tensor([10,  2])`"),
        ("use `x`", "`` use `x` ``"),
        (Containing("abc"), "`…abc…`"),
        ("a(" + "b " * 100, "`a(" + "b " * 53 + "b …`"),
    ],
)
def test_shown(value, words):
    assert shown(value) == words


def test_outcome():
    assert outcome(lambda: None) == "no error"
    assert outcome(lambda: [][0]) == "IndexError: list index out of range"


def test_gives_says_what_the_article_said_where_it_is_wrong():
    finding = gives(lambda: {"a": 1, "b": "x"}, {"a": 2}, also=["b"])(Measurements())
    assert finding.verdict == "does not hold"
    assert finding.evidence == "A: 1 (said: 2); b: x."
