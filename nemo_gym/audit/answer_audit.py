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
    find_function,
    list_forms,
    list_outputs,
    read_question,
)
from nemo_gym.audit.behaviour import KnownVerdict
from nemo_gym.audit.gold_scripts import GoldScript, find_script
from nemo_gym.audit.judges import probe_judge
from nemo_gym.audit.leaks import find_leak
from nemo_gym.audit.operators import change_argument, list_misses, make_attempts, miss_code, write_gold
from nemo_gym.audit.outcomes import FULL, Attempt, Conclusion, ProbeOutcome, ProbeVerdict, Right, conclude
from nemo_gym.audit.probing import Call, Prober
from nemo_gym.audit.request_words import reads_by_name
from nemo_gym.audit.universal import UNIVERSAL, is_own_answer
from nemo_gym.failures import GymError
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_params

DONE = "Done."
GOLD, DECLARED, RECORDED = "gold", "declared right attempt", "recorded right attempt"
NOTHING, OMISSION = "no calls", "gold without a call"
CHANGED = "call with another argument"
ELSEWHERE = "calls in another session"
WRONG_ANSWER = "wrong answer after the right calls"
JUDGE_DOWN = "judge out of reach"
_LEAST_KNOWN_SHARE = 0.8
_MOST_MISSES = 3
_WITHOUT_GOLD = (AnswerType.UNKNOWN, AnswerType.CODE)
_FIRST_TASKS = ("task 0", "task 1")


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
    has_judge: bool = False
    """Also try what talks a judge into it."""
    known: list[KnownVerdict] = field(default_factory=list)
    """Verdicts for later comparison: a right and a wrong answer of the first rows."""

    async def probe(self, task: str, row: AnyRow, *, universal: int = 0) -> list[ProbeOutcome]:
        """Return the outcomes of one row, at which the first `universal` short answers are tried."""
        answer = find_answer(row)
        script = find_script(self.scripts, row)
        kind = DECLARED if script is None or script.is_declared else RECORDED
        if script is not None and (script.calls or answer.type in _WITHOUT_GOLD):
            outcomes = await self._probe_calls(task, row, kind, script.text, script.calls)
            return outcomes + await self._probe_code(task, row, answer)
        declared = [] if script is None else [Attempt(kind, Right.ACCEPT, script.text, script.is_declared)]
        outcomes = [await self._send(task, row, attempt, 1.0) for attempt in declared]
        if answer.type is AnswerType.CALLS:
            return [*outcomes, *await self._probe_calls(task, row, GOLD, DONE, answer.value)]
        form, best, gold = await self._find_form(task, row, answer)
        outcomes += gold
        chance = random.Random(f"{self.seed} {task}")
        candidates = [each for each in self.others if each not in answer.all_gold]
        other = chance.choice(candidates) if candidates else None
        is_known = best is not None or answer.type in _WITHOUT_GOLD
        attempts = make_attempts(
            answer,
            form,
            read_question(row),
            other=other,
            chance=chance,
            is_asked=form in find_asked_forms(row),
        )
        own = await self._send_all(task, row, attempts, best or 1.0, is_known=is_known)
        outcomes += own
        if self.has_judge and answer.type not in _WITHOUT_GOLD:
            all_keys = universal == len(self.universal)
            outcomes += await probe_judge(
                self.prober, task, row, answer, form, other=other, best=best, all_keys=all_keys
            )
        accepts_anything = any(not each.probe and each.conclusion is not Conclusion.RIGHT for each in own)
        texts = () if accepts_anything else self.universal[:universal]
        outcomes += await self._probe_universal(task, row, answer, form, texts, best or 1.0)
        outcomes += await self._probe_code(task, row, answer)
        outcomes += await self._find_leaks(task, row, answer)
        return outcomes

    async def _send_all(
        self, task: str, row: AnyRow, attempts: Iterable[Attempt], best: float, *, is_known: bool
    ) -> list[ProbeOutcome]:
        """Send attempts; right ones only where a right form of the answer is known."""
        outcomes = []
        for attempt in attempts:
            if is_known or attempt.right is Right.REJECT:
                outcome = await self._send(task, row, attempt, best)
                outcomes.append(outcome)
                self._remember(task, row, attempt.text, outcome.reward)
        return outcomes

    async def _probe_universal(
        self,
        task: str,
        row: AnyRow,
        answer: ExpectedAnswer,
        form: WrittenForm,
        texts: Iterable[str],
        best: float,
    ) -> list[ProbeOutcome]:
        """Send short answers that are not the task's own."""
        outcomes = []
        for text in texts:
            if not is_own_answer(answer.all_gold, text):
                attempt = Attempt(
                    UNIVERSAL, Right.REJECT, form.write(text), answer.type is not AnswerType.UNKNOWN
                )
                outcome = await self._send(task, row, attempt, best)
                outcomes.append(replace(outcome, probe=attempt.text))
        return outcomes

    async def _probe_code(self, task: str, row: AnyRow, answer: ExpectedAnswer) -> list[ProbeOutcome]:
        """Send programs that solve nothing; to some of the first tasks also those that take the time limit."""
        if answer.type is not AnswerType.CODE:
            return []
        is_first = task in _FIRST_TASKS
        outcomes = []
        for kind, code in miss_code(find_function(row), list_outputs(row), all_kinds=is_first):
            attempt = Attempt(kind, Right.REJECT, f"```python\n{code}\n```")
            outcomes.append(conclude(task, attempt, await self.prober.attempt(row, attempt.text), 1.0))
        return outcomes

    async def probe_without_judge(self, task: str, row: AnyRow) -> list[ProbeOutcome]:
        """Return whether an environment whose judge does not answer gives a failure, and no reward of 0."""
        answer = find_answer(row)
        attempts: list[tuple[str, Sequence[Call]]] = []
        if answer.type not in (*_WITHOUT_GOLD, AnswerType.CALLS):
            attempts.append((list_forms(row, answer.type)[0].write(write_gold(answer)), ()))
        script = find_script(self.scripts, row)
        if script is not None and (script.text or script.calls):  # nothing is rejected without a judge
            attempts.append((script.text, script.calls))
        verdicts = [(text, await self.prober.attempt(row, text, calls)) for text, calls in attempts]
        return [_conclude_without_judge(task, text, verdict) for text, verdict in verdicts]

    async def _find_form(
        self, task: str, row: AnyRow, answer: ExpectedAnswer
    ) -> tuple[WrittenForm, float | None, list[ProbeOutcome]]:
        """Return the form in which gold is accepted, its reward, and the outcome of gold."""
        forms = list_forms(row, answer.type)
        if answer.type in _WITHOUT_GOLD:
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
                    [conclude(task, Attempt(GOLD, Right.ACCEPT, text), verdict, 1.0)],
                )
        assert first is not None
        attempt = Attempt(GOLD, Right.ACCEPT, forms[0].write(write_gold(answer)))
        return forms[0], None, [conclude(task, attempt, first, 1.0)]

    async def _send(self, task: str, row: AnyRow, attempt: Attempt, best: float) -> ProbeOutcome:
        return conclude(task, attempt, await self.prober.attempt(row, attempt.text), best)

    async def _probe_calls(
        self, task: str, row: AnyRow, kind: str, text: str, calls: Sequence[Call]
    ) -> list[ProbeOutcome]:
        """Probe a row whose right attempt, of the class `kind`, makes `calls` and then says `text`."""
        gold = await self.prober.attempt(row, text, calls)
        said = f"{calls} {text}" if calls else text
        outcomes = [conclude(task, Attempt(kind, Right.ACCEPT, said, kind != RECORDED), gold, 1.0)]
        if gold.reward is None or gold.reward < FULL:
            return outcomes
        if not calls:
            self._remember(task, row, text, gold.reward)
            if read_params(row).get("tools"):
                return outcomes  # nothing is to be done with any words
        for empty, said in {NOTHING: DONE, "empty": "", "I do not know": "I do not know."}.items():
            verdict = await self.prober.attempt(row, said)
            outcomes.append(conclude(task, Attempt(empty, Right.REJECT, said), verdict, gold.reward))
            self._remember(task, row, said, verdict.reward)
        if calls:
            beside = await self.prober.attempt_beside(row, DONE, calls)
            attempt = Attempt(ELSEWHERE, Right.REJECT, f"{calls}")
            outcomes.append(conclude(task, attempt, beside, gold.reward))
            outcomes += await self._leave_out(task, row, text, calls, gold)
            outcomes += await self._change_arguments(
                task, row, text, calls, gold.reward, is_sure=kind == GOLD
            )
            outcomes += await self._answer_wrongly(task, row, text, calls, gold.reward)
        return outcomes

    async def _leave_out(
        self, task: str, row: AnyRow, text: str, calls: Sequence[Call], gold: ProbeVerdict
    ) -> list[ProbeOutcome]:
        """Leave out each call. One that reads by its name, and changes nothing that the others answer, is no probe."""
        outcomes = []
        for place in range(len(calls) if len(calls) > 1 else 0):
            less = await self.prober.attempt(row, text, [*calls[:place], *calls[place + 1 :]])
            attempt = Attempt(OMISSION, Right.REJECT, f"{calls[place]}", is_sure=False)
            outcome = conclude(task, attempt, less, gold.reward or 1.0)
            others = gold.outputs[:place] + gold.outputs[place + 1 :]
            is_reading = reads_by_name(calls[place][0]) and less.outputs == others
            if outcome.conclusion is not Conclusion.UNDECIDED or not is_reading:
                outcomes.append(outcome)
        return outcomes

    async def _change_arguments(
        self, task: str, row: AnyRow, text: str, calls: Sequence[Call], best: float, *, is_sure: bool
    ) -> list[ProbeOutcome]:
        """Change an argument of the last call that does not read. `is_sure`: the row itself expects the calls."""
        place = next((at for at in reversed(range(len(calls))) if not reads_by_name(calls[at][0])), None)
        changed = None if place is None else change_argument(calls[place][1])
        if place is None or changed is None:
            return []
        call = (calls[place][0], changed)
        verdict = await self.prober.attempt(row, text, [*calls[:place], call, *calls[place + 1 :]])
        return [conclude(task, Attempt(CHANGED, Right.REJECT, f"{call}", is_sure), verdict, best)]

    async def _answer_wrongly(
        self, task: str, row: AnyRow, text: str, calls: Sequence[Call], best: float
    ) -> list[ProbeOutcome]:
        """Make all calls, and then give a near miss of the row's own answer."""
        answer = find_answer(row)
        is_plain = answer.type in (AnswerType.NUMBER, AnswerType.CHOICE)
        if not is_plain or text.count(answer.gold) != 1:
            return []
        outcomes = []
        for _, wrong in list_misses(answer)[:_MOST_MISSES]:
            said = text.replace(answer.gold, wrong)
            verdict = await self.prober.attempt(row, said, calls)
            outcomes.append(conclude(task, Attempt(WRONG_ANSWER, Right.REJECT, said), verdict, best))
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
