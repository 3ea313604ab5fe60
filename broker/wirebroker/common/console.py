"""Output in colours."""

from __future__ import annotations

from rich.console import Console


class Output(Console):
    """Standard output, or another stream. If the reader goes away, as `head` does, the command continues without output, so
    that its files are complete and its exit code is right.
    """

    def on_broken_pipe(self) -> None:
        """Write nothing more. Rich itself would end the program with exit code 1, which stands for a finding."""
        self.quiet = True
