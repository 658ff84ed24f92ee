"""The GPUs of a node, by its environment and its devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.launch.nodes.gpus import usable_gpus


@pytest.mark.parametrize(
    ("variables", "gpus"),
    [
        ({}, ["0", "1", "2"]),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, ["2", "0"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,2"}, ["1"]),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, []),
        ({"CUDA_VISIBLE_DEVICES": "GPU-8a3f, MIG-11"}, ["GPU-8a3f", "MIG-11"]),
        ({"SLURM_JOB_GPUS": "1,2"}, ["1", "2"]),
        ({"SLURM_JOB_GPUS": "1,2", "SLURM_STEP_GPUS": "2"}, ["2"]),
        ({"SLURM_JOB_GPUS": "1,2", "CUDA_VISIBLE_DEVICES": "0,1"}, ["0", "1"]),
    ],
)
def test_gpus_are_those_that_the_environment_leaves(
    tmp_path: Path, variables: dict[str, str], gpus: list[str]
) -> None:
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert usable_gpus(variables, tmp_path) == gpus
