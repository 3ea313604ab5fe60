"""Deeds: the changes that a test can make to a broker without a client. For example, a test can fence a producer or kill a
broker. Each deed is declared once: MockKafka, the HTTP control and the faults use this declaration
(`wirebroker.deeds.declaring`)."""
