"""Advice about the name of a profile or a release that wirebroker does not have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wirebroker.common.suggestions import nearest
from wirebroker.core.releases.changes import RELEASES, number

RELEASE_PROFILES = [f"kafka-{name}" for name in RELEASES]
"""The profiles that are releases of Kafka, oldest first."""
_RELEASE = re.compile(r"(?:kafka[-_ ]?)?([0-9]{1,4}\.[0-9]{1,4})(?:\.[0-9]{1,4})*", re.ASCII | re.IGNORECASE)
"""The ways to write a release of Kafka, such as `kafka-3.9`, `KAFKA-3.9`, `3.9` and (with a patch number) `3.9.2`."""


def unknown(name: object, known: Iterable[str], what: str = "profile") -> str:
    """Returns a sentence about `name`, which is not in `known`. The sentence suggests the profile of the same release, the
    profile of the nearest release, or the profile with the most similar name.
    """
    if not isinstance(name, str):
        return f"the name of a {what} must be a string such as {RELEASE_PROFILES[-1]!r}, not {name!r}"
    if (found := _RELEASE.fullmatch(name.strip())) is None:
        return f"there is no {what} {name!r}{nearest(name, known)}"
    if found[1] in RELEASES:
        return f"there is no {what} {name!r}; did you mean 'kafka-{found[1]}'?"
    return f"wirebroker has no profile of Kafka {found[1]}; the nearest is kafka-{_nearest_release(found[1])}"


def _nearest_release(wanted: str) -> str:
    """Returns the nearest release with the same major number. If there is none, returns the latest earlier release, or else the
    oldest release."""
    major, minor = number(wanted)
    same = [each for each in RELEASES if number(each)[0] == major]
    if same:
        return min(same, key=lambda each: abs(number(each)[1] - minor))
    return max((each for each in RELEASES if number(each) < (major, minor)), key=number, default=RELEASES[0])
