"""Interrupts, timers, devices and packets of one machine, as its trace shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from laggard.producers.trace.events import Kind
from laggard.producers.trace.states import softirq

if TYPE_CHECKING:
    from collections.abc import Callable

    from laggard.producers.trace.events import Row, Texts
    from laggard.producers.trace.machine import Machine
    from laggard.producers.trace.threads import Thread

MAX_PACKETS: Final = 65_536
"""The most packets that are on their way between machines at once."""


class Interrupts:
    """The handlers of events that interrupt threads, or wake them from outside.

    Args:
        machine: the machine that they belong to.
        texts: the texts of its events.
        packets: the packets that are on their way between machines, with sender and time, by their number.

    """

    def __init__(self, machine: Machine, texts: Texts, packets: dict[int, tuple[Thread, int]]) -> None:
        self._machine = machine
        self._processors = machine.processors
        self._texts = texts
        self._packets = packets

    def handlers(self) -> dict[int, Callable[[Row], None]]:
        """Return the handlers of events, by their kind."""
        return {
            Kind.IRQ_ENTER: self.irq_enter,
            Kind.IRQ_EXIT: self.irq_exit,
            Kind.SOFTIRQ_ENTER: self.softirq_enter,
            Kind.SOFTIRQ_EXIT: self.softirq_exit,
            Kind.TIMER_ENTER: self.timer_enter,
            Kind.TIMER_EXIT: self.timer_exit,
            Kind.BLOCK_COMPLETE: self.block_complete,
            Kind.NET_SEND: self.net_send,
            Kind.NET_RECEIVE: self.net_receive,
        }

    def irq_enter(self, row: Row) -> None:
        """Begin a hardware interrupt."""
        ts, cpu, _, tid, number, _, _, text = row
        processor = self._processors.get(cpu) or self._machine.add_processor(cpu)
        if tid > 0 and (processor.current is None or processor.current.tid != tid):
            self._machine.running(tid, ts, cpu)
        processor.enter(ts, hard=True, number=number, name=self._texts[text] or f"irq {number}")

    def irq_exit(self, row: Row) -> None:
        """End a hardware interrupt."""
        ts, cpu, _, _, _, _, _, _ = row
        (self._processors.get(cpu) or self._machine.add_processor(cpu)).leave(ts, hard=True)

    def softirq_enter(self, row: Row) -> None:
        """Begin a soft interrupt."""
        ts, cpu, _, _, vector, _, _, _ = row
        processor = self._processors.get(cpu) or self._machine.add_processor(cpu)
        processor.enter(ts, hard=False, number=vector, name=softirq(vector)[1])

    def softirq_exit(self, row: Row) -> None:
        """End a soft interrupt."""
        ts, cpu, _, _, _, _, _, _ = row
        (self._processors.get(cpu) or self._machine.add_processor(cpu)).leave(ts, hard=False)

    def timer_enter(self, row: Row) -> None:
        """Note that a timer expires."""
        _, cpu, _, _, _, _, _, _ = row
        (self._processors.get(cpu) or self._machine.add_processor(cpu)).timer = True

    def timer_exit(self, row: Row) -> None:
        """Note that the work of an expired timer is done."""
        _, cpu, _, _, _, _, _, _ = row
        (self._processors.get(cpu) or self._machine.add_processor(cpu)).timer = False

    def block_complete(self, row: Row) -> None:
        """Note that a device has completed a request."""
        _, cpu, _, _, device, _, _, text = row
        processor = self._processors.get(cpu) or self._machine.add_processor(cpu)
        processor.completed = self._texts[text] or f"{device >> 20}:{device & 0xFFFFF}"

    def net_send(self, row: Row) -> None:
        """Follow a packet that leaves."""
        ts, cpu, _, tid, packet, _, _, _ = row
        processor = self._processors.get(cpu) or self._machine.add_processor(cpu)
        sender = self._machine.threads.get(tid) if tid > 0 else processor.current
        # Packets that an interrupt sends are not the work of the interrupted thread.
        if sender is not None and all(inline for *_, inline in processor.nested):
            self._packets[packet] = (sender, ts)
            if len(self._packets) > MAX_PACKETS:
                del self._packets[next(iter(self._packets))]

    def net_receive(self, row: Row) -> None:
        """Follow a packet that arrives."""
        ts, cpu, _, _, packet, _, _, _ = row
        processor = self._processors.get(cpu) or self._machine.add_processor(cpu)
        sent = self._packets.pop(packet, None)
        if sent is not None and sent[1] <= ts and sent[0].machine != self._machine.name:
            processor.received = sent
