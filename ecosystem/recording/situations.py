"""Record the responses of Kafka to the situations of tests/situations, into tests/data/situations-VERSION.json.xz.

    scripts/record situations [--release 4.3|4.4] [--only TABLE,…]

Needs `java` (17 or newer) and `mvn`. Takes some three minutes. With --only, the other tables of the file stay as they are.
"""

from __future__ import annotations

import json
import lzma

from ecosystem.kafka.releases import version_of
from ecosystem.kafka.server import KafkaServer
from ecosystem.recording.common import DATA, parser_of
from situations import SETTINGS, TABLES, recorded_by
from situations.side import RealSide


def main(arguments: list[str]) -> int:
    """Play the tables on a real broker, and write its responses to the file."""
    parser = parser_of("situations", __doc__)
    parser.add_argument("--release", default="4.4", metavar="X.Y", help="the release of Kafka")
    parser.add_argument("--only", default=",".join(TABLES), metavar="TABLE,…", help="only these tables")
    options = parser.parse_args(arguments)
    version = version_of(options.release)
    path = DATA / recorded_by(version)
    tables = json.loads(lzma.decompress(path.read_bytes())) if path.exists() else {}
    for name in options.only.split(","):
        with KafkaServer(SETTINGS, version=version) as kafka:
            tables[name] = TABLES[name](RealSide(kafka.address))
            print(f"{name}: {len(tables[name])} situations on Kafka {version}")
    text = json.dumps(tables, ensure_ascii=False, indent=1, sort_keys=True)
    path.write_bytes(lzma.compress(text.encode(), preset=9))
    return 0
