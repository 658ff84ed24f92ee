"""The difference between two JSON values, as a small JSON value.

A trajectory holds what differs between an item and the reading of its step: ids, a status, the spelling of arguments.
"""

from __future__ import annotations

from typing import Any

from nemo_gym.json_objects import dump_json


def make_patch(given: Any, wanted: Any) -> dict[str, Any] | None:
    """Return what turns `given` into `wanted`; None if they are equal JSON."""
    if isinstance(given, dict) and isinstance(wanted, dict):
        changed = {
            key: {"value": wanted[key]} if key not in given else make_patch(given[key], wanted[key])
            for key in wanted
        }
        found: dict[str, Any] = {"keys": {key: patch for key, patch in changed.items() if patch is not None}}
        if gone := [key for key in given if key not in wanted]:
            found["without"] = gone
        return found if found["keys"] or gone else None
    if isinstance(given, list) and isinstance(wanted, list) and len(given) == len(wanted):
        changed = {
            str(place): make_patch(*pair) for place, pair in enumerate(zip(given, wanted, strict=True))
        }
        places = {place: patch for place, patch in changed.items() if patch is not None}
        return {"places": places} if places else None
    # True, 1 and 1.0 are equal in Python
    return None if dump_json(given) == dump_json(wanted) else {"value": wanted}


def apply_patch(given: Any, patch: dict[str, Any] | None) -> Any:
    """Return the value that `make_patch` was given. Raises KeyError, ValueError or TypeError for another patch."""
    if patch is None:
        return given
    if "value" in patch:
        return patch["value"]
    if "places" in patch:
        return [apply_patch(each, patch["places"].get(str(place))) for place, each in enumerate(given)]
    kept = {key: value for key, value in given.items() if key not in patch.get("without", ())}
    return kept | {key: apply_patch(given.get(key), each) for key, each in patch["keys"].items()}
