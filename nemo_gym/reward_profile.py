"""The ecosystem's import path for metric functions."""

from nemo_gym.metrics import add_avg_sample_std_dev as add_avg_sample_std_dev
from nemo_gym.metrics import compute_pass_majority_metrics as compute_pass_majority_metrics
from nemo_gym.metrics import compute_subset_metrics as compute_subset_metrics
from nemo_gym.metrics import highest_k_metrics as highest_k_metrics
from nemo_gym.metrics.hooks import AggregateMetricsMixin as AggregateMetricsMixin
from nemo_gym.metrics.hooks import RewardProfiler as RewardProfiler
from nemo_gym.metrics.hooks import compute_aggregate_metrics as compute_aggregate_metrics
