"""Values of a specification that follow from others: the image's address, the thread counts of libraries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

CPU_CAP_ENV_VARS: tuple[str, ...] = (
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
    "PYTHON_CPU_COUNT",
    "NUMBA_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
    "POLARS_MAX_THREADS",
    "PYTEST_XDIST_AUTO_NUM_WORKERS",
    "DJANGO_TEST_PROCESSES",
    "GOMAXPROCS",
    "CARGO_BUILD_JOBS",
    "RAYON_NUM_THREADS",
    "RUST_TEST_THREADS",
    "UV_THREADPOOL_SIZE",
    "CMAKE_BUILD_PARALLEL_LEVEL",
)
"""Environment variables with which libraries and build tools limit their threads or processes."""


def cpu_cap_env(cpu: float | None) -> dict[str, str]:
    """Every variable of `CPU_CAP_ENV_VARS`, set to the whole cores of a CPU limit; nothing without a limit.

    Programs in a container see all cores of the machine and start a thread for each, whatever their limit.
    """
    if cpu is None:
        return {}
    cores = str(max(1, math.floor(cpu)))
    return dict.fromkeys(CPU_CAP_ENV_VARS, cores)


def rewrite_image(image: str | None, rewrites: Sequence[Mapping[str, str]]) -> str | None:
    """The address of an image, with the first matching prefix replaced.

    Each rewrite is `{"from": prefix, "to": prefix}`.
    """
    for rewrite in rewrites:
        if image is not None and image.startswith(rewrite["from"]):
            return rewrite["to"] + image[len(rewrite["from"]) :]
    return image
