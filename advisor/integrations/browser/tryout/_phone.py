"""Let a phone in the local network reach the page: address, certificate and QR code.

``_command.py`` calls these functions for ``--phone``. Browsers allow the camera only over TLS, so
each start has a certificate of its own, whose key is deleted at the end.
"""

from __future__ import annotations

import contextlib
import io
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import UsageError
from advisor.isolation import Scratch

if TYPE_CHECKING:
    import segno

DOCUMENTATION = ("192.0.2.1", 9)
"""An address of nobody (RFC 5737): the system chooses the way to it, and no packet is sent."""

VALID_FOR = timedelta(hours=2)
"""Time after the start in which a certificate is valid: longer than the server runs."""

CLOCKS_DIFFER = timedelta(minutes=30)
"""Time by which the clock of a phone may be behind."""

PIXELS = 5
"""Side of a square of a QR code on a page, in pixels."""


def find_address(wanted: str) -> str:
    """Return the address of this machine in the local network: the wanted one, or that of the
    way to others.

    Raises:
        UsageError: there is no network, or the address is none of this machine.
    """
    if wanted:
        _require_address(wanted)
        return wanted
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(DOCUMENTATION)
            address = str(probe.getsockname()[0])
        except OSError:
            address = ""
    if not address or ip_address(address).is_loopback or ip_address(address).is_unspecified:
        raise UsageError(
            "--phone: this machine is in no network that a phone could reach",
            "join the network of the phone; or name the address of this machine there: --address"
            " 192.168.1.20",
        )
    return address


def _require_address(wanted: str) -> None:
    hint = (
        "write an address of this machine in the network of the phone, such as --address"
        " 192.168.1.20"
    )
    try:
        parsed = ip_address(wanted)
    except ValueError:
        raise UsageError(f"--address: '{wanted}' is not an address", hint) from None
    if parsed.version != 4 or parsed.is_unspecified or parsed.is_multicast:
        raise UsageError(f"--address: '{wanted}' is no single IPv4 address", hint)
    with socket.socket() as probe:
        try:
            # The system binds addresses of this machine only,
            # so this tests the address before a certificate names it.
            probe.bind((wanted, 0))
        except OSError:
            raise UsageError(f"--address: this machine has no address {wanted}", hint) from None


@contextlib.contextmanager
def make_certificate(address: str) -> Iterator[Path]:
    """Write a certificate for an address with its key; the file is gone afterwards.

    Browsers allow the camera only over TLS, and no authority certifies an address of a local
    network. The key never leaves the scratch folder, which only this user reads.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "advisor try")])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A phone whose clock is behind would refuse a certificate that begins now.
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + VALID_FOR)
        # Browsers compare the address with this name alone; they ignore the common name.
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    certificate = builder.sign(key, hashes.SHA256())
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with Scratch() as folder:
        file = folder / "certificate.pem"
        # The mode is set before the key is written: nobody else can open the file in between.
        file.touch(mode=0o600)
        file.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
        yield file


def draw_code(address: str) -> str:
    """Return a QR code of an address for a terminal: two rows of it a line."""
    text = io.StringIO()
    _make_code(address).terminal(out=text, compact=True)
    return text.getvalue()


def picture_code(address: str) -> str:
    """Return a QR code of an address as a ``data:`` address of an SVG image.

    It is black on white in dark pages, too.
    """
    return str(_make_code(address).svg_data_uri(scale=PIXELS, light="white"))


def _make_code(address: str) -> segno.QRCode:
    import segno

    # Cameras of phones do not read Micro QR codes.
    # The lowest error correction gives the smallest code.
    return segno.make(address, error="l", micro=False)
