"""Failures between a valid configuration and running servers."""

from __future__ import annotations

from nemo_gym.failures import Boundary, ConfigError, GymError


class LaunchError(GymError):
    """A server process could not be started or kept alive; commands exit with 1."""

    boundary = Boundary.CONFIG


class UnusableServerError(LaunchError, ConfigError):
    """The code or the configuration of a server has to be corrected before it can start; commands exit with 2."""
