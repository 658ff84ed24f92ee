"""Tasks of Inspect: `inspect:PACKAGE/TASK`, a task of an installed package, or `inspect:FILE.py@TASK`.

A sample is a task here, and an attempt is one `eval` of one sample by Inspect's own runner: its solver calls the
policy, its limits end the sample, its scorer scores it. Every model role has a model of its own: a grader that has none
would be the policy, and its calls would be in the policy's record. `eval` is not re-entrant, so a host plays one
attempt at a time; each loads the task anew, and has its own folder for logs and for cached answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import inspect
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai._eval.loader import load_tasks
from inspect_ai._util.decorator import parse_decorators
from inspect_ai._util.registry import registry_find, registry_info, registry_lookup
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.scorer._scorer import unique_scorer_name

from ..faults import HostError, check_reward
from ..inspect_models import POLICY, SampleModels
from ..model_roles import find_model_roles
from ..packages import compute_digest, describe_package
from ..score_values import read_number

PACKAGE = "inspect-ai"
OPTIONS = {"arguments", "scorer", "value", "roles", "sandbox"}
GRADER = "grader"
_SEAT = {"name": POLICY, "trainable": True}
_LIMITS = {
    **dict.fromkeys(("turn", "message"), "max_steps"),
    **dict.fromkeys(("time", "working"), "timed_out"),
    "token": "max_output_tokens",
    "context": "context_overflow",
}
"""Limits of a sample as end reasons; all others are `truncated`."""
_STOPS = {"max_tokens": "max_output_tokens", "model_length": "context_overflow"}
_MOST_TEXT_CHARS = 4000


def build(name: str, options: dict[str, Any]) -> InspectTasks:
    return InspectTasks(name, options)


class TaskSource:
    """Where a task is: an installed package, or a file."""

    def __init__(self, name: str) -> None:
        path, _, task = name.partition(".py@") if ".py@" in name else (name.removesuffix(".py"), "", "")
        self.file = Path(f"{path}.py") if name.endswith(".py") or ".py@" in name else None
        self.name = name
        if self.file is None:
            check_registered(name)
            self.spec = name
        else:
            os.chdir(self.file.parent)  # Inspect refuses absolute paths
            self.spec = f"{self.file.name}@{find_task(self.file, task)}"
            self.name = self.spec

    def list_sources(self) -> list[Path]:
        """Return the files whose code is the task's: those beside its file, or those of its part of a package."""
        if self.file is not None:
            return sorted(self.file.parent.glob("*.py"))
        module = sys.modules[registry_lookup("task", self.spec).__module__]
        root = Path(sys.modules[module.__name__.partition(".")[0]].__file__ or "").parent
        file = Path(module.__file__ or "")
        part = file.relative_to(root).parts
        return sorted((root / part[0]).rglob("*.py")) if len(part) > 1 else [file]

    def digest(self, options: dict[str, Any]) -> str:
        packages = [PACKAGE]
        files = {}
        if self.file is not None:
            files = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in self.list_sources()}
        else:
            packages.append(find_distribution(self.spec))
        return compute_digest(packages, None, {"name": self.name, "files": files, **options})

    def describe_package(self) -> dict[str, Any]:
        if self.file is None:
            return describe_package(find_distribution(self.spec))
        return {**describe_package(PACKAGE), "license": None, "source": self.file.name}


class InspectTasks:
    """The samples of a task, and how they are scored."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        if unknown := set(options) - OPTIONS:
            raise HostError("bad_request", f"inspect has no options {', '.join(sorted(unknown))}")
        if options.get("sandbox") not in (None, "local"):
            raise HostError("unsupported", f"the sandbox {options['sandbox']!r} is not here, only 'local'")
        self._options = options
        self._source = TaskSource(name)
        random.seed(0)  # of a task that shuffles its samples without a seed
        task = self._load()
        check_arguments(self._source.spec, options.get("arguments") or {})
        self._samples = list_samples(task)
        check_sandboxes(task, [*self._samples.values()], options)
        self._scorer, self._value = choose_score(task, options)
        stated = [*(task.model_roles or {}), *(options.get("roles") or ())]
        self._roles = sorted({GRADER, *stated, *find_model_roles(self._source.list_sources())})
        if POLICY in self._roles:
            raise HostError("unsupported", f"a model role {POLICY!r} cannot be told from the policy's seat")

    def describe(self) -> dict[str, Any]:
        package = self._source.describe_package()
        return {
            **package,
            "name": self._source.name,
            "version": package["package_version"],
            "digest": self._source.digest(self._options),
            "loop": "theirs",
            "tasks": len(self._samples),
            "infinite": False,
            "seats": [_SEAT],
            "models": self._roles,
            "rewards": [{"name": self._scorer or "score", "weight": 1.0, "range": None}],
            "reward_rule": "last",
            "seeded": "all",
            "needs": {"network": False, "writes": False},
            "concurrency": 1,
        }

    def list_tasks(self, cursor: int, limit: int, split: str | None, seed: int) -> dict[str, Any]:
        if split is not None:
            raise HostError(
                "bad_request", "a task of Inspect has no splits; choose by +options={arguments: …}"
            )
        chosen = [*self._samples.items()][cursor : cursor + limit]
        tasks = [
            {
                "id": f"{self._source.name}/{number}",
                "prompt": show_prompt(sample),
                "data": {"sample": number, "digest": digest_sample(sample)},
            }
            for number, sample in chosen
        ]
        end = cursor + limit
        return {"tasks": tasks, "cursor": end if end < len(self._samples) else None}

    def run(
        self, task: dict[str, Any], seed: int, models: dict[str, dict[str, str]], limits: dict[str, int]
    ) -> dict[str, Any]:
        loaded, sample = self._choose(task["data"])
        attempt = SampleModels(models, limits.get("turns"))
        with own_folder() as folder:
            [log] = evaluate(
                loaded,
                model=attempt.models[POLICY],
                model_roles={name: model for name, model in attempt.models.items() if name != POLICY},
                sandbox=self._options.get("sandbox"),
                epochs=1,
                log_dir=str(folder),
                log_format="json",
                log_realtime=False,
                display="none",
                max_samples=1,
                max_retries=0,
                fail_on_error=False,
                retry_on_error=0,
                score_on_error=False,
                acp_server=False,
                ctl_server=False,
            )
            played = find_sample(log, attempt)  # while its log is there
        scores = {name: score.value for name, score in (played.scores or {}).items()}
        return {
            "rewards": {POLICY: self._read_reward(scores)},
            "metrics": {POLICY: {"messages": len(played.messages), **read_numbers(scores)}},
            "end": describe_end(played),
            "calls_seen": attempt.calls,
            "native": describe_sample(played, sample),
        }

    def _load(self) -> Task:
        try:
            [task] = load_tasks([self._source.spec], dict(self._options.get("arguments") or {}))
        except HostError:
            raise
        except Exception as error:
            raise explain_load(self._source.name, error) from error
        task.model = None  # a model of its own would take the policy's place
        return task

    def _choose(self, data: dict[str, Any]) -> tuple[Task, Sample]:
        """Load the task anew, and leave it one sample. Raises `HostError` if that has changed."""
        task = self._load()
        sample = list_samples(task).get(str(data["sample"]))
        if sample is None or digest_sample(sample) != data["digest"]:
            raise HostError(
                "task_changed",
                f"the sample {data['sample']} of {self._source.name} is not the one of its row: the data set has "
                "changed, or the task draws its samples without a seed",
            )
        if self._options.get("sandbox"):
            sample.sandbox = None
        task.dataset = task.dataset.filter(lambda each: each is sample)
        return task, sample

    def _read_reward(self, scores: dict[str, Any]) -> float:
        names = [self._scorer] if self._scorer else [*scores]
        if len(names) != 1 or names[0] not in scores:
            raise HostError(
                "bad_reward", f"no score {self._scorer or ''} among {', '.join(scores) or 'none'}"
            )
        value, of = scores[names[0]], f"the scorer {names[0]}"
        if isinstance(value, dict):
            keys = [self._value] if self._value else [*value]
            if len(keys) != 1 or keys[0] not in value:
                raise HostError(
                    "bad_reward", f"{of} gave {', '.join(value)}: name one by +options={{value: …}}"
                )
            value = value[keys[0]]
        number = read_number(value)
        return check_reward(value if number is None else number, of)


def check_registered(name: str) -> None:
    """Raise `HostError` for a task that no installed package has."""
    if registry_lookup("task", name) is not None:
        return
    known = [info.name for info in map(registry_info, registry_find(lambda info: info.type == "task"))]
    near = get_close_matches(name, known, 3) or ["PACKAGE/TASK", "FILE.py@TASK"]
    raise HostError("not_found", f"Inspect has no task {name!r}, but {', '.join(near)}")


def find_task(file: Path, stated: str) -> str:
    """Return the task that is stated, or the only one. Raises `HostError` if a file has not just that."""
    try:
        names = [str(name) for name, *_ in parse_decorators(file, "task")]
    except PermissionError as error:
        told = f"the user of a host cannot read {file}: chmod o+r {file}, and o+x its folders"
        raise HostError("not_found", told) from error
    except SyntaxError as error:
        raise HostError("not_found", f"{file.name}:{error.lineno}: {error.msg}") from error
    if stated in names or (not stated and len(names) == 1):
        return stated or names[0]
    listed = ", ".join(f"{file.name}@{name}" for name in names) or "no function with @task"
    raise HostError(
        "not_found", f"{file.name} has {listed}" + (f", and no {stated!r}" if stated else ": name one")
    )


def check_arguments(spec: str, arguments: dict[str, Any]) -> None:
    """Raise `HostError` for an argument that the task does not take: Inspect drops it with a warning."""
    function = registry_lookup("task", spec.rpartition("@")[2])
    known = inspect.signature(function).parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known.values())
    if (strange := sorted(set(arguments) - set(known))) and not takes_all:
        takes = ", ".join(known) or "none"
        raise HostError("bad_request", f"the task has no arguments {', '.join(strange)}; it takes {takes}")


def find_distribution(spec: str) -> str:
    package = spec.partition("/")[0]
    return importlib.metadata.packages_distributions().get(package, [package])[0]


def explain_load(name: str, error: BaseException) -> HostError:
    """Return the error of a task that cannot be loaded, with the likeliest cause."""
    told = f"{name} cannot be loaded: {type(error).__name__}: {error}"
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__  # type: ignore[assignment]
    modules = {type(each).__module__.partition(".")[0] for each in chain}
    is_offline = any(isinstance(each, ConnectionError) for each in chain)
    if is_offline or modules & {"huggingface_hub", "datasets", "requests", "httpx", "urllib3", "aiohttp"}:
        return HostError("unsupported", f"{told[:500]} (a host has no network: the data must be in a file)")
    if any(isinstance(each, ModuleNotFoundError) for each in chain):
        return HostError("not_found", f"{told[:500]} (its lock lacks the package)")
    return HostError("environment_error", told[:1500])


def list_samples(task: Task) -> dict[str, Sample]:
    """Return the samples by their ids, numbers from 1 where they have none. Raises `HostError` for two of one id."""
    found: dict[str, Sample] = {}
    for number, sample in enumerate(task.dataset, 1):
        if sample.id is None:
            sample.id = number
        if found.setdefault(str(sample.id), sample) is not sample or len(found) != number:
            raise HostError("bad_request", f"several samples have the id {sample.id!r}")
    return found


def digest_sample(sample: Sample) -> str:
    """Return a digest of the whole sample, without the random ids of its messages."""
    whole = sample.model_dump(mode="json", exclude={"id"}, fallback=str)
    if not isinstance(sample.input, str):
        whole["input"] = [{**message, "id": None} for message in whole["input"]]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


def check_sandboxes(task: Task, samples: list[Sample], options: dict[str, Any]) -> None:
    """Raise `HostError` for a sandbox that a host cannot start."""
    used = {each.type for each in (task.sandbox, *(sample.sandbox for sample in samples)) if each is not None}
    if (strange := sorted(used - {"local"})) and not options.get("sandbox"):
        raise HostError(
            "unsupported",
            f"the task wants the sandbox {', '.join(strange)}, and a host has 'local' alone: its tools run in the "
            "host itself, which is confined. +options={sandbox: local} tries that, without the image's programs",
        )


def choose_score(task: Task, options: dict[str, Any]) -> tuple[str | None, str | None]:
    """Return the scorer, and the key of its value, that are the reward. Raises `HostError` if it is not clear."""
    names: list[str] = []
    for scorer in task.scorer or ():
        names.append(unique_scorer_name(scorer, names))
    stated = options.get("scorer")
    if stated is not None and names and stated not in names:
        raise HostError("not_found", f"the task has no scorer {stated!r}, but {', '.join(names)}")
    if stated is None and len(names) > 1:
        raise HostError(
            "bad_request", f"the task has several scorers: +options={{scorer: {' or '.join(names)}}}"
        )
    if stated is None and not names:
        raise HostError(
            "bad_request",
            "the task has no scorer, and so no reward; one of its solver's scores is "
            "named by +options={scorer: NAME}",
        )
    chosen = stated or names[0]
    keys = list_keys(task, names.index(chosen)) if chosen in names else []
    value = options.get("value")
    if keys and value is None and (len(keys) > 1 or "*" in keys[0]):
        raise HostError(
            "bad_request",
            f"the scorer {chosen} gives several values: +options={{value: {' or '.join(keys)}}}",
        )
    return chosen, value


def list_keys(task: Task, index: int) -> list[str]:
    """Return the keys of a scorer's values, if its metrics name them."""
    declared = task.metrics or registry_info((task.scorer or [])[index]).metadata.get("metrics") or []
    mappings = [
        each for each in (declared if isinstance(declared, list) else [declared]) if isinstance(each, dict)
    ]
    return [str(key) for mapping in mappings for key in mapping]


def read_numbers(scores: dict[str, Any]) -> dict[str, float]:
    """Return the scores that are finite numbers, those of a mapping by `SCORER_KEY`."""
    flat: dict[str, Any] = {}
    for name, value in scores.items():
        parts = value if isinstance(value, dict) else {None: value}
        flat |= {name if key is None else f"{name}_{key}": part for key, part in parts.items()}
    numbers = {name: read_number(value) for name, value in flat.items()}
    return {name: value for name, value in numbers.items() if value is not None and abs(value) < float("inf")}


def find_sample(log: EvalLog, attempt: SampleModels) -> EvalSample:
    """Return the sample that was played. Raises `HostError` for one that has an error."""
    sample = log.samples[0] if log.samples else None
    error = log.error if sample is None else sample.error
    if attempt.problem is not None:
        raise attempt.problem
    if error is not None:
        told = error.message
        if sample is not None and has_scorers_begun(sample):
            raise HostError("verifier_error", f"the scorer raised {told}")
        raise HostError("environment_error", f"the sample has the error {told}", retryable=True)
    if sample is None:
        raise HostError("environment_error", f"Inspect gave no sample ({log.status})", retryable=True)
    return sample


def has_scorers_begun(sample: EvalSample) -> bool:
    return any(event.event == "span_begin" and event.name == "scorers" for event in sample.events)


def describe_end(sample: EvalSample) -> dict[str, Any]:
    if sample.limit is not None:
        told = sample.limit.reason or f"the limit {sample.limit.type} ({sample.limit.limit:g})"
        return {"reason": _LIMITS.get(sample.limit.type, "truncated"), "detail": told}
    stop = sample.output.stop_reason if sample.output.choices else None
    if stop in _STOPS:
        return {"reason": _STOPS[stop], "detail": f"the last answer stopped at {stop}"}
    last = sample.messages[-1] if sample.messages else None
    is_answer = last is not None and last.role == "assistant" and not last.tool_calls
    return {"reason": "final_answer" if is_answer else "terminated", "detail": None}


def describe_sample(sample: EvalSample, given: Sample) -> dict[str, Any]:
    """Return what Inspect's log says of the sample, without its messages."""
    scores = {
        name: score.model_dump(mode="json", fallback=str) for name, score in (sample.scores or {}).items()
    }
    for score in scores.values():
        score.pop("history", None)
        score.update({key: text[:_MOST_TEXT_CHARS] for key, text in score.items() if isinstance(text, str)})
        if len(json.dumps(score.get("metadata"))) > _MOST_TEXT_CHARS:
            score["metadata"] = None
    return {
        "sample": given.id,
        "scores": json.loads(json.dumps(scores), parse_constant=str),
        "limit": sample.limit.model_dump(mode="json") if sample.limit else None,
        "model_usage": {name: usage.model_dump(mode="json") for name, usage in sample.model_usage.items()},
    }


def show_prompt(sample: Sample) -> str | list[dict[str, Any]]:
    if isinstance(sample.input, str):
        return sample.input
    return [{"role": each.role, "content": each.text} for each in sample.input if each.role != "tool"]


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """Make a folder for the logs and the cached answers of one attempt."""
    with tempfile.TemporaryDirectory(prefix="inspect-") as name:
        os.environ["INSPECT_CACHE_DIR"] = name
        yield Path(name)
