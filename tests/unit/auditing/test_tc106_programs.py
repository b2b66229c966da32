"""TC106 in small programs, each beside one that differs little and is right."""

import gc
import linecache
import textwrap
import weakref

import numpy as np
import pytest
import torch

from torchcopy.auditing.session import Audit

pytestmark = pytest.mark.usefixtures("one_thread")

START = """
import numpy as np
import torch
from torch import nn
torch.manual_seed(0)
random = np.random.default_rng(0)
model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step():
    optimizer.zero_grad()
    model(torch.randn(4, 3)).square().mean().backward()
    optimizer.step()
"""

FAULTY = {
    "compared after a step": """
        before = model.weight.detach().numpy()  # shared
        step()
        print(np.abs(model.weight.detach().numpy() - before).max())  # used
    """,
    "in a function": """
        def run():
            before = model.weight.detach().numpy()  # shared
            for _ in range(3):
                step()
            after = model.weight.detach().numpy()
            return np.abs(after - before).max()  # used
        print(run())
    """,
    "in an attribute": """
        class Monitor:
            def run(self):
                self.before = model.weight.detach().numpy()  # shared
                step()
                print((self.before == model.weight.tolist()).all())  # used
        Monitor().run()
    """,
    "in a dict": """
        best = {name: p.detach().numpy() for name, p in model.named_parameters()}  # shared
        step()
        np.savez("/dev/null", **best)  # used
    """,
    "returned to who uses it": """
        def weights():
            kept = [model.weight.detach().numpy()]  # shared
            step()
            return kept
        print(np.stack(weights()))  # used
    """,
    "a list of the same memory": """
        counts, seen = torch.ones(2), []
        for _ in range(3):
            counts += 1
            seen.append(counts.numpy())  # shared
        assert seen[0].tolist() == [4, 4]  # used
    """,
    "made of an array, then normalised": """
        pixels = random.random((4, 4))
        image = torch.from_numpy(pixels)  # shared
        image.sub_(image.mean())
        print(pixels.mean())  # used
    """,
    "handed to PyTorch again": """
        before = model.weight.detach().numpy()  # shared
        step()
        kept = torch.from_numpy(before)  # used
        print(kept.sum())
    """,
    "the array is sorted after it was shared": """
        values = random.random(20)
        tensor = torch.from_numpy(values)  # shared
        values.sort()
        print(values[:3] - 1)
        print(tensor[0].item(), tensor.sum().item())  # used
    """,
    "the array of a tensor is clipped for a figure": """
        output = torch.randn(20)
        shown = output.numpy()  # shared
        shown[shown < 0] = 0
        print(shown - 1)
        print(output.mean())  # used
    """,
    "one buffer for all tensors": """
        buffer, batch = random.random(3), []
        for k in range(4):
            buffer[:] = k
            batch.append(torch.from_numpy(buffer))  # shared
        print(torch.stack(batch))  # used
    """,
    "by DLPack": """
        before = np.from_dlpack(model.weight.detach())  # shared
        step()
        print(before.sum() + 1, before - 1)  # used
    """,
}

CLEAN = {
    "copied": """
        before = model.weight.detach().numpy().copy()
        step()
        print(np.abs(model.weight.detach().numpy() - before).max())
    """,
    "not used after the step": """
        before = model.weight.detach().numpy()
        print(before)
        step()
    """,
    "taken anew in each iteration": """
        for _ in range(3):
            weight = model.weight.detach().numpy()
            print(weight.mean())
            step()
    """,
    "only its shape is asked": """
        weight = model.weight.detach().numpy()
        step()
        print(weight.shape, len(weight), weight is None)
    """,
    "may not be used": """
        weight = model.weight.detach().numpy()
        step()
        if model.training is None:
            print(weight + 1)
    """,
    "given another value before it is used": """
        weight = model.weight.detach().numpy()
        step()
        weight = np.zeros(3)
        print(weight + 1)
    """,
    "outputs for a plot": """
        xs = []
        for _ in range(4):
            xs.append(model(torch.randn(4, 3)).detach().numpy())
            step()
        print(np.concatenate(xs).mean())
    """,
    "a live view that each iteration reads": """
        weight = model.weight.detach().numpy()
        for _ in range(3):
            step()
            print(weight + 1)
    """,
    "a buffer on the host, filled again and again": """
        host = torch.empty(3)
        array = host.numpy()
        for _ in range(3):
            host.copy_(torch.randn(3))
            print(array + 1)
    """,
    "results that PyTorch writes into an array": """
        out = np.empty((3, 3))
        view = torch.from_numpy(out)
        for k in range(3):
            view[k] = torch.randn(3)
        print(out + 1)
    """,
    "results written on one line": """
        out = random.random(3)
        torch.from_numpy(out).mul_(2)
        print(out + 1)
    """,
    "sums in an array of zeros": """
        sums = np.zeros(3)
        view = torch.from_numpy(sums)
        view += torch.randn(3)
        print(sums + 1)
    """,
    "an array that is filled after it was shared": """
        buffer = np.zeros(3)
        batch = torch.from_numpy(buffer)
        buffer[:] = random.random(3)
        print(batch.sum(), buffer + 1)
    """,
    "a buffer that is filled and read in turn": """
        buffer = random.random(3)
        batch = torch.from_numpy(buffer)
        for k in range(3):
            buffer[:] = k
            print(batch.sum(), buffer + 1)
    """,
    "a tensor written through its array": """
        x = torch.randn(5)
        x.numpy()[:] = 0
        print(x.sum())
    """,
    "a data set in an array": """
        data = random.random((20, 3), dtype=np.float32)
        tensors = torch.from_numpy(data)
        for k in range(4):
            model(tensors[5 * k : 5 * k + 5]).sum().backward()
        print(data.mean())
    """,
    "collated from arrays": """
        data = random.random((20, 3), dtype=np.float32)
        loader = torch.utils.data.DataLoader(data, batch_size=5, shuffle=True)
        for batch in loader:
            model(batch).sum().backward()
        np.save("/dev/null", model.weight.detach().numpy())
        step()
    """,
    "another part is written": """
        values = torch.randn(6)
        front = values[:3].numpy()
        values[3:].mul_(2)
        print(front + 1)
    """,
}


def run(tmp_path, text):
    path = tmp_path / "program.py"
    path.write_text(START + textwrap.dedent(text))
    linecache.clearcache()
    with torch.random.fork_rng(devices=[]), Audit() as audit:
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "__main__"})
    return path.read_text().splitlines(), audit.report


@pytest.mark.parametrize("text", FAULTY.values(), ids=FAULTY.keys())
def test_it_is_found_and_its_lines_are_named(tmp_path, text, capsys):
    lines, report = run(tmp_path, text)
    assert {f.code for f in report.hazards} == {"TC106"}
    for finding in report.hazards:
        roles = {place.role: place.line.line for place in finding.places}
        for role in ("shared", "used"):
            marked = {n for n, line in enumerate(lines, 1) if line.endswith(f"# {role}")}
            assert roles[f"{role} here"] in marked
        assert "copy on the way" in finding.fix


@pytest.mark.parametrize("text", CLEAN.values(), ids=CLEAN.keys())
def test_the_twin_is_clean(tmp_path, text, capsys):
    _, report = run(tmp_path, text)
    assert report.hazards == ()


def test_nothing_is_held_alive(tmp_path):
    with Audit():
        tensor, other = torch.randn(4), np.ones(4)
        made = torch.from_numpy(other)
        references = [weakref.ref(each) for each in (tensor, tensor.numpy(), other, made)]
        tensor.add_(1)
        made.mul_(2)
        del tensor, other, made
        gc.collect()
        assert [each() for each in references] == [None] * 4


def test_a_look_at_the_names_of_a_frame_leaves_no_list_of_them():
    """Up to Python 3.12 a frame whose locals were asked for keeps them alive."""
    with Audit() as audit:
        weight = torch.randn(4)
        before = weight.numpy()
        big = torch.randn(8)
        gone = weakref.ref(big)
        weight.mul_(2)
        del big
        assert gone() is None
        assert before.tolist() == weight.tolist()
    assert [f.code for f in audit.report.hazards] == ["TC106"]


def test_what_was_wrapped_is_put_back():
    owners = [(torch.Tensor, n) for n in ("numpy", "__dlpack__", "data_ptr")] + [(np, "from_dlpack")]
    before = [getattr(owner, name) for owner, name in owners]
    with Audit():
        assert all(getattr(o, n) is not b for (o, n), b in zip(owners, before, strict=True))
    assert [getattr(owner, name) for owner, name in owners] == before


def test_torch_keeps_its_own_functions():
    names = ("from_numpy", "as_tensor", "asarray", "frombuffer", "from_dlpack", "save", "compile")
    before = {name: vars(torch)[name] for name in names}
    with Audit():
        assert torch.from_numpy is not before["from_numpy"]  # what a program gets that asks
        assert torch.save is not before["save"]
        assert {name: vars(torch)[name] for name in names} == before
        from torch import as_tensor, compile

        assert as_tensor is not before["as_tensor"]
        assert compile is not before["compile"]
        assert as_tensor is torch.as_tensor
        assert as_tensor == before["as_tensor"]  # so that tables which know the function know this one
    assert (torch.from_numpy, torch.save) == (before["from_numpy"], before["save"])
    assert type(torch) is type(np)
    assert as_tensor(np.ones(2)).tolist() == [1.0, 1.0]  # what a program has kept goes on working
