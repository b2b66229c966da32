"""Safe fixes of copies, on tensors of every layout: same values, dtype, strides, gradients; memory of its own."""

import warnings

import pytest
import torch

from torchcopy.linting.fix_options import FixOptions
from torchcopy.linting.one_file import check_file
from torchcopy.linting.project import Project
from torchcopy.linting.settings import DEFAULT_CODES

BASE = torch.arange(120.0).reshape(2, 3, 4, 5)
TENSORS = {
    "contiguous": BASE,
    "transposed": BASE.permute(3, 1, 0, 2),
    "every second": BASE[:, ::2],
    "expanded": torch.arange(3.0).reshape(3, 1).expand(3, 4),
    "channels last": BASE.to(memory_format=torch.channels_last),
    "diagonal": BASE.diagonal(dim1=1, dim2=2),
    "scalar": torch.tensor(2.0),
    "empty": torch.empty(0, 3),
    "integers": torch.arange(6).reshape(2, 3).T,
    "flags": torch.tensor([True, False]),
    "in a graph": torch.arange(6.0, requires_grad=True).reshape(2, 3).T * 2,
}
EXPRESSIONS = [
    "t.clone().cpu()",
    "t.cpu().clone()",
    "t.clone().to(device)",
    "t.clone().detach().to(device, torch.float64)",
    "t.half().clone()",
    "t.double().clone()",
    "t.clone().bfloat16()",
    "t.contiguous().clone()",
    "t.detach().cpu().numpy().copy()",
    "t.detach().clone().numpy().copy()",
    "t.detach().clone() * 3",
    "t.clone().tolist()",
    "torch.tensor(t)",
    "torch.tensor(t, dtype=torch.float64)",
    "torch.tensor(t, device=device)",
    "t.clone().detach()",
]


def mended(expression, tmp_path):
    """The expression after the linter's safe fixes."""
    path = tmp_path / "made.py"
    head = "import torch\n\n\ndef make(t: torch.Tensor, device):\n    size = t.size()\n    return "
    path.write_text(f"{head}{expression}\n", encoding="utf-8")
    check_file(str(path), DEFAULT_CODES, Project(), FixOptions("written"))
    return path.read_text(encoding="utf-8").removeprefix(head).rstrip()


def described(made):
    if isinstance(made, torch.Tensor):
        return made.dtype, made.stride(), made.requires_grad, made.tolist()
    if isinstance(made, list | float | int | bool):
        return made
    return made.dtype, made.strides, made.flags.writeable, made.tolist()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_is_computed_stays(expression, tmp_path):
    after = mended(expression, tmp_path)
    assert after != expression
    for name, tensor in TENSORS.items():
        known = {"t": tensor, "torch": torch, "device": "cpu"}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="To copy construct from a tensor")
            first, second = eval(expression, known), eval(after, known)
        assert described(first) == described(second), name
        if isinstance(second, torch.Tensor) and second.numel():
            kept = tensor.detach().clone()
            second.detach().zero_()
            assert torch.equal(tensor, kept), name
            first.detach().fill_(1)
            assert not second.any(), name
