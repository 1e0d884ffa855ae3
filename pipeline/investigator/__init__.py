"""The investigator: a web page where people look at what was slow, and the JSON API that it reads."""
