"""The table as an OpenAPI document (3.1), for tools that make clients of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from http import HTTPStatus
from typing import Any

from wirebroker import __version__
from wirebroker.control.endpoint import JSON, Endpoint
from wirebroker.control.forms import hints, needed, schema
from wirebroker.control.problems import PROBLEM

SENT_BACK = {
    400: "the body cannot be read",
    403: "a page of another site sent it",
    413: "the body is too large",
    422: "something in the request does not fit; `field` names it",
}
"""Problems that any endpoint may answer with."""


def described(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document."""
    named: dict[str, Any] = {"Problem": _problem_schema()}
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.shown_path, {})[endpoint.method.lower()] = _operation(endpoint, named)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "wirebroker control",
            "version": __version__,
            "description": "What Python tests do with MockKafka, over HTTP, for tests in any language.",
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
    """`getTopicsRecords`: what generated clients call it."""
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
    return [
        {
            "name": each.name, "in": "query", "required": each.name in needed(form),
            "description": hints(form)[each.name].words["description"],
            "schema": _unsaid(schema(hints(form)[each.name].kind, named) | hints(form)[each.name].words, each.default),
        }
        for each in fields(form)
    ]  # fmt: skip


def _unsaid(described: dict[str, Any], default: Any) -> dict[str, Any]:
    """The schema of a value in a query, where null cannot be said; its description stands beside it."""
    found = {word: value for word, value in described.items() if word != "description"}
    if isinstance(found.get("type"), list):
        found["type"] = next(kind for kind in found["type"] if kind != "null")
    if "anyOf" in found:
        found = next(each for each in found["anyOf"] if each.get("type") != "null")
    return found if default is None else found | {"default": default}


def _body(endpoint: Endpoint, named: dict[str, Any]) -> dict[str, Any] | None:
    if "text" in endpoint.hints:
        return {"required": True, "content": {endpoint.takes: {"schema": {"type": "string"}}}}
    form = endpoint.hints.get("body")
    if form is None:
        return None
    return {"required": not is_dataclass(form) or bool(needed(form)), "content": {JSON: {"schema": schema(form, named)}}}


def _responses(endpoint: Endpoint, named: dict[str, Any]) -> dict[str, Any]:
    good: dict[str, Any] = {"description": HTTPStatus(endpoint.status).phrase}
    if endpoint.status != HTTPStatus.NO_CONTENT:
        said = schema(endpoint.hints["return"], named) if endpoint.media == JSON else {"type": "string"}
        good["content"] = {endpoint.media: {"schema": said}}
    problem = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    bad = {
        str(status): {"description": when, "content": problem}
        for status, when in sorted((SENT_BACK | dict(endpoint.problems)).items())
    }
    return {str(endpoint.status): good} | bad


def _problem_schema() -> dict[str, Any]:
    words = {
        "type": {"type": "string", "const": "about:blank"},
        "title": {"type": "string", "description": "the status in words"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "what happened, where, and what to do"},
        "field": {"type": "string", "description": "what of the request it is about, if it is one thing"},
    }
    return {
        "type": "object", "description": "Problem details (RFC 9457).", "properties": words,
        "required": ["type", "title", "status", "detail"],
    }  # fmt: skip
