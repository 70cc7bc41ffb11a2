"""Who may call, as the settings say: the modes that are on. Whatever is wrong with one of them stops the start.

Leaves to others: storing keys (the store), what a caller may do (`permissions`).
"""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

from app.core.clock import Clock
from app.core.keys import is_secret, new_secret
from app.core.settings import PREFIX, Settings, SettingsError
from app.core.signing import Signer
from app.protocols.auth.access import Access
from app.protocols.auth.bootstrap import FILE_NAME, Bootstrap
from app.protocols.auth.browser_sessions import BrowserSessions
from app.protocols.auth.denials import Denials
from app.protocols.auth.keyring import Find, Keyring
from app.protocols.auth.proxies import TrustedProxies
from app.runtime.intake.keys import Keys
from app.runtime.intake.ledger import Ledger


@contextlib.asynccontextmanager
async def open_access(
    settings: Settings,
    keys: Keys,
    find: Find,
    ledger: Ledger,
    clock: Clock,
    signer: Signer,
    bootstrap_token: str | None = None,
) -> AsyncIterator[Access]:
    """`bootstrap_token` is what makes the first key, instead of a token of this process."""
    modes = settings.auth_modes
    keyring = Keyring(find, clock) if "keys" in modes else None
    tokens = None
    if settings.jwt_issuers is not None:
        from app.protocols.auth.tokens import Tokens, load_issuers

        tokens = Tokens(load_issuers(settings.jwt_issuers), clock)
    proxies = TrustedProxies(settings.proxy_networks) if "header" in modes else None
    bootstrap = None
    if keyring is not None:
        keys.on_revoked = keyring.forget
        if settings.admin_key_file is not None:
            await keys.ensure_first(_first_secret(settings.admin_key_file))
        bootstrap = Bootstrap(
            keys.has_admin, None if settings.is_postgres else settings.data_dir / FILE_NAME, bootstrap_token
        )
        await bootstrap.open()
    browsers = BrowserSessions(signer, clock, None if keyring is None else keyring.principal_of)
    denials = Denials(ledger.record, clock)
    denials.start()
    try:
        yield Access(
            denials, clock, keyring=keyring, tokens=tokens, proxies=proxies, bootstrap=bootstrap, browsers=browsers
        )
    finally:
        await denials.close()


def _first_secret(path: Path) -> str:
    """What the operator put there; or a new one, put there for the operator, readable by nobody else."""
    try:
        with contextlib.suppress(FileExistsError):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as sink:
                sink.write(new_secret() + "\n")
        secret = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"{PREFIX}ADMIN_KEY_FILE: {path}: {type(error).__name__}"]) from None
    if not is_secret(secret):
        raise SettingsError([f"{PREFIX}ADMIN_KEY_FILE: {path}: a key is 32 to 256 letters, digits, _ and -"])
    return secret
