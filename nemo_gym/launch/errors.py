"""Failures between a valid configuration and running servers."""

from __future__ import annotations

from nemo_gym.failures import Boundary, GymError


class LaunchError(GymError):
    """A server process could not be started or kept alive; commands exit with 1."""

    boundary = Boundary.CONFIG
