"""The server's secret: signs what is handed to clients and comes back, such as replay tokens, and seals what is stored.

The secret is a file (`HOLDFAST_SECRET_FILE`). Each line is a secret of at least 32 characters: the first one signs, all
of them verify, so that a new one can be put first before the old one is taken out. Leaves to others: what is signed.
"""

import hmac
import os
import secrets
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from app.core.settings import PREFIX, Settings, SettingsError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MIN_CHARACTERS: Final = 32
MAX_SECRETS: Final = 10
_NONCE_BYTES: Final = 12
_SETTING: Final = f"{PREFIX}SECRET_FILE"


class Signer:
    """HMAC-SHA256. `purpose` keeps apart what is signed for different uses."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        assert keys, "there is nothing to sign with"
        self._keys = tuple(keys)

    def __repr__(self) -> str:
        return f"Signer({len(self._keys)} secrets)"

    def sign(self, purpose: str, data: bytes) -> bytes:
        return _mac(self._keys[0], purpose, data)

    def verify(self, purpose: str, data: bytes, signature: bytes) -> bool:
        fits = False
        for key in self._keys:  # all of them, so that the time says nothing about which one fits
            fits |= hmac.compare_digest(_mac(key, purpose, data), signature)
        return fits

    def seal(self, purpose: str, data: bytes) -> bytes:
        """Encrypted (AES-256-GCM) with a key that only the server's secret gives."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + _cipher(self._keys[0], purpose).encrypt(nonce, data, None)

    def unseal(self, purpose: str, sealed: bytes) -> bytes | None:
        """What was sealed with one of the secrets; None if none of them fits."""
        from cryptography.exceptions import InvalidTag

        for key in self._keys:
            try:
                return _cipher(key, purpose).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None)
            except InvalidTag:
                continue
        return None


def _cipher(key: bytes, purpose: str) -> "AESGCM":
    """Loaded when it is first used: most servers seal nothing."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(_mac(key, f"seal {purpose}", b""))


def _mac(key: bytes, purpose: str, data: bytes) -> bytes:
    return hmac.new(key, b"holdfast\0" + purpose.encode() + b"\0" + data, sha256).digest()


def open_signer(settings: Settings) -> Signer:
    """With the embedded database the secret is made when it is missing; the data folder must be held by then.

    Servers that share a database must share the secret, so there it has to be given.
    """
    path = settings.secret_file
    if path is None:
        if settings.is_postgres:
            raise SettingsError(
                [
                    f"{_SETTING}: needed with Postgres, so that all servers on the database have the same secret; "
                    f"make one with `openssl rand -hex 32 > FILE`, readable by the server only"
                ]
            )
        path = settings.data_dir / "secret"
        _make(path)
    return Signer(_read(path))


def _make(path: Path) -> None:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    except OSError as error:
        raise SettingsError([f"{_SETTING}: {path}: {error.strerror}"]) from None
    with os.fdopen(file, "w") as sink:
        sink.write(secrets.token_hex(32) + "\n")
        sink.flush()
        os.fsync(file)


def _read(path: Path) -> list[bytes]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise SettingsError([f"{_SETTING}: {path}: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise SettingsError([f"{_SETTING}: {path}: not UTF-8"]) from None
    found = [line.strip().encode() for line in lines if line.strip()]
    if not found or len(found) > MAX_SECRETS or any(len(key) < MIN_CHARACTERS for key in found):
        message = f"must hold 1 to {MAX_SECRETS} lines, each a secret of at least {MIN_CHARACTERS} characters"
        raise SettingsError([f"{_SETTING}: {path}: {message}"])
    return found
