"""Replaces kafka-python's module test.service, which is not in the sdist. In this module a service is a running broker."""


class ExternalService:
    """A broker that another process has started."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def dump_logs(self):
        """Does nothing: the broker's logs are not in this process."""

    def stop(self):
        """Does nothing: the process that started the broker ends it."""


class SpawnedService:
    """The class with which tests start a broker themselves. It raises RuntimeError."""

    def __init__(self, *_):
        raise RuntimeError("these tests are run against one broker, which is running already")
