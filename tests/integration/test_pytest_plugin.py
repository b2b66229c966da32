"""The pytest plugin, as a project uses it: `--copy-audit`, the marker, failures, the summary, several processes."""

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest
import torch

def train(model):
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    torch.optim.SGD(model.parameters(), lr=0.1).step()

def test_stale():
    model = torch.nn.Linear(2, 1)
    best = model.state_dict()
    train(model)
    model.load_state_dict(best)

def test_kept():
    model = torch.nn.Linear(2, 1)
    best = {name: t.clone() for name, t in model.state_dict().items()}
    train(model)
    model.load_state_dict(best)

def test_wasteful():
    t = torch.ones(100)
    assert t.clone().sum() == 100

def test_fails_by_itself():
    model = torch.nn.Linear(2, 1)
    best = model.state_dict()
    train(model)
    model.load_state_dict(best)
    assert "this" == "that"
"""


@pytest.fixture
def run(pytester):
    """Runs pytest on the tests above in a process of its own."""

    def call(*arguments, tests=TESTS):
        pytester.makepyfile(test_copies=tests)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly", *arguments, timeout=120)

    return call


@pytest.mark.parametrize("processes", [["-p", "no:xdist"], ["-n", "2"]], ids=["one process", "xdist"])
def test_a_hazard_fails_its_test_and_waste_is_told_at_the_end(run, processes):
    result = run("--copy-audit", *processes)
    result.assert_outcomes(passed=2, failed=2)
    out = result.stdout.str()
    failure = out.split("test_stale")[1].split("test_fails_by_itself")[0]
    assert "TC101" in failure
    assert "best = model.state_dict()" in failure
    assert "Traceback" not in out
    assert "pytest_plugin.py" not in out
    by_itself = out.split("test_fails_by_itself", 1)[1]
    assert "AssertionError" in by_itself
    assert "copy audit" in by_itself
    summary = out.split("copies that were not needed")[1]
    assert "TC201" in summary
    assert "test_wasteful" in summary
    assert "TC101" not in summary.split("short test summary")[0]


def test_without_the_option_nothing_is_audited(run):
    result = run("-k", "not by_itself")
    result.assert_outcomes(passed=3)
    assert "TC" not in result.stdout.str()


def test_the_marker_audits_one_test(run):
    tests = TESTS.replace("def test_stale", "@pytest.mark.copy_audit\ndef test_stale")
    result = run("--strict-markers", "-k", "not by_itself", tests=tests)
    result.assert_outcomes(passed=2, failed=1)
    assert "TC101" in result.stdout.str()
    assert "copies that were not needed" not in result.stdout.str()


@pytest.mark.parametrize(
    ("options", "failed"),
    [('select=["TC1"]', 1), ('select=["TC2"]', 0), ('ignore=["TC101"]', 0), ('select="TC102,TC103"', 0)],
)
def test_the_marker_chooses_codes(run, options, failed):
    tests = TESTS.replace("def test_stale", f"@pytest.mark.copy_audit({options})\ndef test_stale")
    run("--copy-audit", "-k", "stale", tests=tests).assert_outcomes(passed=1 - failed, failed=failed)


@pytest.mark.parametrize(
    ("options", "message"),
    [('select=["TC9"]', "no code begins with"), ("codes=[]", "takes `select` and `ignore`"), ('"TC1"', "by name")],
)
def test_a_marker_that_means_nothing_is_refused_before_any_test(run, options, message):
    result = run(tests=TESTS.replace("def test_stale", f"@pytest.mark.copy_audit({options})\ndef test_stale"))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert message in result.stderr.str()
    assert "test_copies.py::test_stale" in result.stderr.str()


def test_modes_of_fixtures_and_tests_are_left_as_they_were(run):
    tests = """
import pytest
import torch

def depth():
    return torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()

@pytest.fixture(autouse=True)
def unchanged():
    before = depth(), torch.save, torch.nn.Module.state_dict
    with torch.no_grad():
        yield
    assert (depth(), torch.save, torch.nn.Module.state_dict) == before == ((( 0, 0), *before[1:]))

@pytest.mark.parametrize("n", range(3))
def test_all(n):
    assert not torch.is_grad_enabled()
    if n == 1:
        pytest.skip("this one")
    if n == 2:
        pytest.xfail("that one")
"""
    run("--copy-audit", tests=tests).assert_outcomes(passed=1, skipped=1, xfailed=1)


def test_the_plugin_loads_no_torch_until_a_test_is_audited(run):
    result = run(tests="import sys\n\ndef test_one():\n    assert 'torch' not in sys.modules\n")
    result.assert_outcomes(passed=1)
