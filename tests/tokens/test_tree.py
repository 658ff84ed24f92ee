from __future__ import annotations

from collections.abc import Callable

from nemo_gym.responses.turns import Turn, read_item_turns
from nemo_gym.tokens.reasons import UntrainedReason
from nemo_gym.tokens.tree import (
    CallTree,
    Edge,
    TrainedPaths,
    collect_ancestors,
    find_untrained_calls,
    lineage,
    main_root,
)

SUMMARY = "The user wants a boat.\nWe have built the hull."


def user(text: str) -> Turn:
    return read_item_turns({"role": "user", "content": text})[0]


def said(text: str) -> Turn:
    return read_item_turns({"role": "assistant", "content": text})[0]


def a_rollout() -> tuple[CallTree, dict[str, str], Callable[[str], str]]:
    """A title, a main conversation with a subagent and a compaction, and a side branch."""
    tree = CallTree()
    tree.add("title", "0", [user("title?")], [said("Boats")])
    tree.add("a", "1", [user("go")], [said("A")])
    tree.add("sub", "2", [user("find wood")], [said("There is oak.")])
    tree.add("side", "3", [user("go"), said("A"), user("wrong way")], [said("?")])
    tree.add("b", "4", [user("go"), said("A"), user("There is oak.")], [said("B")])
    tree.add(
        "sum", "5", [user("go"), said("A"), user("There is oak."), said("B"), user("sum")], [said(SUMMARY)]
    )
    tree.add("c", "6", [user("Go on: " + SUMMARY)], [said("C")], lambda: "Go on: " + SUMMARY)
    tree.add("down", "7", [user("Go on: " + SUMMARY), said("C"), user("x")], None)
    answers = {"title": "Boats", "sub": "There is oak.", "c": "C"}
    prompts = {"b": "There is oak.", "sum": "There is oak. sum", "c": SUMMARY}
    return tree, answers, lambda call: prompts.get(call, "")


def test_each_call_has_its_parent_and_edge() -> None:
    tree, _, _ = a_rollout()
    edges = {call: (node.parent, node.edge) for call, node in tree.nodes.items()}
    assert edges == {
        "title": (None, Edge.ROOT),
        "a": (None, Edge.ROOT),
        "sub": (None, Edge.ROOT),
        "side": ("a", Edge.CONTINUES),
        "b": ("a", Edge.CONTINUES),
        "sum": ("b", Edge.CONTINUES),
        "c": ("sum", Edge.COMPACTS),
        "down": ("c", Edge.CONTINUES),
    }
    assert main_root(tree.nodes) == "a"
    assert list(lineage(tree.nodes, "c")) == ["c", "sum", "b", "a"]


def test_the_calls_that_reached_the_end_are_trained() -> None:
    tree, answers, prompts = a_rollout()
    untrained = find_untrained_calls(tree.nodes, TrainedPaths.REACHED_END, answers, prompts)
    off = UntrainedReason.OFF_PATH
    assert untrained == {"title": off, "side": off, "down": UntrainedReason.FAILED}


def test_other_choices_train_more() -> None:
    tree, answers, prompts = a_rollout()
    every_root = find_untrained_calls(tree.nodes, TrainedPaths.EVERY_ROOT, answers, prompts)
    assert every_root.keys() == {"side", "down"}
    assert find_untrained_calls(tree.nodes, TrainedPaths.EVERY_CALL, answers, prompts).keys() == {"down"}


def test_a_copy_is_trained_only_if_the_conversation_goes_on_from_it() -> None:
    tree = CallTree()
    for call in ("one", "two"):
        tree.add(call, "same", [user("go")], [said(call)])
    copies = find_untrained_calls(tree.nodes, TrainedPaths.EVERY_CALL, {}, str)
    assert copies == dict.fromkeys(("one", "two"), UntrainedReason.COPY)
    tree.add("next", "n", [user("go"), said("two"), user("on")], [said("end")])
    copies = find_untrained_calls(tree.nodes, TrainedPaths.REACHED_END, {}, str)
    assert copies == {"one": UntrainedReason.COPY}


def test_an_edited_history_goes_on_from_its_last_answer() -> None:
    tree = CallTree()
    tree.add("a", "0", [user("go"), user("big output")], [said("A")])
    tree.add("b", "1", [user("go"), user("big output"), said("A"), user("on")], [said("B")])
    node = tree.add(
        "c", "2", [user("go"), user("[cleared]"), said("A"), user("on"), said("B"), user("x")], []
    )
    assert (node.parent, node.edge) == ("b", Edge.EDITED)


def test_a_summary_beside_kept_turns_compacts() -> None:
    for kept_first, kept_last in (
        ([], [said("B")]),
        ([user("go"), said("A")], []),
        ([user("go"), said("A")], [said("B")]),
    ):
        tree = CallTree()
        tree.add("a", "0", [user("go")], [said("A")])
        tree.add("b", "1", [user("go"), said("A"), user("on")], [said("B")])
        tree.add("sum", "2", [user("go"), said("A"), user("on"), said("B"), user("sum")], [said(SUMMARY)])
        text = f"go\nOnce: {SUMMARY}\nB\nx"
        prompt = [*kept_first, user("Once: " + SUMMARY), *kept_last, user("x")]
        node = tree.add("c", "3", prompt, [said("C")], lambda text=text: text)  # type: ignore[misc]
        assert (node.parent, node.edge) == ("sum", Edge.COMPACTS)
        node = tree.add("d", "4", [*prompt, said("C"), user("y")], [said("D")], lambda text=text: text)  # type: ignore[misc]
        assert (node.parent, node.edge) == ("c", Edge.CONTINUES)
        assert not find_untrained_calls(tree.nodes, TrainedPaths.REACHED_END, {}, str)


def test_a_turn_beside_a_summary_without_it_is_trained_too() -> None:
    tree = CallTree()
    before = [user("go"), said("A"), user("on")]
    tree.add("a", "0", [user("go")], [said("A")])
    tree.add("b", "1", before, [said("B")])
    tree.add("sum", "2", [*before, user("sum")], [said(SUMMARY)])
    prompt = [user("Once: " + SUMMARY), said("B"), user("x")]
    node = tree.add("c", "3", prompt, [said("C")], lambda: SUMMARY)
    assert (node.parent, node.edge, node.beside) == ("sum", Edge.COMPACTS, "b")
    node = tree.add("d", "4", [*prompt, said("C"), user("y")], [said("D")], lambda: SUMMARY)
    assert (node.parent, node.edge, node.beside) == ("c", Edge.CONTINUES, None)
    assert collect_ancestors(tree.nodes, "d") == {"a", "b", "sum", "c", "d"}
    assert not find_untrained_calls(tree.nodes, TrainedPaths.REACHED_END, {}, str)


def test_a_repeated_answer_is_no_summary() -> None:
    tree = CallTree()
    tree.add("a", "0", [user("go")], [said(SUMMARY)])
    tree.add("again", "1", [user("go"), said(SUMMARY), user("once more")], [said(SUMMARY + "\n")])
    prompt = [user("go"), said(SUMMARY), user("not so"), said("x")]
    assert tree.add("b", "2", prompt, [], lambda: SUMMARY).edge is Edge.CONTINUES


def test_an_empty_answer_has_children_too() -> None:
    tree = CallTree()
    tree.add("a", "0", [user("go")], [])
    assert tree.add("again", "0", [user("go")], []).parent is None
    assert tree.add("b", "1", [user("go"), user("on")], []).parent == "again"
