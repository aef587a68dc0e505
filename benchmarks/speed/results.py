"""What was measured, as a file that pyperf reads, with the machine it was measured on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyperf

from benchmarks.speed.measure import Timing

#: Of pyperf's description of the machine; its name is nobody's business.
_MACHINE = ("cpu_count", "cpu_model_name", "platform", "python_version", "python_implementation", "date")
_WHERE = ("database", "size", "branches", "system", "call", "versions", "durability")


def merge(before: Iterable[Timing], now: Sequence[Timing]) -> list[Timing]:
    """What was measured now, and what was measured before and is not measured anew."""
    anew = {_name(one) for one in now}
    return [*(one for one in before if _name(one) not in anew), *now]


def _name(timing: Timing) -> str:
    return f"{timing.database}: {timing.system}: {timing.call} at {timing.size} × {timing.branches}"


def save(timings: Iterable[Timing], path: Path) -> None:
    suite = pyperf.BenchmarkSuite(list(map(_benchmark, timings)))
    suite.dump(str(path), compact=True, replace=True)


def _benchmark(timing: Timing) -> pyperf.Benchmark:
    where = {name: getattr(timing, name) for name in _WHERE if getattr(timing, name)}
    name = _name(timing)
    metadata = timing.machine | where | {f"counted_{key}": value for key, value in timing.counted.items()}
    values = [float(f"{value:.4g}") for value in timing.values]
    return pyperf.Benchmark(
        [pyperf.Run(values, metadata=metadata | {"name": name, "unit": "second"}, collect_metadata=False)]
    )


def load(path: Path) -> list[Timing]:
    """What :func:`save` stored."""
    timings = []
    for benchmark in pyperf.BenchmarkSuite.load(str(path)).get_benchmarks():
        metadata = benchmark.get_metadata()
        where = {key: metadata[key] for key in _WHERE if key in metadata}
        counted = {key.removeprefix("counted_"): metadata[key] for key in metadata if key.startswith("counted_")}
        machine = {key: metadata[key] for key in _MACHINE if key in metadata}
        timings.append(Timing(**where, values=list(benchmark.get_values()), counted=counted, machine=machine))
    return timings


def machine() -> dict[str, Any]:
    described = pyperf.Run([1.0]).get_metadata()
    return {key: described[key] for key in _MACHINE if key in described}


def find(timings: Sequence[Timing], **where: Any) -> Timing | None:
    """The first that has all these attributes."""
    return next((one for one in timings if all(getattr(one, key) == value for key, value in where.items())), None)
