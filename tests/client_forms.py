"""Different forms of client properties files. For each form, a bool says whether the AdminClient of Kafka 4.3.1 reaches a
broker with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography.hazmat.primitives import serialization

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = {"alice": "tea", "bob": "a \"b' \\ #!=:;c", "carol": "Kä", "dave": "x/y", "e-f_g$h.i": "12ab"}
"""The users who can log in."""


class Material(NamedTuple):
    """Keys and certificates in PEM: an authority, and a client's key and certificates."""

    folder: Path
    trusted: str
    chain: str
    key: str
    locked: str
    """the key, with the password `s3cret`"""
    traditional: str
    """the key in the form PKCS #1 or SEC 1"""


def material(folder: Path, authority: trustme.CA) -> Material:
    """Makes one key, which both a client and a broker use, and writes the files that the forms name."""
    issued = authority.issue_cert("127.0.0.1", common_name="both", key_type=trustme.KeyType.RSA)
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    forms = {
        "key": (serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        "traditional": (serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()),
        "locked": (serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"s3cret")),
    }
    pems = {name: key.private_bytes(serialization.Encoding.PEM, *form).decode() for name, form in forms.items()}
    chain = "".join(each.bytes().decode() for each in issued.cert_chain_pems)
    made = Material(folder, authority.cert_pem.bytes().decode(), chain, **pems)
    for name, text in (
        ("ca.pem", made.trusted), ("both.pem", made.key + made.chain), ("locked.pem", made.chain + "\nBag: x\n" + made.locked),
        ("line.pem", " ".join(made.trusted.split("\n"))), ("old.pem", made.traditional + made.chain), ("none.pem", "nothing"),
    ):  # fmt: skip
        (folder / name).write_text(text)
    return made


def one_line(pem: str, between: str) -> str:
    """Returns a PEM text with `between` instead of line ends, for a value of a properties file."""
    return between.join(pem.strip().split("\n"))


def sasl(login: str, mechanism: str = "PLAIN", protocol: str = "SASL_PLAINTEXT") -> str:
    """Returns the lines with which a properties file logs in."""
    return f"security.protocol={protocol}\nsasl.mechanism={mechanism}\nsasl.jaas.config={login}\n"


ALICE = 'username="alice" password="tea"'
NEEDED = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} required {ALICE};\n"
LOGINS: dict[str, tuple[str, bool]] = {
    "plain": (NEEDED, True),
    "no semicolon": (sasl(f"{PLAIN} required {ALICE}"), False),
    "blank before the semicolon": (sasl(f"{PLAIN} required {ALICE} ; "), True),
    "two semicolons": (sasl(f"{PLAIN} required {ALICE};;"), False),
    "two modules": (sasl(f"{PLAIN} required {ALICE}; {SCRAM} required {ALICE};"), False),
    "words": (sasl(f"{PLAIN} required username=alice password=tea;"), True),
    "single quotes": (sasl(f"{PLAIN} required username='alice' password='tea';"), True),
    "blanks around =": (sasl(f"{PLAIN}   required \\\n  username = \"alice\"\\\n\tpassword= 'tea' ;"), True),
    "line ends inside": (sasl(f"{PLAIN} required\\n{ALICE};"), True),
    "debug=true": (sasl(f"{PLAIN} required {ALICE} debug=true;"), True),
    'debug="true"': (sasl(f'{PLAIN} required debug="true" {ALICE};'), True),
    "debug=1": (sasl(f"{PLAIN} required {ALICE} debug=1;"), False),
    "an option twice": (sasl(f'{PLAIN} required password="coffee" {ALICE};'), True),
    "another module": (sasl(f"{SCRAM} required {ALICE};"), True),
    "another module for SCRAM": (sasl(f"{PLAIN} required {ALICE};", "SCRAM-SHA-512"), True),
    "a module of nobody": (sasl(f"com.example.Module required {ALICE};"), False),
    "a module of OAuth": (sasl(f"{PLAIN.replace('plain.Plain', 'oauthbearer.OAuthBearer')} required {ALICE};"), False),
    "SCRAM-SHA-256": (sasl(f"{SCRAM} Required {ALICE};", "SCRAM-SHA-256"), True),
    "requisite": (sasl(f"{PLAIN} requisite {ALICE};"), True),
    "no flag": (sasl(f"{PLAIN} {ALICE};"), False),
    "another flag": (sasl(f"{PLAIN} needed {ALICE};"), False),
    "no password": (sasl(f'{PLAIN} required username="alice";'), False),
    "an empty login": (sasl(""), False),
    "comments": (sasl(f"/* a */ {PLAIN} required {ALICE}; // the end"), True),
    "a word with a slash": (sasl(f"{PLAIN} required username=dave password=x/y;"), False),
    "a word with a digit first": (sasl(f'{PLAIN} required username="e-f_g$h.i" password=12ab;'), False),
    "a word of all characters": (sasl(f'{PLAIN} required username=e-f_g$h.i password="12ab";'), True),
    "escapes": (sasl(f'{PLAIN} required username="\\\\141lice" password="t\\\\145a";'), True),
    "a string with everything": (sasl(f'{PLAIN} required username="bob" password="a \\\\"b\' \\\\\\\\ #!=:;c";'), True),
    "a string to the end of the line": (sasl(f"{PLAIN} required username=\"alice\\n password='tea';"), True),
    "unicode escapes": (sasl(f'{PLAIN} required username="\\u0061lice" password="te\\u0061";'), True),
    "a name in Latin-1": (sasl(f'{PLAIN} required username="carol" password="Kä";').replace("ä", "\xe4"), True),
    "a name by an escape": (sasl(f'{PLAIN} required username="carol" password="K\\u00e4";'), True),
    "damaged escape": (NEEDED + "x=\\u12\n", False),
    "blanks after values": (NEEDED.replace("\n", " \t\n"), True),
    "colons": (NEEDED.replace("=", ":", 1).replace("=PLAIN", " : PLAIN"), True),
    "blanks between": (NEEDED.replace("security.protocol=", "  security.protocol   "), True),
    "escaped names": (NEEDED.replace("security.protocol", "security\\.protocol"), True),
    "comments and blank lines": ("# a=b\n  ! c\n\n \t\n" + NEEDED + "#security.protocol=SSL\\\n", True),
    "a comment does not continue": ("# x \\\n" + NEEDED, True),
    "carriage returns": (NEEDED.replace("\n", "\r"), True),
    "Windows": (NEEDED.replace("\n", "\r\n"), True),
    "the last of two": ("security.protocol=SSL\n" + NEEDED, True),
    "a name in pieces": (NEEDED.replace("sasl.mechanism=", "sasl.\\\n   mechanism=\\\n  "), True),
    "lower case": (NEEDED.replace("SASL_PLAINTEXT", "sasl_plaintext"), True),
    "a mechanism in lower case": (NEEDED.replace("=PLAIN\n", "=plain\n"), False),
    "vertical tab": (NEEDED.replace("=SASL", "=\x0bSASL"), True),
    "other blanks": (NEEDED.replace("=SASL", "=\xa0SASL"), False),
    "next line": (NEEDED + "x=\x85y=1\n", True),
    "an unknown protocol": (NEEDED.replace("SASL_PLAINTEXT", "TLS"), False),
    "settings of a consumer": (NEEDED + "group.id=g\nauto.offset.reset=earliest\nenable.auto.commit=false\n"
        "key.deserializer=org.apache.kafka.common.serialization.StringDeserializer\n", True),
    "settings of a producer": (NEEDED + "acks=all\nlinger.ms=5\nenable.idempotence=true\ncompression.type=zstd\n", True),
    "settings of nobody": (NEEDED + "schema.registry.url=http://127.0.0.1:1\nbasic.auth.user.info=a:b\n", True),
    "settings of other mechanisms": (NEEDED + "sasl.kerberos.service.name=kafka\nsasl.login.refresh.window.factor=0.5\n"
        "sasl.oauthbearer.scope.claim.name=scope\n", True),
    "settings of TLS": (NEEDED + "ssl.protocol=TLSv1.3\nssl.cipher.suites=TLS_AES_128_GCM_SHA256\nssl.provider=\n"
        "ssl.keymanager.algorithm=SunX509\nssl.trustmanager.algorithm=PKIX\n", True),
    "a handler of nobody": (NEEDED + "sasl.client.callback.handler.class=com.example.Handler\n", False),
    "an engine of nobody": (NEEDED + "ssl.engine.factory.class=com.example.Engine\n", False),
}  # fmt: skip
"""Logins at a listener with SASL_PLAINTEXT."""


def certificates(made: Material) -> dict[str, tuple[str, bool]]:
    """Returns forms for an SSL listener that requires a client certificate."""
    trust = f"ssl.truststore.type=PEM\nssl.truststore.location={made.folder}/ca.pem\n"
    ssl = "security.protocol=SSL\nssl.keystore.type=PEM\n" + trust
    inline = "ssl.keystore.key={}\nssl.keystore.certificate.chain={}\n"
    lines = "\\n\\\n  "
    own = inline.format(one_line(made.key, lines), one_line(made.chain, lines))
    in_file = f"ssl.keystore.location={made.folder}/both.pem\n"
    return {
        "files": (ssl + in_file, True),
        "files with blanks": (ssl.replace("\n", "  \n") + in_file, True),
        "continued lines": (ssl + own, True),
        "blanks for line ends": (ssl + inline.format(one_line(made.key, " "), one_line(made.chain, " ")), True),
        "blanks in a file": (ssl.replace("/ca.pem", "/line.pem") + in_file, True),
        "continued without line ends": (
            ssl + inline.format(one_line(made.key, " \\\n"), one_line(made.chain, " \\\n")), True),
        "nothing for line ends": (ssl + inline.format(one_line(made.key, ""), one_line(made.chain, "")), False),
        "blanks inside": (ssl + own.replace("MII", "M I\\tI"), True),
        "words before": (ssl + own.replace("chain=", "chain=subject: CN=client\\nissuer: x\\n"), True),
        "the chain in the wrong place": (ssl + inline.format(one_line(made.chain, lines), one_line(made.key, lines)), False),
        "key and chain in both": (ssl + inline.format(*[one_line(made.chain + made.key, lines)] * 2), True),
        "trusted certificates": (
            "security.protocol=SSL\nssl.keystore.type=PEM\nssl.truststore.type=PEM\nssl.truststore.certificates="
            + one_line(made.trusted, " ") + "\n" + own, True),
        "two trusted certificates": (
            "security.protocol=SSL\nssl.keystore.type=PEM\nssl.truststore.type=PEM\nssl.truststore.certificates="
            + one_line(made.chain.strip() + "\n" + made.trusted, "\\n") + "\n" + own, True),
        # Java before 19 knows only older encryptions of keys.
        "an encrypted key": (
            ssl + inline.format(one_line(made.locked, " "), one_line(made.chain, " ")) + "ssl.key.password= s3cret \n", True),
        "an encrypted key in a file": (
            ssl + f"ssl.keystore.location={made.folder}/locked.pem\nssl.key.password=s3cret\n", True),
        "an encrypted key without a password": (ssl + f"ssl.keystore.location={made.folder}/locked.pem\n", False),
        "a wrong password": (ssl + f"ssl.keystore.location={made.folder}/locked.pem\nssl.key.password=x\n", False),
        "a password of a key without one": (ssl + in_file + "ssl.key.password=s3cret\n", False),
        "a password of the store": (ssl + in_file + "ssl.keystore.password=s3cret\n", False),
        "a password of the trusted certificates": (ssl + in_file + "ssl.truststore.password=s3cret\n", False),
        "an old key": (ssl + f"ssl.keystore.location={made.folder}/old.pem\n", False),
        "no key": (ssl + f"ssl.keystore.location={made.folder}/ca.pem\n", False),
        "no certificate": (ssl + f"ssl.keystore.location={made.folder}/none.pem\n", False),
        "key without chain": (ssl + f"ssl.keystore.key={one_line(made.key, ' ')}\n", False),
        "chain without key": (ssl + f"ssl.keystore.certificate.chain={one_line(made.chain, ' ')}\n", False),
        "location and key": (ssl + in_file + own, False),
        "no type": (ssl.replace("ssl.keystore.type=PEM\n", "") + in_file, False),
        "a type in lower case": (ssl.replace("keystore.type=PEM", "keystore.type=pem") + in_file, False),
        "no location": (ssl + in_file.replace("location", "password"), False),
        "TLSv1.3": (ssl + in_file + "ssl.enabled.protocols=TLSv1.3\n", True),
        "old and new versions": (ssl + in_file + "ssl.enabled.protocols= TLSv1.1 , TLSv1.2\n", True),
        "an unknown version": (ssl + in_file + "ssl.enabled.protocols=TLSv1.9\n", False),
        "no check of the host": (ssl + in_file + "ssl.endpoint.identification.algorithm= \n", True),
        "HTTPS": (ssl + in_file + "ssl.endpoint.identification.algorithm=HTTPS\n", True),
        "LDAPS": (ssl + in_file + "ssl.endpoint.identification.algorithm=LDAPS\n", True),
        "no algorithm": (ssl + in_file + "ssl.endpoint.identification.algorithm=NONE\n", False),
    }  # fmt: skip
