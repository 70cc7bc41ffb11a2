"""A fuzzer for cost: whatever a stranger sends, each case stays within 2 s and 200 MB.

`case` says what a case is, `*_cases` make them from a seed, `worker` and `watch` run pure functions in a process that
can be stopped, `live` runs what needs a server against a real one, and `figures` prints what was the slowest and the
largest. `python -m tests.faults.cost CLASS SEED [SCALE]` repeats one case.
"""
