"""Connects the engine to real sockets and to real time."""

import logging

from wirebroker.common.complaints import PrintableRecords

logging.getLogger("wirebroker").addFilter(PrintableRecords())
