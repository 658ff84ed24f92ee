"""Metrics of an agent from its scored and failed rows: pure, mergeable and independent of the order of rows.

Failed attempts are counted, never scored. Tasks with too few scores for a metric are counted next to it, never
dropped silently. Standard errors and intervals are clustered by task. Builds on `failures` and `names`.

    estimators   pass@k, expected max@k, standard errors, confidence intervals
    records      the numbers, outcome and answer that metrics read from a row
    hooks        `POST /aggregate_metrics` and the methods that environment authors override (needs pydantic)
"""

from nemo_gym.metrics._aggregate import AgentMetrics, AggregateResult, aggregate
from nemo_gym.metrics._families import Planned, TaskScores, score_families
from nemo_gym.metrics._majority import majority_curve, majority_score
from nemo_gym.metrics._pass_majority import (
    add_avg_sample_std_dev,
    compute_pass_majority_metrics,
    compute_subset_metrics,
    highest_k_metrics,
)
from nemo_gym.metrics.estimators import (
    Interval,
    clustered_standard_error,
    confidence_interval,
    expected_max_at_k,
    expected_max_curve,
    pass_at_k,
    sample_standard_deviation,
)
from nemo_gym.metrics.records import RolloutRecord, is_failed, is_scored, read_measurements, read_record

__all__ = [
    "AgentMetrics",
    "AggregateResult",
    "Interval",
    "Planned",
    "RolloutRecord",
    "TaskScores",
    "add_avg_sample_std_dev",
    "aggregate",
    "clustered_standard_error",
    "compute_pass_majority_metrics",
    "compute_subset_metrics",
    "confidence_interval",
    "expected_max_at_k",
    "expected_max_curve",
    "highest_k_metrics",
    "is_failed",
    "is_scored",
    "majority_curve",
    "majority_score",
    "pass_at_k",
    "read_measurements",
    "read_record",
    "sample_standard_deviation",
    "score_families",
]
