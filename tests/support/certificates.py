"""A certificate authority of the tests, and certificates that it signs."""

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat


def pem_authority(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a certificate authority, and a server's certificate that it signs for 127.0.0.1.

    Returns the authority's certificate, and a file with the server's key and certificate, both PEM.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in (name, "127.0.0.1")]
    since = datetime.now(UTC) - timedelta(days=1)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    authority, server = (
        x509.CertificateBuilder(
            names[0], subject, key.public_key(), x509.random_serial_number(), since, since.replace(year=2100)
        )
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(alternative, critical=False)
        .sign(keys[0], SHA256())
        for subject, key, is_authority in zip(names, keys, (True, False), strict=True)
    )
    authority_file, server_file = folder / f"{name}.pem", folder / f"{name}-server.pem"
    authority_file.write_bytes(authority.public_bytes(Encoding.PEM))
    private = keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    server_file.write_bytes(private + server.public_bytes(Encoding.PEM))
    return authority_file, server_file
