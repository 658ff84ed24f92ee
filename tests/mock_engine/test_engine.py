import json
from random import Random
from typing import Any

import pytest

from nemo_gym.mock_engine import Engine, EngineOptions, MockPolicy, ModelReply, ScriptPolicy, ToolCall
from nemo_gym.mock_engine._answers import answer_key
from nemo_gym.mock_engine.engine import GeneratedChoice, Generation, LazyRandom
from nemo_gym.mock_engine.policies import AnswerPolicy, Scene
from nemo_gym.mock_engine.refusals import Refusal
from nemo_gym.mock_engine.request import parse_chat, parse_completion
from tests.mock_engine.wire import ADD, LOOK_UP, USER

CALLS = ModelReply(text="I call.", tool_calls=(ToolCall("add", '{"a": 1}'), ToolCall("add", '{"a": 2}')))


def saying(*replies: ModelReply, **options: Any) -> Engine:
    return Engine(EngineOptions(**options), policy=ScriptPolicy((Scene(replies),)))


def generate(engine: Engine, **fields: Any) -> Generation:
    return engine.generate(parse_chat({"messages": [USER], **fields}))


def choose(engine: Engine, **fields: Any) -> GeneratedChoice:
    return generate(engine, **fields).choices[0]


def test_an_answer_counts_its_tokens_and_the_end_of_the_turn() -> None:
    generation = generate(saying(ModelReply("abcd")), return_token_ids=True)
    choice = generation.choices[0]
    assert (choice.finish_reason, choice.token_count) == ("stop", 3)
    assert choice.ids is not None
    assert (len(choice.ids), choice.ids[-1]) == (3, Engine(EngineOptions()).tokenizer.end_of_turn)
    assert generation.prompt_ids is not None
    assert len(generation.prompt_ids) == generation.prompt_tokens


def test_ids_and_logprobs_are_only_made_when_asked_for() -> None:
    choice = choose(saying(ModelReply("abcd")))
    assert (choice.ids, choice.logprobs) == (None, None)


def test_every_generated_token_has_a_logprob_below_zero_that_never_changes() -> None:
    first, second = (choose(saying(ModelReply("abcd")), logprobs=True) for _ in range(2))
    assert first.logprobs == second.logprobs
    assert first.logprobs is not None
    assert len(first.logprobs) == 3
    assert all(-9 < logprob < 0 for logprob in first.logprobs)


def test_a_budget_cuts_the_answer_at_exactly_so_many_tokens() -> None:
    choice = choose(saying(ModelReply("abcdefgh")), max_tokens=3, return_token_ids=True)
    assert (choice.reply.text, choice.finish_reason, choice.token_count) == ("abcdef", "length", 3)
    assert choice.ids is not None
    assert len(choice.ids) == 3


def test_an_answer_that_fills_the_budget_without_its_end_is_cut_too() -> None:
    assert choose(saying(ModelReply("abcdef")), max_tokens=3).finish_reason == "length"
    assert choose(saying(ModelReply("abcdef")), max_tokens=4).finish_reason == "stop"


def test_reasoning_that_meets_the_budget_leaves_no_text() -> None:
    choice = choose(saying(ModelReply("Three.", "I add one and two.")), max_tokens=5)
    assert choice.reply == ModelReply("", "I add on")
    assert choice.finish_reason == "length"


def test_a_call_that_meets_the_budget_stays_text() -> None:
    choice = choose(saying(CALLS), tools=[ADD], max_tokens=9)
    assert choice.finish_reason == "length"
    assert choice.reply.tool_calls == ()
    assert choice.reply.text.startswith("I call.<tool_call>add")


def test_a_stop_string_ends_the_answer_before_it() -> None:
    choice = choose(saying(ModelReply("one two three")), stop=["three", " two"], return_token_ids=True)
    assert (choice.reply.text, choice.finish_reason, choice.stop_reason) == ("one", "stop", " two")
    assert choice.ids is not None
    assert len(choice.ids) == choice.token_count == 4
    kept = choose(saying(ModelReply("one two three")), stop=" two", include_stop_str_in_output=True)
    assert kept.reply.text == "one two"


def test_answers_are_padded_to_the_minimum_of_the_engine_or_the_request() -> None:
    assert choose(saying(ModelReply("abc"), tokens=50)).token_count == 50
    assert choose(saying(ModelReply("abc")), min_tokens=20).token_count == 20
    padded = choose(saying(CALLS, tokens=60), tools=[ADD])
    assert (padded.token_count, padded.reply.tool_calls) == (60, CALLS.tool_calls)


def test_an_ignored_end_fills_the_whole_budget() -> None:
    choice = choose(saying(ModelReply("abc")), ignore_eos=True, max_tokens=40)
    assert choice.token_count == 40


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_budget_beyond_the_context_is_refused_in_vllm_s_words(field: str) -> None:
    engine = saying(ModelReply("abc"), max_model_len=100)
    prompt = generate(engine).prompt_tokens
    with pytest.raises(Refusal) as raised:
        generate(engine, **{field: 100})
    assert raised.value.answer.param == "max_tokens"
    assert (
        f"is too large: 100. This model's maximum context length is 100 tokens and your request has {prompt} input"
        in (raised.value.answer.message)
    )
    assert generate(engine, **{field: 100 - prompt})


def test_a_prompt_beyond_the_context_is_refused_in_vllm_s_words() -> None:
    with pytest.raises(Refusal) as raised:
        saying(ModelReply("abc"), max_model_len=16).generate(parse_chat({"messages": [USER, USER]}))
    assert raised.value.answer.param == "input_tokens"
    assert "maximum context length is 16 tokens. However, your request has" in raised.value.answer.message


def test_tools_are_not_called_with_choice_none() -> None:
    choice = choose(saying(CALLS), tools=[ADD], tool_choice="none")
    assert (choice.reply, choice.finish_reason) == (ModelReply("I call."), "stop")


def test_calls_without_declared_tools_are_text() -> None:
    assert "<tool_call>add" in choose(saying(CALLS)).reply.text


def test_a_required_call_is_made_even_by_a_policy_that_would_not() -> None:
    choice = choose(saying(ModelReply("No.")), tools=[ADD, LOOK_UP], tool_choice="required")
    assert [call.name for call in choice.reply.tool_calls] == ["add"]
    assert json.loads(choice.reply.tool_calls[0].arguments) == {"a": 1, "b": 1}
    assert choice.finish_reason == "tool_calls"


def test_a_named_tool_is_called_and_finishes_with_stop() -> None:
    named = {"type": "function", "function": {"name": "look_up"}}
    choice = choose(saying(CALLS), tools=[ADD, LOOK_UP], tool_choice=named)
    assert [call.name for call in choice.reply.tool_calls] == ["look_up"]
    assert choice.finish_reason == "stop"


def test_without_parallel_calls_the_first_is_reported_and_all_are_generated() -> None:
    both = choose(saying(CALLS), tools=[ADD], return_token_ids=True)
    first = choose(saying(CALLS), tools=[ADD], return_token_ids=True, parallel_tool_calls=False)
    assert first.reply.tool_calls == CALLS.tool_calls[:1]
    assert first.ids == both.ids


def test_a_schema_is_kept_by_generating_or_by_a_reply_that_keeps_it_already() -> None:
    schema = {"type": "object", "properties": {"sum": {"type": "integer", "minimum": 3}}, "required": ["sum"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "sum", "schema": schema}}
    assert choose(saying(ModelReply("Three.")), response_format=wanted).reply.text == '{"sum":3}'
    assert choose(saying(ModelReply('{"sum": 1}')), response_format=wanted).reply.text == '{"sum":3}'
    assert choose(saying(ModelReply('{"sum": 8}')), response_format=wanted).reply.text == '{"sum": 8}'
    assert choose(saying(ModelReply("Three.")), structured_outputs={"json": schema}).reply.text == '{"sum":3}'


def test_one_of_the_allowed_texts_is_said() -> None:
    assert choose(saying(ModelReply("Maybe.")), structured_outputs={"choice": ["yes", "no"]}).reply.text in (
        "yes",
        "no",
    )


def test_reasoning_is_left_out_when_thinking_is_off() -> None:
    assert choose(saying(ModelReply("3", "I add.")), reasoning_effort="none").reply == ModelReply("3")


def test_inline_reasoning_is_part_of_the_text_and_of_the_same_ids() -> None:
    apart, inline = (
        choose(saying(ModelReply("3", "I add."), reasoning_field=field), return_token_ids=True)
        for field in ("reasoning", "inline")
    )
    assert inline.reply == ModelReply("<think>I add.</think>3")
    assert inline.ids == apart.ids


def coin() -> MockPolicy:
    return AnswerPolicy(answer_key(['{"match": "", "answer": "heads", "wrong": "tails"}']), accuracy=0.5)


def tosses(engine: Engine, count: int = 24, **fields: Any) -> list[str]:
    return [choose(engine, **fields).reply.text for _ in range(count)]


def test_the_same_seed_gives_the_same_answer_and_no_seed_a_new_one_each_time() -> None:
    engine = Engine(EngineOptions(), policy=coin())
    assert len(set(tosses(engine, seed=7))) == 1
    assert len(set(tosses(engine, temperature=0))) == 1
    assert set(tosses(engine)) == {"heads", "tails"}


def test_what_a_prompt_is_answered_does_not_depend_on_other_prompts_between() -> None:
    alone, mixed = (Engine(EngineOptions(seed=3), policy=coin()) for _ in range(2))
    expected = tosses(alone)
    seen = []
    for number in range(len(expected)):
        choose(mixed, messages=[{"role": "user", "content": f"Toss {number}"}])
        seen += tosses(mixed, 1)
    assert seen == expected


def test_another_seed_of_the_engine_gives_other_answers() -> None:
    assert tosses(Engine(EngineOptions(seed=1), policy=coin())) != tosses(
        Engine(EngineOptions(seed=2), policy=coin())
    )


def test_several_choices_are_drawn_apart() -> None:
    generation = generate(Engine(EngineOptions(), policy=coin()), n=24)
    assert {choice.reply.text for choice in generation.choices} == {"heads", "tails"}
    assert generation.completion_tokens == sum(choice.token_count for choice in generation.choices)


def test_a_completion_continues_text_or_ids_alike() -> None:
    engine = Engine(EngineOptions(policy="echo"))
    ids = engine.tokenizer.encode("Say this")
    by_text, by_ids = (engine.generate(parse_completion({"prompt": prompt})) for prompt in ("Say this", ids))
    assert by_text.choices[0].reply == by_ids.choices[0].reply == ModelReply("Say this")
    assert by_text.prompt_tokens == by_ids.prompt_tokens == 4


def test_ids_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(Refusal, match="outside the vocabulary"):
        Engine(EngineOptions()).generate(parse_completion({"prompt": [1_000_000]}))


# --- Chance -----------------------------------------------------------------------------------------------------------


def test_a_pending_seed_gives_the_draws_of_an_early_one() -> None:
    late = LazyRandom()
    for seed in (1, 2, 1):
        early = Random(seed)
        late.seed_lazily(seed)
        assert late.choice(range(1_000)) == early.choice(range(1_000))
        assert late.random() == early.random()
        assert late.uniform(1, 3) == early.uniform(1, 3)
