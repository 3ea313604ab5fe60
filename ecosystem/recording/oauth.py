#!/usr/bin/env -S python3
"""Record the responses of Kafka 4.3.1 to OAUTHBEARER logins, into tests/data/oauth-4.3.1.json.

    scripts/record-oauth

Needs `java` (17 or newer) and `mvn`. The tokens and the brokers' settings are in tests/oauth_tokens.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from _environment import ROOT, enter

enter()
from _kafka_security import OAuth, Security
from _kafka_server import KafkaServer, KafkaUnavailable

from oauth_tokens import BROKERS, RECORDED, key_set, play


def main() -> int:
    """Send all logins to real brokers, and write their responses to the file."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    responses = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            keys = Path(folder, "keys.json")
            keys.write_text(key_set())
            for name, validation in BROKERS.items():
                oauth = OAuth(validation.options, keys if validation.signed else None)
                security = Security({"alice": "secret"}, listeners=("SASL_PLAINTEXT",), oauth=oauth)
                with KafkaServer(validation.settings, security=security) as kafka:
                    responses += play(name, kafka.addresses["SASL_PLAINTEXT"], kafka.now())
    except KafkaUnavailable as unavailable:
        print(f"nothing was recorded: {unavailable}", file=sys.stderr)
        return 2
    text = "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in responses) + "\n]\n"
    (ROOT / "tests" / "data" / RECORDED).write_text(text, encoding="utf-8")
    print(f"{len(responses)} dialogues of Kafka")
    return 0


if __name__ == "__main__":
    sys.exit(main())
