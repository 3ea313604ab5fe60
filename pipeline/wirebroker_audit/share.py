"""Estimates how much of an audit is done and how long the rest takes, from the stages' expected times and the time that they
really take."""

from __future__ import annotations

from collections.abc import Mapping

UNSURE = 5.0
"""The remaining time is estimated only after this many seconds. A stage without an expected time counts as this many
seconds."""
ALMOST = 0.95
"""While a stage runs, at most this part of the stage counts as done, because its last tasks are not yet known."""


class Share:
    """Computes the share of an audit that is done. Times are seconds of any clock that only goes forward."""

    def __init__(self) -> None:
        self._expected: dict[str, float] = {}
        self._passed: dict[str, float] = {}
        """the expected duration, in seconds, of each stage that has ended"""
        self._name = ""
        self._begun_at = -1.0
        self._part = 0.0
        self._shown = 0.0

    @property
    def is_known(self) -> bool:
        """Tells if the expected times of the stages are known."""
        return bool(self._expected)

    def expect(self, seconds: Mapping[str, float]) -> None:
        """Set the expected duration of each stage in seconds, in place of earlier expectations. The first call starts the
        measurement."""
        if not self.is_known:
            self._passed, self._name = {}, ""
        self._expected = dict(seconds)

    def begin(self, name: str, now: float) -> None:
        """Begin a stage, which ends the previous stage."""
        if self._name:
            self._passed[self._name] = self._expected.get(self._name, UNSURE)
        if self._begun_at < 0 and self.is_known:
            self._begun_at = now
        self._name, self._part = name, 0.0

    def look(self, part: float, now: float) -> tuple[float, float | None]:
        """Returns the share of the audit that is done, and the remaining seconds if they can be estimated. `part` is the part
        of the stage's known tasks that is done. The share never decreases: if more work turns up, only the remaining seconds
        increase."""
        self._part = max(self._part, min(part, ALMOST))
        if not self.is_known:
            return 0.0, None
        here = self._expected.get(self._name, UNSURE)
        passed = sum(self._passed.values())
        ahead = sum(each for name, each in self._expected.items() if name not in self._passed and name != self._name)
        done = (passed + here * self._part) / (passed + here + ahead)
        self._shown = max(self._shown, done)
        spent = now - self._begun_at
        if self._begun_at < 0 or spent < UNSURE or done <= 0:
            return self._shown, None
        return self._shown, spent * (1 - done) / done


def duration(seconds: float) -> str:
    """Returns a duration such as `40 s`, `3 min` or `2 h 5 min`."""
    if seconds < 59.5:
        return f"{max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
