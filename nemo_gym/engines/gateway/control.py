"""The control routes of rollouts: open, read, seal and delete. They require the run's token."""

from __future__ import annotations

import asyncio
from typing import Any

from nemo_gym.engines.gateway.calls import RolloutCalls
from nemo_gym.engines.gateway.openings import Opening, Openings, RolloutRefusal, RolloutTerms
from nemo_gym.engines.gateway.reading import RecordedRollout
from nemo_gym.engines.record.files import read_record
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.rollout_paths import rollout_path_prefix
from nemo_gym.tokens.tree import TrainedPaths
from nemo_gym.transport.control import ROLLOUT_RECORDS


class RolloutControl:
    """The handlers of the control routes."""

    def __init__(self, openings: Openings, calls: RolloutCalls) -> None:
        self._openings = openings
        self._calls = calls

    def add_routes(self, app: GymApp) -> None:
        app.post(ROLLOUT_RECORDS)(self.open)
        app.get(ROLLOUT_RECORDS + "/{rollout_id}")(self.read)
        app.post(ROLLOUT_RECORDS + "/{rollout_id}/seal")(self.seal)
        app.delete(ROLLOUT_RECORDS + "/{rollout_id}")(self.delete)

    async def open(self, body: RolloutTerms) -> dict[str, str]:
        opening = self._openings.open(body)
        return {
            "rollout_id": opening.rollout_id,
            "key": self._openings.build_key(opening),
            "base_url_path": f"{rollout_path_prefix(opening.rollout_id)}/v1",
        }

    async def read(self, rollout_id: str, paths: TrainedPaths = TrainedPaths.REACHED_END) -> dict[str, Any]:
        opening = self._require_opening(rollout_id)
        about = {"rollout_id": rollout_id, "sealed": opening.is_sealed}
        return about | await asyncio.to_thread(_read_recorded, opening, paths)

    async def seal(self, rollout_id: str) -> dict[str, Any]:
        opening = self._require_opening(rollout_id)
        self._openings.seal(opening)
        return {"rollout_id": rollout_id, "sealed": True, "cancelled": self._calls.cancel(opening)}

    async def delete(self, rollout_id: str) -> dict[str, Any]:
        opening = self._openings.find(rollout_id)
        if opening is not None:
            self._openings.seal(opening)
            self._calls.cancel(opening)
            self._openings.delete(opening)
        return {"rollout_id": rollout_id, "deleted": opening is not None}

    def _require_opening(self, rollout_id: str) -> Opening:
        opening = self._openings.find(rollout_id)
        if opening is None:
            raise RolloutRefusal(
                f"no rollout {rollout_id} is open",
                code="rollout_unknown",
                status=404,
                remedy="Open it with POST /ng-rollouts.",
            )
        return opening


def _read_recorded(opening: Opening, paths: TrainedPaths) -> dict[str, Any]:
    """Read a record and rebuild its tokens, which takes long for a long rollout."""
    record = read_record(opening.folder)
    return {**RecordedRollout(record.lines, paths).to_json(), "damaged_lines": record.damaged}
