"""Foreign environments as an environment. `nemo_gym.sources.foreign` has its parts."""

from __future__ import annotations

from nemo_gym.sources.foreign.environment import ForeignServer


class ForeignResourcesServer(ForeignServer):
    pass


if __name__ == "__main__":
    ForeignResourcesServer.run_webserver()
