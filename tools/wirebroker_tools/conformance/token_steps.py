"""The steps of scenarios about delegation tokens.

Each token has a name within the run. The token's times are recorded in seconds after it was issued or renewed.
"""

from __future__ import annotations

from base64 import b64encode

from wirebroker.client.login import tokens
from wirebroker_tools.conformance.readiness import until
from wirebroker_tools.conformance.recording import NO_ERROR, Json
from wirebroker_tools.conformance.run import Run, Token
from wirebroker_tools.conformance.steps import OPERATIONS, shown, tokens_taken

STEP_MS = 10_000
"""If a recorded time depends on when a request was sent, it is rounded to this many ms."""
BY_TOKEN = ",tokenauth=true"


def _create(run: Run, step: Json) -> Json:
    kind, owner = step.get("owner", (None, None))
    renewers = [{"principal_type": kind, "principal_name": name} for kind, name in step.get("renewers", [])]
    response = run.ask(
        "CreateDelegationToken", step, 3, owner_principal_type=kind, owner_principal_name=owner, renewers=renewers,
        max_lifetime_ms=step.get("lives_ms", -1),
    )  # fmt: skip
    error = shown(response.error_code)
    observed: Json = {
        "error": error, "owner": [response.principal_type, response.principal_name],
        "requester": [response.token_requester_principal_type, response.token_requester_principal_name],
    }  # fmt: skip
    if error != NO_ERROR:
        return observed | {"times": [response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms]}
    run.tokens[step["name"]] = Token(response.token_id, bytes(response.hmac), response.max_timestamp_ms)
    _wait(run, step, response.expiry_timestamp_ms)
    return observed | _lives(response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms)


def _lives(issued: int, expires: int, most: int) -> Json:
    return {"expires_s": round((expires - issued) / 1000), "most_s": round((most - issued) / 1000)}


def _secret(run: Run, step: Json) -> bytes:
    return run.tokens[step["name"]].secret if "name" in step else bytes.fromhex(step["hmac_hex"])


def _renew(run: Run, step: Json) -> Json:
    return _ends(run, step, "RenewDelegationToken", "renew_period_ms")


def _expire(run: Run, step: Json) -> Json:
    return _ends(run, step, "ExpireDelegationToken", "expiry_time_period_ms")


def _ends(run: Run, step: Json, api: str, period: str) -> Json:
    before = run.broker.now()
    response = run.ask(api, step, 2, hmac=_secret(run, step), **{period: step["ms"]})
    error, ends = shown(response.error_code), response.expiry_timestamp_ms
    if error != NO_ERROR:
        return {"error": error, "ends": ends}
    at_most = ends == run.tokens[step["name"]].most_at
    lasts = "at most" if at_most else (ends - before) // STEP_MS * STEP_MS // 1000
    observed: Json = {"error": error, "ends": ends} if ends < 0 else {"error": error, "ends_s": lasts}
    _wait(run, step, None if step["op"] == "token_expire" and step["ms"] < 0 else ends)
    return observed


def _wait(run: Run, step: Json, ends: int | None) -> None:
    """Wait until the addressed broker shows that the token ends at `ends`, or is gone if `ends` is None.

    In Kafka the controller changes the token, and the broker learns of the change later.
    """
    token = run.tokens[step["name"]]
    token.ends = ends
    who: Json = {key: step[key] for key in ("listener", "conn") if key in step}

    def known() -> bool:
        response = run.ask("DescribeDelegationToken", who, 3, owners=None)
        return next((each.expiry_timestamp for each in response.tokens if each.token_id == token.token_id), None) == ends

    until(known)


def _describe(run: Run, step: Json) -> Json:
    """Describe the tokens. Returns the tokens of this run that the client may see."""
    owners = step.get("owners")
    named = None if owners is None else [{"principal_type": kind, "principal_name": name} for kind, name in owners]
    response = run.ask("DescribeDelegationToken", step, 3, owners=named)
    known = {token.token_id: (name, token) for name, token in run.tokens.items()}
    seen = [
        {
            "name": known[each.token_id][0], "owner": [each.principal_type, each.principal_name],
            "requester": [each.token_requester_principal_type, each.token_requester_principal_name],
            "renewers": [[renewer.principal_type, renewer.principal_name] for renewer in each.renewers],
            "same_secret": bytes(each.hmac) == known[each.token_id][1].secret,
            "ends_as_answered": each.expiry_timestamp == known[each.token_id][1].ends,
            "most_s": round((each.max_timestamp - each.issue_timestamp) / 1000),
        }
        for each in response.tokens
        if each.token_id in known
    ]  # fmt: skip
    return {"error": shown(response.error_code), "tokens": sorted(seen, key=lambda each: str(each["name"]))}


def _log_in(run: Run, step: Json) -> Json:
    hello = OPERATIONS["sasl_handshake"](run, step)
    if hello["error"] != NO_ERROR:
        return hello
    token = run.tokens[step["name"]]
    password = step.get("password", b64encode(token.secret).decode())
    dialogue = tokens(step["mechanism"], step.get("user", token.token_id), password, step.get("extensions", BY_TOKEN))
    responses = tokens_taken(run, step, dialogue)
    return {"error": responses[-1]["error"], "answers": responses}


TOKEN_OPERATIONS = {
    "token_create": _create, "token_renew": _renew, "token_expire": _expire, "token_describe": _describe,
    "token_log_in": _log_in,
}  # fmt: skip
