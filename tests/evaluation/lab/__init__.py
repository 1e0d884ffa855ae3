"""A web shop of three tiers on this machine, its neighbours, and a recorder of all that can be counted."""
