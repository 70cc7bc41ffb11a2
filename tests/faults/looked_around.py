"""Imported by the process that doomed servers are forked from, and by nothing else: it has then asked the machine and
the installation what every server asks first. Leaves to others: what that is (`tests.fork_server`)."""

from tests.fork_server import look_around

look_around()
