"""An audited program prints, computes, raises and exits as the program alone does, to the bit.

Each file of `audit_unchanged` and `audit_clean` is a program; at its end it prints fingerprints of what it
computed, the states of the random numbers, and what it finds of modes, hooks and patches when it is over.
"""

import pytest
from audit_runs import inserted, load_report, programs, run_both

NO_REPORT = {"exit_at_once", "killed", "without_torch", "torch_on_a_thread"}


@pytest.mark.parametrize("program", programs("audit_unchanged"), ids=lambda path: path.stem)
def test_an_audited_program_is_the_same_program(program, tmp_path):
    plain, audited = run_both([program.name, "--an", "option"], tmp_path / "r.json", program.parent)
    assert audited.out == plain.out
    assert audited.status == plain.status
    assert (report_text := inserted(plain.err, audited.err)) is not None, audited.err
    if program.stem not in NO_REPORT:
        assert "torchcopy audit: " in report_text
        assert load_report(tmp_path / "r.json").program == f"{program.name} --an option"
