"""HTML pages of evaluations and of gates' pass rates, with plots: no script, no font and no picture from elsewhere.

Everything that a model or a case said is escaped. Leaves to others: the figures (`reports`).
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

MAX_ROWS: Final = 2000
"""Cases that the page lists; the JSON has them all."""
_BINS: Final = 10
_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1b1f24;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid #d8dee4;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}pre{margin:0;white-space:pre-wrap;word-break:break-word;
font:12px/1.4 ui-monospace,monospace;max-height:8rem;overflow:auto}.ok{color:#116329}.no{color:#a40e26}
figure{display:inline-block;margin:0 1.5rem 1rem 0}figcaption{font-size:.85rem;color:#57606a}
@media(prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}th,td{border-color:#30363d}
.ok{color:#56d364}.no{color:#ff7b72}figcaption{color:#8b949e}svg text{fill:#8b949e}}
"""


def as_html(report: Mapping[str, Any]) -> bytes:
    title = f"{report['agent']} on {report['dataset']} version {report['version']}"
    state = '<b class="ok">passed</b>' if report["passed"] else '<b class="no">not passed</b>'
    totals = report["totals"]
    latency = totals["latencyMs"]
    facts = [
        ("evaluation", report["id"]),
        ("model", report.get("modelPlan") or "the agent's own"),
        ("workspace", report["workspaceDigest"][:16]),
        ("started", report["startedAt"]),
        ("finished", report["finishedAt"]),
        ("cases", f"{totals['cases']}, of which {totals['completed']} completed and {totals['cached']} used again"),
        ("cost", f"{totals['costUsd']:.6f} USD"),
        ("latency", f"p50 {latency['p50']} ms, p95 {latency['p95']} ms"),
        ("baseline", report.get("baseline") or "none"),
    ]
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in facts)
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f"<h1>{escape(title)}: {state}</h1><table>{rows}</table><h2>Scores</h2>{_scores(report)}"
        f"<h2>Distribution</h2>{_plots(report)}<h2>Cases</h2>{_cases(report)}</html>"
    )
    return page.encode()


def gates_as_html(rates: Sequence[Mapping[str, Any]]) -> bytes:
    """How often each gate was passed, as a table with a bar for each."""
    names = ("agent", "gate", "mode", "judged", "passed", "no score", "mean score", "last", "pass rate")
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = []
    for rate in rates:
        mean = rate["meanScore"]
        cells = (
            rate["agent"] or "",
            rate["gate"],
            rate["mode"],
            rate["evaluated"],
            rate["passed"],
            rate["errors"],
            "" if mean is None else f"{mean:.3f}",
            rate["lastAt"],
        )
        shown = "".join(f"<td>{escape(str(cell))}</td>" for cell in cells)
        rows.append(f"<tr>{shown}<td>{_bar(rate['passRate'])} {rate['passRate']:.1%}</td></tr>")
    body = f"<table><tr>{head}</tr>{''.join(rows)}</table>" if rows else "<p>No gate has judged a run yet.</p>"
    page = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Gates</title><style>{_STYLE}</style>'
        f"<h1>Gates</h1>{body}</html>"
    )
    return page.encode()


def _bar(share: float) -> str:
    return (
        '<svg width="100" height="10" role="img"><rect width="100" height="10" fill="#d8dee4"/>'
        f'<rect width="{share * 100:.1f}" height="10" fill="#2da44e"/></svg>'
    )


def _scores(report: Mapping[str, Any]) -> str:
    head = "".join(
        f'<th class="n">{name}</th>'
        for name in ("mean", "threshold", "pass rate", "no score", "baseline", "difference")
    )
    rows = []
    for name, found in report["scores"].items():
        before = found.get("baseline")
        cells = [
            f"{found['mean']:.3f}",
            f"{found['threshold']:.3f}",
            f"{found['passRate']:.1%}",
            str(found["errors"]),
            "" if before is None else f"{before['mean']:.3f}",
            ""
            if before is None
            else f"{before['difference']:+.3f} ({before['better']} better, {before['worse']} worse)",
        ]
        mark = "ok" if found["passed"] else "no"
        shown = "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells)
        rows.append(f'<tr><td class="{mark}">{escape(name)}</td>{shown}</tr>')
    return f"<table><tr><th>evaluator</th>{head}</tr>{''.join(rows)}</table>"


def _plots(report: Mapping[str, Any]) -> str:
    figures = []
    for name in report["scores"]:
        scores = [case["scores"].get(name, {}).get("score") for case in report["cases"]]
        known = [score for score in scores if score is not None]
        threshold = float(report["scores"][name]["threshold"])
        figures.append(_figure(histogram(known, threshold), f"{name}: {len(known)} scores from 0 to 1"))
    latencies = [case["latencyMs"] for case in report["cases"] if case["latencyMs"] is not None]
    if latencies:
        most = max(latencies) or 1
        plot = histogram([value / most for value in latencies], None)
        figures.append(_figure(plot, f"latency from 0 to {most} ms"))
    return "".join(figures) or "<p>There is nothing to show.</p>"


def _figure(plot: str, caption: str) -> str:
    return f"<figure>{plot}<figcaption>{escape(caption)}</figcaption></figure>"


def histogram(values: Sequence[float], threshold: float | None) -> str:
    """Ten bars over 0 to 1, and a line at the threshold."""
    counts = [0] * _BINS
    for value in values:
        counts[min(_BINS - 1, int(value * _BINS))] += 1
    top = max(counts) or 1
    bars = []
    for number, count in enumerate(counts):
        height = round(count / top * 100, 1)
        colour = "#cf222e" if threshold is not None and (number + 1) / _BINS <= threshold else "#1f883d"
        colour = "#0969da" if threshold is None else colour
        place = f'x="{number * 24 + 2}" y="{112 - height}" width="20" height="{height}"'
        bars.append(f'<rect {place} fill="{colour}"><title>{count}</title></rect>')
        if count:
            bars.append(
                f'<text x="{number * 24 + 12}" y="{109 - height}" font-size="9" text-anchor="middle">{count}</text>'
            )
    line = "" if threshold is None else _line(threshold * 240)
    return f'<svg width="244" height="120" viewBox="0 0 244 120" role="img">{"".join(bars)}{line}</svg>'


def _line(at: float) -> str:
    return f'<line x1="{at:.1f}" x2="{at:.1f}" y1="2" y2="116" stroke="#bf8700" stroke-dasharray="4 3"/>'


def _cases(report: Mapping[str, Any]) -> str:
    names = list(report["scores"])
    ordered = sorted(report["cases"], key=lambda case: (_lowest(case, names), case["id"]))
    head = "".join(f'<th class="n">{escape(name)}</th>' for name in names)
    rows = []
    for case in ordered[:MAX_ROWS]:
        scores = "".join(_score_cell(case["scores"].get(name), report["thresholds"][name]) for name in names)
        said = case["output"] if case["output"] is not None else (case.get("error") or {}).get("code", "")
        status = f"{escape(case['status'])}{' (used again)' if case['cached'] else ''}"
        cells = f"<td>{escape(case['id'])}</td><td>{status}</td>{scores}<td><pre>{escape(str(said))}</pre></td>"
        rows.append(f"<tr>{cells}</tr>")
    more = f"<p>{len(ordered) - MAX_ROWS} more cases are in the JSON.</p>" if len(ordered) > MAX_ROWS else ""
    return f"<table><tr><th>case</th><th>run</th>{head}<th>output</th></tr>{''.join(rows)}</table>{more}"


def _score_cell(score: Mapping[str, Any] | None, threshold: float) -> str:
    value = None if score is None else score.get("score")
    shown = "none" if value is None else f"{value:.3f}"
    mark = "ok" if value is not None and value >= threshold else "no"
    reason = escape(str((score or {}).get("reason") or ""), quote=True)
    return f'<td class="n {mark}" title="{reason}">{shown}</td>'


def _lowest(case: Mapping[str, Any], names: Sequence[str]) -> float:
    return min((case["scores"].get(name, {}).get("score") or 0.0 for name in names), default=0.0)
