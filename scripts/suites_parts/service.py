"""Replaces kafka-python's module test.service, which is not in its sdist. Its services are brokers that already run."""


class ExternalService:
    """A broker that another process has started."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def dump_logs(self):
        """Does nothing: the broker's logs are not in this process."""

    def stop(self):
        """Does nothing: the process that started the broker ends it."""


class SpawnedService:
    """A broker that the tests would start themselves."""

    def __init__(self, *_):
        raise RuntimeError("these tests are run against one broker, which is running already")
