"""The GPUs that a node host may give to its servers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

CUDA_VARIABLE = "CUDA_VISIBLE_DEVICES"
"""The variable by which a program sees only some GPUs."""
_JOB_VARIABLES = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
"""The GPUs of a job of Slurm, if Slurm does not set `CUDA_VISIBLE_DEVICES`."""


def usable_gpus(variables: Mapping[str, str], devices: Path = Path("/dev")) -> list[str]:
    """Return the names of the GPUs that a process with these environment variables may use, as CUDA knows them.

    They are those of `CUDA_VISIBLE_DEVICES`, else those of its Slurm job, else all of the machine.
    """
    if CUDA_VARIABLE in variables:
        names = (name.strip() for name in variables[CUDA_VARIABLE].split(","))
        # As CUDA does: names after a wrong one do not count.
        return list(takewhile(lambda name: name.isdigit() or name.startswith(("GPU-", "MIG-")), names))
    for variable in _JOB_VARIABLES:
        if variable in variables:
            return [name for name in variables[variable].split(",") if name]
    return [str(number) for number in range(len(list(devices.glob("nvidia[0-9]*"))))]
