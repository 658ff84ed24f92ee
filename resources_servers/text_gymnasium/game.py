"""One episode of a Gymnasium environment with observations and actions as text.

Every call may block, because environments are third-party code. The server calls them in threads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import orjson
from gymnasium.envs.registration import load_env_creator
from gymnasium.spaces import Discrete, Text

from nemo_gym.failures import InputError

ACTION_NAMES: Mapping[str, Sequence[str]] = {
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
    "Taxi": ("south", "north", "east", "west", "pick up", "drop off"),
    "Blackjack": ("stick", "hit"),
}
"""The names of discrete actions in the order of their numbers, by environment name without the version."""

_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_COLORED = re.compile(r"\x1b\[([\d;]+)m(.*?)\x1b\[0?m", re.DOTALL)
_ESCAPE = re.compile(r"\x1b\[[\d;]*m")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an action."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Game:
    """An episode; `observation` is the initial observation."""

    def __init__(
        self,
        env_id: str,
        kwargs: Mapping[str, Any],
        *,
        seed: int | None,
        max_episode_steps: int | None,
        action_names: Sequence[str] | None,
    ) -> None:
        """Raises `InputError` when the environment rejects its options or has actions that are not text."""
        self._env = _make(env_id, kwargs, max_episode_steps)
        try:
            self._names = _names_of(self._env, action_names)
            shown, info = self._env.reset(seed=seed)
            self.observation = self._told(shown)
            self.info = plain(info)
        except BaseException:
            self._env.close()
            raise

    @property
    def actions(self) -> str:
        """The list of actions as text."""
        if self._names is None:
            return "any command"
        return ", ".join(self._names)

    def read_action(self, words: str | None) -> Any:
        """Return the action of that name or number; None when there is no such action."""
        if words is None:
            return None
        space = self._env.action_space
        if self._names is None:
            return words if space.contains(words) else None
        said = " ".join(words.casefold().replace("_", " ").split())
        for index, name in enumerate(self._names):
            if said in (name, str(index + int(space.start))):  # type: ignore[attr-defined]  # a Discrete
                return index + int(space.start)  # type: ignore[attr-defined]
        return None

    def step(self, action: Any) -> Outcome:
        shown, reward, terminated, truncated, info = self._env.step(action)
        return Outcome(self._told(shown), float(reward), bool(terminated), bool(truncated), plain(info))

    def close(self) -> None:
        self._env.close()

    def _told(self, shown: Any) -> str:
        """Return an observation as text: unchanged, as the environment's drawing, or as JSON."""
        if isinstance(shown, str):
            return shown
        if self._env.render_mode == "ansi":
            drawn = self._env.render()
            if isinstance(drawn, str):
                return without_escapes(drawn).strip("\n")
        return orjson.dumps(plain(shown)).decode()


def _make(env_id: str, kwargs: Mapping[str, Any], max_episode_steps: int | None) -> gymnasium.Env[Any, Any]:
    try:
        spec = gymnasium.spec(env_id)
        creator = (
            load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
        )
        draws_text = "ansi" in getattr(creator, "metadata", {}).get("render_modes", ())
        options = {"render_mode": "ansi"} if draws_text else {}
        made = {
            **kwargs,
            **options,
            "disable_env_checker": True,
        }  # the checker is for authors and emits warnings
        return gymnasium.make(spec, max_episode_steps=max_episode_steps, **made)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        raise InputError(
            f"the environment {env_id} cannot be created with {dict(kwargs)}: {error}",
            code="bad_environment",
            param="env_kwargs" if kwargs else "env_id",
        ) from error


def _names_of(env: gymnasium.Env[Any, Any], given: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the names of the actions; None when actions are free text."""
    space = env.action_space
    if isinstance(space, Text):
        return None
    if not isinstance(space, Discrete):
        raise InputError(
            f"the action space of {env.spec.id if env.spec else env} is {type(space).__name__}, not Discrete or Text",
            code="not_playable_in_words",
            param="env_id",
        )
    count = int(space.n)
    names = given or ACTION_NAMES.get(env.spec.name if env.spec else "", ())
    if given and len(given) != count:
        raise InputError(f"there are {count} actions, but {len(given)} names", code="bad_action_names")
    if len(names) != count:
        return tuple(str(index + int(space.start)) for index in range(count))
    return tuple(" ".join(name.casefold().replace("_", " ").split()) for name in names)


def without_escapes(drawn: str) -> str:
    """Replace terminal colors by tags, `<red>S</red>`: the color may be the only mark of the player's position."""

    def tagged(match: re.Match[str]) -> str:
        codes = [int(code) for code in match[1].split(";") if code]
        color = next(
            (_COLORS[code % 10] for code in codes if code // 10 in (3, 4, 9) and code % 10 < 8), None
        )
        return f"<{color}>{match[2]}</{color}>" if color else match[2]

    return _ESCAPE.sub("", _COLORED.sub(tagged, drawn))


def plain(value: Any) -> Any:
    """Return a value of an environment as a JSON value."""
    return orjson.loads(
        orjson.dumps(
            value, default=_plain_object, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
        )
    )


def _plain_object(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else repr(value)
