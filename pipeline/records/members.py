"""Members that several kinds of public records have; see `declared`."""

from __future__ import annotations

from typing import Final

from laggard.pipeline.records.declared import flag, number, text, uuid

SENTENCE: Final = "What it is, in plain words. For people: its wording may change at any time."

ID: Final = uuid("Of this record: the same whenever the same input is processed again.")
AGE: Final = number("How long the operator has been learning this key, in seconds.", minimum=0)
YOUNG: Final = flag("Whether too little has been learned for this to be relied on.")
LIVE: Final = flag("Whether it is about now; false for recorded data that was replayed, which never alerts.")
TOLD: Final = text(SENTENCE)
