"""`serve` can read users and passwords from files and variables, so that no flag needs a password."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from wirebroker.client.login import log_in
from wirebroker.client.settings import Access
from wirebroker.client.wire import Connection, address_of
from wirebroker.commands.usage import UsageError
from wirebroker.commands.users import users_of


def test_users_of_a_file_and_of_a_variable_log_in(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("# of the tests\n\nalice: spaced:word \nbob:old\n")
    file.chmod(0o600)
    command = [sys.executable, "-m", "wirebroker.commands.cli", "serve", "--listener", "S=SASL_PLAINTEXT://127.0.0.1:0"]
    flags = ["--users-file", str(file), "--user", "bob:@env:BOBS_PASSWORD"]
    environment = os.environ | {"BOBS_PASSWORD": "new"}
    with subprocess.Popen([*command, *flags], env=environment, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        where = address_of(broker.stdout.readline().split()[2])
        for user, password in (("alice", " spaced:word "), ("bob", "new")):
            with closing(Connection(where, 5)) as connection:
                log_in(connection, Access("SASL_PLAINTEXT", "SCRAM-SHA-512", user, password))
        broker.terminate()


@pytest.mark.parametrize(
    ("text", "words"),
    [("alice:secret\nbob\n", "line 2: this is not NAME:PASSWORD"), (":secret", "line 1: this is not"), (None, "No such file")],
)
def test_a_file_that_cannot_be_used_is_named_without_its_passwords(text: str | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "users"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UsageError, match=f"^--users-file .*{words}") as refused:
        users_of([], str(file), {})
    assert "secret" not in str(refused.value)


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such permissions")
def test_a_variable_that_is_not_set_and_a_file_for_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UsageError, match="^--user alice: the environment variable NOBODY is not set$"):
        users_of(["alice:@env:NOBODY"], None, {})
    file = tmp_path / "users"
    file.write_text("alice:a")
    file.chmod(0o644)
    assert users_of([], str(file), {}) == {"alice": "a"}
    (warned,) = caplog.messages
    assert warned.endswith("other users of this machine can read the file; `chmod 600` prevents this")
