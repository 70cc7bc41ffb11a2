"""What an evaluation came to: the results of its cases, the scores in total, and the difference to a baseline.

Pure functions over JSON. A case without a score counts as 0: nothing passes that was not judged.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.core.json import JsonObject

OUTPUT_LENGTH: Final = 2000
"""Characters of an output that a report shows."""


def summary(
    results: Sequence[Mapping[str, Any]], thresholds: Mapping[str, float], baseline: Mapping[str, Any] | None = None
) -> JsonObject:
    """By evaluator: mean, pass rate, errors, whether the threshold was reached, and the difference to the baseline."""
    made: JsonObject = {}
    before = {case["id"]: case for case in baseline["cases"]} if baseline is not None else {}
    for name, threshold in thresholds.items():
        scores = [_score(case, name) for case in results]
        mean = sum(scores) / len(scores) if scores else 0.0
        found: JsonObject = {
            "threshold": threshold,
            "mean": round(mean, 6),
            "passRate": round(sum(score >= threshold for score in scores) / len(scores), 6) if scores else 0.0,
            "errors": sum(case["scores"].get(name, {}).get("score") is None for case in results),
            # Rounded as it is shown, so that what reads as reached is reached.
            "passed": bool(scores) and round(mean, 6) >= threshold,
        }
        same = [case for case in results if case["id"] in before and name in before[case["id"]]["scores"]]
        if same:
            then = sum(_score(before[case["id"]], name) for case in same) / len(same)
            now = sum(_score(case, name) for case in same) / len(same)
            better = sum(_score(case, name) > _score(before[case["id"]], name) for case in same)
            worse = sum(_score(case, name) < _score(before[case["id"]], name) for case in same)
            found["baseline"] = {
                "mean": round(then, 6),
                "difference": round(now - then, 6),
                "cases": len(same),
                "better": better,
                "worse": worse,
            }
        made[name] = found
    return made


def totals(results: Sequence[Mapping[str, Any]]) -> JsonObject:
    latencies = sorted(case["latencyMs"] for case in results if case["latencyMs"] is not None)
    return {
        "cases": len(results),
        "completed": sum(case["status"] == "completed" for case in results),
        "cached": sum(bool(case["cached"]) for case in results),
        "costUsd": round(sum(case["costUsd"] or 0.0 for case in results), 9),
        "latencyMs": {"p50": _percentile(latencies, 0.5), "p95": _percentile(latencies, 0.95)},
    }


def shortened(output: Any) -> Any:
    return output[:OUTPUT_LENGTH] if isinstance(output, str) else output


def _score(case: Mapping[str, Any], name: str) -> float:
    return float(case["scores"].get(name, {}).get("score") or 0.0)


def _percentile(values: Sequence[int], share: float) -> int | None:
    return values[min(len(values) - 1, int(len(values) * share))] if values else None
