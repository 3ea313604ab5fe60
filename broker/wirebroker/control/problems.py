"""Problem details (RFC 9457): the form of every error response."""

from __future__ import annotations

from http import HTTPStatus

PROBLEM = "application/problem+json"


class Problem(Exception):
    """An error response with this status. `detail` is a sentence; `field` names the wrong field of the request, if a field is
    wrong."""

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
