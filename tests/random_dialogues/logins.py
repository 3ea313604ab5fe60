"""Random dialogues of clients that log in by SASL with the right or a wrong password, and that log in again (KIP-368)."""

from __future__ import annotations

from random_dialogues.asking import Asking
from random_dialogues.replay import Ask, Head, Responses
from random_dialogues.symbols import Json
from wirebroker.client.login import LoginFailed, Tokens, tokens

CONNECTION = 5
"""The number of the connection that must go to a listener with SASL."""
USER, PASSWORD = "lou", "secret"
MECHANISMS = {"PLAIN": 5, "SCRAM-SHA-256": 4, "SCRAM-SHA-512": 1, "NONE": 0.3}


class Logins(Asking):
    """A dialogue. Each request depends on the first broker's earlier responses."""

    def __init__(self, seed: int) -> None:
        super().__init__(Head("logins", seed))
        self._mechanism = ""
        self._tokens: Tokens | None = None
        self._heard = b""

    def ask(self, free: list[int]) -> Ask:
        """Returns the next request."""
        if not self._mechanism:
            return Ask(CONNECTION, "SaslHandshake", 1, {"mechanism": self._pick(MECHANISMS)})
        return Ask(CONNECTION, "SaslAuthenticate", self._version(0, 2), {"auth_bytes": self._token().decode("latin-1")})

    def _token(self) -> bytes:
        try:
            if self._tokens is not None:
                return self._tokens.send(self._heard)
        except (StopIteration, LoginFailed):
            return b"nonsense"
        password = PASSWORD if self._chance(0.85) else "wrong"
        self._tokens = tokens(self._mechanism, USER, password)
        return next(self._tokens)

    def learn(self, ask: Ask, responses: Responses) -> None:
        """Remembers the next step of the login."""
        response: Json | None = responses.get(CONNECTION)
        if response is None or "error_code" in response:
            self._mechanism, self._tokens = "", None
        elif ask.api == "SaslHandshake":
            self._mechanism, self._tokens = ask.body["mechanism"], None
        else:
            self._heard = response.get("auth_bytes", "").encode("latin-1")
            if self._mechanism == "PLAIN" or self._heard.startswith(b"v="):
                self._mechanism, self._tokens = "", None
