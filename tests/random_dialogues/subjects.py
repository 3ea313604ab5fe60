"""The subjects of dialogues."""

from __future__ import annotations

from collections.abc import Callable

from random_dialogues.admin import Admin
from random_dialogues.administration import Administration
from random_dialogues.groups import Groups
from random_dialogues.logs import Logs
from random_dialogues.mixed import Mixed
from random_dialogues.playing import Subject
from random_dialogues.quotas import Quotas
from random_dialogues.shares import Shares
from random_dialogues.streams import Streams
from random_dialogues.transactions import Transactions

SUBJECTS: dict[str, Callable[[int], Subject]] = {
    "admin": Admin,
    "administration": Administration,
    "groups": Groups,
    "logs": Logs,
    "mixed": Mixed,
    "quotas": Quotas,
    "shares": Shares,
    "streams": Streams,
    "transactions": Transactions,
}
