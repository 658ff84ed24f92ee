"""Opened rollouts: their terms, their keys and their seals, as files that all model servers of a run share.

Each opened rollout has a folder with `opened.json` (its terms and the hash of its key), its record, and, once it is
sealed, the empty file `sealed`. The key is derived from the run's secret, so opening again returns the same key, and no
file contains it.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import os
import re
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from pydantic import BaseModel, Field

from nemo_gym import clock
from nemo_gym.failures import Boundary, GymError

KEY_PREFIX = "ngr_"
_OPENED, _SEALED = "opened.json", "sealed"
_ID = re.compile(r"[A-Za-z0-9_~:@+=-][A-Za-z0-9_.~:@+=-]{0,199}")
_LARGEST = (1 << 63) - 1
"""The largest integer that engines and files take."""


class RolloutRefusal(GymError):
    """A request that an opened rollout does not allow."""

    boundary = Boundary.INPUT


class SamplingPins(BaseModel, extra="forbid"):
    """Sampling fields that replace those of every call. `max_tokens` limits the answer in every API."""

    temperature: float | None = Field(None, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=_LARGEST)
    min_p: float | None = Field(None, ge=0, le=1)
    repetition_penalty: float | None = Field(None, gt=0, allow_inf_nan=False)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    seed: int | None = Field(None, ge=-_LARGEST, le=_LARGEST)
    max_tokens: int | None = Field(None, ge=1, le=_LARGEST)


class RolloutTerms(BaseModel, extra="forbid"):
    """The body of `POST /ng-rollouts`."""

    rollout_id: str | None = Field(None, pattern=f"^{_ID.pattern}$")
    sampling: SamplingPins | None = None
    model: str | None = Field(None, description="The model's name in every call.")
    max_calls: int | None = Field(None, ge=0, le=_LARGEST)
    max_sampled_tokens: int | None = Field(None, ge=0, le=_LARGEST)
    expires_s: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Seconds until the key expires."
    )


@dataclass(frozen=True, slots=True)
class Opening:
    """An opened rollout."""

    rollout_id: str
    folder: Path
    terms: RolloutTerms
    opened_at: float
    """Seconds since 1970."""
    nonce: str
    key_hash: str
    expires_at: float | None
    """On this process's monotonic clock, so that a change of the wall clock neither ends nor prolongs a rollout."""

    @property
    def is_sealed(self) -> bool:
        """Return whether any model server has sealed it."""
        return os.path.exists(f"{self.folder}/{_SEALED}")  # noqa: PTH110 - every model call asks, and a Path costs more

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and clock.monotonic() >= self.expires_at

    def fits(self, key: str) -> bool:
        """Return whether `key` is this rollout's key; compared in constant time."""
        return hmac.compare_digest(_hash(key), self.key_hash)


class Openings:
    """The opened rollouts below one folder."""

    def __init__(self, root: Path, secret: str) -> None:
        """`secret` is the same in all servers of a run."""
        self.root = root
        self._folder = str(root)
        self._secret = secret.encode()
        self._known: dict[str, tuple[tuple[int, int], Opening]] = {}

    def open(self, terms: RolloutTerms, new_id: Callable[[], str] = clock.hex_id) -> Opening:
        """Open a rollout; the same terms return the rollout that is open already.

        Raises `RolloutRefusal` (409) if the id is open with other terms.
        """
        rollout_id = terms.rollout_id or new_id()
        folder = self.find_folder(rollout_id)
        nonce = secrets.token_hex(16)
        document = {
            "rollout_id": rollout_id,
            "terms": _options(terms),
            "opened_at": clock.wall_clock(),
            "nonce": nonce,
            "key_hash": _hash(self._key(rollout_id, nonce)),
        }
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _create(folder / _OPENED, orjson.dumps(document))
        opening = self.find(rollout_id)
        assert opening is not None
        if opening.nonce != nonce and _options(opening.terms) != _options(terms):
            raise RolloutRefusal(
                f"rollout {rollout_id} is already open with other options",
                code="rollout_exists",
                status=409,
                remedy="Open it with the same options, delete it first, or choose another id.",
            )
        return opening

    def find(self, rollout_id: str) -> Opening | None:
        """Return an opened rollout, or None."""
        if not _ID.fullmatch(rollout_id):
            return None
        # Text, because every model call asks.
        path = f"{self._folder}/{rollout_id}/{_OPENED}"
        try:
            state = os.stat(path)  # noqa: PTH116
        except OSError:
            self._known.pop(rollout_id, None)
            return None
        version = (state.st_ino, state.st_mtime_ns)
        known = self._known.get(rollout_id)
        if known is not None and known[0] == version:
            return known[1]
        opening = _read(Path(path))
        self._known[rollout_id] = version, opening
        return opening

    def find_by_key(self, key: str) -> Opening | None:
        """Return the rollout that `key` opens, or None."""
        rollout_id = _id_in(key)
        opening = self.find(rollout_id) if rollout_id is not None else None
        return opening if opening is not None and opening.fits(key) else None

    def build_key(self, opening: Opening) -> str:
        """Return the key of a rollout. Raises `RolloutRefusal` (409) if another run opened it."""
        key = self._key(opening.rollout_id, opening.nonce)
        if not opening.fits(key):
            raise RolloutRefusal(
                f"rollout {opening.rollout_id} was opened by another run",
                code="rollout_exists",
                status=409,
                remedy="Delete it first, or choose another id.",
            )
        return key

    def seal(self, opening: Opening) -> None:
        with contextlib.suppress(FileNotFoundError):
            (opening.folder / _SEALED).touch(mode=0o600)

    def delete(self, opening: Opening) -> None:
        """Remove the rollout and its record."""
        self._known.pop(opening.rollout_id, None)
        shutil.rmtree(opening.folder, ignore_errors=True)

    def find_folder(self, rollout_id: str) -> Path:
        """Return the folder of a rollout. Raises `RolloutRefusal` for an id that cannot be in a path."""
        if not _ID.fullmatch(rollout_id):
            raise RolloutRefusal(
                f"the rollout id {rollout_id!r} cannot be a file name", code="invalid_rollout_id"
            )
        return self.root / rollout_id

    def _key(self, rollout_id: str, nonce: str) -> str:
        proof = hmac.new(self._secret, f"{nonce}/{rollout_id}".encode(), hashlib.sha256).hexdigest()
        name = base64.urlsafe_b64encode(rollout_id.encode()).decode().rstrip("=")
        return f"{KEY_PREFIX}{name}.{proof}"


def _options(terms: RolloutTerms) -> dict[str, Any]:
    return terms.model_dump(exclude_none=True, exclude={"rollout_id"})


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode(errors="replace")).hexdigest()


def _id_in(key: str) -> str | None:
    name, _, proof = key.removeprefix(KEY_PREFIX).partition(".")
    if not key.startswith(KEY_PREFIX) or not proof:
        return None
    try:
        return base64.b64decode(name + "=" * (-len(name) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None


def _read(path: Path) -> Opening:
    document = orjson.loads(path.read_bytes())
    terms = document["terms"] = RolloutTerms.model_validate(document["terms"])
    expires_at = None
    if terms.expires_s is not None:
        # The wall clock is the only one that processes share. Each asks it once, when it first reads the file.
        age = max(0.0, clock.wall_clock() - document["opened_at"])
        expires_at = clock.monotonic() + terms.expires_s - age
    return Opening(folder=path.parent, expires_at=expires_at, **document)


def _create(path: Path, content: bytes) -> None:
    """Create a file with its whole content, unless it exists: of several processes, one wins."""
    draft = path.with_name(f".{secrets.token_hex(8)}")
    draft.touch(mode=0o600, exist_ok=False)
    try:
        draft.write_bytes(content)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
