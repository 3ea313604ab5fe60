"""Record the responses of Kafka 4.3.1 to OAUTHBEARER logins, into tests/data/oauth-4.3.1.json.

    scripts/record oauth

Needs `java` (17 or newer) and `mvn`. The tokens and the brokers' settings are in tests/oauth_tokens.py.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from ecosystem.kafka.security import OAuth, Security
from ecosystem.kafka.server import KafkaServer
from ecosystem.recording.common import DATA, parser_of
from oauth_tokens import BROKERS, RECORDED, key_set, play


def main(arguments: list[str]) -> int:
    """Send all logins to real brokers, and write their responses to the file."""
    parser_of("oauth", __doc__).parse_args(arguments)
    responses = []
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder, "keys.json")
        keys.write_text(key_set())
        for name, validation in BROKERS.items():
            oauth = OAuth(validation.options, keys if validation.signed else None)
            security = Security({"alice": "secret"}, listeners=("SASL_PLAINTEXT",), oauth=oauth)
            with KafkaServer(validation.settings, security=security) as kafka:
                responses += play(name, kafka.addresses["SASL_PLAINTEXT"], kafka.now())
    text = "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in responses) + "\n]\n"
    (DATA / RECORDED).write_text(text, encoding="utf-8")
    print(f"{len(responses)} dialogues of Kafka")
    return 0
