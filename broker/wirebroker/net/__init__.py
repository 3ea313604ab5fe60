"""The engine's connection to real sockets and real time."""

import logging

from wirebroker.common.complaints import PrintableRecords

logging.getLogger("wirebroker").addFilter(PrintableRecords())
