"""The ecosystem's import path for the files of a run."""

from nemo_gym.rollouts.output.files import aggregate_metrics_path_for as aggregate_metrics_path_for
from nemo_gym.rollouts.output.files import failures_path_for as failures_path_for
from nemo_gym.rollouts.output.files import materialized_path_for as materialized_path_for
