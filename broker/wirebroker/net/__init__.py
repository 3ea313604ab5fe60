"""The engine's connection to real sockets and real time."""

import logging

from wirebroker.common.printable import PrintableRecords

logging.getLogger("wirebroker").addFilter(PrintableRecords())
