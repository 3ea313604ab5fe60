"""Run sarama's tests while toxiproxy forwards their connections to five brokers: toxiproxy.py SERVER FIRST_PORT WORD…"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress

API, LISTENS, BROKERS = "127.0.0.1:8474", 29091, 5


def main(server: str, first: int, tests: list[str]) -> int:
    """Start the proxies, run the tests, and stop the proxies. Returns the exit code of the tests."""
    proxies = [
        {"name": f"kafka{i + 1}", "listen": f"127.0.0.1:{LISTENS + i}", "upstream": f"127.0.0.1:{first + i}", "enabled": True}
        for i in range(BROKERS)
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        json.dump(proxies, config)
        config.flush()
        host, port = API.split(":")
        words = [server, "-host", host, "-port", port, "-config", config.name]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as proxy:
            try:
                until_ready(proxy)
                return subprocess.run(tests, check=False).returncode
            finally:
                proxy.terminate()


def until_ready(proxy: subprocess.Popen[bytes]) -> None:
    """Wait until toxiproxy has all five proxies."""
    while proxy.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"http://{API}/proxies") as response:
            if len(json.load(response)) == BROKERS:
                return
            break
        time.sleep(0.1)
    sys.exit("toxiproxy could not start; does another program listen on one of its ports?")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
