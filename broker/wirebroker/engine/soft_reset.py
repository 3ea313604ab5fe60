"""A soft reset: the broker forgets what a test has left, and its clients continue.

Connections, topics with their ids and settings, ACLs, users, quotas, and groups with their members stay, because the service
under test goes on using them. The rest is as after a start:

* All rules are unloaded, and the rules of the start are loaded. Brokers that are down are started, frozen replicas follow, and
  the preferred replicas lead.
* The logs are empty: each starts at its end. No offset is used twice.
* Committed offsets and the starts of share partitions are at the ends of the logs. A consumer that lags continues with the
  first new record. Its auto.offset.reset does not matter.
* Producers go on in order. An open transaction stays open for its producer, and the producer's next request succeeds. But the
  records that it has sent so far are gone. Its commit commits only the later records, and no consumer waits for it.
* The clock is set back. Timers and sessions keep their remaining time.
"""

from __future__ import annotations

from wirebroker.engine.engine import Engine


def soft_reset(engine: Engine, now: int) -> None:
    """Forget what a test has left. The clock has been set back, and the engine knows it (`Engine.move_time`).

    Raises OSError if the data directory cannot be written to.
    """
    engine.set_time(now)
    engine.clear_faults()
    engine.controller.recover(now)
    engine.timers.finish_work()  # markers of transactions that have ended belong to the old records
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
    """Delete all records except the coordinators' records, and let groups continue at the ends of the logs."""
    for topic in list(engine.cluster.topics.values()):
        for partition in topic.partitions if not topic.internal else ():
            partition.empty(now)
    engine.groups.commits.follow_logs(now)
    engine.shares.follow_logs(now)
