"""The kinds of guardrail that ship, one file each."""
