"""Groups: who their members are, what is assigned to them, and the offsets that they commit.

`coordinator` finds the group of a request. A classic group is in `classic`, its members are in `roster`, and `classic_requests`
handles JoinGroup, SyncGroup, Heartbeat and LeaveGroup. For the other three types, `modern` has what is common to the groups and
their members, `modern_heartbeats` what is common to the requests, and `modern_log` what is common to the records; the modules
`consumer_…`, `share_…` and `streams_…` add the rules of one type. `migration` converts a group between the classic and the
consumer type. Offsets are in `offset_manager`, and the assignors in `assignors`, `simple_assignor` and `sticky_assignor`.
"""

from wirebroker.core.groups.coordinator import GroupCoordinator

__all__ = ["GroupCoordinator"]
