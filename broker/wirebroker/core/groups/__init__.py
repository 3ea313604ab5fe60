"""Groups: their members, the members' assignments, and the committed offsets.

`coordinator` finds the group of a request. A classic group is in `classic`, its members are in `roster`, and `classic_requests`
handles JoinGroup, SyncGroup, Heartbeat and LeaveGroup. The other three types have their groups and members in `modern`, their
requests in `modern_heartbeats` and their records in `modern_log`. The modules `consumer_…`, `share_…` and `streams_…` add the
rules of one type. `migration` converts a group between the classic and the consumer type. Offsets are in `offset_manager`, and
the assignors in `assignors`, `simple_assignor` and `sticky_assignor`.
"""

from wirebroker.core.groups.coordinator import GroupCoordinator

__all__ = ["GroupCoordinator"]
