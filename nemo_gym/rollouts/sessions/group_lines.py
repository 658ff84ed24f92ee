"""The lines of a session's stream: groups, cancellations, signs of life, and the end.

The rows of a group's rollouts are bytes in and bytes out: they stand in the line as the agents' answers had them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from nemo_gym.json_objects import finite_number
from nemo_gym.names import ALIVE_KEY
from nemo_gym.rollouts.run.answer import Failed, Scored
from nemo_gym.rollouts.sessions.deliveries import GroupDelivery
from nemo_gym.rollouts.sessions.groups import Member, Versions
from nemo_gym.rows.calls import read_versions
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_usage
from nemo_gym.rows.timing import read_seconds
from nemo_gym.rows.verdict import is_masked


def build_member(repeat: int, result: Scored | Failed, began_with: int, metric: str | None = None) -> Member:
    """Return a settled rollout.

    `began_with`: the version at the start of its last attempt, for rows that name none. `metric`: a key of its row;
    None for its reward. A row without this number is a failure, and so is one that its
    environment excludes from training.
    """
    row: AnyRow = result.row
    versions = read_versions(row)
    own = Versions(*versions) if versions is not None else Versions(began_with, began_with)
    value: float | None = None
    failure: Mapping[str, Any] | None = None
    if isinstance(result, Failed):
        failure = result.failure.to_wire()["error"]
    elif is_masked(row):
        failure = {"code": "masked", "message": "its environment excludes it from training"}
    else:
        value = result.reward if metric is None else finite_number(row.get(metric))
        if value is None:
            failure = {"code": "no_metric", "message": f"its row has no number {metric!r}"}
    tokens = int(finite_number(read_usage(row).get("output_tokens")) or 0)
    return Member(repeat, own, value, tokens, read_seconds(row) or 0.0, failure)


def write_group(delivery: GroupDelivery, rows: Mapping[int, bytes], *, delivered_at: float) -> bytes:
    """Return the line of a group, or of a cancellation. `rows`: the rows of its rollouts by repeat."""
    group, judged = delivery.group, delivery.judged
    about: dict[str, Any] = {
        "cursor": group.cursor,
        "key": group.key,
        "round": group.round,
        "size": group.size,
        "number": group.number,
        "admitted_version": group.admitted_version,
        "admitted_at": group.admitted_at,
        "delivered_at": delivered_at,
        "expected_version": delivery.expected_version,
        "metric": delivery.spread._asdict() if delivery.spread is not None else None,
        "failed": [_describe_failed(each) for each in group.settled if not each.is_usable],
    }
    if group.cancelled is not None:
        return orjson.dumps({**about, "cancelled": group.cancelled.value, "spent": group.spent})
    members = sorted(judged.kept, key=lambda each: each.repeat)
    versions = [each.versions for each in members]
    oldest = min(each.oldest for each in versions)
    about |= {
        "dropped": [
            {"repeat": each.repeat, "reason": "stale", "versions": list(each.versions)}
            for each in judged.dropped
        ],
        "withheld": judged.withheld,
        "mask_below": judged.mask_below,
        "versions": {"oldest": oldest, "newest": max(each.newest for each in versions)},
        "staleness": delivery.expected_version - oldest,
        "member_versions": [list(each) for each in versions],
    }
    lines = [rows[each.repeat] for each in members]
    return b'%b,"members":[%b]}' % (orjson.dumps(about)[:-1], b",".join(lines))


def _describe_failed(member: Member) -> dict[str, Any]:
    return {"repeat": member.repeat, "failure": member.failure}


def write_sign(waits_for: str, counts: Mapping[str, Any]) -> bytes:
    """Return a line that says what the session waits for."""
    return orjson.dumps({ALIVE_KEY: {"waits_for": waits_for, **counts}})
