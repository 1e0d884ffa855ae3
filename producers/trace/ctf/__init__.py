"""Traces in the Common Trace Format 1.8, as LTTng, perf and barectf write them, as batches of `Events`.

Sources: the CTF specification v1.8.3 (https://diamon.org/ctf/v1.8.3/); traces of LTTng and perf.
"""
