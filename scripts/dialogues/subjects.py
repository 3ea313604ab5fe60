"""What dialogues can be about."""

from __future__ import annotations

from collections.abc import Callable

from dialogues.admin import Admin
from dialogues.groups import Groups
from dialogues.logs import Logs
from dialogues.playing import Subject
from dialogues.transactions import Transactions

SUBJECTS: dict[str, Callable[[int], Subject]] = {"admin": Admin, "groups": Groups, "logs": Logs, "transactions": Transactions}
