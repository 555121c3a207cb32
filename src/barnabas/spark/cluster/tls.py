"""TLS towards the brokers: Kafka's option names, PEM files."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from barnabas.spark.errors import SparkJobError

_TRUSTED: Final = ("kafka.ssl.truststore.location", "kafka.ssl.ca.location")
_CHAIN: Final = ("kafka.ssl.keystore.location", "kafka.ssl.certificate.location")
_KEY: Final = ("kafka.ssl.key.location",)
_KEY_PASSWORD: Final = ("kafka.ssl.key.password", "kafka.ssl.keystore.password")
_HOST_CHECK: Final = "kafka.ssl.endpoint.identification.algorithm"
_TYPES: Final = ("kafka.ssl.truststore.type", "kafka.ssl.keystore.type")

TLS_OPTIONS: Final = frozenset((*_TRUSTED, *_CHAIN, *_KEY, *_KEY_PASSWORD, _HOST_CHECK, *_TYPES))
"""Every option that is read here: Java's names, and librdkafka's for the same things."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Where the certificates lie; the same places on every machine that runs tasks."""

    trusted: str | None
    """None trusts what the machine trusts."""
    chain: str | None
    key: str | None
    key_password: str | None = field(repr=False)
    checks_host: bool

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "Tls":
        """SparkJobError for stores that are not PEM, and for files that are not there."""
        for name in _TYPES:
            kind = options.get(name, "PEM")
            if kind.upper() != "PEM":
                raise SparkJobError(
                    f"{name} is {kind}, and only PEM can be read here: make one with `openssl "
                    "pkcs12 -in store.p12 -out store.pem` (a JKS becomes a PKCS12 with `keytool "
                    "-importkeystore -deststoretype pkcs12` first)."
                )
        for name in (*_TRUSTED, *_CHAIN, *_KEY):
            if name in options:
                _must_be_there(name, options[name])
        found = cls(
            trusted=_first(options, _TRUSTED),
            chain=_first(options, _CHAIN),
            key=_first(options, _KEY),
            key_password=_first(options, _KEY_PASSWORD),
            checks_host=options.get(_HOST_CHECK, "https").lower() not in ("", "none"),
        )
        if found.key is not None and found.chain is None:
            raise SparkJobError(
                f"{_KEY[0]} is given without its certificate: add {_CHAIN[1]}, or leave both out."
            )
        return found

    def context(self) -> ssl.SSLContext:
        """For the links of one process; SparkJobError where the files are no good."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.checks_host
        try:
            if self.trusted is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(self.trusted)
            if self.chain is not None:
                # A password that is missing is a sentence, never a prompt that nobody sees.
                password = self.key_password or ""
                context.load_cert_chain(self.chain, self.key, lambda: password)
        except (OSError, ValueError) as problem:
            files = ", ".join(filter(None, (self.trusted, self.chain, self.key)))
            raise SparkJobError(
                f"The TLS files {files} can not be used ({problem}): they must be PEM, readable on "
                "every machine that runs tasks, and kafka.ssl.key.password must fit the key."
            ) from problem
        return context


def _first(options: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((options[name] for name in names if options.get(name)), None)


def _must_be_there(name: str, path: str) -> None:
    if not Path(path).is_file():
        raise SparkJobError(
            f"{name} is {path}, and there is no such file here: it must lie at the same place on "
            "every machine that runs a part of the job."
        )
