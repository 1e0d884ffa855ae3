"""S1: high use of a resource that lasts, as one event with its phases."""

from laggard.operators.cpu.detector import Cpu, Scores
from laggard.operators.cpu.machine import Machine, State, Transitions

__all__ = ["Cpu", "Machine", "Scores", "State", "Transitions"]
