"""The probes of task rows: attempts made from each row's expected answer, sent to the environment's server.

The gold answer is tried first, in the form that the prompt asks for, then in others; the first form that is accepted is
that of the row. Where no form is accepted the row's other attempts that must be accepted are not made, except the one
that is declared beside the rows: its form is its author's.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from nemo_gym.audit.answer_types import (
    AnswerType,
    ExpectedAnswer,
    WrittenForm,
    find_answer,
    find_asked_forms,
    list_forms,
    read_question,
)
from nemo_gym.audit.behaviour import KnownVerdict
from nemo_gym.audit.gold_scripts import GoldScript, find_script
from nemo_gym.audit.leaks import find_leak
from nemo_gym.audit.operators import Attempt, make_attempts, write_gold
from nemo_gym.audit.outcomes import FULL, Conclusion, ProbeOutcome, Right, judge
from nemo_gym.audit.probing import Call, Prober, ProbeVerdict
from nemo_gym.audit.universal import UNIVERSAL, is_own_answer
from nemo_gym.failures import GymError
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_params

DONE = "Done."
GOLD, DECLARED = "gold", "declared right attempt"
NOTHING, OMISSION = "no calls", "gold without a call"
ELSEWHERE = "calls in another session"
JUDGE_DOWN = "judge out of reach"
_LEAST_KNOWN_SHARE = 0.8


@dataclass(slots=True)
class RowProbes:
    """The probes of one environment's rows."""

    prober: Prober
    seed: int
    others: Sequence[str] = ()
    """Expected answers of other rows."""
    scripts: Sequence[GoldScript] = ()
    """Right attempts that are declared beside the rows."""
    universal: Sequence[str] = ()
    """Short answers to be tried at every row."""
    known: list[KnownVerdict] = field(default_factory=list)
    """Verdicts for later comparison: a right and a wrong answer of the first rows."""

    async def probe(self, task: str, row: AnyRow, *, tries_universal: bool) -> list[ProbeOutcome]:
        """Return the outcomes of one row."""
        answer = find_answer(row)
        script = find_script(self.scripts, row)
        if script is not None and (script.calls or answer.type is AnswerType.UNKNOWN):
            return await self._probe_calls(task, row, DECLARED, script.text, script.calls)
        declared = [] if script is None else [Attempt(DECLARED, Right.ACCEPT, script.text)]
        outcomes = [await self._send(task, row, attempt, 1.0) for attempt in declared]
        if answer.type is AnswerType.CALLS:
            return [*outcomes, *await self._probe_calls(task, row, GOLD, DONE, answer.value)]
        form, best, gold = await self._find_form(task, row, answer)
        outcomes += gold
        chance = random.Random(f"{self.seed} {task}")
        candidates = [each for each in self.others if each not in answer.all_gold]
        other = chance.choice(candidates) if candidates else None
        is_known = best is not None or answer.type is AnswerType.UNKNOWN
        attempts = make_attempts(
            answer,
            form,
            read_question(row),
            other=other,
            chance=chance,
            is_asked=form in find_asked_forms(row),
        )
        accepts_anything = False
        for attempt in attempts:
            if is_known or attempt.right is Right.REJECT:
                outcome = await self._send(task, row, attempt, best or 1.0)
                outcomes.append(outcome)
                self._remember(task, row, attempt.text, outcome.reward)
                accepts_anything |= not attempt.text and outcome.conclusion is not Conclusion.RIGHT
        for text in self.universal if tries_universal and not accepts_anything else ():
            if not is_own_answer(answer.all_gold, text):
                attempt = Attempt(
                    UNIVERSAL, Right.REJECT, form.write(text), answer.type is not AnswerType.UNKNOWN
                )
                outcome = await self._send(task, row, attempt, best or 1.0)
                outcomes.append(replace(outcome, probe=attempt.text))
        outcomes += await self._find_leaks(task, row, answer)
        return outcomes

    async def probe_without_judge(self, task: str, row: AnyRow) -> list[ProbeOutcome]:
        """Return whether an environment whose judge does not answer gives a failure, and no reward of 0."""
        answer = find_answer(row)
        attempts: list[tuple[str, Sequence[Call]]] = []
        if answer.type not in (AnswerType.UNKNOWN, AnswerType.CALLS):
            attempts.append((list_forms(row, answer.type)[0].write(write_gold(answer)), ()))
        if script := find_script(self.scripts, row):
            attempts.append((script.text, script.calls))
        verdicts = [(text, await self.prober.attempt(row, text, calls)) for text, calls in attempts]
        return [_conclude_without_judge(task, text, verdict) for text, verdict in verdicts]

    async def _find_form(
        self, task: str, row: AnyRow, answer: ExpectedAnswer
    ) -> tuple[WrittenForm, float | None, list[ProbeOutcome]]:
        """Return the form in which gold is accepted, its reward, and the outcome of gold."""
        forms = list_forms(row, answer.type)
        if answer.type is AnswerType.UNKNOWN:
            return forms[0], None, []
        first: ProbeVerdict | None = None
        for form in forms:
            text = form.write(write_gold(answer))
            verdict = await self.prober.attempt(row, text)
            first = first or verdict
            if verdict.reward is not None and verdict.reward >= FULL:
                self._remember(task, row, text, verdict.reward)
                return (
                    form,
                    verdict.reward,
                    [_conclude(task, Attempt(GOLD, Right.ACCEPT, text), verdict, 1.0)],
                )
        assert first is not None
        attempt = Attempt(GOLD, Right.ACCEPT, forms[0].write(write_gold(answer)))
        return forms[0], None, [_conclude(task, attempt, first, 1.0)]

    async def _send(self, task: str, row: AnyRow, attempt: Attempt, best: float) -> ProbeOutcome:
        return _conclude(task, attempt, await self.prober.attempt(row, attempt.text), best)

    async def _probe_calls(
        self, task: str, row: AnyRow, kind: str, text: str, calls: Sequence[Call]
    ) -> list[ProbeOutcome]:
        """Probe a row whose right attempt, of the class `kind`, makes `calls` and then says `text`."""
        gold = await self.prober.attempt(row, text, calls)
        said = f"{calls} {text}" if calls else text
        outcomes = [_conclude(task, Attempt(kind, Right.ACCEPT, said), gold, 1.0)]
        if gold.reward is None or gold.reward < FULL:
            return outcomes
        if not calls:
            self._remember(task, row, text, gold.reward)
        # A row with tools and without a right call may want nothing to change, whatever is said.
        is_sure = bool(calls) or not read_params(row).get("tools")
        for empty, said in {NOTHING: DONE, "empty": "", "I do not know": "I do not know."}.items():
            verdict = await self.prober.attempt(row, said)
            outcomes.append(
                _conclude(task, Attempt(empty, Right.REJECT, said, is_sure), verdict, gold.reward)
            )
            self._remember(task, row, said, verdict.reward)
        if calls:
            beside = await self.prober.attempt_beside(row, DONE, calls)
            outcomes.append(
                _conclude(task, Attempt(ELSEWHERE, Right.REJECT, f"{calls}"), beside, gold.reward)
            )
        for place in range(len(calls) if len(calls) > 1 else 0):
            less = await self.prober.attempt(row, text, [*calls[:place], *calls[place + 1 :]])
            attempt = Attempt(OMISSION, Right.REJECT, f"{calls[place]}", is_sure=False)
            outcomes.append(_conclude(task, attempt, less, gold.reward))
        return outcomes

    async def _find_leaks(self, task: str, row: AnyRow, answer: ExpectedAnswer) -> list[ProbeOutcome]:
        try:
            leak = find_leak(task, answer, row, await self.prober.seed(row))
        except GymError as error:
            return [
                ProbeOutcome(
                    task, "session", Right.ACCEPT, Conclusion.FAILED, None, "", error.failure.message
                )
            ]
        return [leak] if leak is not None else []

    def _remember(self, task: str, row: AnyRow, text: str, reward: float | None) -> None:
        """Keep a right and a wrong answer of the row."""
        if reward is None:
            return
        mine = [each for each in self.known if each.task == task]
        if not mine or (len(mine) == 1 and mine[0].reward != reward):
            self.known.append(KnownVerdict(task, row, text, reward))


def _conclude(task: str, attempt: Attempt, verdict: ProbeVerdict, best: float) -> ProbeOutcome:
    reason = ""
    if verdict.reward is None:
        conclusion, reason = Conclusion.FAILED, verdict.failure
    else:
        conclusion = judge(attempt.right, verdict.reward, best)
        if conclusion is not Conclusion.RIGHT and not attempt.is_sure:
            conclusion, reason = Conclusion.UNDECIDED, "the task may see this attempt otherwise"
    return ProbeOutcome(
        task, attempt.kind, attempt.right, conclusion, verdict.reward, attempt.text, reason, verdict.seconds
    )


def _conclude_without_judge(task: str, text: str, verdict: ProbeVerdict) -> ProbeOutcome:
    is_scored_down = verdict.reward is not None and verdict.reward < FULL
    conclusion = Conclusion.FALSE_REJECT if is_scored_down else Conclusion.RIGHT
    reason = "the judge cannot be reached, and the reward is not a failure" if is_scored_down else ""
    return ProbeOutcome(task, JUDGE_DOWN, Right.ACCEPT, conclusion, verdict.reward, text, reason)


def settle_gold(outcomes: Iterable[ProbeOutcome]) -> list[ProbeOutcome]:
    """Make rejected golds undecided if many golds are rejected: then it is the audit that does not know the form."""
    all_outcomes = list(outcomes)
    gold = [each for each in all_outcomes if each.kind == GOLD and each.reward is not None]
    accepted = sum(each.conclusion is Conclusion.RIGHT for each in gold)
    if accepted >= _LEAST_KNOWN_SHARE * len(gold):
        return all_outcomes
    reason = f"{accepted} of {len(gold)} golds are accepted, so the audit may not know the form of an answer"
    return [
        replace(each, conclusion=Conclusion.UNDECIDED, reason=reason)
        if each.kind == GOLD and each.conclusion is Conclusion.FALSE_REJECT
        else each
        for each in all_outcomes
    ]
