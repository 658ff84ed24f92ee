"""The audit of an environment of a running gym: its rows, its server, its card."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from nemo_gym.audit.adversary import ADVERSARY_TASKS, EXPLOITS, Adversary
from nemo_gym.audit.answer_audit import RowProbes, settle_gold
from nemo_gym.audit.answer_types import AnswerType, find_answer, read_foreign_type
from nemo_gym.audit.behaviour import RESTARTED, KnownVerdict, compare_again, probe_behaviour, probe_replays
from nemo_gym.audit.card import OUTCOMES, Card, build_card
from nemo_gym.audit.dataset_facts import DatasetFacts
from nemo_gym.audit.gold_scripts import GoldScript, find_script
from nemo_gym.audit.journal import AuditJournal
from nemo_gym.audit.judges import STUB_NOTE
from nemo_gym.audit.operators import RIGHT_ATTEMPTS, list_lacking
from nemo_gym.audit.outcomes import ProbeOutcome
from nemo_gym.audit.probing import Prober
from nemo_gym.audit.running import Budget, Probe, run_probes
from nemo_gym.audit.universal import ALWAYS_TRIED, draw_universal_answers, settle_universal
from nemo_gym.json_objects import dump_json
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.models import ReverifyMode
from nemo_gym.transport import Caller

UNIVERSAL_ANSWERS, UNIVERSAL_TASKS, FEW_UNIVERSAL_TASKS = 40, 20, 160
"""Short answers that are tried at the first tasks, and the tasks at which the few most frequent ones are tried."""
_FIRST = 4
_ONCE = "the environment"
"""The name of probes that are of no task."""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """How to audit."""

    folder: Path
    seed: int = 0
    resume: bool = False
    max_probes: int | None = None
    at_once: int = 16
    adversary: bool = False
    """Also let scripts, and the policy where there is one, use the tools to be rewarded without doing the task."""
    repeats: bool = True
    """Also send attempts again, in another order and beside others."""
    progress: Callable[[int, int], None] = lambda done, of: None


@dataclass(slots=True)
class EnvironmentAudit:
    """The audit of the resources server `server` with `rows`."""

    name: str
    server: str
    rows: Sequence[AnyRow]
    settings: AuditSettings
    scripts: Sequence[GoldScript] = ()
    """Right attempts that are declared beside the rows."""
    agent: str | None = None
    """The agent whose policy is told to cheat; None without a policy."""
    facts: DatasetFacts = field(default_factory=DatasetFacts)
    """The facts that the rows' files share."""
    models: Collection[str] = ()
    """The models to which the environment refers, such as a judge."""
    lacks_judge: bool = False
    """True if the environment refers to a model that has no URL."""
    notes: list[str] = field(default_factory=list, init=False)
    """The conditions of the audit, as the card tells them."""
    asks_judge: bool = field(default=False, init=False)
    """Whether a judge can be asked."""

    def count_probes(self) -> int:
        """Return about how many attempts there would be."""
        return len(self.rows) * 22 + sum(map(_count_universal, range(len(self.rows)))) + 240

    def describe(self) -> dict[str, Any]:
        digest = hashlib.sha256(b"\n".join(dump_json(dict(row)) for row in self.rows)).hexdigest()
        return {"server": self.server, "rows": len(self.rows), "sha256": digest}

    async def run(self, caller: Caller) -> tuple[AuditJournal, Sequence[KnownVerdict]]:
        """Probe all rows. Returns the journal, and verdicts to compare with after a restart."""
        settings = self.settings
        self.asks_judge = bool(self.models) and not self.lacks_judge
        plan = {"audit": self.name, "seed": settings.seed, **self.describe()}
        journal = AuditJournal(settings.folder / OUTCOMES, plan, resume=settings.resume)
        probes = RowProbes(
            await open_prober(caller, self.server),
            settings.seed,
            [answer.gold for row in self.rows if (answer := find_answer(row)).gold],
            self.scripts,
            draw_universal_answers(UNIVERSAL_ANSWERS, settings.seed),
            has_judge=self.asks_judge,
        )
        self.lacks_judge = self.lacks_judge and await self._needs_judge(probes)
        tasks: dict[str, Probe] = {}
        for place, row in enumerate(self.rows):
            name = f"task {place}"
            if self.lacks_judge:
                tasks[name] = partial(probes.probe_without_judge, name, row)
            else:
                tasks[name] = partial(probes.probe, name, row, universal=_count_universal(place))
        if settings.adversary:
            tasks |= self._plan_adversary(caller, probes.prober)
        budget = Budget(settings.max_probes)
        await run_probes(tasks, journal, at_once=settings.at_once, budget=budget, progress=settings.progress)
        if (
            self.settings.repeats
            and _ONCE not in journal.done
            and not self.lacks_judge
            and not budget.is_spent
        ):
            behaviour = await probe_behaviour(probes.prober, probes.known[:12])
            replays = await probe_replays(probes.prober, self.rows, self.scripts)
            journal.add(_ONCE, [*behaviour, *replays])
        return journal, probes.known[:12]

    def _plan_adversary(self, caller: Caller, prober: Prober) -> dict[str, Probe]:
        adversary = Adversary(prober, self.settings.folder / EXPLOITS)
        agent = self.agent

        async def attack(task: str, row: AnyRow) -> list[ProbeOutcome]:
            outcomes = await adversary.probe(task, row)
            return (
                outcomes if agent is None else outcomes + await adversary.ask_model(caller, task, row, agent)
            )

        return {
            f"attack {place}": partial(attack, f"task {place}", row)
            for place, row in enumerate(self.rows[:ADVERSARY_TASKS])
        }

    async def _needs_judge(self, probes: RowProbes) -> bool:
        """Return whether a verdict on the first rows fails without the judge."""
        outcomes = [
            outcome
            for row in self.rows[:_FIRST]
            for outcome in await probes.probe_without_judge("first", row)
        ]
        return any(outcome.reward is None or outcome.reward == 0 for outcome in outcomes)

    async def run_again(self, caller: Caller, journal: AuditJournal, known: Sequence[KnownVerdict]) -> None:
        """Compare verdicts with those of another start of the servers."""
        prober = await open_prober(caller, self.server)
        journal.add(RESTARTED, await compare_again(prober, known, RESTARTED))

    def build_card(self, journal: AuditJournal) -> Card:
        """Return the card of the outcomes, and write it."""
        outcomes = settle_universal(settle_gold(journal.list_outcomes()))
        missing = len(self.rows) - sum(name.startswith("task ") for name in journal.done)
        notes = self.notes + (
            [f"{missing} tasks are left out: the budget of {self.settings.max_probes} probes."]
            if missing
            else []
        )
        if self.lacks_judge:
            notes.append(
                "The judge was out of reach, so only that is probed. Name one with --url and --model."
            )
        if self.asks_judge:
            notes.append(STUB_NOTE.format(models=", ".join(sorted(self.models))))
        notes += [*self.facts.write_notes(), *_note_types(self.rows, self.scripts)]
        card = build_card(
            self.name,
            outcomes,
            seed=self.settings.seed,
            about={**self.describe(), "dataset": self.facts.as_json()},
            notes=notes,
            tasks=len(self.rows),
        )
        card.write(self.settings.folder)
        return card


def _count_universal(place: int) -> int:
    """Return how many short answers are tried at the task at this place."""
    if place < UNIVERSAL_TASKS:
        return UNIVERSAL_ANSWERS
    return len(ALWAYS_TRIED) if place < FEW_UNIVERSAL_TASKS else 0


def _note_types(rows: Sequence[AnyRow], scripts: Sequence[GoldScript]) -> list[str]:
    """Return notes on the types of the expected answers, and on the probes that are not made for them."""
    answers = [find_answer(row) for row in rows]
    chosen = [find_script(scripts, row) for row in rows]
    notes = [f"Types of the expected answers: {_count(answer.type for answer in answers)}."]
    if foreign := [kind for row in rows if (kind := read_foreign_type(row)) is not None]:
        known = ", ".join(AnswerType)
        notes.append(f"`answer_type` is {_count(foreign)}: none of {known}, so the types are found.")
    lacking: defaultdict[str, list[AnswerType]] = defaultdict(list)
    for answer, script in zip(answers, chosen, strict=True):
        for name in list_lacking(answer):
            if name != RIGHT_ATTEMPTS or script is None:
                lacking[name].append(answer.type)
    notes += [f"No {name} are made for {_count(types)}." for name, types in lacking.items()]
    unsent = [script for script in scripts if script not in chosen]
    if unsent:
        notes.append(
            f"{len(unsent)} of {len(scripts)} declared scenes are of no task here and were not sent, first "
            f"{unsent[0].match[:60]!r}. (Scenes of a judge are of none.)"
        )
    return notes


def _count(types: Iterable[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in Counter(types).items())


async def open_prober(caller: Caller, server: str) -> Prober:
    """Return a prober of a server; it opens sessions unless the server declares that `verify` needs none."""
    reply = await caller.call(server, "GET", "/reverify_mode", repeatable=True)
    is_stateless = reply.ok and reply.json() == ReverifyMode.STATELESS
    return Prober(caller, server, seeds=not is_stateless)
