"""The headers of the calls that a run makes."""

from __future__ import annotations

from nemo_gym.names import TOKEN_HEADER
from nemo_gym.transport import Caller


def json_headers(caller: Caller) -> dict[str, str]:
    """Return the headers of a call with a JSON body, with the run's token, which control routes require."""
    headers = {"content-type": "application/json"}
    if caller.token is not None:
        headers[TOKEN_HEADER] = caller.token
    return headers
