"""The CPUs that this process may use: those of its affinity, within the limits of its control groups.

A container, a pod or a job of Slurm has a share of its machine: a set of cores (affinity), or CPU time for each period
(the quota of a control group, in both versions of Linux's control groups).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_OWN = Path("/proc/self")


def usable_cpus(own: Path = _OWN) -> float:
    """Return the number of CPUs. `own` is the folder of this process in /proc."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        return min([float(cores), *_quotas(own)])
    except OSError:  # no Linux, or no /proc
        return float(cores)


def _quotas(own: Path) -> Iterator[float]:
    """The limits of the control groups of this process, and of those around them."""
    lines = (line.split(":", 2) for line in (own / "cgroup").read_text().splitlines())
    groups = {name: path for _, controllers, path in lines for name in controllers.split(",")}
    for line in (own / "mountinfo").read_text().splitlines():
        place, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        controller = {"cgroup2": "", "cgroup": "cpu"}.get(kind)
        if controller is None or (controller and controller not in options.split(",")):
            continue
        root, mounted = place.split(" ")[3:5]
        if controller in groups:
            yield from _read_quotas(Path(mounted), _relate_group(root, groups[controller]))


def _relate_group(root: str, group: str) -> PurePosixPath:
    """The path of a control group below the mounted one; its root if the group is outside of it."""
    try:
        return PurePosixPath(group).relative_to(root)
    except ValueError:
        return PurePosixPath()


def _read_quotas(mounted: Path, group: PurePosixPath) -> Iterator[float]:
    for folder in (mounted / group, *(mounted / parent for parent in group.parents)):
        quota = _read(folder / "cpu.max") or [
            *_read(folder / "cpu.cfs_quota_us"),
            *_read(folder / "cpu.cfs_period_us"),
        ]
        if len(quota) == 2 and quota[0] not in ("max", "-1"):
            yield int(quota[0]) / int(quota[1])


def _read(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:  # the control group has no such limit, or is hidden in a container
        return []
