"""A soft reset removes the state that a test has left in the broker, while the clients stay connected.

Connections, topics with their ids and settings, ACLs, users, quotas, and groups with their members stay, because the service
under test still uses them. All other state becomes what it was after the start of the broker:

* All fault rules are unloaded, and the rules with which the broker was started are loaded. A response that a rule slows down
  is sent at once, and sessions that a rule has ended continue. Brokers that are down are started, frozen replicas follow
  again, and the preferred replicas become leaders.
* The logs become empty: each log now starts at its end offset. So no offset is used twice.
* Committed offsets and the start offsets of share partitions move to the ends of the logs. A consumer that lagged continues
  with the first new record, whatever its auto.offset.reset is.
* Producers continue their sequences. An open transaction stays open for its producer, and the producer's next request succeeds.
  The records that the producer has already sent in the transaction are deleted. If the producer commits the transaction, only
  the later records are committed. No consumer waits for the end of the transaction.
* The clock is set back. Timers and sessions keep their remaining time.
"""

from __future__ import annotations

from wirebroker.engine.engine import Engine


def soft_reset(engine: Engine, now: int) -> None:
    """Remove the state that a test has left. The caller must have set the clock back and called `Engine.move_time`.

    Raises OSError if the data directory cannot be written to.
    """
    engine.set_time(now)
    engine.clear_faults()
    engine.controller.recover(now)
    engine.timers.finish_work()  # markers that are still to be written must be written now, so that they are deleted, too
    _empty(engine, now)
    engine.throttle.restarted()
    engine.telemetry.pushes.clear()
    for bring_back in engine.at_soft_reset:
        bring_back(now)
    if (failed := engine.cluster.decisions.write_down(now)) is not None:
        raise failed
    if engine.store is not None:
        engine.store.checkpoint()
    engine.trace.begin_again()


def _empty(engine: Engine, now: int) -> None:
    """Delete all records except the records of internal topics, and move the groups' offsets to the ends of the logs."""
    for topic in list(engine.cluster.topics.values()):
        for partition in topic.partitions if not topic.internal else ():
            partition.empty(now)
    engine.groups.commits.follow_logs(now)
    engine.shares.follow_logs(now)
