"""Replay tokens from outside: what the server did not sign is refused, whatever it says."""

import base64
import json

import httpx2
import pytest


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.requirement("HK-27")
async def test_a_token_that_the_server_did_not_sign_is_refused(client: httpx2.AsyncClient) -> None:
    run = (await client.post("/api/runs?wait=30", json={"agent": "echo", "input": "hello"})).json()
    token = (await client.get(f"/api/runs/{run['id']}/replay-token")).json()["token"]
    assert token.startswith("rt2_")
    content, _, signature = token.removeprefix("rt2_").partition(".")
    claimed = json.loads(_decoded(content)) | {"runtime": "another/one"}
    changed = _encoded(json.dumps(claimed, sort_keys=True, separators=(",", ":")).encode())
    last = "B" if signature[0] == "A" else "A"
    refused = {
        f"rt1_{content}": "REPLAY_TOKEN_UNSIGNED",
        f"rt2_{content}": "REPLAY_TOKEN_INVALID",
        f"rt2_{content}.": "REPLAY_TOKEN_INVALID",
        f"rt2_{changed}.{signature}": "REPLAY_TOKEN_INVALID",
        f"rt2_{content}.{last}{signature[1:]}": "REPLAY_TOKEN_INVALID",
        f"rt3_{content}.{signature}": "REPLAY_TOKEN_INVALID",
        "rt2_é.é": "REPLAY_TOKEN_INVALID",
        "": "REPLAY_TOKEN_INVALID",
    }
    for given, code in refused.items():
        for mode in ("strict", "compat"):
            answer = await client.post(f"/api/runs/{run['id']}/rerun", json={"token": given, "mode": mode})
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, code), given
    again = await client.post(f"/api/runs/{run['id']}/rerun", json={"token": token})
    assert (again.status_code, again.json()["rerunOf"]) == (202, run["id"])
