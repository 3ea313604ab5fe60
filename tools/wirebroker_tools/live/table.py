"""The tables of the tools' endpoints: for the control of a broker or a proxy, and for the page of a saved file."""

from __future__ import annotations

from wirebroker.control.endpoint import EVENTS, JSON_LINES, PCAPNG, SVG, TOML, Endpoint
from wirebroker.control.endpoints import events
from wirebroker_tools.live.endpoints import exchanges, explain, exports, pictures, saved

TITLES = {
    "explain": "What is wrong", "exchanges": "Bytes", "exports": "Exports", "pictures": "Pictures", "saved": "The saved file",
}  # fmt: skip
NO_BYTES = {404: "the bytes of the exchange are not kept"}
NO_PICTURE = {404: "there is no picture of this kind"}

ENDPOINTS = (
    Endpoint("GET", "/exchanges/{number:number}", exchanges.exchange, problems=NO_BYTES),
    Endpoint("POST", "/export/capture", exports.capture, media=PCAPNG, problems={404: "no bytes are kept"}),
    Endpoint("POST", "/export/scenario", exports.scenario, media=TOML),
    Endpoint("GET", "/explain", explain.explain),
    Endpoint("GET", "/pictures/{kind}", pictures.picture, media=SVG, problems=NO_PICTURE),
    Endpoint("GET", "/pictures/{kind}/marks", pictures.marks, problems=NO_PICTURE),
)
"""The endpoints that every control has."""
OF_FILES = (
    Endpoint("GET", "/health", saved.health),
    Endpoint("GET", "/events", saved.events, media=EVENTS),
    Endpoint("GET", "/filter", events.read_filter),
    Endpoint("GET", "/rows/{number:number}/related", saved.related),
    Endpoint("GET", "/exchanges/{number:number}", exchanges.exchange, problems=NO_BYTES),
    Endpoint("GET", "/explain", explain.explain),
    Endpoint("GET", "/pictures/{kind}", pictures.picture, media=SVG, problems=NO_PICTURE),
    Endpoint("GET", "/pictures/{kind}/marks", pictures.marks, problems=NO_PICTURE),
    Endpoint("GET", "/export/lines", saved.lines, media=JSON_LINES),
    Endpoint("GET", "/export/capture", saved.capture, media=PCAPNG, problems={404: "the file has no bytes"}),
    Endpoint("GET", "/export/scenario", saved.scenario, media=TOML),
)
"""The endpoints of the page of a saved file."""
