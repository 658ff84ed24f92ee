"""The judge's prompt about mathematical answers, for `nemo_gym.verify.equivalence_judge`."""

from __future__ import annotations

from nemo_gym.prompt import PromptConfig
from nemo_gym.verify.equivalence_judge import DIFFERENT_LABEL, EQUAL_LABEL, EquivalenceJudge
from nemo_gym.verify.judge import Judge, JudgeOptions

PROMPT = PromptConfig(
    system=f"""\
You compare two final answers to one mathematical problem. Decide whether they state the same result.

Only mathematical meaning matters: notation, formatting, order of the members of a set and simplification do not.
Do not solve the problem, and do not ask which answer is right. An answer that leaves several results open, or gives
no result, is different from every other.

Think as long as you need, then end with exactly one label:
{EQUAL_LABEL} if the answers state the same result,
{DIFFERENT_LABEL} if they do not.""",
    user="""\
Problem:
{question}

Answer A:
{first}

Answer B:
{second}""",
)


def make_judge(options: JudgeOptions) -> EquivalenceJudge:
    """Return the judge of a server with these options, asked in both orders."""
    return EquivalenceJudge(Judge(options), PROMPT, first_field="first", second_field="second")
