"""A program for the tests of subprocess tools: does what its arguments say. Standard library only."""

import json
import os
import socket
import sys
import time


def main() -> None:
    arguments = json.load(sys.stdin)
    match arguments["do"]:
        case "json":
            print(json.dumps({"answer": 42}))
        case "text":
            print("plain", end="")
        case "large":
            print("x" * 50_000, end="")
        case "fail":
            sys.exit("it broke")
        case "leak":
            print(json.dumps({"said": os.environ["TOKEN"]}))
        case "leak_and_fail":
            sys.exit(f"the token is {os.environ['TOKEN']}")
        case "work":
            with socket.create_connection(("127.0.0.1", arguments["port"])):
                time.sleep(60)
        case "key":
            print(json.dumps({"key": os.environ["HOLDFAST_IDEMPOTENCY_KEY"]}))
        case "context":
            named = {"runId": "RUN_ID", "callId": "CALL_ID", "tenant": "TENANT"}
            context: dict[str, object] = {key: os.environ[f"HOLDFAST_{name}"] for key, name in named.items()}
            print(json.dumps(context | {"secondsLeft": float(os.environ["HOLDFAST_SECONDS_LEFT"])}))


main()
