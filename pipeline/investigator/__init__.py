"""The investigator: a web page that shows what was slow, and its JSON API."""
