"""What the tests of small runs share."""

import pytest
import torch


@pytest.fixture(scope="module")
def one_thread():
    """For models as small as these a second one only costs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
