"""The options of a mock engine, which are the keys of `ng_mock_engine`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, Field, model_validator

from nemo_gym.mock_engine._answers import DEFAULT_FORM, read_answers
from nemo_gym.mock_engine._distributions import Distribution, parse_distribution
from nemo_gym.mock_engine._script import read_script
from nemo_gym.mock_engine.policies import (
    AnswerPolicy,
    EchoPolicy,
    GoldPolicy,
    MockPolicy,
    ThinkingPolicy,
    ToolsPolicy,
)

PolicyName: TypeAlias = Literal["echo", "tools", "answer", "script"]
ReasoningField: TypeAlias = Literal["reasoning", "reasoning_content", "both", "inline"]


class EngineOptions(BaseModel, extra="forbid", frozen=True, populate_by_name=True):
    """Options of a mock engine. Distributions may be random: a number, `uniform:LOW:HIGH`, `lognormal:MEAN:SIGMA`
    or `exponential:MEAN`."""

    policy: PolicyName = Field(
        "tools",
        description="The model's replies: `echo` repeats the user, `tools` calls each declared tool and then "
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
        None, description="Minimum number of tokens of an answer; filler words pad it."
    )
    tokens_per_s: float | None = Field(None, gt=0, description="Tokens per second after `latency_s`.")
    max_num_seqs: int | None = Field(
        None, ge=1, description="Maximum of running requests, as in vLLM; further requests wait."
    )
    max_waiting: int | None = Field(
        None, ge=0, description="Maximum of waiting requests; further requests get a 429."
    )
    chunk_tokens: int = Field(8, ge=1, description="Tokens in one event of a stream.")
    parallel_tools: bool = Field(False, description="`tools`: all calls in one turn instead of one per turn.")
    most_calls: int | None = Field(
        None, ge=0, description="`tools`: maximum number of declared tools to call."
    )
    answers: Path | None = Field(
        None,
        description="JSONL of questions and answers; `tools` closes with such an answer too.",
    )
    gold: Path | None = Field(
        None,
        description="An environment whose example tasks are solved, or a script of right replies. With the probability "
        "1 - `accuracy`, a turn is one of the policy instead.",
    )
    accuracy: float = Field(
        1.0, ge=0, le=1, description="Share of right answers from `answers`, or turns of `gold`."
    )
    answer_form: str = Field(DEFAULT_FORM, description="The sentence around a task row's `{answer}`.")
    script: Path | None = Field(None, description="YAML with the scenes of the `script` policy.")
    think: bool = Field(False, description="Add a short reasoning to every reply.")
    reasoning_field: ReasoningField = Field(
        "reasoning",
        description="Place of the reasoning: a field of that name, both fields, or `inline` in <think>.",
    )
    logprobs_mode: Literal["processed", "raw"] = Field(
        "processed",
        description="Logprobs after (`processed`) or before (`raw`, vLLM's default) the temperature is applied.",
    )
    token_input: bool = Field(
        False, description="Accept token ids, by vLLM's `/inference/v1/generate` and its neighbours."
    )
    flat_errors: bool = Field(False, description="Errors in the envelope of vLLM before 0.11.")
    faults: str | list[Any] | None = Field(
        None, description="The fault plan: a YAML file of rules, or the rules themselves."
    )

    @model_validator(mode="after")
    def _has_what_its_policy_reads(self) -> EngineOptions:
        if self.policy == "answer" and self.answers is None:
            raise ValueError("the policy 'answer' needs the file `answers`")
        if self.policy == "script" and self.script is None:
            raise ValueError("the policy 'script' needs the file `script`")
        return self


def build_policy(options: EngineOptions) -> MockPolicy:
    """Build the policy of `options`. Raises ConfigError for an unusable file."""
    answering = (
        AnswerPolicy(read_answers(options.answers, options.answer_form), options.accuracy)
        if options.answers
        else None
    )
    policy: MockPolicy
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
    if options.gold is not None:
        policy = GoldPolicy(read_script(options.gold), policy, options.accuracy)
    return ThinkingPolicy(policy) if options.think else policy
