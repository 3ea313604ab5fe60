"""Joins the definitions of a message in several releases into one definition.

A release that removes versions of a message also changes the versions of the fields ("0-2" disappears, "3+" becomes "0+"). So
the definition of each version is taken from a single release: one release defines the versions below a border, and another
release defines the versions from the border on. A field with different names in two releases is recognised by its position in
the versions that both releases have.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
Bounds = tuple[int, int]

NEVER = 32767
NONE = (NEVER, NEVER)


def bounds(text: str | None) -> Bounds:
    """Parse `3+`, `0-7`, `5` or `none` into an inclusive range of versions."""
    if text is None or text == "none":
        return NONE
    if text.endswith("+"):
        return int(text[:-1]), NEVER
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def valid(definition: Json | None) -> Bounds:
    """Returns the stable versions of a message. A broker serves these versions by default."""
    low, high = bounds((definition or {}).get("validVersions"))
    high -= bool((definition or {}).get("latestVersionUnstable"))
    return (low, high) if low <= high and low != NEVER else NONE


def of_all_releases(older: dict[str, Json], main: dict[str, Json], newer: dict[str, Json]) -> dict[str, Json]:
    """Returns the definitions by name, with the versions of three releases. A version that `main` has is taken from `main`."""
    found = {}
    older, main, newer = (_with_stability(each) for each in (older, main, newer))
    keys = {each["apiKey"] for each in main.values() if "apiKey" in each and valid(each) != NONE}
    for name in sorted(older.keys() | main.keys() | newer.keys()):
        made = main.get(name)
        if valid(made) == NONE:
            made = newer.get(name) if valid(newer.get(name)) != NONE else older.get(name)
        if made is None or valid(made) == NONE or (name not in main and made.get("apiKey") in keys):
            continue  # the message has only unstable versions, or a later release renamed it
        if valid(older.get(name))[0] < valid(made)[0]:
            made = _joined(older[name], made, valid(made)[0], made)
        if valid(made)[1] < valid(newer.get(name))[1] != NEVER:
            made = _joined(made, newer[name], valid(made)[1] + 1, made)
        listeners = {each for release in (older, main, newer) for each in release.get(name, {}).get("listeners", [])}
        found[name] = {**made, "listeners": sorted(listeners)}
    return found


def _with_stability(found: dict[str, Json]) -> dict[str, Json]:
    """Copy the flag `latestVersionUnstable` of each request to its response."""
    unstable = {name.removesuffix("Request") for name, each in found.items() if each.get("latestVersionUnstable")}
    return {name: {**each, "latestVersionUnstable": name.removesuffix("Request").removesuffix("Response") in unstable}
            for name, each in found.items()}  # fmt: skip


def _joined(first: Json, second: Json, border: int, naming: Json) -> Json:
    """Returns one definition. `first` describes the versions below `border`, `second` describes the versions from `border` on,
    and `naming` has the names.

    A struct is defined inside the first field that uses it.
    """
    low, high = bounds(first["validVersions"])[0], bounds(second["validVersions"])[1]
    fields = [_inlined(each["fields"], _structs(each)) for each in (first, second)]
    shared = range(bounds(second["validVersions"])[0], bounds(first["validVersions"])[1] + 1)
    named, other = fields if naming is first else fields[::-1]
    _rename(named, other, shared)
    flexible = min(bounds(each.get("flexibleVersions"))[0] for each in (first, second))
    return {
        **second,
        "validVersions": f"{low}-{high}",
        "flexibleVersions": "none" if flexible == NEVER else f"{flexible}+",
        "fields": _Join(first["name"], low, border, high).fields(*fields),
        "commonStructs": [],
    }


def _structs(definition: Json) -> dict[str, list[Json]]:
    return {each["name"]: each["fields"] for each in definition.get("commonStructs", [])}


def _inlined(fields: list[Json], structs: dict[str, list[Json]]) -> list[Json]:
    """Returns a copy of the fields. If the type of a field is a named struct, the copy of this field contains the struct's
    fields."""
    copies = []
    for field in fields:
        inside = field.get("fields") or structs.get(field["type"].removeprefix("[]"))
        copies.append({**field, "fields": _inlined(inside, structs)} if inside else dict(field))
    return copies


def _rename(naming: list[Json], other: list[Json], shared: range) -> None:
    """Rename the fields of `other`: each field gets the name that the field at the same place has in `naming`.

    If `other` already uses such a name for a new field, the new field keeps the name, and the field of `naming` is renamed
    instead.
    """
    pairs = {}
    for version in shared:
        here, there = ([f for f in fields if _has(f, "versions", version) and "tag" not in f] for fields in (naming, other))
        assert len(here) == len(there), ("two releases describe the same version differently", version)
        pairs.update({id(mine): (mine, theirs) for mine, theirs in zip(here, there, strict=True)})
    for mine, theirs in pairs.values():
        if any(each is not theirs and each["name"] == mine["name"] for each in other):
            mine["name"] = theirs["name"]
        theirs["name"] = mine["name"]
        _rename(mine.get("fields", []), theirs.get("fields", []), shared)


def _has(field: Json, what: str, version: int) -> bool:
    low, high = bounds(field.get(what, field.get("taggedVersions") if what == "versions" else None))
    return low <= version <= high and low != NEVER


class _Join:
    """Joins two definitions of the same fields: for versions below `border` the first definition applies, and for versions from
    `border` on the second definition."""

    def __init__(self, name: str, low: int, border: int, high: int) -> None:
        self.name = name
        self.border = border
        self.sides = (low, border - 1), (border, high)

    def fields(self, first: list[Json], second: list[Json]) -> list[Json]:
        """Returns the fields of both definitions that exist in some version, in an order that agrees with both definitions."""
        first, second = (
            [field for field in fields if self._of(at, field, "versions") != NONE] for at, fields in enumerate((first, second))
        )
        twins = {field["name"]: field for field in second}
        made, place = list[Json](), 0
        for field in first:
            twin = twins.get(field["name"])
            if twin is not None:
                at = second.index(twin)
                assert at >= place, f"{field['name']} of {self.name} has another position"
                made += [self._field(None, each) for each in second[place:at]]
                place = at + 1
            made.append(self._field(field, twin))
        return made + [self._field(None, each) for each in second[place:]]

    def _field(self, first: Json | None, second: Json | None) -> Json:
        made = {**(first or {}), **(second or {})}
        made["versions"] = self._versions(first, second, "versions")
        if "tag" in made:
            made["taggedVersions"] = made["versions"]
        if "nullableVersions" in made:
            made["nullableVersions"] = self._versions(first, second, "nullableVersions")
        if "fields" in made:
            made["fields"] = self.fields(*(field["fields"] if field else [] for field in (first, second)))
        assert not first or not second or "fields" in made or first["type"] == second["type"], (self.name, made["name"])
        return made

    def _of(self, side: int, field: Json | None, what: str) -> Bounds:
        """Returns the versions in which the field exists or may be null, or NONE."""
        if field is None:
            return NONE
        low, high = bounds(field.get(what, field.get("taggedVersions") if what == "versions" else None))
        return (low, high) if low != NEVER and max(low, self.sides[side][0]) <= min(high, self.sides[side][1]) else NONE

    def _versions(self, first: Json | None, second: Json | None, what: str) -> str:
        (low, high), (next_low, next_high) = self._of(0, first, what), self._of(1, second, what)
        if low == NEVER:
            low, high = max(next_low, self.border), next_high
        elif next_low == NEVER:
            high = min(high, self.border - 1)
        else:
            assert high + 1 >= self.border >= next_low, f"{self.name}: no release defines some versions of a field"
            high = next_high
        if low == NEVER:
            return "none"
        return f"{low}+" if high == NEVER else f"{low}-{high}"
