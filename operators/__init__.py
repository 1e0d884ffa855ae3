"""The statistics, and nothing else: arrays and plain values in, a frozen result out.

No clock, no logging, no input or output, no randomness without a seed: time is an argument. Every operator keeps
river's conventions: `score` before `learn`, scoring changes nothing, parameters only in the constructor.
"""
