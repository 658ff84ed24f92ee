"""The keys of a row. `fields` describes them; no other room spells one that the gym defines."""

from __future__ import annotations

from typing import Final

__all__ = ["TASK_INDEX_KEY"]

TASK_INDEX_KEY: Final = "_ng_task_index"
ROLLOUT_INDEX_KEY: Final = "_ng_rollout_index"
VERSION_KEY: Final = "_ng_row_version"
ATTEMPT_INDEX_KEY: Final = "_ng_attempt_index"
ROLLOUT_ID_KEY: Final = "_ng_rollout_id"

PARAMS_KEY: Final = "responses_create_params"
AGENT_REF_KEY: Final = "agent_ref"
TASK_SOURCE_KEY: Final = "task_source"
SKILLS_REF_KEY: Final = "skills_ref"
METADATA_KEY: Final = "verifier_metadata"

RESPONSE_KEY: Final = "response"
REWARD_KEY: Final = "reward"
REWARD_COMPONENTS_KEY: Final = "reward_components"
OUTCOME_KEY: Final = "_ng_outcome"
END_REASON_KEY: Final = "_ng_end_reason"
TIMING_KEY: Final = "_ng_timing"
USAGE_KEY: Final = "_ng_usage"
SPENT_KEY: Final = "_ng_spent"
COST_KEY: Final = "_ng_cost"
MASKED_KEY: Final = "_ng_masked"
MASK_SAMPLE_KEY: Final = "mask_sample"
TAMPERABLE_KEY: Final = "tamperable"
SCORED_BY_KEY: Final = "_ng_scored_by"
REPLAY_KEY: Final = "_ng_replay"
FORK_KEY: Final = "_ng_fork"
REVERIFIED_KEY: Final = "_ng_reverified"
FOREIGN_KEY: Final = "_ng_foreign"
ANSWER_FAULT_KEY: Final = "answer_fault"
ANSWER_FAULT_DETAIL_KEY: Final = "answer_fault_detail"
FAILURE_KIND_KEY: Final = "failure_kind"
FAILURE_REASON_KEY: Final = "failure_reason"

TOOL_ERRORS_KEY: Final = "_ng_tool_errors"

FAILURE_PREFIX: Final = "_ng_failure"
FAILURE_KEY: Final = "_ng_failure"
FAILURE_CLASS_KEY: Final = "_ng_failure_class"
TERMINAL_KEY: Final = "_ng_failure_terminal"
FAILED_AT_KEY: Final = "_ng_failed_at"
JUDGE_ERROR_KEY: Final = "_ng_failure_judge_error"
FAILURE_MESSAGE_KEY: Final = "_ng_failure_message"
FAILURE_ERROR_KEY: Final = "_ng_failure_error"
NO_PERSIST_KEY: Final = "_ng_no_persist"
