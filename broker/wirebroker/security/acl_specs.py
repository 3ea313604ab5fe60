"""ACLs as texts, for `acls=` of MockKafka, `serve --acl` and the control. Each ACL is one string.

Examples: `allow User:alice READ TOPIC orders`, `deny User:* ALL TOPIC payments-* from 10.0.0.1`. A NAME that ends with `*`
means all names with this prefix; `*` alone means every name.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TypeVar

from wirebroker.common.suggestions import did_you_mean
from wirebroker.core.acls import CLUSTER_NAME, WILDCARD, Acl, Operation, PatternType, Permission, ResourceType

__tracebackhide__ = True  # pytest shows the caller's line

FORM = "allow|deny PRINCIPAL OPERATION TYPE NAME [from HOST]"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ACL = re.compile(r"(\S+)\s+([^\s:]+:.+?)\s+(\S+)\s+(\S+)\s+(\S+)(?:\s+from\s+(\S+))?")
Number = TypeVar("Number", bound=IntEnum)


def acl_of(text: str) -> Acl:
    """Returns the ACL that a text describes. Raises ValueError."""
    match = _ACL.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{text!r} is not {FORM}, like 'allow User:alice READ TOPIC orders'")
    permission, principal, operation, kind, name, host = match.groups()
    prefix = name.endswith(WILDCARD) and name != WILDCARD
    acl = Acl(
        _number(ResourceType, kind, text), name.removesuffix(WILDCARD) if prefix else name,
        PatternType.PREFIXED if prefix else PatternType.LITERAL, principal, host or WILDCARD,
        _number(Operation, operation, text), _number(Permission, permission, text),
    )  # fmt: skip
    if acl.resource_type == ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise ValueError(f"{text!r}: the only CLUSTER is {CLUSTER_NAME}")
    return acl


def text_of(acl: Acl) -> str:
    """Returns the text that describes an ACL, in the form that `acl_of` reads."""
    many = WILDCARD if acl.pattern_type == PatternType.PREFIXED else ""
    where = "" if acl.host == WILDCARD else f" from {acl.host}"
    permission, operation = Permission(acl.permission).name.lower(), Operation(acl.operation).name
    return f"{permission} {acl.principal} {operation} {ResourceType(acl.resource_type).name} {acl.name}{many}{where}"


def _number(kind: type[Number], word: str, text: str) -> Number:
    known = [name for name in kind.__members__ if name not in ("UNKNOWN", "ANY")]
    if word.upper() not in known:
        raise ValueError(f"{text!r}: {word} is not one of {', '.join(known)}{did_you_mean(word.upper(), known)}")
    return kind[word.upper()]
