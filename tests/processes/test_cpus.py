"""The CPUs of a process in control groups of both versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_gym.processes.cpus import usable_cpus

CORES = float(len(os.sched_getaffinity(0)))


def process_in(folder: Path, groups: str, *mounts: str) -> Path:
    """The folder of a process in /proc. `mounts` are lines of `mountinfo` from the mounted group's root on."""
    own = folder / "self"
    own.mkdir()
    (own / "cgroup").write_text(groups)
    lines = [f"{number} 1 0:{number} {mount}" for number, mount in enumerate(mounts, start=20)]
    (own / "mountinfo").write_text("".join(f"{line}\n" for line in lines))
    return own


def limit(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


@pytest.mark.parametrize(
    ("own", "around", "cpus"),
    [
        ("max 100000\n", "max 100000\n", CORES),
        ("50000 100000\n", "max 100000\n", 0.5),
        ("max 100000\n", "25000 100000\n", 0.25),
        ("50000 100000\n", "25000 100000\n", 0.25),
        ("99900000 100000\n", "max 100000\n", CORES),
    ],
)
def test_a_quota_counts_also_if_it_is_that_of_a_group_around(
    tmp_path: Path, own: str, around: str, cpus: float
) -> None:
    mounted = tmp_path / "cgroup"
    limit(mounted / "pod", cpu__max=around)
    limit(mounted / "pod" / "container", cpu__max=own)
    process = process_in(
        tmp_path, "0::/pod/container\n", "/ / rw - ext4 /dev/vda rw", f"/ {mounted} rw - cgroup2 cgroup2 rw"
    )
    assert usable_cpus(process) == cpus


def test_the_quota_of_the_first_version(tmp_path: Path) -> None:
    mounted = tmp_path / "cpu"
    limit(mounted / "job", cpu__cfs_quota_us="75000\n", cpu__cfs_period_us="100000\n")
    limit(mounted, cpu__cfs_quota_us="-1\n", cpu__cfs_period_us="100000\n")
    process = process_in(
        tmp_path,
        "5:memory:/elsewhere\n3:cpu,cpuacct:/job\n0::/\n",
        f"/ {tmp_path} rw - cgroup cgroup rw,memory",
        f"/ {mounted} rw - cgroup cgroup rw,cpu,cpuacct",
    )
    assert usable_cpus(process) == 0.75


@pytest.mark.parametrize("group", ["/machine/container", "/", "/../other"])
def test_a_container_sees_its_group_as_the_mounted_one(tmp_path: Path, group: str) -> None:
    mounted = tmp_path / "cgroup"
    limit(mounted, cpu__max="50000 100000\n")
    mount = f"/machine/container {mounted} rw - cgroup2 cgroup2 rw"
    assert usable_cpus(process_in(tmp_path, f"0::{group}\n", mount)) == 0.5


def test_without_limits_they_are_those_of_the_affinity(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path / "missing") == CORES
    assert 0 < usable_cpus() <= CORES
