"""The table as an OpenAPI 3.1 document, for tools that generate clients."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from types import NoneType
from typing import Any

from wirebroker.common.version import __version__
from wirebroker.control.endpoint import JSON, TEXT, Endpoint
from wirebroker.control.forms import Form, required, schema
from wirebroker.control.problems import PROBLEM

SENT_BACK = {
    400: "the body cannot be read",
    403: "a page of another site sent the request",
    413: "the body is too large",
    422: "a value in the request is wrong; `field` names its field",
    503: "too many requests are waiting",
}
"""The problems with which any endpoint may respond."""


def described(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Returns the document."""
    named: dict[str, Any] = {"Problem": _problem_schema()}
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.shown_path, {})[endpoint.method.lower()] = _operation(endpoint, named)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "wirebroker control",
            "version": __version__,
            "description": "The methods of MockKafka over HTTP, for tests in any language.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": dict(sorted(named.items()))},
    }


def _operation(endpoint: Endpoint, named: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": _name(endpoint),
        "tags": [endpoint.area],
        "summary": endpoint.summary,
        "responses": _responses(endpoint, named),
    }
    if endpoint.description:
        said["description"] = endpoint.description
    if parameters := [*_in_path(endpoint, named), *_in_query(endpoint, named)]:
        said["parameters"] = parameters
    if (body := _body(endpoint, named)) is not None:
        said["requestBody"] = body
    return said


def _name(endpoint: Endpoint) -> str:
    """Returns the operation's name in generated clients, such as `getTopicsRecords`."""
    words = endpoint.shown_path.replace(".", "/").replace("-", "/").split("/")
    return endpoint.method.lower() + "".join(
        f"By{word[1:-1].title().replace('_', '')}" if word.startswith("{") else word.title() for word in words
    )


def _in_path(endpoint: Endpoint, named: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": part, "in": "path", "required": True, "schema": schema(endpoint.hints[part], named)} for part in endpoint.parts
    ]


def _in_query(endpoint: Endpoint, named: dict[str, Any]) -> list[dict[str, Any]]:
    form = endpoint.hints.get("query")
    if form is None:
        return []
    forms: dict[str, Any] = {}
    schema(form, forms)
    described = forms.pop(form.__name__)
    named |= forms
    return [
        {
            "name": name,
            "in": "query",
            "required": name in described["required"],
            "description": each.pop("description"),
            "schema": _without_null(each),
        }
        for name, each in described["properties"].items()
    ]


def _without_null(described: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a query parameter without null: a query cannot contain null."""
    if described.get("default", 0) is None:
        del described["default"]
    kinds = [each for each in described.pop("anyOf", []) if each.get("type") != "null"]
    return described | kinds[0] if kinds else described


def _body(endpoint: Endpoint, named: dict[str, Any]) -> dict[str, Any] | None:
    if "text" in endpoint.hints:
        return {"required": True, "content": {endpoint.takes: {"schema": {"type": "string"}}}}
    form = endpoint.hints.get("body")
    if form is None:
        return None
    return {"required": not issubclass(form, Form) or bool(required(form)), "content": {JSON: {"schema": schema(form, named)}}}


def _responses(endpoint: Endpoint, named: dict[str, Any]) -> dict[str, Any]:
    content = {endpoint.media: {"schema": _said(endpoint, named)}}
    if endpoint.as_text is not None:
        content[TEXT] = {"schema": {"type": "string"}}
    good = {"description": HTTPStatus(endpoint.status).phrase, "content": content}
    problem = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    bad = {
        str(status): {"description": when, "content": problem}
        for status, when in sorted((SENT_BACK | dict(endpoint.problems)).items())
    }
    return {str(endpoint.status): good} | bad


def _said(endpoint: Endpoint, named: dict[str, Any]) -> dict[str, Any]:
    if endpoint.media != JSON:
        return {"type": "string"}
    result = endpoint.hints["return"]
    return {"type": "object"} if result is NoneType else schema(result, named)


def _problem_schema() -> dict[str, Any]:
    words = {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string", "description": "the status in words"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "what happened, where, and what to do next"},
        "field": {"type": "string", "description": "the wrong field of the request, if a field is wrong"},
    }
    return {
        "type": "object", "description": "Problem details (RFC 9457).", "properties": words,
        "required": ["type", "title", "status", "detail"],
    }  # fmt: skip
