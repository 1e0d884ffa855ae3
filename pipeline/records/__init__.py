"""The shared words and how they travel: the only part of the pipeline that producers may import."""

from laggard.pipeline.records.frame import UNNUMBERED, Frame, KeyedBy, Layout, Mark, Received, Request

__all__ = ["UNNUMBERED", "Frame", "KeyedBy", "Layout", "Mark", "Received", "Request"]
