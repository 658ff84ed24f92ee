"""What a mock engine can be told; the keys of `ng_mock_engine`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nemo_gym.mock_engine._answers import DEFAULT_FORM, read_answers
from nemo_gym.mock_engine._distributions import Distribution, parse_distribution
from nemo_gym.mock_engine._script import read_script
from nemo_gym.mock_engine.policies import AnswerPolicy, EchoPolicy, Policy, ThinkingPolicy, ToolsPolicy

PolicyName: TypeAlias = Literal["echo", "tools", "answer", "script"]
ReasoningField: TypeAlias = Literal["reasoning", "reasoning_content", "both", "inline"]


class EngineOptions(BaseModel):
    """Options of a mock engine. Distributions may be random: a number, `uniform:LOW:HIGH`, `lognormal:MEAN:SIGMA`
    or `exponential:MEAN`."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    policy: PolicyName = Field(
        "tools",
        description="What the model says: `echo` repeats the user, `tools` calls each declared tool and then "
        "closes with a text, `answer` answers from `answers`, `script` follows `script`.",
    )
    model: str = Field("mock", description="The model's name; any other name in a request is a 404.")
    api_key: str | None = Field(
        None, description="When set, requests to /v1 need it as a bearer token.", repr=False
    )
    max_model_len: int = Field(
        65_536, ge=16, description="Tokens (of two bytes each) of prompt and answer together."
    )
    seed: int = Field(0, description="Seeds everything random.")
    latency_s: Distribution = Field(
        parse_distribution(0), description="Seconds before an answer, or before the first token of a stream."
    )
    tokens: Distribution | None = Field(
        None, description="Least number of tokens of an answer; filler makes it up."
    )
    tokens_per_s: float | None = Field(None, gt=0, description="How fast tokens come after `latency_s`.")
    max_num_seqs: int | None = Field(
        None, ge=1, description="Requests that are worked on at once, as vLLM calls it; more wait."
    )
    max_waiting: int | None = Field(
        None, ge=0, description="Requests that may wait for `max_num_seqs`; more are refused with 429."
    )
    chunk_tokens: int = Field(8, ge=1, description="Tokens in one event of a stream.")
    parallel_tools: bool = Field(False, description="`tools`: all calls in one turn instead of one a turn.")
    most_calls: int | None = Field(
        None, ge=0, description="`tools`: calls only so many of the declared tools."
    )
    answers: Path | None = Field(
        None,
        description="JSONL with what to answer to which question; `tools` closes with such an answer too.",
    )
    accuracy: float = Field(
        1.0, ge=0, le=1, description="How often an answer from `answers` is the right one."
    )
    answer_form: str = Field(DEFAULT_FORM, description="How a task row's answer is said, around `{answer}`.")
    script: Path | None = Field(None, description="YAML with the scenes of the `script` policy.")
    think: bool = Field(False, description="Puts a short reasoning before every reply.")
    reasoning_field: ReasoningField = Field(
        "reasoning",
        description="Where reasoning is: a field of that name, both fields, or `inline` in <think>.",
    )
    logprobs_mode: Literal["processed", "raw"] = Field(
        "processed",
        description="Whether logprobs are those of the temperature's distribution, or from before it, as vLLM's are "
        "unless told otherwise.",
    )
    flat_errors: bool = Field(False, description="Errors in the envelope of vLLM before 0.11.")
    faults: str | list[Any] | None = Field(
        None, description="What goes wrong when: a YAML file of rules, or the rules themselves."
    )

    @model_validator(mode="after")
    def _has_what_its_policy_reads(self) -> EngineOptions:
        if self.policy == "answer" and self.answers is None:
            raise ValueError("the policy 'answer' needs the file `answers`")
        if self.policy == "script" and self.script is None:
            raise ValueError("the policy 'script' needs the file `script`")
        return self


def policy_of(options: EngineOptions) -> Policy:
    """The policy that the options describe. Raises ConfigError for a file that can't be used."""
    answering = (
        AnswerPolicy(read_answers(options.answers, options.answer_form), options.accuracy)
        if options.answers
        else None
    )
    policy: Policy
    match options.policy:
        case "echo":
            policy = EchoPolicy()
        case "tools":
            policy = ToolsPolicy(options.parallel_tools, options.most_calls, closing=answering)
        case "answer":
            assert answering is not None  # checked by the options
            policy = answering
        case "script":
            assert options.script is not None
            policy = read_script(options.script)
    return ThinkingPolicy(policy) if options.think else policy
