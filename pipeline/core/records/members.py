"""Members that several kinds of public records have; see `declared`."""

from __future__ import annotations

from typing import Final

from laggard.pipeline.core.records.declared import flag, number, text, uuid

SENTENCE: Final = "A sentence for people. Its wording may change at any time."

ID: Final = uuid("The id of the record: the same whenever the same input is processed again.")
AGE: Final = number("The time for which the operator has learned this key, in seconds.", minimum=0)
YOUNG: Final = flag("Whether too little has been learned for reliable results.")
LIVE: Final = flag("Whether it is about the present; false for replayed recordings, which never alert.")
SENTENCE_FIELD: Final = text(SENTENCE)
