"""The broker as a whole."""

from __future__ import annotations

from typing import Annotated, Literal

from wirebroker.deeds.declaring import IMPOSSIBLE, UNWRITTEN, Deeds, about, deed

__tracebackhide__ = True  # pytest shows the caller's line


class RunningDeeds(Deeds):
    """The deeds that concern all brokers."""

    @deed("POST", "/restart", shows="health")
    def restart(
        self,
        mode: Annotated[
            Literal["clean", "kill"], about("clean: shut down cleanly; kill: kill the brokers (kill −9)")
        ] = "clean",
    ) -> None:
        """Restart all brokers. The brokers first shut down cleanly ("clean"), or are killed ("kill"). Their addresses
        stay the same."""
        self._engine.restart(mode, self._now)

    @deed("POST", "/warm", shows="health", problems=UNWRITTEN, impossible=IMPOSSIBLE)
    def warm(self) -> None:
        """Create the coordinators' internal topics and load all coordinators, so that they respond without delay. A reset that
        is not soft deletes these topics again."""
        self._engine.cluster.warm(self._now)
        self._write_down()
