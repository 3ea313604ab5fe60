"""A schedule has a setting and a list of steps. It stays valid if steps are removed.

A step has a kind and a seed. When the step is played, its seed chooses among the objects that exist then. So the step does not
depend on other steps. The seed of a schedule also chooses its focus: two kinds that often follow each other. If there are n
kinds, the first n² seeds all have different focuses. Other schedules follow a plan instead.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from simulation.whole.kinds import ASKED, KINDS, NO_CHANGE, SETUP_KINDS, THEMES, WEIGHTS

STRIDE = 7919
"""A prime that does not divide the number of kinds. With it, the focuses of two consecutive seeds have different first kinds
and different second kinds."""
SHORTEST, LONGEST = 25, 70
SYNCED_EACH = 3
"""If this is n, a timer syncs the data directory in every n-th schedule whose data directory is not synced always."""
SETUP = 6
"""A schedule with a plan begins with this many steps that are not in the plan."""


class Step(NamedTuple):
    """One step."""

    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind} {self.seed}"


@dataclass(frozen=True, slots=True)
class Setting:
    """The cluster with which a schedule begins."""

    seed: int
    brokers: int = 1
    data: bool = False
    sync: str = "never"
    secured: bool = False
    sliced: bool = False
    warm: bool = True
    traced: bool = False
    judged: bool = False
    """Tells whether the model of Kafka's rules judges the clients' history."""
    release: str = ""
    tries: int = 20
    """A subject generates requests until one of them has the wanted kind, but at most this many."""
    planned: bool = False
    """Tells whether the schedule follows a plan. Then requests are as in the dialogues, and no client leaves by itself."""
    static: bool = False
    """Tells whether the new members of a plan's groups are static and have short rebalance timeouts."""
    alike: bool = False
    """Tells whether most steps are about the same topic, the same group and, in a plan, the same transactional id."""


class Schedule(NamedTuple):
    """A setting and steps."""

    setting: Setting
    steps: Sequence[Step]
    focus: tuple[str, str]


class Plan(NamedTuple):
    """The requirements for a planned schedule (`steering`)."""

    setting: Mapping[str, Any]
    """The settings that are not left to chance."""
    kinds: Sequence[str]
    """The kinds of the schedule's steps, in this order."""
    seed: int | None = None
    """The seed of the steps, or None for the schedule's seed. If two plans have the same seed, their steps are the same up to
    the first step with a different kind."""
    lead: Sequence[str] = ()
    """The kinds of steps that come before the steps of `kinds`. The seeds of these steps depend on the schedule's seed."""
    rest: Sequence[str] = ()
    """The kinds of steps that come after the steps of `kinds`. The seeds of these steps, too, depend on the schedule's seed."""


def focus_of(seed: int) -> tuple[str, str]:
    """Returns the two kinds that often follow each other in the schedule with this seed."""
    number = seed * STRIDE % (len(KINDS) ** 2)
    return KINDS[number // len(KINDS)], KINDS[number % len(KINDS)]


def schedule_of(seed: int, plan: Plan | None = None) -> Schedule:
    """Returns the schedule with this seed, or with this seed and a plan."""
    if plan is not None:
        return _planned(seed, plan)
    chance = random.Random(f"whole {seed}")
    first, second = focus = focus_of(seed)
    setting = _setting(seed, chance)
    kinds = _drawn(setting, chance)
    for _ in range(chance.randint(2, 5)):
        at = chance.randrange(4, len(kinds))
        between = [] if chance.random() < 0.6 else [kinds.pop()]
        kinds[at:at] = [first, *between, second]
    if setting.judged:
        kinds = [kind for kind in kinds if kind in ASKED or kind in focus or kind in NO_CHANGE]
    return Schedule(setting, [Step(kind, chance.getrandbits(32)) for kind in kinds], focus)


def _planned(seed: int, plan: Plan) -> Schedule:
    own = random.Random(f"lead {seed}")
    seed = seed if plan.seed is None else plan.seed
    chance = random.Random(f"planned {seed}")
    chosen: dict[str, Any] = {
        "secured": chance.random() < 0.3, "sliced": chance.random() < 0.2, "warm": chance.random() < 0.7,
        "traced": chance.random() < 0.15,
    }  # fmt: skip
    setting = Setting(seed, **chosen | dict(plan.setting), tries=300, planned=True)
    kinds = [*chance.choices(SETUP_KINDS, k=SETUP), *plan.kinds]
    steps = [Step(kind, chance.getrandbits(32)) for kind in kinds]
    steps[SETUP:SETUP] = [Step(kind, own.getrandbits(32)) for kind in plan.lead]
    steps += [Step(kind, own.getrandbits(32)) for kind in plan.rest]
    return Schedule(setting, steps, (plan.kinds[0], plan.kinds[-1]))


def _drawn(setting: Setting, chance: random.Random) -> list[str]:
    """Draws kinds by weight. The kinds of the schedule's themes have larger weights. Leaves out the kinds of some other themes,
    so that each remaining kind occurs more often."""
    upgrades = bool(setting.release)
    several = setting.brokers > 1
    fits = {
        "the disk": setting.data, "settings on a disk": setting.data, "lost records": several, "replicas": several,
        "transactions on replicas": several, "security": setting.secured, "upgrades": upgrades,
        "long requests": setting.sliced,
    }  # fmt: skip
    themes = chance.sample([each for each in THEMES if fits.get(each, True)], k=chance.choice([0, 1, 1, 2]))
    themes += [each for each, fit in fits.items() if fit and chance.random() < 0.4]
    often = [kind for theme in themes for kind in THEMES[theme]]
    share = chance.choice([0, 0.5, 0.8])
    kept = {kind for theme in THEMES if theme in themes or chance.random() >= share for kind in THEMES[theme]}
    left_out = {kind for theme in THEMES.values() for kind in theme} - kept
    weights = {kind: weight for kind, weight in WEIGHTS.items() if kind not in left_out}
    first = [kind for kind in SETUP_KINDS if kind not in left_out] or SETUP_KINDS
    drawn = chance.choices(list(weights), list(weights.values()), k=chance.randint(SHORTEST, LONGEST))
    drawn = [chance.choice(often) if often and chance.random() < 0.75 else kind for kind in drawn]
    return [*chance.choices(first, k=8), *drawn]


def _setting(seed: int, chance: random.Random) -> Setting:
    data, sliced, judged = chance.random() < 0.2, chance.random() < 0.2, chance.random() < 0.35
    made = Setting(
        seed, brokers=chance.choice([1, 3] if data else [1, 1, 3]), data=data,
        sync=chance.choice(["interval" if seed % SYNCED_EACH == 1 else "never", "always"]) if data else "never",
        secured=chance.random() < 0.3, sliced=sliced, warm=chance.random() < 0.7,
        traced=chance.random() < 0.15, judged=judged and not sliced,
        release=chance.choice(["kafka-3.9", "kafka-4.0"]) if chance.random() < (0.15 if data else 0.05) else "",
        alike=chance.random() < 0.3,
    )  # fmt: skip
    return replace(made, judged=made.judged and not made.release)  # the model has the rules of the default release
