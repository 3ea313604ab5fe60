"""**TLS handshakes**, which come before the client's first request. Times are by the broker's clock:"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from msgspec import Meta

from wirebroker.faults.acts import Greeting
from wirebroker.faults.rules import InjectionPoint, Rule
from wirebroker.requests.facts import Batch, Facts

__all__ = ["expire_certificate", "stall_handshake"]
__tracebackhide__ = True  # pytest shows the caller's line

Later = Annotated[int, Meta(ge=0, extra={"unit": "ms"})]
Wait = Annotated[int, Meta(ge=1, extra={"unit": "ms"})]


class _OfHandshakes:
    """The base class of both kinds of faults in handshakes. During a handshake, only the broker and the listener are known,
    because there is no request yet."""

    acts_at: ClassVar[InjectionPoint] = InjectionPoint.HANDSHAKE
    match_words: ClassVar[tuple[str, ...]] = ("node",)
    needs_broker: ClassVar[bool] = True

    def matching(self, facts: Facts) -> list[Batch | None]:
        return []

    @property
    def apis(self) -> Iterable[str]:
        return ()


class stall_handshake(_OfHandshakes, Rule):
    """The handshake stops, and continues after `ms` milliseconds, or when the rule is unloaded. The words `node`, `listener`,
    `nth`, `every`, `probability` and `times` choose the handshakes."""

    ms: Wait | None = None
    listener: str | None = None

    example = 'faults.stall_handshake(ms=30_000, listener="SSL", nth=2)'

    def greets(self, greeting: Greeting) -> bool:
        return self.listener in (None, greeting.listener)

    def greet(self, greeting: Greeting) -> None:
        greeting.stalled_by = self
        greeting.until = None if self.ms is None else greeting.now + self.ms


class expire_certificate(_OfHandshakes, Rule):
    """`ms` milliseconds after the rule was loaded, the broker's certificate expires: the broker then presents an expired
    certificate. This works only with a certificate that wirebroker has created. The words `node` and `listener` choose the
    handshakes."""

    ms: Later = 0
    listener: str | None = None

    example = "faults.expire_certificate(ms=86_400_000)"

    def greets(self, greeting: Greeting) -> bool:
        if greeting.now < self.loaded_at + self.ms or self.listener not in (None, greeting.listener):
            return False
        if not greeting.can_expire:
            self.missed = f"wirebroker did not make the certificate of {greeting.listener}, so the certificate cannot expire"
        return greeting.can_expire

    def greet(self, greeting: Greeting) -> None:
        greeting.expired = True
