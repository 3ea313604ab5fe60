"""Replaces the module test.service of kafka-python, which its sdist leaves out: services that run elsewhere."""


class ExternalService:
    """A broker that another process has started."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def dump_logs(self):
        """Its logs are elsewhere."""

    def stop(self):
        """Does nothing: the process that started the broker ends it."""


class SpawnedService:
    """A broker that the tests would start themselves."""

    def __init__(self, *_):
        raise RuntimeError("these tests are run against one broker, which is running already")
