"""Translation of a line of `gym` into a command and its overrides."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from nemo_gym.cli.short.flags import MODEL, first_or_list
from nemo_gym.config.problems import did_you_mean
from nemo_gym.config.selection import NamedConfig, SelectedConfig, select
from nemo_gym.config.spelling import spell
from nemo_gym.paths import extra_roots, set_extra_roots

RESULTS = Path("results")
"""The folder of outputs that have no name."""
_OVERRIDE = re.compile(r"[+~].*|[\w.@]+=.*", re.DOTALL)
_CONFIG_PATHS = re.compile(r"\+{0,2}config_paths=\[(.*)\]", re.DOTALL)


class Target(NamedTuple):
    """A command, as the name of its module in `nemo_gym.cli`, and its arguments."""

    command: str
    arguments: list[str]


@dataclass(frozen=True, slots=True)
class GymLine:
    """A parsed line."""

    command: str
    """The command of its verb."""
    values: Mapping[str, Any]
    """The options, by `Flag.parameter`."""
    flags: Sequence[str]
    """The overrides that the options mean."""
    names: Sequence[str]
    """The positional arguments."""
    extras: Sequence[str]
    """The overrides that the user typed."""
    usage: str = ""
    """The positional arguments of the verb, such as `FILE`; optional ones are in brackets."""

    @property
    def overrides(self) -> list[str]:
        """The overrides of options, then those of the user, which win."""
        return [*self.flags, *self.extras]

    def has_key(self, key: str) -> bool:
        """Return whether an override sets `key`."""
        return any(re.match(rf"\+*{re.escape(key)}=", override) for override in self.overrides)


Translation = Callable[[GymLine], Target]


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split positional arguments into names and overrides."""
    names = [each for each in arguments if not _OVERRIDE.fullmatch(each)]
    return names, [each for each in arguments if _OVERRIDE.fullmatch(each)]


def plain(line: GymLine) -> Target:
    """Options and overrides only."""
    if line.names:
        raise click.UsageError(f"Unexpected argument {line.names[0]!r}.")
    return Target(line.command, line.overrides)


def names_as(key: str, template: str = "{}") -> Translation:
    """The positional arguments are the value of `key`; each is put into `template` unless it contains a slash."""

    def translate(line: GymLine) -> Target:
        given = [*line.names, *line.values.get("resources_server", ())]
        if given or not line.has_key(key):
            _check_count(given, line.usage)
        values = tuple(name if "/" in name else template.format(name) for name in given)
        named = [f"++{key}={first_or_list(values)}"] if values else []
        return Target(line.command, [*named, *line.overrides])

    return translate


def _check_count(given: Sequence[str], usage: str) -> None:
    """Check that there are as many positional arguments as `usage` has words. Raises click's `UsageError`."""
    words = usage.split()
    if len(given) < len(words) and not usage.startswith("["):
        raise click.UsageError(f"Missing argument: {' '.join(words[len(given) :]).removesuffix('...')}.")
    if len(given) > len(words) > 0 and not usage.endswith("..."):
        raise click.UsageError(f"Unexpected argument {given[len(words)]!r}.")


def translate_list(line: GymLine) -> Target:
    """`gym list [KIND] [NAME]`."""
    from nemo_gym.cli.list import KINDS

    kind = line.names[0].replace("_", "-") if line.names else None
    # A misspelt kind gets the command's hint.
    if kind and kind not in KINDS and did_you_mean(kind, KINDS) is None:
        raise click.UsageError(f"There is no kind {kind!r}. `gym search {kind}` finds names.")
    _check_count(line.names, line.usage)
    pairs = zip(("kind", "name"), line.names, strict=False)
    named = [f"++{key}={spell(name.replace('_', '-') if key == 'kind' else name)}" for key, name in pairs]
    return Target(line.command, [*named, *line.overrides])


def translate_search(line: GymLine) -> Target:
    """`gym search WORD...`."""
    if not line.names:
        raise click.UsageError("Give a word to search for.")
    return Target(line.command, [f"++words={spell(list(line.names))}", *line.overrides])


def translate_scale(line: GymLine) -> Target:
    """`gym env scale NAME=REPLICAS...`. Names with a dash are no overrides of a command line, others look like some."""
    pairs = [*line.names, *(each for each in line.extras if not each.startswith("+"))]
    wrong = next((each for each in pairs if not re.fullmatch(r"[^=]+=-?\d+", each)), None)
    if wrong is not None or not (pairs or any("servers" in each for each in line.extras)):
        shown = f"{wrong!r} is not NAME=REPLICAS" if wrong is not None else "Missing argument: NAME=REPLICAS"
        raise click.UsageError(f"{shown}, such as my_environment=8.")
    extras = [each for each in line.extras if each.startswith("+")]
    return Target(line.command, [*(f"++servers.{pair}" for pair in pairs), *line.flags, *extras])


def translate_rewind(line: GymLine) -> Target:
    """`gym rewind FILE`: one fork of each rollout."""
    target = names_as("input_jsonl_fpath")(line)
    return Target(target.command, [*target.arguments, "++rewind=true"])


def translate_hub_dataset(line: GymLine) -> Target:
    """A dataset on the Hugging Face hub, the only storage."""
    if line.values.get("storage") not in (None, "hf"):
        raise click.UsageError("--storage: only the Hugging Face hub (hf) is supported.")
    return plain(line)


def translate_prepare(line: GymLine) -> Target:
    """The files of benchmarks and environments, and nothing that only a run needs."""
    return Target(line.command, _select_config(line, needs_model=False).overrides)


def translate_prefetch(line: GymLine) -> Target:
    """`gym env prefetch FOLDER`, or names of environments of other projects, or their kinds."""
    from nemo_gym.sources.foreign.kinds import KINDS

    if any(":" in name or name in KINDS for name in line.names):
        return names_as("names")(replace(line, usage="[NAME]..."))
    return names_as("folder")(replace(line, usage="[FOLDER]"))


def translate_configured(line: GymLine) -> Target:
    """The positional arguments and options select a configuration, with the policy's model."""
    return Target(line.command, _select_config(line).overrides)


def translate_start(line: GymLine) -> Target:
    """Like `translate_configured`. With `--openenv` the policy is a client, and needs no URL."""
    if line.values.get("openenv") is not None and not line.has_key("policy_base_url"):
        from nemo_gym.cli._openenv import UNUSED_URL

        unused = [f"++policy_base_url={UNUSED_URL}", "++policy_model_name=none"]
        line = replace(line, extras=[*unused, *line.extras])
    return Target(line.command, _select_config(line).overrides)


def translate_inspection(line: GymLine) -> Target:
    """Like `translate_configured`; a policy without a URL is left open, because nothing starts."""
    has_model = line.values.get("model_type") or line.has_key("policy_base_url")
    return Target(line.command, _select_config(line, needs_model=bool(has_model)).overrides)


def translate_audit(line: GymLine) -> Target:
    """`gym audit NAME`, `gym audit DIR` for a folder of tool tasks, or `gym audit [NAME] FILE` for a run's rows."""
    files = [name for name in line.names if re.search(r"\.jsonl(\.gz|\.zst)?$", name)]
    if files:
        others = [name for name in line.names if name not in files]
        if len(files) > 1:
            raise click.UsageError(f"One file of rollouts is audited at a time, not also {files[1]!r}.")
        line = replace(line, names=others)
        named = others or any(line.values.get(key) for key in ("environment", "resources_server", "config"))
        target = translate_audit(line) if named else Target(line.command, line.overrides)
        return Target(target.command, [f"++rollouts={spell(files[0])}", *target.arguments])
    folders = [name for name in line.names if Path(name).is_dir() and not (Path(name) / "configs").is_dir()]
    if not folders:
        return Target(
            line.command, _select_config(line, needs_model=line.has_key("policy_base_url")).overrides
        )
    if len(line.names) > 1:
        raise click.UsageError(f"A folder is audited alone, not with {line.names[1]!r}.")
    return Target(line.command, [f"++folder={spell(folders[0])}", *line.overrides])


def translate_eval(line: GymLine) -> Target:
    """A run: with an output by name and the split of benchmarks, or from the servers of a running gym."""
    if line.values.get("no_serve"):
        return _translate_eval_without_servers(line)
    if line.values.get("head"):
        raise click.UsageError("--head names a running gym, so it needs --no-serve.")
    if line.values.get("use_running_code"):
        raise click.UsageError("--use-running-code is about a running gym, so it needs --no-serve.")
    if len(line.names) == 1 and (
        Path(line.names[0]).expanduser().is_dir() or line.names[0].endswith(".toml")
    ):
        from nemo_gym.cli.short.task_folders import place_task_folders

        line = place_task_folders(line)
    elif any(":" in name for name in line.names):
        from nemo_gym.cli.short.foreign import has_foreign, place_foreign

        line = place_foreign(line) if has_foreign(line.names) else line
    selected = _select_config(line)
    arguments = selected.overrides
    if not line.has_key("output_jsonl_fpath") and "output_jsonl_fpath" not in selected.keys:
        output = RESULTS / f"{selected.name or 'rollouts'}.jsonl"
        arguments.append(f"++output_jsonl_fpath={spell(str(output))}")
    if selected.is_benchmark and not line.has_key("split") and not line.has_key("input_jsonl_fpath"):
        arguments.append("++split=benchmark")
    return Target(line.command, arguments)


def _translate_eval_without_servers(line: GymLine) -> Target:
    for flag in MODEL:
        if line.values.get(flag.parameter):
            raise click.UsageError(
                f"{flag.names.split()[0]} has no effect with --no-serve: the gym runs already."
            )
    _select_config(line, needs_model=False)  # reports unknown names
    uses_running_code = ["++use_running_code=true"] if line.values.get("use_running_code") else []
    return Target("collect_rollouts", [*line.overrides, *uses_running_code])


def _select_config(line: GymLine, *, needs_model: bool = True) -> SelectedConfig:
    configs = list(line.values.get("config") or ())
    extras = []
    for extra in line.extras:
        listed = _CONFIG_PATHS.fullmatch(extra)
        if listed is None:
            extras.append(extra)
        else:
            configs += [path.strip().strip("\"'") for path in listed[1].split(",") if path.strip()]
    selection = NamedConfig(
        targets=line.names,
        environments=line.values.get("environment", ()),
        benchmarks=line.values.get("benchmark", ()),
        resources_servers=line.values.get("resources_server", ()),
        configs=configs,
        model_type=line.values.get("model_type"),
        agent_type=line.values.get("agent_type"),
    )
    overrides = replace(line, extras=extras).overrides
    return select(selection, overrides, Path.cwd(), needs_model=needs_model)


def add_search_dirs(named: Sequence[str]) -> None:
    """Put the folders of `--search-dir` in front of the roots that this process and its children know."""
    folders = [Path(folder).expanduser().absolute() for folder in named]
    for folder in folders:
        if not folder.is_dir():
            raise click.UsageError(f"--search-dir: there is no folder {folder}.")
    if folders:
        set_extra_roots(*folders, *extra_roots())
