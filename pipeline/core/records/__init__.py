"""The shared records and their encodings: the only part of the pipeline that producers may import."""

from laggard.pipeline.core.records.checked import Received
from laggard.pipeline.core.records.codec import Decoder, encode
from laggard.pipeline.core.records.errors import RecordError
from laggard.pipeline.core.records.feedback import Case, Feedback
from laggard.pipeline.core.records.frame import UNNUMBERED, Frame, KeyedBy, Layout, Mark, Wish
from laggard.pipeline.core.records.json_lines import name_of, read_line, write_line
from laggard.pipeline.core.records.layout import make_layout
from laggard.pipeline.core.records.requests import Request, Segment, Spent

__all__ = [
    "UNNUMBERED",
    "Case",
    "Decoder",
    "Feedback",
    "Frame",
    "KeyedBy",
    "Layout",
    "Mark",
    "Received",
    "RecordError",
    "Request",
    "Segment",
    "Spent",
    "Wish",
    "encode",
    "make_layout",
    "name_of",
    "read_line",
    "write_line",
]
