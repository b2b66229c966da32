"""Damaged and forged files: none crashes the process, none loads as something else than was saved."""

import collections
import contextlib
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xxhash
from torch import nn

import torchcopy as tc


class _Net(nn.Module):
    """Tied weights, channels last, a buffer outside of the state_dict, bfloat16."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.scale = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        self.register_buffer("cache", torch.arange(3), persistent=False)


def _run():
    torch.manual_seed(0)
    model = _Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    base = torch.arange(8.0)
    rare = [float("inf"), collections.deque([torch.ones(2)], maxlen=3), np.arange(4), {1, 2}, np.float32(1.5)]
    values = {"views": [base[:4], base[2:6]], "rare": rare, ("key", 1): b"bytes"}
    return {"model": model, "optimizer": optimizer, "values": values, "generator": torch.Generator()}


def _printed(snapshot):
    torch.set_printoptions(profile="full", precision=17)
    return repr([snapshot.labels, *((name, snapshot.state(name)) for name in snapshot.parts)])


# --- what is done to the files ---------------------------------------------------------------------------------


def _damage(directory, rng):
    """One change to the bytes of one file, or to which file is which."""
    path = rng.choice(sorted(directory.iterdir()))
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data)) if rng.random() < 0.7 else rng.randrange(min(len(data), 300))
    match rng.choice(["flip", "flip", "byte", "cut", "insert", "delete", "zeros", "swap", "double", "remove"]):
        case "flip":
            data[at] ^= 1 << rng.randrange(8)
        case "byte":
            data[at] = rng.randrange(256)
        case "cut":
            del data[at:]
        case "insert":
            data[at:at] = rng.randbytes(rng.randrange(1, 40))
        case "delete":
            del data[at : at + rng.randrange(1, 40)]
        case "zeros":
            data[at : at + 64] = bytes(len(data[at : at + 64]))
        case "double":
            data += data[at:]
        case "swap":
            other = rng.choice(sorted(directory.iterdir()))
            path.write_bytes(other.read_bytes())
            other.write_bytes(data)
            return
        case "remove":
            path.unlink()
            return
    path.write_bytes(data)


_ODD = (
    None, True, -1, 0, 1, 2, 10**9, 2**63, 10**40, 1.5, 1e999, "", "x", "../x", "/etc/passwd", "model.safetensors",
    "float64", "nan", "deque", [], [1], [[1]], [-1], [2**40, 2**40], {}, {"x": 1}, {"tensor": 10**6},
    {"tensor": -1}, {"tuple": [{"tuple": []}]}, {"ndarray": 0, "dtype": "O", "shape": [1], "order": "C"},
    {"dict": [1]}, {"dict": [[1], 2]}, {"set": [[]]}, {"deque": [], "maxlen": "x"}, {"scalar": "<f8", "bytes": "0"},
    {"scalar": "O", "bytes": "00" * 8}, {"range": [1, 2, 0]}, {"device": "nowhere"}, {"dtype": "Tensor"},
    {"int": "zz"}, {"bytes": "%"}, {"Counter": {"a": "b"}}, {"defaultdict": {}, "default": "eval"},
    {"OrderedDict": {}, "attributes": {"dict": {"items": 1}}}, {"mapping": {}}, {"sequence": []},
)  # fmt: skip


def _forge(directory, rng):
    """One change to what the manifest or a header says, with checksums that are right."""
    manifest_path = directory / "snapshot.json"
    manifest = json.loads(manifest_path.read_text())
    del manifest["checksum"]
    if rng.random() < 0.25:
        name = rng.choice(sorted(manifest["files"]))
        path = directory / name
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        _change(header, rng)
        encoded = json.dumps(header).encode()
        new_length = rng.choice([len(encoded)] * 9 + [rng.randrange(2**63)]).to_bytes(8, "little")
        path.write_bytes(new_length + encoded + data[8 + length :])
        facts = {"bytes": path.stat().st_size, "header_checksum": xxhash.xxh3_128_hexdigest(new_length + encoded)}
        manifest["files"][name] = facts
    else:
        _change(manifest, rng)
    _seal(manifest_path, json.dumps(manifest))


def _seal(path, text):
    rest = text.removeprefix("{").encode()
    path.write_bytes(b'{"checksum": "xxh3-128:%s",\n' % xxhash.xxh3_128_hexdigest(rest).encode() + rest)


def _change(x, rng):
    """Replaces, removes or adds a value somewhere in a tree of JSON."""
    places = []
    waiting = [x]
    while waiting:
        node = waiting.pop()
        children = list(node.items()) if isinstance(node, dict) else list(enumerate(node))
        places += [(node, key) for key, _ in children]
        waiting += [child for _, child in children if isinstance(child, (dict, list))]
    node, key = rng.choice(places)
    match rng.choice(["replace", "replace", "replace", "remove", "move", "add"]):
        case "replace":
            node[key] = rng.choice(_ODD)
        case "remove":
            del node[key]
        case "move":
            other, other_key = rng.choice(places)
            node[key] = json.loads(json.dumps(other[other_key]))
        case "add":
            node[f"{key}x" if isinstance(node, dict) else slice(key, key)] = (
                rng.choice(_ODD) if isinstance(node, dict) else [rng.choice(_ODD)]
            )


# --- in a process of its own -----------------------------------------------------------------------------------


def _main(kind, place, first, count):
    place = Path(place)
    saved, copy = place / "saved", place / "copy"
    tc.History(**_run(), rng=kind == "damage").take(step=3, loss=0.5).save(saved)
    expected = _printed(tc.Snapshot.load(saved))
    outcomes = collections.Counter()
    for seed in range(first, first + count):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(saved, copy)
        rng = random.Random(seed)
        (_damage if kind == "damage" else _forge)(copy, rng)
        before = {path: path.read_bytes() for path in copy.iterdir()}
        print(f"seed {seed}", file=sys.stderr, flush=True)  # the last one tells which crashed
        try:
            loaded = tc.Snapshot.load(copy)
        except tc.CorruptSnapshotError as error:
            message = str(error)
            assert str(copy) in message, message
            assert "\n" not in message, message
            assert len(message) < 500 + len(str(copy)), message
            if "-v" in sys.argv:
                print(message)
            outcomes["refused"] += 1
        else:
            _look_at(loaded, kind, expected)
            outcomes["loaded"] += 1
        assert before == {path: path.read_bytes() for path in copy.iterdir()}
    print(json.dumps(outcomes))


def _look_at(loaded, kind, expected):
    if kind == "damage":
        assert _printed(loaded) == expected
        return
    _printed(loaded)
    for name, target in _run().items():
        if name in loaded.parts:
            with contextlib.suppress(tc.TorchcopyError):
                loaded.restore(**{name: target})


def _fuzzed(kind, place, first, count):
    command = [sys.executable, "-X", "faulthandler", __file__, kind, str(place), str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_two_thousand_damaged_files_load_as_they_were_or_not_at_all(tmp_path):
    outcomes = _fuzzed("damage", tmp_path, 0, 2000)
    assert sum(outcomes.values()) == 2000
    assert outcomes["refused"] > 1900  # a byte may be replaced by itself, a file be swapped with itself


def test_files_forged_with_right_checksums_crash_nothing(tmp_path):
    outcomes = _fuzzed("forge", tmp_path, 0, 500)
    assert sum(outcomes.values()) == 500
    assert outcomes["refused"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["damage", "forge"])
def test_many_more_damaged_and_forged_files(tmp_path, kind):
    outcomes = _fuzzed(kind, tmp_path, 10_000, 20_000)
    assert sum(outcomes.values()) == 20_000


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
