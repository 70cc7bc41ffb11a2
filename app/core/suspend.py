"""The signal that a run waits for somebody. It is raised through everything that a run is doing.

Not an error: derived from BaseException so that no `except Exception` on the way swallows it. The runtime
alone catches it; the run then costs no worker until its interrupt is answered.
"""


class Suspended(BaseException):
    def __init__(self, interrupt_id: str) -> None:
        super().__init__(interrupt_id)
        self.interrupt_id = interrupt_id


class Parked(Suspended):
    """A subagent's run has nothing left to do before an answer. The other branches of its root run may go on."""
