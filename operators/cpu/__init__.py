"""S1: prolonged high use of a resource, as one event with its phases."""

from laggard.operators.cpu.detector import Cpu
from laggard.operators.cpu.machine import Machine, State, Transitions
from laggard.operators.cpu.scores import Scores

__all__ = ["Cpu", "Machine", "Scores", "State", "Transitions"]
