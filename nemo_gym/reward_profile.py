"""The ecosystem's import path for metric functions."""

from nemo_gym.metrics import (
    add_avg_sample_std_dev,
    compute_pass_majority_metrics,
    compute_subset_metrics,
    highest_k_metrics,
)
from nemo_gym.metrics.hooks import AggregateMetricsMixin, compute_aggregate_metrics

__all__ = [
    "AggregateMetricsMixin",
    "add_avg_sample_std_dev",
    "compute_aggregate_metrics",
    "compute_pass_majority_metrics",
    "compute_subset_metrics",
    "highest_k_metrics",
]
