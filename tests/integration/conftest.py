"""What the tests with many small models share."""

import pytest
import torch

import torchcopy as tc

# Programs that the tests of the audit run, and what those import: nothing is collected from them.
collect_ignore = ["audit_programs", "audit_unchanged", "audit_clean", "audit_tools"]


@pytest.fixture
def seeded():
    """The same random numbers in every run."""
    torch.manual_seed(0)


@pytest.fixture(params=[tc.copy, tc.fork], ids=["copy", "fork"])
def make(request):
    """Each way to make a copy in memory of its own; that of `fork` is taken at the first write."""
    return request.param
