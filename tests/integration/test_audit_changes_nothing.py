"""An audited program prints, computes, raises and exits as the program alone does, to the bit.

Each file of `audit_unchanged` and `audit_clean` is a program; at its end it prints fingerprints of what it
computed, the states of the random numbers, and what it finds of modes, hooks and patches when it is over.
"""

import signal
import subprocess
import sys
import time

import pytest
from audit_runs import HERE, environment, inserted, load_report, programs, run_both

NO_REPORT = {"exit_at_once", "killed", "without_torch", "torch_on_a_thread"}


QUICK = {
    "autograd",
    "checkpointing",
    "compiled",
    "custom_functions",
    "dispatch_mode",
    "exit_with_3",
    "function_mode",
}
QUICK |= {"functional_transforms", "functions_of_torch", "hooks", "interrupted", "subclass_torch_function"}
QUICK |= {"threads", "warns"}


@pytest.mark.parametrize("program", programs("audit_unchanged", QUICK), ids=lambda path: path.stem)
def test_an_audited_program_is_the_same_program(program, tmp_path):
    plain, audited = run_both([program.name, "--an", "option"], tmp_path / "r.json", program.parent)
    assert audited.out == plain.out
    assert audited.status == plain.status
    assert (report_text := inserted(plain.err, audited.err)) is not None, audited.err
    if program.stem not in NO_REPORT:
        assert "torchcopy audit: " in report_text
        assert load_report(tmp_path / "r.json").program == f"{program.name} --an option"


def test_ctrl_c_ends_an_audited_program_as_it_ends_the_program(tmp_path):
    (tmp_path / "loop.py").write_text(
        "import atexit, time, torch\natexit.register(print, 'at exit')\nt = torch.zeros(1)\n"
        "print('ready', flush=True)\ntime.sleep(100)\n"
    )
    endings = []
    for before in ([], ["-m", "torchcopy", "audit", "--json", "r.json"]):
        process = subprocess.Popen(
            [sys.executable, *before, "loop.py"],
            cwd=tmp_path,
            env=environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # jobs in the background ignore it
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(1)  # until it is in its next line, which the traceback shows
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100)
        endings.append((process.returncode, out, err))
    (status, out, err), audited = endings
    assert status == -signal.SIGINT
    assert audited[:2] == (status, out)
    assert "torchcopy audit: " in inserted(err, audited[2])
    assert load_report(tmp_path / "r.json").ended_by == "KeyboardInterrupt: "


def test_a_block_that_was_audited_leaves_nothing_behind_however_it_ends():
    ended = subprocess.run(
        [sys.executable, "audited_blocks.py"],
        cwd=HERE / "audit_tools",
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr
    kinds = ["NoneType", "ValueError", "KeyboardInterrupt", "SystemExit", "GeneratorExit"]
    assert ended.stdout.splitlines()[: 2 * len(kinds)] == [f"{kind} True [] 3" for kind in kinds for _ in range(2)]
