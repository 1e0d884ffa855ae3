"""The shared records and their encodings: the only part of the pipeline that producers may import."""

from laggard.pipeline.records.checked import Received
from laggard.pipeline.records.codec import Decoder, encode
from laggard.pipeline.records.errors import RecordError
from laggard.pipeline.records.feedback import Case, Feedback
from laggard.pipeline.records.frame import UNNUMBERED, Frame, KeyedBy, Layout, Mark, Wish
from laggard.pipeline.records.json_lines import name_of, read_line, write_line
from laggard.pipeline.records.layout import make_layout
from laggard.pipeline.records.requests import Request, Segment, Spent

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
