"""Writes CTF 1.8 as LTTng's kernel tracer does: its metadata, compact and large event headers, packets of each CPU.

What it writes was read by babeltrace2 2.0, too: `data/babeltrace2.txt.gz` is what that printed of `everything()`,
the same for each of its options.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from laggard.producers.trace.ctf.metadata import PACKET_MAGIC as METADATA_MAGIC
from laggard.producers.trace.ctf.streams import PACKET_MAGIC

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TRACE = bytes.fromhex("44f3be5864ab4d06a11cf1eccb277107")
BOOT = "7b5d5c02-53a9-46e0-bef9-efce27cfbe27"
OFFSET_NS = 1_700_000_000_000_000_000

HEAD = """/* CTF 1.8 */
typealias integer {{ size = 8; align = {align}; signed = false; }} := uint8_t;
typealias integer {{ size = 16; align = {align}; signed = false; }} := uint16_t;
typealias integer {{ size = 32; align = {align}; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = {align}; signed = false; }} := uint64_t;
typealias integer {{ size = 64; align = {align}; signed = false; }} := unsigned long;
typealias integer {{ size = 5; align = 1; signed = false; }} := uint5_t;
typealias integer {{ size = 27; align = 1; signed = false; }} := uint27_t;

trace {{
	major = 1;
	minor = 8;
	uuid = "44f3be58-64ab-4d06-a11c-f1eccb277107";
	byte_order = le;
	packet.header := struct {{
		uint32_t magic;
		uint8_t  uuid[16];
		uint32_t stream_id;
		uint64_t stream_instance_id;
	}};
}};

env {{
	hostname = "{host}";
	domain = "kernel";
	sysname = "Linux";
	tracer_name = "lttng-modules";
	tracer_major = 2;
	tracer_minor = 13;
	product_uuid = "a \\"quoted\\" one; // no comment";
}};

clock {{
	name = "monotonic";
	uuid = "{boot}";
	description = "Monotonic Clock";
	freq = {frequency}; /* Frequency, in Hz */
	/* clock value offset from Epoch is: offset * (1/freq) */
	offset = {offset};
}};

typealias integer {{
	size = 27; align = 1; signed = false;
	map = clock.monotonic.value;
}} := uint27_clock_monotonic_t;

typealias integer {{
	size = 32; align = {align}; signed = false;
	map = clock.monotonic.value;
}} := uint32_clock_monotonic_t;

typealias integer {{
	size = 64; align = {align}; signed = false;
	map = clock.monotonic.value;
}} := uint64_clock_monotonic_t;

struct packet_context {{
	uint64_clock_monotonic_t timestamp_begin;
	uint64_clock_monotonic_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	uint64_t packet_seq_num;
	unsigned long events_discarded;
	uint32_t cpu_id;
}};

struct event_header_compact {{
	enum : uint5_t {{ compact = 0 ... 30, extended = 31 }} id;
	variant <id> {{
		struct {{
			uint27_clock_monotonic_t timestamp;
		}} compact;
		struct {{
			uint32_t id;
			uint64_clock_monotonic_t timestamp;
		}} extended;
	}} v;
}} align(8);

struct event_header_large {{
	enum : uint16_t {{ compact = 0 ... 65534, extended = 65535 }} id;
	variant <id> {{
		struct {{
			uint32_clock_monotonic_t timestamp;
		}} compact;
		struct {{
			uint32_t id;
			uint64_clock_monotonic_t timestamp;
		}} extended;
	}} v;
}} align(8);

stream {{
	id = 0;
	event.header := struct event_header_{header};
	packet.context := struct packet_context;
}};
"""

INTEGER = "integer {{ size = {size}; align = {align}; signed = {signed}; encoding = {text}; base = 10;{order} }}"
FORMS = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}

IPV4 = """
			struct {{
				{u4} _version; {u4} _ihl; {u8} _tos; {n16} _tot_len; {n16} _id; {n16} _frag_off; {u8} _ttl;
				enum : {u8} {{ "_unknown" = 0, "_icmp" = 1, "_tcp" = 6, "_udp" = 17 }} _protocol;
				{n16} _checksum; {u8} _saddr[4]; {u8} _daddr[4];
				enum : {u8} {{ "_unknown" = 0, "_tcp" = 1, "_udp" = 2, "_icmp" = 3 }} _transport_header_type;
				variant <_transport_header_type> {{
					struct {{ }} _unknown;
					struct {{
						{n16} _source_port; {n16} _dest_port; {n32} _seq; {n32} _ack_seq;
						{u4} _data_offset; {u3} _reserved; {u9} _flags;
						{n16} _window_size; {n16} _checksum; {n16} _urg_ptr;
					}} _tcp;
					struct {{ {n16} _source_port; {n16} _dest_port; {n16} _len; {n16} _check; }} _udp;
					struct {{ {u8} _type; {u8} _code; {n16} _checksum; {n32} _gateway; }} _icmp;
				}} _transport_header;
			}} _ipv4;"""

NETWORK = (("u64", "skbaddr"), ("u32", "len"), ("text", "name"), ("network", "network_header"))

EVENTS: dict[str, Sequence[tuple[str, str]]] = {
    "sched_switch": (
        ("comm", "prev_comm"),
        ("i32", "prev_tid"),
        ("i32", "prev_prio"),
        ("i64", "prev_state"),
        ("comm", "next_comm"),
        ("i32", "next_tid"),
        ("i32", "next_prio"),
    ),
    "sched_waking": (("comm", "comm"), ("i32", "tid"), ("i32", "prio"), ("i32", "target_cpu")),
    "sched_wakeup": (("comm", "comm"), ("i32", "tid"), ("i32", "prio"), ("i32", "target_cpu")),
    "sched_ttwu": (("comm", "comm"), ("i32", "tid"), ("i32", "prio"), ("i32", "target_cpu")),
    "sched_process_fork": (
        ("comm", "parent_comm"),
        ("i32", "parent_tid"),
        ("i32", "parent_pid"),
        ("comm", "child_comm"),
        ("i32", "child_tid"),
        ("sequence", "vtids"),
        ("i32", "child_pid"),
    ),
    "sched_process_exec": (("text", "filename"), ("i32", "tid"), ("i32", "old_tid")),
    "sched_process_exit": (("comm", "comm"), ("i32", "tid"), ("i32", "prio")),
    "syscall_entry_openat": (("i32", "dfd"), ("text", "filename"), ("i32", "flags"), ("u16", "mode")),
    "syscall_exit_openat": (("i64", "ret"),),
    "syscall_entry_read": (("u32", "fd"), ("u64", "count")),
    "syscall_exit_read": (("i64", "ret"), ("u64", "buf")),
    "syscall_entry_futex": (("u64", "uaddr"), ("i32", "op"), ("u32", "val")),
    "syscall_exit_futex": (("i64", "ret"), ("u64", "uaddr")),
    "syscall_entry_newfstat": (("u32", "fd"),),
    "syscall_entry_connect": (
        ("i32", "fd"),
        ("u64", "uservaddr"),
        ("i32", "addrlen"),
        ("u16", "family"),
        ("n16", "dport"),
        ("sequence", "v4addr"),
        ("sequence", "v6addr"),
    ),
    "syscall_exit_connect": (("i64", "ret"),),
    "syscall_exit_accept4": (
        ("i64", "ret"),
        ("i32", "upeer_addrlen"),
        ("u16", "family"),
        ("n16", "sport"),
        ("sequence", "v4addr"),
        ("sequence", "v6addr"),
    ),
    "syscall_entry_exit_group": (("i32", "error_code"),),
    "sys_open": (("text", "filename"), ("i32", "flags"), ("i32", "mode")),
    "sys_exit_group": (("i32", "error_code"),),
    "exit_syscall": (("i64", "ret"),),
    "irq_handler_entry": (("i32", "irq"), ("text", "name")),
    "irq_handler_exit": (("i32", "irq"), ("i32", "ret")),
    "irq_softirq_entry": (("u32", "vec"),),
    "irq_softirq_exit": (("u32", "vec"),),
    "softirq_entry": (("u32", "vec"),),
    "timer_hrtimer_expire_entry": (("u64", "hrtimer"), ("i64", "now"), ("u64", "function")),
    "timer_hrtimer_expire_exit": (("u64", "hrtimer"),),
    "hrtimer_expire_entry": (("u64", "hrtimer"), ("i64", "now"), ("u64", "function")),
    "x86_irq_vectors_local_timer_entry": (("i32", "vector"),),
    "x86_irq_vectors_local_timer_exit": (("i32", "vector"),),
    "block_rq_issue": (
        ("u32", "dev"),
        ("u64", "sector"),
        ("u32", "nr_sector"),
        ("u32", "bytes"),
        ("u32", "rwbs"),
        ("i32", "tid"),
        ("comm", "comm"),
    ),
    "block_rq_complete": (("u32", "dev"), ("u64", "sector"), ("u32", "nr_sector"), ("i32", "error"), ("u32", "rwbs")),
    "net_dev_queue": NETWORK,
    "net_if_receive_skb": NETWORK,
    "lttng_statedump_block_device": (("u32", "dev"), ("text", "diskname")),
    "lttng_statedump_process_state": (
        ("i32", "tid"),
        ("i32", "pid"),
        ("i32", "ppid"),
        ("comm", "name"),
        ("i32", "type"),
        ("u64", "file_table_address"),
    ),
    "lttng_statedump_file_descriptor": (
        ("u64", "file_table_address"),
        ("i32", "fd"),
        ("u32", "flags"),
        ("text", "filename"),
    ),
    "ust_php:request_entry": (("text", "path"), ("text", "uri"), ("text", "method"), ("text", "querystring")),
    "ust_php:request_exit": (("text", "path"), ("text", "uri"), ("text", "method"), ("text", "querystring")),
    "shop:checkout_begin": (("text", "route"),),
    "shop:checkout_end": (("i32", "status"),),
    "php:request_start": (("text", "path"),),
    "php:request_exit": (("i32", "status"),),
    "kmem_kmalloc": (("u64", "call_site"), ("sequence", "anything"), ("u64", "ptr")),
}
"""Fields of events as LTTng 2.13 and before it 2.0 name them, and some that it has no more."""

NUMBERS = {name: number for number, name in enumerate(EVENTS)}


@dataclass
class Packet:
    """One packet: events are (nanoseconds, name, fields)."""

    events: Sequence[tuple[int, str, dict[str, Any]]] = ()
    begin: int | None = None
    end: int | None = None
    discarded: int = 0
    sequence: int | None = None
    padding: int = 64


@dataclass
class Written:
    """A trace of the kernel.

    Attributes:
        packets: of each CPU.
        header: `compact` or `large`.
        align: of integers in bytes: 1 as on x86-64; 8 for natural alignment, as on some other machines.
        in_packets: whether the metadata is in packets, as LTTng has it.

    """

    packets: dict[int, list[Packet]] = field(default_factory=dict)
    host: str = "web-1"
    header: str = "compact"
    natural: bool = False
    in_packets: bool = True
    boot: str = BOOT
    offset_ns: int = OFFSET_NS
    frequency: int = 1_000_000_000

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metadata").write_bytes(self.metadata())
        for cpu, packets in self.packets.items():
            parts, at = [], 0
            for index, packet in enumerate(packets):
                part = self.packet(cpu, packet, index)
                parts.append(part)
                at += len(part)
            (folder / f"channel0_{cpu}").write_bytes(b"".join(parts))
        return folder

    def metadata(self) -> bytes:
        text = HEAD.format(
            align="8",
            host=self.host,
            boot=self.boot,
            frequency=self.frequency,
            offset=self.offset_ns * self.frequency // 10**9,
            header=self.header,
        )
        if self.natural:
            text = text.replace("} align(8);", "} align(32);")
            for size in (16, 32, 64):
                text = text.replace(f"size = {size}; align = 8;", f"size = {size}; align = {size};")
        names = list(
            dict.fromkeys(event[1] for every in self.packets.values() for each in every for event in each.events)
        )
        for name in names:
            fields = "".join(self._declared(kind, each) for kind, each in EVENTS[name])
            number = NUMBERS[name]
            text += f'\nevent {{\n\tname = "{name}";\n\tid = {number};\n\tstream_id = 0;\n\tfields := struct {{'
            text += f"{fields}\n\t}};\n}};\n"
        if not self.in_packets:
            return text.encode()
        whole, parts = text.encode(), []
        for at in range(0, len(whole), 4000):
            part = whole[at : at + 4000]
            sizes = (37 + len(part)) * 8, (37 + len(part) + 11) * 8
            parts.append(
                struct.pack("<I16sIIIBBBBB", METADATA_MAGIC, TRACE, 0, *sizes, 0, 0, 0, 1, 8) + part + bytes(11)
            )
        return b"".join(parts)

    def _integer(self, size: int, *, signed: bool = False, text: str = "none", network: bool = False) -> str:
        align = size if self.natural and size in (16, 32, 64) else 8 if size % 8 == 0 else 1
        order = " byte_order = be;" if network else ""
        return INTEGER.format(size=size, align=align, signed=int(signed), text=text, order=order)

    def _declared(self, kind: str, name: str) -> str:
        match kind:
            case "comm":
                return f"\n\t\t{self._integer(8, signed=True, text='UTF8')} _{name}[16];"
            case "text":
                return f"\n\t\tstring _{name};"
            case "sequence":
                return f"\n\t\t{self._integer(32)} __{name}_length;\n\t\t{self._integer(8)} _{name}[ __{name}_length ];"
            case "network":
                bits = {f"u{size}": self._integer(size, network=True) for size in (3, 9)}
                # Alignment to half a byte, as LTTng has it.
                bits["u4"] = self._integer(4, network=True).replace("align = 1;", "align = 4;")
                ipv4 = IPV4.format(
                    u8=self._integer(8),
                    n16=self._integer(16, network=True),
                    n32=self._integer(32, network=True),
                    **bits,
                )
                return (
                    f'\n\t\tenum : {self._integer(8)} {{ "_unknown" = 0, "_ipv4" = 1, "_ipv6" = 2 }} _{name}_type;'
                    f"\n\t\tvariant <_{name}_type> {{\n\t\t\tstruct {{ }} _unknown;{ipv4}\n\t\t\tstruct {{ }} _ipv6;"
                    f"\n\t\t}} _{name};"
                )
        size = int(kind[1:])
        return f"\n\t\t{self._integer(size, signed=kind[0] == 'i', network=kind[0] == 'n')} _{name};"

    def packet(self, cpu: int, packet: Packet, index: int) -> bytes:
        cycles = self.frequency / 1e9
        times = [ts for ts, _, _ in packet.events] or [0]
        begin = int((times[0] if packet.begin is None else packet.begin) * cycles)
        end = int((times[-1] if packet.end is None else packet.end) * cycles)
        sequence = index if packet.sequence is None else packet.sequence
        out = bytearray(struct.pack("<I16sIQ", PACKET_MAGIC, TRACE, 0, cpu))
        place = len(out)
        out += struct.pack("<QQQQQQI", begin, end, 0, 0, sequence, packet.discarded, cpu)
        last = begin
        for ts, name, values in packet.events:
            value = int(ts * cycles)
            self._event(out, name, values, value, last)
            last = value
        content = len(out)
        out += bytes(packet.padding)
        struct.pack_into("<QQ", out, place + 16, content * 8, len(out) * 8)
        return bytes(out)

    def _event(self, out: bytearray, name: str, values: dict[str, Any], value: int, last: int) -> None:
        number = NUMBERS[name]
        bits, escape = (27, 31) if self.header == "compact" else (32, 65535)
        if self.natural:
            out += bytes(-len(out) % 4)
        if number >= escape or not 0 <= value - last < 1 << bits:
            out += struct.pack("<B", escape) if self.header == "compact" else struct.pack("<H", escape)
            out += bytes(-len(out) % 8 if self.natural else 0)  # a struct begins where its largest field may
            self._put(out, "u32", number)
            self._put(out, "u64", value)
        elif self.header == "compact":
            out += struct.pack("<I", number | (value & ((1 << 27) - 1)) << 5)
        else:
            out += struct.pack("<H", number)
            self._put(out, "u32", value & 0xFFFFFFFF)
        if self.natural:
            sizes = {"comm": 1, "text": 1, "network": 1, "sequence": 4}
            out += bytes(-len(out) % max(sizes.get(kind) or int(kind[1:]) // 8 for kind, _ in EVENTS[name]))
        for kind, each in EVENTS[name]:
            self._put(out, kind, values.get(each, b"" if kind in ("comm", "text", "sequence", "network") else 0))

    def _put(self, out: bytearray, kind: str, value: Any) -> None:
        match kind:
            case "comm":
                out += value[:15].ljust(16, b"\0")
            case "text":
                out += value + b"\0"
            case "sequence":
                self._put(out, "u32", len(value))
                out += value
            case "network":
                out += bytes([1 if value else 0])
                if self.natural and value:
                    out += bytes(-len(out) % 2) + value[:21]
                    value = bytes(-(len(out)) % 4) + value[21:]
                out += value
            case _:
                size = int(kind[1:]) // 8
                if self.natural:
                    out += bytes(-len(out) % size)
                out += struct.pack(">H", value) if kind == "n16" else struct.pack("<" + FORMS[kind], value)


def tcp(
    source: tuple[str, int],
    destination: tuple[str, int],
    sequence: int,
    *,
    length: int = 0,
    ack: int = 0,
    flags: int = 0x10,
) -> bytes:
    """The headers of a packet of TCP over IPv4, as LTTng records them."""
    first, second = (bytes(int(part) for part in host.split(".")) for host in (source[0], destination[0]))
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + length, 0xBEEF, 0, 64, 6, 0, first, second)
    head = struct.pack(">HHIIHHHH", source[1], destination[1], sequence, ack, 5 << 12 | flags, 501, 0, 0)
    return ip + b"\1" + head


def everything(**options: Any) -> Written:
    """One of each event that is known here, on two CPUs, with gaps, times that wrap round, and padding."""
    values: dict[str, dict[str, Any]] = {
        "sched_switch": {
            "prev_comm": b"nginx",
            "prev_tid": 11,
            "prev_prio": 20,
            "prev_state": 1,
            "next_comm": b"php-fpm",
            "next_tid": 12,
            "next_prio": 20,
        },
        "sched_waking": {"comm": b"mysqld", "tid": 13, "prio": 20, "target_cpu": 1},
        "sched_process_fork": {
            "parent_comm": b"php-fpm",
            "parent_tid": 12,
            "parent_pid": 12,
            "child_comm": b"php-fpm",
            "child_tid": 21,
            "vtids": b"\1\0\0\0",
            "child_pid": 21,
        },
        "sched_process_exec": {"filename": b"/usr/bin/convert", "tid": 21, "old_tid": 21},
        "sched_process_exit": {"comm": b"convert", "tid": 21, "prio": 20},
        "syscall_entry_openat": {"dfd": -100, "filename": b"/srv/index.php", "flags": 2},
        "syscall_exit_openat": {"ret": 7},
        "syscall_entry_read": {"fd": 7, "count": 4096},
        "syscall_exit_read": {"ret": -11, "buf": 0x7FFF_0000_0000},
        "syscall_entry_futex": {"uaddr": 0xFFFF_8000_0000_0000, "op": 128, "val": 2},
        "syscall_entry_newfstat": {"fd": 7},
        "syscall_entry_connect": {
            "fd": 8,
            "addrlen": 16,
            "family": 2,
            "dport": 3306,
            "v4addr": bytes([127, 0, 0, 1]),
        },
        "syscall_exit_connect": {"ret": -111},
        "syscall_exit_accept4": {"ret": 9, "family": 2, "sport": 50123, "v4addr": bytes([10, 0, 0, 7])},
        "irq_handler_entry": {"irq": 27, "name": b"virtio0-req.0"},
        "irq_handler_exit": {"irq": 27, "ret": 1},
        "irq_softirq_entry": {"vec": 4},
        "irq_softirq_exit": {"vec": 4},
        "softirq_entry": {"vec": 3},
        "x86_irq_vectors_local_timer_entry": {"vector": 236},
        "lttng_statedump_block_device": {"dev": 254 << 20, "diskname": b"vda"},
        "block_rq_issue": {
            "dev": 254 << 20,
            "sector": 2048,
            "nr_sector": 8,
            "bytes": 4096,
            "tid": 12,
            "comm": b"php-fpm",
        },
        "block_rq_complete": {"dev": 254 << 20, "sector": 2048, "nr_sector": 8},
        "net_dev_queue": {
            "len": 66,
            "name": b"eth0",
            "network_header": tcp(("10.0.0.1", 3306), ("10.0.0.2", 5), 77, ack=9),
        },
        "lttng_statedump_process_state": {
            "tid": 12,
            "pid": 12,
            "name": b"php-fpm",
            "file_table_address": 0xFFFF_9000_0000_0000,
        },
        "lttng_statedump_file_descriptor": {
            "file_table_address": 0xFFFF_9000_0000_0000,
            "fd": 3,
            "filename": b"/run/php.sock",
        },
        "kmem_kmalloc": {"anything": b"12345"},
    }
    # Statedump's events come first, as they do.
    order = sorted(EVENTS, key=lambda name: not name.startswith("lttng_statedump"))
    order = [name for name in order if ":" not in name]  # those of programs
    order.remove("lttng_statedump_block_device")
    order.insert(0, "lttng_statedump_block_device")
    order.remove("sched_process_exit")
    order.append("sched_process_exit")
    start = 5_000_000_000_123
    # Steps that use up 27 bits now and then, and one that is more than these.
    steps = [90_000_001 if index % 5 else 7 for index in range(len(order))]
    steps[20] = 400_000_000
    times = [start + sum(steps[: index + 1]) for index in range(len(order))]
    events = [(ts, name, values.get(name, {})) for ts, name in zip(times, order, strict=True)]
    half = len(events) // 2
    return Written(
        {
            0: [
                Packet(events[:half], begin=start, end=times[half - 1] + 5),
                Packet(events[half:], begin=times[half] - 3, end=times[-1] + 10, discarded=4),
            ],
            1: [
                Packet(
                    [(start + 100, "sched_switch", {"prev_tid": 31, "next_tid": 32, "next_comm": b"redis"})],
                    begin=start,
                ),
                Packet([], begin=start + 1000, end=start + 2000),
                Packet([(start + 5000, "syscall_entry_read", {"fd": 1})], sequence=4),
            ],
        },
        **options,
    )
