"""A client of the HTTP control. It checks every response against the OpenAPI document."""

from __future__ import annotations

import http.client
import json
import re
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import jsonschema

PROBLEM = "application/problem+json"


class Response:
    """A response of the control."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.media = (response.getheader("content-type") or "").partition(";")[0]
        self.headers = dict(response.getheaders())
        self.body = response.read().decode()

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class ControlClient:
    """A client of the control. `ask` expects success and returns the JSON. `refused` expects an error response (a problem)."""

    def __init__(self, url: str, timeout: float = 10) -> None:
        self.url = url
        self._where = urlsplit(url)
        self._timeout = timeout

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Response:
        """Sends any request. A body is sent as JSON unless it is bytes. The OpenAPI document must describe the response."""
        response = self.raw(method, path, body, headers)
        if path != "/openapi.json":
            self._check(method, path, response)
        return response

    def raw(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Response:
        """Sends a request as `send` does, but does not check the response."""
        assert self._where.hostname is not None
        connection = http.client.HTTPConnection(self._where.hostname, self._where.port, timeout=self._timeout)
        try:
            sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, sent, headers or {})
            return Response(connection.getresponse())
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Sends a valid request. Returns the JSON of the response."""
        response = self.send(method, path, body)
        assert response.status < 300, response.body
        return response.json

    def refused(self, method: str, path: str, body: Any = None) -> Any:
        """Sends an invalid request. Checks that the response is a problem document, and returns it."""
        response = self.send(method, path, body)
        assert response.media == PROBLEM, response.body
        problem = response.json
        assert problem["status"] == response.status >= 400
        return problem

    @cached_property
    def document(self) -> Any:
        """The OpenAPI document."""
        return self.raw("GET", "/openapi.json").json

    def _check(self, method: str, path: str, response: Response) -> None:
        """Fails if the OpenAPI document does not describe `response`."""
        responses = self._operation(method, path.partition("?")[0])["responses"]
        assert str(response.status) in responses, f"the document has no {response.status} for {method} {path}: {response.body}"
        content = responses[str(response.status)].get("content", {})
        assert response.media in content
        if response.media in ("application/json", PROBLEM):
            schema = content[response.media]["schema"] | {"components": self.document["components"]}
            jsonschema.Draft202012Validator(schema).validate(response.json)

    def _operation(self, method: str, path: str) -> Any:
        templates = sorted(self.document["paths"], key=lambda each: ("{" in each, -len(each)))
        for template in templates:
            slashes = "{group_id}" in template or "{transactional_id}" in template  # these ids can contain slashes
            pattern = re.sub(r"\\{\w+\\}", ".+" if slashes else "[^/]+", re.escape(template))
            if re.fullmatch(pattern, path) and method.lower() in self.document["paths"][template]:
                return self.document["paths"][template][method.lower()]
        raise AssertionError(f"the document does not have {method} {path}")
