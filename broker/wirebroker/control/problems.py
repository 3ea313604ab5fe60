"""Problem details (RFC 9457): the form of every error response."""

from __future__ import annotations

from http import HTTPStatus

PROBLEM = "application/problem+json"


class Problem(Exception):
    """An error response. `status` is the HTTP status, and `detail` is a sentence. If a field of the request is wrong, `field`
    names it."""

    def __init__(self, status: int, detail: str, field: str | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.field = field

    def described(self) -> dict[str, object]:
        """Returns the members of the problem document."""
        said: dict[str, object] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        return said if self.field is None else said | {"field": self.field}
