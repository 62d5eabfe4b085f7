"""A certificate that vouches for itself, for what speaks TLS on this machine."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def make_certificate(folder: Path, *names: str) -> tuple[Path, Path]:
    """The files of a key and of its certificate, good for a day, and for these names."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    known = [x509.DNSName(one) for one in ("localhost", *names)]
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(known), critical=False)
        .sign(key, hashes.SHA256())
    )
    kept, shown = folder / "key.pem", folder / "certificate.pem"
    kept.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    shown.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return kept, shown
