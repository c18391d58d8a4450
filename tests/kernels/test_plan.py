"""The work of a run for an engine: the grid that a GPU takes, and a run that took other steps than the twin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import flashstep as fs
from flashstep.kernels.engines import recorded
from flashstep.kernels.engines.compare import judge
from flashstep.kernels.engines.plan import Plan
from flashstep.kernels.engines.source import Source
from flashstep.kernels.registry import KERNELS


def plan_of(run: fs.Run) -> Plan:
    return Plan(run.trace, Source.read(KERNELS[run.kernel].cuda_source))


@pytest.mark.parametrize(
    ("axis", "size", "fits"),
    [(1, 65_535, True), (1, 65_536, False), (2, 65_535, True), (2, 65_536, False), (0, 65_536, True)],
)
def test_a_grid_that_a_gpu_refuses_is_refused_before(axis: int, size: int, fits: bool) -> None:
    plan = plan_of(fs.record("flash-attention-2"))
    info = plan.trace.meta.launches[0]
    grid = tuple((name, size if n == axis else 1) for n, (name, _) in enumerate(info.grid))
    launch = replace(info, grid=grid)
    if fits:
        assert plan._launch(0, launch).grid[axis] == size
    else:
        with pytest.raises(ValueError, match=r"would be .*65,536.*: y and z may be at most 65,535"):
            plan._launch(0, launch)


def test_other_steps_than_the_twins_are_named_with_their_place() -> None:
    run = fs.record("flash-attention-2", values="all")
    plan, result = plan_of(run), recorded.find(run).result
    assert result.probes is not None
    mark = plan.marks[5]
    assert run.trace.steps[mark.step].name == "fill Sij"
    where = f"at step {mark.step} (flash attention 2, block 0 · i = 0, j = 1, fill S01)"
    for left, took in ((2.0, "it took 'load K, V'."), (np.nan, "it had left the kernel or taken fewer steps.")):
        probes = result.probes.copy()
        probes[mark.place] = left
        with pytest.raises(fs.EngineError) as raised:
            judge(run, plan, replace(result, probes=probes), "recorded")
        said = str(raised.value)
        assert where in said
        assert "'fill Sij' for the twin" in said
        assert took in said
        assert "th probed" not in said
