"""The broker as a whole."""

from __future__ import annotations

from typing import Annotated, Literal

from wirebroker.deeds.declaring import IMPOSSIBLE, UNWRITTEN, Deeds, about, deed

__tracebackhide__ = True  # pytest shows the caller's line


class RunningDeeds(Deeds):
    """What can be done to all brokers."""

    @deed("POST", "/restart", shows="health")
    def restart(
        self,
        mode: Annotated[Literal["clean", "kill"], about("clean: with a clean shutdown; kill: as after kill −9")] = "clean",
    ) -> None:
        """Restart all brokers, after a clean shutdown ("clean") or as after kill −9 ("kill"). The brokers' addresses stay the
        same."""
        self._engine.restart(mode, self._now)

    @deed("POST", "/warm", shows="health", problems=UNWRITTEN, impossible=IMPOSSIBLE)
    def warm(self) -> None:
        """Create the coordinators' internal topics and load all coordinators, so that they respond without delay. A reset that
        is not soft deletes these topics again."""
        self._engine.cluster.warm(self._now)
        self._write_down()
