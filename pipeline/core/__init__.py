"""The core: records on a bus, and stages with state that read them. It knows no method."""
