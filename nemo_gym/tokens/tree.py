"""The tree of a rollout's model calls, and the calls whose tokens are trained.

An agent's calls are no chain: subagents begin conversations of their own, histories are compacted, calls are repeated.
Each call is one node. Its parent is the call whose answer its prompt goes on from.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile

from nemo_gym.responses.turns import Turn
from nemo_gym.tokens.reasons import UntrainedReason

_REMEMBERED_TEXTS = 64
_SHORTEST_LINE = 16
"""Shorter lines, such as headings, can be in any text."""


class Edge(StrEnum):
    """The relation of a call to its parent."""

    ROOT = "root"
    """It has no parent: the first call, or the first of a subagent."""
    CONTINUES = "continues"
    """Its prompt begins with the parent's prompt and answer."""
    EDITED = "edited"
    """Its prompt goes on from the parent's answer, and earlier messages have changed."""
    COMPACTS = "compacts"
    """Its prompt contains the parent's answer, a summary, in the place of the conversation or of all but its last
    turns."""


class TrainedPaths(StrEnum):
    """The calls of a rollout that are trained."""

    REACHED_END = "reached_end"
    """Those that led to the last call of the main conversation, and of each subagent whose last answer is in a later
    prompt of these conversations."""
    EVERY_ROOT = "every_root"
    """Those that led to the last call of every conversation."""
    EVERY_CALL = "every_call"
    """All but copies that the conversation did not go on from."""


@dataclass(frozen=True, slots=True)
class CallNode:
    """A call of the tree."""

    call: str
    parent: str | None
    edge: Edge
    digest: str
    """Equal for calls with identical bodies."""
    is_answered: bool
    """False for a call that failed."""
    beside: str | None = None
    """The call whose answer is the last that was kept beside a summary, if the summary is not of this answer, too."""


@dataclass(slots=True)
class CallTree:
    """The calls so far, and the indices in which a parent is found."""

    nodes: dict[str, CallNode] = field(default_factory=dict)
    """In the order in which the calls ended."""
    _ends: dict[bytes, str] = field(default_factory=dict)
    """Digest of prompt and answer → the last such call."""
    _empty_ends: dict[bytes, str] = field(default_factory=dict)
    """The same for calls whose answer has no turn."""
    _answers: dict[bytes, str] = field(default_factory=dict)
    """Digest of an answer → the last such call."""
    _texts: dict[str, str] = field(default_factory=dict)
    """The last answers that are texts, by call."""

    def add(
        self,
        call: str,
        digest: str,
        prompt: Sequence[Turn],
        answer: Sequence[Turn] | None,
        text: Callable[[], str] = str,
    ) -> CallNode:
        """Add a call that has ended. `answer` is None for a failed one; `text` returns all text of its prompt."""
        parent, edge, beside = self._parent(prompt, text)
        node = CallNode(call, parent, edge, digest, answer is not None, beside)
        self.nodes[call] = node
        chain = _chain([*prompt, *(answer or ())])
        if answer is not None and chain:
            (self._ends if answer else self._empty_ends)[chain[-1]] = call
        if answer:
            self._answers[_digest_run(answer)] = call
            if all(turn.text is not None for turn in answer):
                self._texts[call] = "\n".join(turn.text or "" for turn in answer)
                if len(self._texts) > _REMEMBERED_TEXTS:
                    del self._texts[next(iter(self._texts))]
        return node

    def _parent(self, prompt: Sequence[Turn], text: Callable[[], str]) -> tuple[str | None, Edge, str | None]:
        """Return the parent of a call, its edge, and the call `beside`."""
        found = self._find_ended(prompt)
        calls = reversed(self._texts) if found is None else self._summaries(*found, prompt)
        summary = self._find_compacted(list(calls), text)
        if summary is None:
            return (*found, None) if found is not None else (None, Edge.ROOT, None)
        kept = found[0] if found is not None and found[0] not in lineage(self.nodes, summary) else None
        return summary, Edge.COMPACTS, kept

    def _find_ended(self, prompt: Sequence[Turn]) -> tuple[str, Edge] | None:
        """Return the call whose answer is the last in the prompt, or the last whose conversation begins the prompt."""
        chain = _chain(prompt)
        last_answer = max((place for place, turn in enumerate(prompt) if turn.is_answer), default=-1)
        for place in range(len(chain) - 1, -1, -1):
            parent = self._ends.get(chain[place])
            if parent is None and place < len(chain) - 1:  # a prompt adds something to an empty answer
                parent = self._empty_ends.get(chain[place])
            if parent is not None:
                if place < last_answer:  # a later answer is in the prompt, too
                    return self._find_edited(prompt, last_answer) or (parent, Edge.CONTINUES)
                return parent, Edge.CONTINUES
        return self._find_edited(prompt, last_answer)

    def _find_edited(self, prompt: Sequence[Turn], last_answer: int) -> tuple[str, Edge] | None:
        """Return the call whose answer is the last in the prompt."""
        start = last_answer
        while start > 0 and prompt[start - 1].is_answer:
            start -= 1
        call = self._answers.get(_digest_run(prompt[start : last_answer + 1])) if last_answer >= 0 else None
        return (call, Edge.EDITED) if call is not None else None

    def _summaries(self, call: str, edge: Edge, prompt: Sequence[Turn]) -> Iterator[str]:
        """Yield the calls, the last first, that may have summarized the conversation of `call` for a prompt.

        Their answers are texts, and no turns of the prompt. If the prompt begins with that conversation, they went on
        from it. Else they are other calls of this conversation, which did not lead to `call`.
        """
        said = {turn.text for turn in prompt if turn.is_answer}
        root, before = find_root(self.nodes, call), collect_ancestors(self.nodes, call)
        said |= {self._texts.get(each) for each in before}
        for other in takewhile(lambda each: edge is Edge.EDITED or each != call, reversed(self.nodes)):
            if other not in self._texts or self._texts[other] in said:
                continue
            if call in lineage(self.nodes, other) or (
                edge is Edge.EDITED and find_root(self.nodes, other) == root
            ):
                yield other

    def _find_compacted(self, calls: Sequence[str], text: Callable[[], str]) -> str | None:
        """Return the first of these calls whose answer is, for the most part, in the prompt."""
        prompt = text() if calls else ""
        return next((call for call in calls if _is_within(self._texts[call], prompt)), None)


# --- The trained calls ------------------------------------------------------------------------------------------


def find_untrained_calls(
    nodes: Mapping[str, CallNode],
    paths: TrainedPaths,
    answers: Mapping[str, str],
    prompts: Callable[[str], str],
) -> dict[str, UntrainedReason]:
    """Return the calls that are not trained, each with the reason.

    `answers` holds the texts of answers by call. `prompts` returns all text of a call's prompt. The order of `nodes`
    is that of time.
    """
    continued = {each for node in nodes.values() for each in (node.parent, node.beside)}
    copies = Counter(node.digest for node in nodes.values() if node.is_answered)
    reasons: dict[str, UntrainedReason] = {}
    for call, node in nodes.items():
        if not node.is_answered:
            reasons[call] = UntrainedReason.FAILED
        elif call not in continued and copies[node.digest] > 1:
            reasons[call] = UntrainedReason.COPY
    if paths is TrainedPaths.EVERY_CALL:
        return reasons
    trained = set(_list_path_ends(nodes, reasons, paths, answers, prompts))
    off_path = (call for call in nodes if call not in trained and call not in reasons)
    return {**reasons, **dict.fromkeys(off_path, UntrainedReason.OFF_PATH)}


def find_root(nodes: Mapping[str, CallNode], call: str) -> str:
    """Return the first call of the conversation that `call` belongs to. Compactions continue a conversation."""
    return list(lineage(nodes, call))[-1]


def main_root(nodes: Mapping[str, CallNode]) -> str | None:
    """Return the root with the most calls, the first of several; None without calls."""
    sizes = Counter(find_root(nodes, call) for call in nodes)
    return max(sizes, key=lambda root: sizes[root], default=None)


def lineage(nodes: Mapping[str, CallNode], call: str) -> Iterator[str]:
    """Yield a call and its parents, up to the root."""
    at: str | None = call
    while at is not None and at in nodes:
        yield at
        at = nodes[at].parent


def collect_ancestors(nodes: Mapping[str, CallNode], call: str) -> set[str]:
    """Return a call and all calls that led to it, those that were kept beside a summary included."""
    found: set[str] = set()
    ends: list[str | None] = [call]
    while ends:
        at = ends.pop()
        while at is not None and at not in found and at in nodes:
            found.add(at)
            ends.append(nodes[at].beside)
            at = nodes[at].parent
    return found


def _list_path_ends(
    nodes: Mapping[str, CallNode],
    unusable: Mapping[str, UntrainedReason],
    paths: TrainedPaths,
    answers: Mapping[str, str],
    prompts: Callable[[str], str],
) -> Iterator[str]:
    ends = {
        find_root(nodes, call): call for call in nodes if call not in unusable
    }  # the last call of each root
    if paths is TrainedPaths.EVERY_ROOT:
        for end in ends.values():
            yield from collect_ancestors(nodes, end)
        return
    main = main_root({call: node for call, node in nodes.items() if node.is_answered})
    waiting, read = dict(ends), [ends[main]] if main in ends else []
    if main is not None:
        waiting.pop(main, None)
    while read:
        path = collect_ancestors(nodes, read.pop())
        yield from path
        repeated = {nodes[call].parent for call in path if nodes[call].edge is Edge.CONTINUES}
        text = "\n".join(prompts(call) for call in path if call not in repeated)
        for root, end in list(waiting.items()):
            answer = answers.get(end, "").strip()
            if answer and answer in text:
                read.append(waiting.pop(root))


def _is_within(answer: str, text: str) -> bool:
    """Return whether at least half of an answer, by its longer lines, is in a text."""
    lines = [line.strip() for line in answer.splitlines() if len(line.strip()) >= _SHORTEST_LINE]
    within = sum(len(line) for line in lines if line in text)
    return bool(lines) and within * 2 >= sum(map(len, lines))


def _chain(turns: Sequence[Turn]) -> list[bytes]:
    """Return the digest of each beginning of a conversation."""
    running = hashlib.blake2b(digest_size=12)
    digests = []
    for turn in turns:
        running.update(turn.digest)
        digests.append(running.digest())
    return digests


def _digest_run(turns: Sequence[Turn]) -> bytes:
    return b"".join(turn.digest for turn in turns)
