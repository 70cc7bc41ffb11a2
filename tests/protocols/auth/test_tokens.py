"""Tokens of listed issuers, made here with real keys: what is accepted, and everything that is not."""

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from app.core import json
from app.core.settings import SettingsError
from app.protocols.auth.tokens import load_issuers
from tests.protocols.auth.auth_server import bearer, open_auth_server

RSA: Final = rsa.generate_private_key(65537, 2048)
OTHER: Final = rsa.generate_private_key(65537, 2048)
ISSUER: Final = "https://login.example"


def public_pem(key: Any) -> bytes:
    made: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return made


def claims(**changes: Any) -> dict[str, Any]:
    named = {
        "iss": ISSUER, "aud": "holdfast", "sub": "ada", "exp": time.time() + 300, "tenant": "acme", "roles": ["member"],
    } | changes  # fmt: skip
    return {name: value for name, value in named.items() if value is not None}


def issuers(folder: Path, *listed: dict[str, Any]) -> Path:
    (folder / "rsa.pem").write_bytes(public_pem(RSA))
    file = folder / "issuers.json"
    file.write_bytes(json.dumps(list(listed) or [entry()]))
    return file


def entry(**changes: Any) -> dict[str, Any]:
    return {"issuer": ISSUER, "audience": "holdfast", "algorithm": "RS256", "keys": "rsa.pem"} | changes


def sign(payload: dict[str, Any], key: Any = RSA, algorithm: str = "RS256", **header: Any) -> str:
    return jwt.encode(payload, key, algorithm, headers=header or None)


def unsigned(payload: dict[str, Any]) -> str:
    parts = (json.dumps({"alg": "none", "typ": "JWT"}), json.dumps(payload))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


@pytest.mark.requirement("S4", "PX-7")
async def test_a_token_says_who_it_is_and_what_they_may(tmp_path: Path) -> None:
    listed = issuers(tmp_path, entry(scopes=["metrics:read"]))
    async with open_auth_server(tmp_path, auth="jwt", jwt_issuers=listed) as server:
        member = server.client(bearer(sign(claims())))
        run = (await member.post("/api/runs", json={"agent": "echo", "input": "x"})).json()
        events = await server.holdfast.store.reader.run_events("acme", run["id"], 0, 10)
        assert events[0].actor == "user:ada"
        assert (await member.get("/metrics")).status_code == 403
        by_scope = server.client(bearer(sign(claims(roles=None, scope="openid metrics:read"))))
        assert (await by_scope.get("/metrics")).status_code == 200
        assert (await by_scope.get("/api/threads")).status_code == 403
        stranger = server.client(bearer(sign(claims(tenant="other"))))
        assert (await stranger.get(f"/api/runs/{run['id']}")).status_code == 404


BAD: Final[dict[str, Callable[[], str]]] = {
    "expired": lambda: sign(claims(exp=time.time() - 61)),
    "no expiry": lambda: sign(claims(exp=None)),
    "expiry that is no number": lambda: sign(claims(exp="soon")),
    "no issuer": lambda: sign(claims(iss=None)),
    "another issuer": lambda: sign(claims(iss="https://evil.example")),
    "issuers as a list": lambda: sign(claims(iss=ISSUER) | {"iss": ISSUER + "/"}),
    "no audience": lambda: sign(claims(aud=None)),
    "another audience": lambda: sign(claims(aud="payments")),
    "no subject": lambda: sign(claims(sub=None)),
    "subject with a line break": lambda: sign(claims(sub="ada\nroot")),
    "no tenant": lambda: sign(claims(tenant=None)),
    "tenant that is no name": lambda: sign(claims(tenant="../x")),
    "roles that are no list": lambda: sign(claims(roles={"admin": True})),
    "not yet valid": lambda: sign(claims(nbf=time.time() + 120)),
    "issued in the future": lambda: sign(claims(iat=time.time() + 120)),
    "signed by somebody else": lambda: sign(claims(), OTHER),
    "another algorithm of the same key": lambda: sign(claims(), algorithm="RS512"),
    "the public key as a secret": lambda: forged_with_the_public_key(),
    "no signature": lambda: unsigned(claims()),
    "an extension that must be understood": lambda: sign(claims(), crit=["b64"], b64=False),
    "a signature cut off": lambda: sign(claims())[:-8],
    "claims changed after signing": lambda: tampered(),
    "two dots and nothing": lambda: "..",
    "not base64": lambda: "a$.b$.c$",
    "very long": lambda: sign(claims(note="x" * 7000)),
}


def forged_with_the_public_key() -> str:
    import hashlib
    import hmac

    parts = (json.dumps({"alg": "HS256", "typ": "JWT"}), json.dumps(claims()))
    text = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
    mac = hmac.new(public_pem(RSA), text.encode(), hashlib.sha256).digest()
    return text + "." + base64.urlsafe_b64encode(mac).rstrip(b"=").decode()


def tampered() -> str:
    header, _, signature = sign(claims()).split(".")
    body = base64.urlsafe_b64encode(json.dumps(claims(roles=["system"]))).rstrip(b"=").decode()
    return f"{header}.{body}.{signature}"


@pytest.mark.requirement("S4")
async def test_every_other_token_is_refused_in_the_same_words(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="jwt", jwt_issuers=issuers(tmp_path)) as server:
        assert (await server.client(bearer(sign(claims()))).get("/api/threads")).status_code == 200
        bodies = set()
        for what, make in BAD.items():
            answer = await server.client(bearer(make())).get("/api/threads")
            assert answer.status_code == 401, what
            bodies.add(answer.content)
        assert len(bodies) == 1


@pytest.mark.requirement("S4")
async def test_leeway_is_what_the_issuer_s_entry_says(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="jwt", jwt_issuers=issuers(tmp_path, entry(leewaySeconds=60))) as server:
        for late, status in ((55, 200), (70, 401)):
            answer = await server.client(bearer(sign(claims(exp=time.time() - late)))).get("/api/threads")
            assert answer.status_code == status


@pytest.mark.requirement("S4")
async def test_each_issuer_has_its_own_algorithm_and_keys(tmp_path: Path) -> None:
    curve, edwards, secret = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate(), b"s" * 40
    jwk = json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(curve.public_key())) | {"kid": "one", "use": "sig"}
    other = json.loads(jwt.get_algorithm_by_name("RS256").to_jwk(OTHER.public_key())) | {"kid": "two"}
    (tmp_path / "curve.json").write_bytes(json.dumps({"keys": [jwk, other]}))
    (tmp_path / "ed.pem").write_bytes(public_pem(edwards))
    (tmp_path / "secret").write_bytes(secret)
    file = issuers(
        tmp_path,
        entry(),
        entry(issuer="curve", algorithm="ES256", keys="curve.json", tenant="fixed"),
        entry(issuer="ed", algorithm="EdDSA", keys="ed.pem", rolesClaim="role"),
        entry(issuer="hmac", algorithm="HS256", keys="secret", tenantClaim="org"),
    )
    async with open_auth_server(tmp_path, auth="jwt,keys", jwt_issuers=file) as server:
        accepted = {
            "rsa": sign(claims()),
            "curve": sign(claims(iss="curve"), curve, "ES256", kid="one"),
            "ed": sign(claims(iss="ed", roles=None, role="viewer"), edwards, "EdDSA"),
            "hmac": sign(claims(iss="hmac", tenant=None, org="acme"), secret, "HS256"),
            "key": await server.key(),
        }
        for name, token in accepted.items():
            assert (await server.client(bearer(token)).get("/api/threads")).status_code == 200, name
        refused = {
            "hmac's secret in rsa's name": sign(claims(), secret, "HS256"),
            "curve's key in ed's name": sign(claims(iss="ed"), curve, "ES256"),
            "a key of another kind": sign(claims(iss="curve"), OTHER, "RS256", kid="two"),
        }
        for name, token in refused.items():
            assert (await server.client(bearer(token)).get("/api/threads")).status_code == 401, name


@pytest.mark.requirement("S1", "S4")
@pytest.mark.parametrize(
    ("listed", "named"),
    [
        ([entry(algorithm="none")], "algorithm"),
        ([entry(algorithm="HS256")], "is no PEM"),
        ([entry(leewaySeconds=61)], "leewaySeconds"),
        ([entry(keys="missing.pem")], "No such file"),
        ([entry(keys="rsa.pem", algorithm="ES256")], "no key for ES256"),
        ([entry(keys="private.pem")], "private key"),
        ([entry(keys="empty.json")], "no key for RS256"),
        ([entry(), entry()], "each issuer once"),
        ([], "each issuer once"),
        ([{"issuer": "x"}], "audience"),
        ([entry(extra=1)], "extra"),
        ([entry(tenant="a b")], "tenant"),
        ({"issuer": "x"}, "list"),
    ],
    ids=str,
)
def test_a_list_of_issuers_that_cannot_work_stops_the_start(tmp_path: Path, listed: Any, named: str) -> None:
    (tmp_path / "rsa.pem").write_bytes(public_pem(RSA))
    (tmp_path / "empty.json").write_bytes(b'{"keys":[]}')
    (tmp_path / "private.pem").write_bytes(
        RSA.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (tmp_path / "issuers.json").write_bytes(json.dumps(listed))
    with pytest.raises(SettingsError, match=named):
        load_issuers(tmp_path / "issuers.json")


@pytest.mark.requirement("S4")
@pytest.mark.parametrize("tenant", [{"tenant": "acme"}, {}], ids=["fixed tenant", "claimed tenant"])
async def test_an_issuer_gives_no_more_than_its_entry_allows(tmp_path: Path, tenant: dict[str, str]) -> None:
    async with open_auth_server(tmp_path, auth="jwt", jwt_issuers=issuers(tmp_path, entry(**tenant))) as server:
        for wanted in (
            {"roles": ["system"]},
            {"roles": ["admin", "owner", "system"]},
            {"roles": "system"},
            {"roles": [], "scope": "keys:manage tenants:manage keys:* tenants:*"},
            {"roles": ["member"], "scope": "keys:manage tenants:manage metrics:read audit:read"},
        ):
            client = server.client(bearer(sign(claims(**wanted))))
            for body in (
                {"name": "mine", "roles": ["admin"]},
                {"name": "x", "tenant": "other", "scopes": ["runs:read"]},
            ):
                assert (await client.post("/api/keys", json=body)).status_code == 403, wanted
            assert (await client.get("/metrics")).status_code == 403
            assert (await client.get("/api/threads/sys_ledger/events")).status_code == 403
        assert (await server.client(bearer(sign(claims()))).get("/api/threads")).status_code == 200


@pytest.mark.requirement("S4")
async def test_an_issuer_that_may_name_admins_names_no_system(tmp_path: Path) -> None:
    listed = issuers(tmp_path, entry(roles=["admin", "finance"]))
    async with open_auth_server(tmp_path, auth="jwt", jwt_issuers=listed) as server:
        admin = server.client(bearer(sign(claims(roles=["admin", "system", "finance"], scope="tenants:manage"))))
        assert (await admin.post("/api/keys", json={"name": "k", "roles": ["member"]})).status_code == 201
        other = {"name": "k", "tenant": "other", "roles": ["member"]}
        assert (await admin.post("/api/keys", json=other)).status_code == 403
        assert (await admin.post("/api/keys", json={"name": "k", "roles": ["system"]})).status_code == 403


@pytest.mark.parametrize("more", [{"roles": ["system"]}, {"scopes": ["tenants:manage"]}, {"scopes": ["unheard:of"]}])
def test_an_entry_that_gives_too_much_stops_the_start(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        load_issuers(issuers(tmp_path, entry(**more)))
