"""By what a bridge is known to the MQTT broker: its client id, password and certificates.

Passwords and certificates are read with each connection, so they may change meanwhile. Nothing of them is in a text.
"""

from __future__ import annotations

import os
import secrets
import ssl
from pathlib import Path

from tidegate.errors import SettingError
from tidegate.runs.mqtt_section import MqttSection

__all__ = ["Credentials", "check_credentials"]

_FILE = "mqtt-client"
_LONGEST = 65_535


class Credentials:
    """The credentials that a section names. ``directory`` keeps the client id, if the section has none: so a copy of a
    broker on another machine does not take the first one's place.
    """

    def __init__(self, section: MqttSection, directory: Path) -> None:
        self._section = section
        self.client_id = section.client_id or _kept_client_id(directory / _FILE)

    def password(self) -> bytes | None:
        """The password, if there is one."""
        return _password(self._section)

    def tls(self) -> ssl.SSLContext | None:
        """The context of connections; None without TLS."""
        return _tls(self._section)


def check_credentials(section: MqttSection) -> None:
    """Read all that a section names once; what cannot be used is an error."""
    _password(section)
    _tls(section)


def _password(section: MqttSection) -> bytes | None:
    found: bytes | None = None
    if section.password is not None:
        found = section.password.encode()
    elif section.password_file is not None:
        try:
            found = Path(section.password_file).read_bytes().rstrip(b"\r\n")
        except OSError as error:
            raise SettingError("a file with a password", error.strerror or "none", section.password_file) from None
    elif section.password_variable is not None:
        if section.password_variable not in os.environ:
            raise SettingError("a password in the environment", "none", section.password_variable)
        found = os.environb[section.password_variable.encode()]
    if found is not None and len(found) > _LONGEST:
        raise SettingError(f"a password of at most {_LONGEST:,} bytes", f"{len(found):,}", "[mqtt]")
    return found


def _tls(section: MqttSection) -> ssl.SSLContext | None:
    if not section.address.has_tls:
        return None
    try:
        context = ssl.create_default_context(cafile=section.ca)
    except (OSError, ssl.SSLError) as wrong:
        raise SettingError("a file with certificates, as PEM", str(wrong), section.ca or "ca") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if section.certificate is not None and section.private_key is not None:
        at = f"{section.certificate}, {section.private_key}"
        try:
            context.load_cert_chain(section.certificate, section.private_key, lambda: b"")
        except (OSError, ssl.SSLError) as wrong:
            raise SettingError("files with a certificate and its private key", str(wrong), at) from None
    return context


def _kept_client_id(file: Path) -> str:
    try:
        if found := file.read_text("utf-8").strip():
            return found
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    made = f"tidegate-{secrets.token_hex(8)}"
    aside = file.with_name(f".{file.name}")
    aside.write_text(made, "utf-8")
    os.replace(aside, file)
    return made
