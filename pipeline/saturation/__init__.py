"""The stage of saturated hosts: what a host is short of, and who uses most of it."""
