"""User ids of sandboxes: each is held by one live sandbox."""

from __future__ import annotations

import pytest

from nemo_gym.failures import VerifierError
from nemo_gym.isolation import users
from nemo_gym.isolation.users import claim_user


def test_live_sandboxes_have_different_users() -> None:
    claims = [claim_user() for _ in range(20)]
    assert len({claim.uid for claim in claims}) == 20
    assert min(claim.uid for claim in claims) > 1000
    assert all(claim.uid % 2 == 0 for claim in claims)
    for claim in claims:
        claim.release()


def test_a_user_is_free_again_after_its_release(monkeypatch: pytest.MonkeyPatch) -> None:
    first = claim_user()
    monkeypatch.setattr(users, "_range_of_users", lambda: (first.uid, first.uid + 2))
    with pytest.raises(VerifierError, match="free for a sandbox"):
        claim_user()
    first.release()
    second = claim_user()
    assert second.uid == first.uid
    second.release()
