"""Metrics of an agent from its scored and failed rows: pure, mergeable and independent of the order of rows.

Failed attempts are counted, never scored. Tasks with too few scores for a metric are counted next to it, never
dropped silently. Standard errors and intervals are clustered by task. Builds on `failures` and `names`.

    estimators   pass@k, expected max@k, standard errors, confidence intervals
    records      the numbers, outcome and answer that metrics read from a row
    tool_calls   failed tool calls by tool and cause
    call_seconds seconds of the calls of models and tools, and where the time of rollouts went
    verdict_tally rewards that are all 0, and empty answers
    hooks        `POST /aggregate_metrics` and the methods that environment authors override (needs pydantic)
"""

from nemo_gym.metrics._aggregate import AgentMetrics as AgentMetrics
from nemo_gym.metrics._aggregate import AgentsAverage as AgentsAverage
from nemo_gym.metrics._aggregate import AggregateResult as AggregateResult
from nemo_gym.metrics._aggregate import aggregate as aggregate
from nemo_gym.metrics._aggregate import average_agents as average_agents
from nemo_gym.metrics._aggregate import has_partial_rewards as has_partial_rewards
from nemo_gym.metrics._aggregate import is_error_of_mean as is_error_of_mean
from nemo_gym.metrics._aggregate import measure_interval as measure_interval
from nemo_gym.metrics._aggregate import read_pass_curve as read_pass_curve
from nemo_gym.metrics._aggregate import reward_by_k as reward_by_k
from nemo_gym.metrics._aggregate import reward_interval as reward_interval
from nemo_gym.metrics._families import Planned as Planned
from nemo_gym.metrics._pass_majority import add_avg_sample_std_dev as add_avg_sample_std_dev
from nemo_gym.metrics._pass_majority import compute_pass_majority_metrics as compute_pass_majority_metrics
from nemo_gym.metrics._pass_majority import compute_subset_metrics as compute_subset_metrics
from nemo_gym.metrics._pass_majority import highest_k_metrics as highest_k_metrics
from nemo_gym.metrics._pass_majority import key_metrics as key_metrics
from nemo_gym.metrics.call_seconds import CallSeconds as CallSeconds
from nemo_gym.metrics.call_seconds import TimeAccount as TimeAccount
from nemo_gym.metrics.call_seconds import describe_times as describe_times
from nemo_gym.metrics.call_seconds import read_time_account as read_time_account
from nemo_gym.metrics.estimators import Interval as Interval
from nemo_gym.metrics.estimators import compute_clustered_standard_error as compute_clustered_standard_error
from nemo_gym.metrics.estimators import compute_expected_max_at_k as compute_expected_max_at_k
from nemo_gym.metrics.estimators import confidence_interval as confidence_interval
from nemo_gym.metrics.estimators import group_by_cluster as group_by_cluster
from nemo_gym.metrics.estimators import mean as mean
from nemo_gym.metrics.estimators import pass_at_k as pass_at_k
from nemo_gym.metrics.estimators import sample_standard_deviation as sample_standard_deviation
from nemo_gym.metrics.records import RolloutRecord as RolloutRecord
from nemo_gym.metrics.records import read_measurements as read_measurements
from nemo_gym.metrics.records import read_record as read_record
from nemo_gym.metrics.tool_calls import FailedCalls as FailedCalls
from nemo_gym.metrics.tool_calls import ToolTally as ToolTally
from nemo_gym.metrics.verdict_tally import VerdictTally as VerdictTally

__all__ = ["AgentMetrics", "Planned", "key_metrics"]
