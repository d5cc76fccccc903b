"""Certificates for servers of the tests, signed by themselves."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM


def write_certificate(certificate: Path, key: Path, name: str) -> None:
    """A certificate for this host name, valid from yesterday to tomorrow, which is its own authority, and its key."""
    secret, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder(subject, subject, secret.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(secret.public_key()), critical=False)
    )
    certificate.write_bytes(made.sign(secret, hashes.SHA256()).public_bytes(PEM))
    key.write_bytes(secret.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
