"""Measures every way to copy tensors and whole models, and writes the results to `bench-output/`.

Run it with `make bench`, or: `python benchmarks/copy_methods.py [--device cuda] [--quick]`
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import workloads
from exit_status import errors_end

from torchcopy.bench.models import MODEL_METHODS, bench_model
from torchcopy.bench.preflight import has_matplotlib
from torchcopy.bench.records import BenchReport
from torchcopy.bench.runner import STEPS
from torchcopy.bench.tensors import bench_tensors
from torchcopy.reporters import bench as report_on
from torchcopy.reporters.as_json import to_json
from torchcopy.reporters.files import write_text
from torchcopy.reporters.terminal import progress

OUTPUT = Path("bench-output")


def keep(name: str, report: BenchReport, device: str) -> None:
    """Prints a report and writes it as JSON and, where matplotlib is there, as a plot."""
    place = OUTPUT / f"{name}-{device.replace(':', '-')}.json"
    write_text(place, to_json(report.to_dict()) + "\n")
    if has_matplotlib():
        from torchcopy.reporters.bench_plot import write_plot

        write_plot(place.with_suffix(".png"), report)
    report_on.show(report)
    print(f"Written to {place}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu", help="cpu, cuda, … (default: cpu)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the time")
    options = parser.parse_args()
    seconds = 6.0 if options.quick else 60.0
    with errors_end("copy_methods"):
        OUTPUT.mkdir(exist_ok=True)
        with progress("tensors", total=None) as advance:
            report = bench_tensors(device=options.device, max_seconds=seconds, on_step=advance)
        keep("tensors", report, options.device)
        for factory in workloads.FACTORIES:
            name = factory.__name__
            with progress(name, total=len(MODEL_METHODS) * STEPS) as advance:
                report = bench_model(factory, device=options.device, max_seconds=seconds, on_step=advance)
            keep(name, report, options.device)


if __name__ == "__main__":
    main()
