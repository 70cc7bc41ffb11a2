"""The program behind the command kind in the conformance suite: reads one question, does what `config.do` says."""

import json
import os
import sys
import time

question = json.load(sys.stdin)
answer: dict[str, object]
match question["config"]["do"]:
    case "allow":
        answer = {"decision": "allow", "reason": "fine"}
    case "deny":
        answer = {"decision": "deny", "reason": "not on Fridays"}
    case "transform":
        answer = {
            "decision": "transform",
            "output": {"arguments": {"text": question["input"]["arguments"]["text"] + "!"}},
        }
    case "wrong_transform":
        answer = {"decision": "transform", "output": {"tool": "another"}}
    case "throw":
        raise ValueError("sk-secret-0123456789abcdef")
    case "late":
        time.sleep(60)
        answer = {"decision": "allow"}
    case "nonsense":
        answer = {"verdict": "yes"}
    case "text":
        print("allow")
        sys.exit()
    case "nothing":
        sys.exit()
    case "mutate":
        question["input"]["arguments"]["text"] = "changed in place"
        answer = {"decision": "allow"}
    case "context":
        context = {name: question.get(name) for name in ("hook", "runId", "threadId", "agent")}
        answer = {"decision": "transform", "output": {"arguments": {"context": context, "env": sorted(os.environ)}}}
json.dump(answer, sys.stdout)
