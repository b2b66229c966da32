"""The table of copies: which kind each is, and whether it was needed."""

import copy
import io

import pytest
import torch
from torch import nn

import torchcopy as tc


def audited(program):
    with tc.audit() as audit:
        program()
    return audit.report


def statuses(report, kind):
    found = {}
    for site in report.copies:
        if site.kind == kind:
            for status, count in site.counts.items():
                found[status] = found.get(status, 0) + count
    return {status: count for status, count in found.items() if count}


SOURCE = torch.arange(6.0).reshape(2, 3)


def written_copy():
    SOURCE.clone().add_(1)


def written_source():
    source = SOURCE + 0
    copied = source.clone()
    source.add_(1)
    assert not torch.equal(source, copied)


def written_through_a_view():
    copied = SOURCE.clone()
    copied[0].view(-1)[1:].mul_(2)


def written_through_data():
    source = SOURCE + 0
    copied = source.clone()
    source.data.zero_()
    assert copied.sum() > 0


def written_by_an_optimizer():
    p = nn.Parameter(SOURCE + 0)
    kept = p.detach().clone()
    p.grad = torch.ones_like(p)
    torch.optim.AdamW([p], fused=True).step()
    assert not torch.equal(kept, p)


def written_by_a_foreach_operation():
    source = [SOURCE + 0, SOURCE + 1]
    kept = [t.clone() for t in source]
    torch._foreach_add_(source, 1.0)
    assert not torch.equal(kept[0], source[0])


@pytest.mark.parametrize(
    "program",
    [
        written_copy,
        written_source,
        written_through_a_view,
        written_through_data,
        written_by_an_optimizer,
        written_by_a_foreach_operation,
    ],
    ids=lambda f: f.__name__,
)
def test_a_copy_is_needed_if_either_side_is_written_while_both_live(program):
    found = statuses(audited(program), "clone")
    assert found.get("redundant", 0) == 0
    assert found["needed"] >= 1


def read_only():
    assert SOURCE.clone().sum() == 15


def written_when_the_copy_was_gone():
    source = SOURCE + 0
    copied = source.clone()
    assert copied.sum() == 15
    del copied
    source.add_(1)


def deep_copied_and_read():
    assert copy.deepcopy(SOURCE).sum() == 15


@pytest.mark.parametrize(
    "program", [read_only, written_when_the_copy_was_gone, deep_copied_and_read], ids=lambda f: f.__name__
)
def test_a_copy_is_redundant_if_neither_side_was_written_while_both_lived(program):
    assert statuses(audited(program), "clone") == {"redundant": 1}


def test_the_logging_of_the_articles_is_judged_by_what_is_written():
    """`loss.detach().clone()`: of a loss that nobody writes it is needless, of a running value it is not."""

    def of_each_loss():
        weight, history = nn.Parameter(torch.ones(3)), []
        for _ in range(4):
            loss = weight.square().sum()
            loss.backward()
            history.append(loss.detach().clone())
        assert [float(t) for t in history] == [3.0] * 4

    def of_a_running_value():
        running, history = torch.zeros(()), []
        for _ in range(4):
            history.append(running.detach().clone())
            running.add_(1)
        assert [float(t) for t in history] == [0.0, 1.0, 2.0, 3.0]

    report = audited(of_each_loss)
    assert statuses(report, "clone") == {"redundant": 4}
    (finding,) = report.findings
    assert (finding.code, finding.count, finding.bytes) == ("TC201", 4, 16)
    assert "`detach()` where only the graph was to be cut" in finding.fix
    report = audited(of_a_running_value)
    assert (statuses(report, "clone"), report.findings) == ({"needed": 4}, ())


def test_a_copy_that_still_lives_is_unknown():
    kept = []
    report = audited(lambda: kept.append(SOURCE.clone()))
    assert statuses(report, "clone") == {"unknown": 1}
    kept[0].add_(1)
    assert SOURCE.sum() == 15


def test_a_copy_of_a_small_part_that_outlives_the_whole_is_needed():
    def program():
        whole = torch.ones(1000, 100)
        part = whole[0].clone()
        del whole
        for _ in range(600):
            torch.ones(1).clone()
        assert part.sum() == 100

    report = audited(program)
    assert statuses(report, "clone")["needed"] == 1


def test_what_a_compiled_function_may_have_written_is_unknown():
    @torch.compile(backend="eager")
    def compiled(x):
        return x + 1

    def program():
        copied = SOURCE.clone()
        assert compiled(copied).sum() == 21

    report = audited(program)
    assert statuses(report, "clone") == {"unknown": 1}
    assert sum(report.opaque.values()) == 1


def converted():
    SOURCE.to(torch.float64)


def laid_out():
    SOURCE.t().contiguous()


def written_into():
    torch.empty(2, 3).copy_(SOURCE)


def saved():
    torch.save({"t": SOURCE}, io.BytesIO())


@pytest.mark.parametrize(
    ("program", "kind", "size"),
    [
        (converted, "conversion", 48),
        (laid_out, "layout", 24),
        (written_into, "into", 24),
        (saved, "serialisation", 24),
    ],
    ids=["converted", "laid_out", "written_into", "saved"],
)
def test_each_kind_is_told_with_its_bytes(program, kind, size):
    report = audited(program)
    assert [(site.kind, site.count, site.bytes) for site in report.copies] == [(kind, 1, size)]
    assert statuses(report, kind) == {"needed": 1}


def test_a_conversion_is_repeated_until_its_source_is_written():
    def program():
        source = SOURCE + 0
        for _ in range(3):
            source.to(torch.float64)
        source.add_(1)
        source.to(torch.float64)

    assert statuses(audited(program), "conversion") == {"needed": 2, "repeated": 2}


def test_a_copy_inside_of_torch_belongs_to_the_line_that_caused_it():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.ones(2, 5, 8)

    def program():
        attention(x, x, x)

    report = audited(program)
    assert report.copies
    assert {site.line.text.strip() for site in report.copies} == {"attention(x, x, x)"}
    assert all(site.line.through.startswith("torch.") for site in report.copies)
    assert not report.waste


def test_a_copy_made_in_a_backward_belongs_to_the_line_of_the_forward():
    x = torch.ones(3, requires_grad=True)

    def program():
        y = x.expand(4, 3).to(torch.float64)
        y.sum().backward()

    lines = {site.line.text.strip() for site in audited(program).copies}
    assert lines == {"y = x.expand(4, 3).to(torch.float64)"}


def test_bytes_over_time_add_up_to_the_bytes_of_the_table():
    def program():
        for _ in range(50):
            SOURCE.clone()

    report = audited(program)
    assert sum(size for _, size in report.timeline) == sum(site.bytes for site in report.copies) == 50 * 24
