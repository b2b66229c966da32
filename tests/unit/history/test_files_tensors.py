"""Tensors go through files bit by bit and lie as they lay; what is loaded shares nothing with anybody."""

import copy
import json

import pytest
import torch
from safetensors.torch import load_file, load_model
from test_files_values import same
from torch import nn

import torchcopy as tc

_NAMES = (
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex64 complex128 "
    "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2 complex32"
).split()
MODES = ["eager", "lazy", "background"]


def _of_all_bits(dtype, count=64):
    """Elements of random bits: every NaN, every denormal number may be among them."""
    generator = torch.Generator().manual_seed(0)
    data = torch.randint(0, 256, (count * dtype.itemsize,), dtype=torch.uint8, generator=generator)
    return data.bitwise_and(1).bool() if dtype == torch.bool else data.view(dtype)


def _bytes(t):
    t = torch.view_as_real(t) if t.is_complex() and t.dtype != torch.complex32 else t
    return t.untyped_storage().tolist() if t.dtype == torch.complex32 else t.contiguous().view(torch.uint8).tolist()


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", _NAMES)
def test_every_dtype_comes_back_bit_by_bit(tmp_path, name, mode):
    t = _of_all_bits(getattr(torch, name))
    history = tc.History(t=t, mode=mode, rng=False)
    history.take().save(tmp_path / "s")
    loaded = tc.Snapshot.load(tmp_path / "s")
    found = loaded.state("t")
    assert (found.dtype, found.shape) == (t.dtype, t.shape)
    assert _bytes(found) == _bytes(t)
    expected = _bytes(t)
    t.view(torch.uint8).zero_()
    loaded.restore(t=t)
    assert _bytes(t) == expected


LAYOUTS = {
    "0-dim": lambda: {"x": torch.tensor(2.5)},
    "empty": lambda: {"x": torch.empty(0), "y": torch.empty(2, 0, 3), "z": torch.empty(0, 3).t()},
    "of size 1": lambda: {"x": torch.randn(4, 1, 1, 1).to(memory_format=torch.channels_last)},
    "channels last": lambda: {"x": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)},
    "transposed": lambda: {"x": torch.randn(3, 4).t(), "y": torch.randn(2, 3, 4).permute(2, 0, 1)},
    "expanded": lambda: {"x": torch.randn(3, 1).expand(3, 5), "y": torch.ones(()).expand(1000)},
    "overlapping itself": lambda: {"x": torch.arange(8.0).as_strided((3, 4), (2, 1))},
    "views": lambda: (lambda b: {"a": b[2:6], "b": b[4:8], "c": b[::2], "d": b})(torch.arange(10.0)),
    "same view twice": lambda: (lambda b: {"a": b[2:6], "b": b[2:6]})(torch.arange(10.0)),
    "views of two dtypes": lambda: (lambda b: {"a": b, "b": b.view(torch.int32)[1:3]})(torch.arange(6.0)),
    "channels last, twice": lambda: (lambda b: {"a": b, "b": b.detach()})(
        torch.randn(1, 3, 2, 2).to(memory_format=torch.channels_last)
    ),
    "conjugated": lambda: {"x": torch.randn(3, dtype=torch.complex64).conj()},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", LAYOUTS)
def test_tensors_lie_as_they_lay(tmp_path, name, mode):
    torch.manual_seed(0)
    tensors = LAYOUTS[name]()
    snapshot = tc.History(v=tensors, mode=mode, rng=False).take()
    snapshot.save(tmp_path / "s")
    loaded = tc.Snapshot.load(tmp_path / "s")
    expected, found = snapshot.state("v"), loaded.state("v")
    same({k: t.resolve_conj() for k, t in expected.items()}, found)
    storages = [{t.untyped_storage().data_ptr() for t in state.values()} for state in (expected, found)]
    assert len(storages[0]) == len(storages[1])  # views of one storage are so again


def _trained(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 16), nn.Linear(16, 16))
    model = model.to(memory_format=torch.channels_last)
    model[4].weight = model[3].weight
    model.register_buffer("cache", torch.arange(5.0), persistent=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3])
    return model, optimizer, scheduler


def _train(model, optimizer, scheduler, steps=2):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(2, 3, 4, 4)).square().mean().backward()
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("mode", MODES)
def test_a_run_goes_on_from_a_file_in_fresh_objects(tmp_path, mode):
    model, optimizer, scheduler = _trained()
    history = tc.History(model=model, optimizer=optimizer, scheduler=scheduler, mode=mode)
    _train(model, optimizer, scheduler)
    history.take(step=2).save(tmp_path / "s")
    _train(model, optimizer, scheduler)
    fresh = _trained(seed=1)
    loaded = tc.Snapshot.load(tmp_path / "s")
    shared = tc.History(x=0)  # only for its part of the shared random generators
    loaded._parts = {"rng": shared._parts["rng"]}
    loaded.restore(model=fresh[0], optimizer=fresh[1], scheduler=fresh[2])
    _train(*fresh)
    for a, b in zip((model, optimizer, scheduler), fresh, strict=True):
        same(copy.deepcopy(a.state_dict()), copy.deepcopy(b.state_dict()))
    built = loaded.build(model=lambda: _trained(seed=2)[0])
    same(built.state_dict(), loaded.state_dict("model"))
    assert torch.equal(built.cache, torch.arange(5.0))
    assert built[4].weight is built[3].weight


def test_what_a_loaded_snapshot_hands_out_is_its_receivers(tmp_path):
    t = torch.arange(6.0)
    tc.History(t=t, rng=False).take().save(tmp_path / "s")
    loaded = tc.Snapshot.load(tmp_path / "s")
    before = (tmp_path / "s" / "t.safetensors").read_bytes()
    loaded.state("t").fill_(7)
    loaded._tensors()[0].fill_(8)  # which nobody may; the file stays as it is even then
    assert (tmp_path / "s" / "t.safetensors").read_bytes() == before
    again = tc.Snapshot.load(tmp_path / "s")
    t.fill_(9)
    assert again.state("t").tolist() == [0, 1, 2, 3, 4, 5]
    again.restore(t=t)
    t.fill_(10)
    assert again.state("t").tolist() == [0, 1, 2, 3, 4, 5]
    assert (tmp_path / "s" / "t.safetensors").read_bytes() == before


def test_lazy_tensors_stay_lazy_when_they_are_saved(tmp_path):
    model = nn.Linear(100, 100)
    snapshot = tc.History(model=model, mode="lazy", rng=False).take()
    before = [t.how for t in snapshot.report.tensors]
    snapshot.save(tmp_path / "s")
    assert [t.how for t in snapshot.report.tensors] == before == ["lazy", "lazy"]


# --- what other programs read ----------------------------------------------------------------------------------


def test_the_model_opens_as_safetensors_with_its_own_names(tmp_path):
    model, optimizer, _ = _trained()
    tc.History(model=model, optimizer=optimizer).take().save(tmp_path / "s")
    found = load_file(tmp_path / "s" / "model.safetensors")
    state = model.state_dict()
    assert set(found) == set(state) - {"4.weight"}  # tied: once, as `save_model` does
    for name, t in found.items():
        assert torch.equal(t, state[name])
    other = _trained(seed=1)[0]
    assert load_model(other, tmp_path / "s" / "model.safetensors") == (set(), [])
    for name, t in other.state_dict().items():
        assert torch.equal(t, state[name])


def test_each_of_two_modules_with_common_tensors_has_all_of_its_own(tmp_path):
    encoder = nn.Linear(3, 3)
    model = nn.Sequential(encoder, nn.Linear(3, 2))
    tc.History(model=model, encoder=encoder, rng=False).take().save(tmp_path / "s")
    assert set(load_file(tmp_path / "s" / "encoder.safetensors")) == {"weight", "bias"}
    loaded = tc.Snapshot.load(tmp_path / "s")
    assert torch.equal(loaded.state_dict("encoder")["weight"], encoder.weight)
    same(loaded.state_dict("model"), tc.History(m=model).take().state_dict("m"))


def test_names_that_no_file_can_have_do_no_harm(tmp_path):
    objects = {"../up": nn.Linear(1, 1), "a/b": {"__metadata__": torch.ones(1), "\ud800": torch.ones(2)}, "A": {}}
    objects |= {"x" * 300: torch.ones(1), "con fig": {1: torch.ones(1), "1": torch.zeros(1)}, "a": torch.ones(3)}
    snapshot = tc.History(**objects).take()
    snapshot.save(tmp_path / "s")
    loaded = tc.Snapshot.load(tmp_path / "s")
    assert loaded.parts == snapshot.parts
    for name in snapshot.parts:
        same(snapshot.state(name), loaded.state(name))
    assert [p.name for p in tmp_path.iterdir()] == ["s"]
    assert all(p.name == p.name.strip("./") and len(p.name) < 100 for p in (tmp_path / "s").iterdir())


def test_the_manifest_is_json_for_people(tmp_path):
    tc.History(model=nn.Linear(2, 1)).take(step=1).save(tmp_path / "s")
    manifest = json.loads((tmp_path / "s" / "snapshot.json").read_text())
    assert manifest["format"] == "torchcopy snapshot"
    assert manifest["labels"] == {"step": 1}
    (weight,) = [t for t in manifest["tensors"] if t["name"] == "weight"]
    assert {"file": "model.safetensors", "dtype": "float32", "shape": [1, 2], "bytes": 8}.items() <= weight.items()
    assert len(weight["checksum"]) == 32


def test_parts_without_tensors_have_no_file(tmp_path):
    tc.History(a={"x": 1}, model=nn.ReLU(), rng=False).take().save(tmp_path / "s")
    assert [p.name for p in (tmp_path / "s").iterdir()] == ["snapshot.json"]
    assert tc.Snapshot.load(tmp_path / "s").state("a") == {"x": 1}
