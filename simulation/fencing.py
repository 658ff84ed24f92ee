"""The invariant that a replica that was taken for lost does no more work."""

from __future__ import annotations

from simulation.events import Event, Kind


class FencedReplicasDoNothing:
    """After the loss of a replica's node, no request is handled at its earlier address.

    Otherwise two generations would act at once: an attempt of the earlier one could have effects, and an answer of it
    could reach a row.
    """

    name = "fenced replicas do nothing"

    def __init__(self) -> None:
        self._fenced: set[str] = set()
        """The addresses of lost replicas."""
        self._addresses: dict[int, str] = {}
        """Call in a handler → the address of the replica."""

    def observe(self, event: Event) -> str | None:
        if event.kind is Kind.FENCED:
            self._fenced.add(event.detail)
        elif event.kind is Kind.BEGUN and event.detail is not None:
            self._addresses[event.call] = event.detail
            return self._problem(event, event.detail, "began")
        elif event.kind is Kind.DONE:
            address = self._addresses.pop(event.call, None)
            if address is not None and event.detail is not None:
                return self._problem(event, address, "answered")
        return None

    def _problem(self, event: Event, address: str, did: str) -> str | None:
        if address not in self._fenced:
            return None
        return f"{event.place} {did} at {address}, which was taken for lost ({event.attempt})"
