"""The quick way to read a module gives what `state_dict` gives."""

import pytest
import torch
from torch import nn

from torchcopy.history.parts.module_state import module_state


class Extra(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.again = self.first
        self.nothing = None
        self.register_parameter("empty", None)
        self.register_buffer("scratch", torch.ones(2), persistent=False)
        self.register_buffer("kept", torch.ones(2))

    def get_extra_state(self):
        return {"seen": 3}


class Renames(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        destination[prefix + "renamed"] = self.inner.weight if keep_vars else self.inner.weight.detach()


def hooked():
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    module[0]._register_state_dict_hook(lambda module, state, prefix, metadata: state.pop(prefix + "bias"))
    return module


CASES = {
    "LSTM": lambda: nn.LSTM(3, 4, 2),
    "attention": lambda: nn.MultiheadAttention(8, 2),
    "batch norm": lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)),
    "parametrized": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
    "extra state, twice the same": lambda: nn.Sequential(Extra(), nn.Linear(2, 2)),
    "overridden": lambda: nn.Sequential(Renames(), nn.Linear(2, 2)),
    "hooked": hooked,
    "empty": nn.Sequential,
    "a module list with None": lambda: nn.ModuleDict({"a": nn.Linear(1, 1)}),
    "quantized": lambda: nn.Sequential(torch.ao.nn.quantized.Linear(2, 2), nn.Linear(2, 2)),
}


@pytest.mark.filterwarnings("ignore")  # quantization is deprecated, and says so
@pytest.mark.parametrize("build", CASES.values(), ids=CASES.keys())
def test_it_is_the_state_dict_with_the_parameters_themselves(build):
    module = build()
    expected = module.state_dict(keep_vars=True)
    state, _, _ = module_state(module)
    assert type(state) is type(expected)
    assert list(state) == list(expected)
    assert state._metadata == expected._metadata
    own = set(map(id, [*module.parameters(), *module.buffers()]))
    for name, value in expected.items():
        if id(value) in own:
            assert state[name] is value
        elif isinstance(value, torch.Tensor):
            assert torch.equal(state[name].dequantize(), value.dequantize()) if value.is_quantized else True


def test_buffers_that_are_not_persistent_are_beside_it():
    module = nn.Sequential(Extra(), nn.Linear(2, 2))
    state, others, _ = module_state(module)
    assert list(others) == ["0.scratch"]
    assert others["0.scratch"] is module[0].scratch
    assert "0.scratch" not in state


def test_a_module_with_a_state_dict_of_its_own_is_asked():
    class Own(nn.Linear):
        def state_dict(self, *args, **kwargs):
            return {"mine": self.weight.detach() * 2}

    module = Own(2, 2)
    assert list(module_state(module)[0]) == ["mine"]
    nested, _, _ = module_state(nn.Sequential(module))
    assert list(nested) == list(nn.Sequential(module).state_dict())
