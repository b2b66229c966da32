"""The demo, in a process of its own, on the real digits."""

import os
import re
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "digits.py"


def test_the_demo_trains_measures_advises_and_says_where(tmp_path):
    done = subprocess.run(
        [sys.executable, DEMO, "--epochs", "2", "--seconds", "2", "--output", tmp_path],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )
    assert done.stderr == ""
    opening = done.stdout[: done.stdout.index("Training on")]
    for found in (
        "TC101 ",
        "best, highest = model.state_dict(), accuracy",
        "TC201 ",
        "batch = images[training][rows].clone()",
    ):
        assert found in opening
    assert "torchcopy audit: 1 hazard, 1 copy that was not needed" in opening
    read = float(re.search(r"([\d.]+)% of 450 unseen digits", done.stdout)[1])
    assert read > 80
    report, _, written = done.stdout.partition("── Written")
    assert max(map(len, report.splitlines())) <= 80
    for words in ("t.detach().clone()", "limit: warm copy_", "deepcopy_model", "shares"):
        assert words in done.stdout
    names = re.findall(r"^(?:plot|page) (\S+)$", written, flags=re.MULTILINE)
    assert len(names) == 4
    for name in names:
        content = Path(name).read_bytes()
        assert content.startswith(b"\x89PNG") if name.endswith(".png") else b"</html>" in content
