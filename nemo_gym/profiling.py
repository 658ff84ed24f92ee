"""The ecosystem's import path for profiles of a process."""

from nemo_gym.processes.profiler import Profiler as Profiler
