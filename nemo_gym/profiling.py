"""The ecosystem's import path for profiles of a process."""

from nemo_gym.ecosystem.profiler import Profiler as Profiler
