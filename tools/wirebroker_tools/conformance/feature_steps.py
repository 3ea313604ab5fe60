"""The steps of scenarios about the levels of features."""

from __future__ import annotations

from wirebroker_tools.conformance.readiness import transaction_records, until
from wirebroker_tools.conformance.recording import Json
from wirebroker_tools.conformance.run import Run
from wirebroker_tools.conformance.steps import shown

FORM = {0: "allow_downgrade", 1: "upgrade_type", 2: "upgrade_type"}
"""The third field of an update says whether the level may be lowered. Its name depends on the version of the request."""


def _levels(run: Run) -> dict[str, int]:
    response = run.ask("ApiVersions", {}, 4, client_software_name="wirebroker", client_software_version="1")
    return {each.name: each.max_version_level for each in response.finalized_features}


def _update(run: Run, step: Json) -> Json:
    """Update features.

    In Kafka the controller makes the change, so the step waits until the addressed broker shows the change.
    """
    third = FORM[run.version("UpdateFeatures", step, 2)]
    updates = [dict(zip(("feature", "max_version_level", third), each, strict=True)) for each in step["features"]]
    fields = {"feature_updates": updates, "timeout_ms": 10_000}
    if "validate_only" in step:
        fields["validate_only"] = step["validate_only"]
    response = run.ask("UpdateFeatures", step, 2, **fields)
    if not response.error_code and not step.get("validate_only"):
        wanted = {name: level for name, level, _ in step["features"]}
        until(lambda: all(_levels(run).get(name, 0) == level for name, level in wanted.items()))
    results = [[each.feature, shown(each.error_code), each.error_message] for each in response.results]
    return {"error": shown(response.error_code), "message": response.error_message, "results": results}


def _features(run: Run, step: Json) -> Json:
    """Returns the features in the response to ApiVersions, in the order of their names."""
    response = run.ask("ApiVersions", step, 4, client_software_name="wirebroker", client_software_version="1")
    return {
        "supported": sorted([each.name, each.min_version, each.max_version] for each in response.supported_features),
        "finalized": sorted(
            [each.name, each.min_version_level, each.max_version_level] for each in response.finalized_features
        ),
        "has_epoch": response.finalized_features_epoch >= 0,
    }


def _transaction_log(run: Run, step: Json) -> Json:
    """Reads the transaction log, and returns the version and the state in each record of a transactional id."""
    return {"records": [list(each) for each in transaction_records(run.client, run.name(step["txid"]))]}


def _voter(run: Run, step: Json) -> Json:
    """Sends AddRaftVoter or RemoveRaftVoter; `directory` is the last byte of a voter's directory id."""
    fields = {"voter_directory_id": bytes(15) + bytes([step.get("directory", 0)]), "cluster_id": None} | step["fields"]
    response = run.ask(step["api"], step, 0, **fields)
    return {"error": shown(response.error_code), "message": response.error_message}


FEATURE_OPERATIONS = {"update_features": _update, "features": _features, "transaction_log": _transaction_log, "voter": _voter}
