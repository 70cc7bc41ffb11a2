"""For a narrator of your own: a class with `narrate(event, style)`, plain or async, and its `NarratorKind` as an entry
point of `holdfast.narrators`."""

from app.runtime.narration_queue import NarratorKind, PackageNarrator

__all__ = ["NarratorKind", "PackageNarrator"]
