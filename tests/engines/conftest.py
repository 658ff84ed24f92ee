"""The model servers, one set for the tests of each file."""

from collections.abc import Callable, Iterator

import pytest
from openai import OpenAI

from nemo_gym.testing.serving import LoopbackServers
from tests.engines.kinds import KINDS, Ground


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with LoopbackServers() as servers:
        yield Ground(servers, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="session")
def connect() -> Iterator[Callable[[str], OpenAI]]:
    """A client of the model server at a URL. Making one from nothing costs more than most tests."""
    # Cookies ignore ports: the client sends a session cookie to other servers, which ignore it.
    with OpenAI(base_url="http://none", api_key="none", max_retries=0) as client:
        yield lambda url: client.with_options(base_url=f"{url}/v1")


@pytest.fixture(scope="module")
def url_of_kind(ground: Ground) -> Callable[[str], str]:
    """The URL of the server of a kind; started when it is first asked for."""
    urls: dict[str, str] = {}

    def url_of(kind: str) -> str:
        if kind not in urls:
            urls[kind] = ground.servers.serve(KINDS[kind](ground))
        return urls[kind]

    return url_of
