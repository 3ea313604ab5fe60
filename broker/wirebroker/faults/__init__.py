"""Faults on demand: rules that match the exact request.

    lost = kafka.faults.add(faults.lose_ack(api="Produce", topic="orders", nth=4))
    ...
    lost.assert_fired()

Each kind of fault is a class, and a call of the class creates a rule (see `kinds`). The keyword arguments of the call are the
rule's words. Some words determine which requests the rule matches: `api`, `version` (a version, or from–to), `topic`,
`partition`, `client_id`, `principal`, `node`, `producer_id`, `producer_epoch`, `sequence` (a sequence, or from–to),
`transactional_id`, `group`. Without such a word, any value matches. Other words choose the matches on which the rule fires:
`nth` (one or several numbers, counted from 1), `every` and `probability`. `times` limits how often the rule fires. Each batch
in a Produce request counts as one match. Any other request counts as one match. Creating a rule that could never fire raises
FaultError, a ValueError that names the wrong word.
"""

from wirebroker.faults.forms import FaultError as FaultError
from wirebroker.faults.kinds.exchanges import *
from wirebroker.faults.kinds.handshakes import *
from wirebroker.faults.kinds.state import *
from wirebroker.faults.kinds.storage import *
from wirebroker.faults.kinds.wire import *
from wirebroker.faults.rules import NotFired as NotFired
from wirebroker.faults.rules import Rule as Rule
from wirebroker.requests.facts import Batch as Batch
from wirebroker.requests.facts import Facts as Facts
