"""The reasons for slow requests in plain words: rules, one for each kind of fault.

They report only known facts. The process that ended a wait for a file lock is reported as its holder: in the kernel,
the release of a lock wakes the waiters. Other wake-ups are reported as wake-ups, or with their likely reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from laggard.operators.requests.tries import ACCEPTS, LOCKS, PENDING, POLLS, TURNED_AWAY, is_failure, is_sleep
from laggard.pipeline.explaining.units import readable
from laggard.pipeline.methods.requests.spending import Alike, Spending, known, more_often, quoted, seconds, shown
from laggard.pipeline.methods.requests.words import RESULTS, SPANS, STATES

if TYPE_CHECKING:
    from collections.abc import Callable

CHILDREN: Final = frozenset({"wait4", "waitid"})
WRITES: Final = frozenset(
    {"fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync", "write", "writev", "pwrite64", "pwritev2"}
)
READS: Final = frozenset({"", "read", "readv", "pread64", "preadv", "preadv2", "sendfile", "splice", "copy_file_range"})
"""The calls that read files. A wait for a disk outside of system calls is a page fault, which reads files, too."""

SENDS: Final = frozenset({"sendto", "sendmsg", "sendmmsg", "write", "writev", "sendfile", "splice"})
RESOLVERS: Final = frozenset({"dnsmasq", "named", "nscd", "systemd-resolve", "systemd-resolved", "unbound"})

RUNS: Final = frozenset({"RU", "RS", "BP"})
"""States that wait for nothing except the CPU."""


class Words(NamedTuple):
    """A clause with figures, and a short title."""

    clause: str
    title: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of fault.

    Attributes:
        key: returns the group of a spending, which is reported together; None for another kind.
        describe: returns the words for a group.
        state: the state whose time without that of other rules it reports; empty for none.
        vain: whether it is for failing tries, which include the sleeps between them.

    """

    key: Callable[[Spending], str | None]
    describe: Callable[[Alike], Words]
    state: str = ""
    vain: bool = False


# The rules: functions that find the uses of time of their kind, and that describe a group of them.


def _off_cpu(alike: Alike) -> Words:
    share = readable("_ratio", round(alike.time_s / (alike.evidence.duration_s or 1.0), 2))
    by = f", the CPU is taken by {alike.who}" if alike.who else ""
    title = f"CPU taken by {shown(alike.culprit)}" if alike.culprit else "CPU taken"
    return Words(f"is off the CPU: {share} of the time runnable{by} ({alike.figures})", title)


def _worker(alike: Alike) -> Words:
    at = f" of {alike.where}" if alike.where else ""
    by = f" with {alike.who.partition(' (pid ')[0]}" if alike.who else ""
    return Words(f"waits for a free worker{at}: {alike.figures}; all workers are busy{by}", "all workers busy")


def _lock(alike: Alike) -> Words:
    by = f" held by {alike.who}" if alike.who else ""
    return Words(f"waits for a lock{by} ({_call(alike)}): {alike.figures}", _about("lock", alike))


def _lock_tried(alike: Alike) -> Words:
    text = f"tries in vain to take a lock ({_call(alike)}){_tries(alike)}: {alike.figures}"
    return Words(text, _about("lock", alike))


def _fails(each: Spending) -> str | None:
    if each.syscall == "connect" and each.result == PENDING:
        # A program queries the result later. If it begins many, they fail, or it connects again each time.
        repeated = each.state == "RS" and more_often(each.found.count, known(each.found.usual_count))
        return f"connect\0{each.on}\0{PENDING}" if repeated else None
    return f"{each.syscall}\0{each.on}\0{each.result}" if is_failure(each.syscall, each.result) else None


def _failing(alike: Alike) -> Words:
    call = next(each for each in alike.parts if each.result)
    how, shortly = RESULTS.get(call.result, (f"that fails ({shown(call.result)})", shown(call.result)))
    if call.result == PENDING:
        how, shortly = ("that is likely refused", "refused") if alike.sleeps else ("", "repeated")
    on = f" {'to' if call.syscall == 'connect' else 'on'} {shown(call.on)}" if call.on else ""
    what = f"{shown(call.syscall)}(){on} {how}".rstrip()
    verb = "repeats" if alike.repeated else "makes a"
    return Words(f"{verb} {what}{_tries(alike)}: {alike.figures}", f"{shown(call.syscall)} {shortly}")


def _futex(alike: Alike) -> Words:
    woken = replace(
        alike, parts=[each for each in alike.parts if each.state != "BS"]
    )  # not where a time limit ended it
    by = f", woken by {woken.aside}" if woken.aside else ""
    return Words(f"waits for another thread (`futex`{by}): {alike.figures}", "futex")


def _names(alike: Alike) -> Words:
    at = f" at {alike.where}" if alike.where else ""
    return Words(f"looks up names{at}{_who(alike)}: {alike.figures}", "name lookup")


def _connection(alike: Alike) -> Words:
    to = f" to {alike.where}" if alike.where else ""
    timed_out = [each for each in alike.parts if each.state == "BS" and each.found.count]
    until = ""
    if timed_out and sum(each.lost_s for each in timed_out) >= alike.lost_s / 2.0:
        # The timer is the program's: its limit is as long as the longest part's wait.
        until = f", until a limit of {seconds(timed_out[0].found.time_s / timed_out[0].found.count)}"
    return Words(f"waits for a connection{to}{_who(alike)}{until}{alike.often}: {alike.figures}", f"connect{to}")


def _written(alike: Alike) -> Words:
    what = alike.where or "what it writes"
    return Words(f"waits until {what} is on disk ({quoted(alike.syscall)}): {alike.figures}", "disk writes")


def _read(alike: Alike) -> Words:
    files = next((each.on for each in alike.parts if each.on.startswith("/")), "")
    disk = next((each.on for each in alike.parts if each.on and not each.on.startswith("/")), "")
    on = f" on {alike.where}" if files else ""
    return Words(
        f"page cache misses{on}: reads from disk{f' {shown(disk)}' if disk else ''} {alike.figures}", "disk reads"
    )


def _disk(alike: Alike) -> Words:
    return Words(f"waits for a disk in {_call(alike)}: {alike.figures}", "disk")


def _child(alike: Alike) -> Words:
    name = f", {alike.who}" if alike.who else ""
    return Words(f"waits for a child process{name} ({quoted(alike.syscall)}): {alike.figures}", "child process")


def _slept(alike: Alike) -> Words:
    call = f" ({quoted(alike.syscall)})" if alike.syscall else ""
    return Words(f"sleeps{call}: {alike.figures}", "sleep")


def _limited(alike: Alike) -> Words:
    call = f" in {quoted(alike.syscall)}" if alike.syscall else ""
    return Words(f"waits{call} until a time limit passes: {alike.figures}", "time limit")


def _taken(alike: Alike) -> Words:
    who = alike.where or "the other side"
    return Words(f"waits until {who}{_who(alike)} takes what is sent: {alike.figures}", _about("sending to", alike))


def _answer(alike: Alike) -> Words:
    if not (of := alike.where or alike.who):
        return Words(f"waits for what comes over a socket{alike.often}: {alike.figures}", "answer")
    who = _who(alike) if alike.where else ""
    title = f"answer of {alike.where or _first(alike)}"
    return Words(f"waits for the answer of {of}{who}{alike.often}: {alike.figures}", title)


def _computes(alike: Alike) -> Words:
    text = f"computes: {seconds(alike.time_s)} of {seconds(alike.evidence.duration_s)} in user mode{alike.usually}"
    calls, usual = alike.evidence.syscalls, alike.evidence.usual_syscalls
    if usual > 0.0:
        how = "fewer" if calls < 0.8 * usual else "more" if calls > 1.25 * usual else ""
        figures = f"({readable('', calls)}, usually {readable('', usual)})"
        text += f", with {how} system calls {figures}" if how else ", with about as many system calls"
    return Words(text, "user mode")


def _kernel(alike: Alike) -> Words:
    first = alike.parts[0] if alike.parts else None
    if first is None or not first.syscall or first.lost_s < alike.lost_s / 2.0:
        return Words(f"runs in the kernel: {alike.figures}", "kernel")
    return Words(f"runs in the kernel, most of it in {_call(alike)}: {alike.figures}", f"kernel {shown(first.syscall)}")


def _network(alike: Alike) -> Words:
    call = f" in {quoted(alike.syscall)}" if alike.syscall else ""
    return Words(f"waits for the network{call}: {alike.figures}", "network")


def _sent_by(each: Spending) -> str | None:
    """Return the task that ends a wait by sending something: over a pipe, or to one of several descriptors."""
    if each.state != "BT" or not (each.syscall in POLLS or each.on.startswith("pipe")):
        return None
    return each.by


def _message(alike: Alike) -> Words:
    who = alike.who or "another process"
    return Words(
        f"waits for {who} ({_call(alike)}){alike.often}: {alike.figures}", f"waits for {_first(alike) or 'a process'}"
    )


def _lock_words(alike: Alike) -> Words:
    call = f" in {_call(alike)}" if alike.syscall else ""
    if not alike.who:
        return Words(f"waits{call} for another process or thread: {alike.figures}", STATES["BT"].title)
    text = f"waits{call} for {alike.who}, which likely holds what it needs: {alike.figures}"
    return Words(text, f"waits for {_first(alike)}")


def _first(alike: Alike) -> str:
    return next((shown(each.by) for each in alike.parts if each.by), "")


def _call(alike: Alike) -> str:
    """Return the system call with most lost time, and its object: `` `flock` on /var/lib/x.lock ``."""
    return quoted(alike.syscall) + (f" on {alike.where}" if alike.where else "")


def _who(alike: Alike) -> str:
    return f" ({alike.aside})" if alike.aside else ""


def _tries(alike: Alike) -> str:
    return f"{alike.often}, and sleeps in between" if alike.sleeps else alike.often


def _about(what: str, alike: Alike) -> str:
    """Return words for a title, with only the last part of a path."""
    return f"{what} {alike.where.rpartition('/')[2] or alike.where}".strip()


# Of spans.


def _span_fails(each: Spending) -> str | None:
    if not (each.result and each.state in SPANS):
        return None
    return f"{each.syscall}\0{each.on}\0{each.result}"


def _failing_span(alike: Alike) -> Words:
    call = alike.parts[0]
    to = f" to {alike.where or alike.who}" if alike.where or alike.who else ""
    verb = "repeats" if alike.repeated else "makes"
    text = f"{verb} {quoted(call.syscall)}{to} that fails ({shown(call.result)}){alike.often}: {alike.figures}"
    return Words(text, f"{shown(call.syscall)} fails")


def _called(alike: Alike) -> Words:
    of = alike.where or alike.who or "another service"
    who = _who(alike) if alike.where else ""
    call = f", {quoted(alike.syscall)}" if alike.syscall else ""
    text = f"waits for the answer of {of}{who}{call}{alike.often}: {alike.figures}"
    return Words(text, f"answer of {alike.where or _first(alike) or 'a service'}")


def _handed_over(alike: Alike) -> Words:
    to = f" to {alike.where}" if alike.where else ""
    return Words(f"hands messages over{to}{alike.often}: {alike.figures}", f"messages{to}")


def _own_code(alike: Alike) -> Words:
    first = next((each for each in alike.parts if each.syscall), None)
    if first is None or first.lost_s < alike.lost_s / 2.0:
        return Words(f"is in its own code: {alike.figures}", "own code")
    return Words(
        f"is in its own code, most of it in {quoted(first.syscall)}: {alike.figures}",
        f"own code {shown(first.syscall)}",
    )


def is_queue(each: Spending) -> bool:
    """Return whether it is a wait in a listen queue, `by` the requests that kept the workers busy."""
    return each.state == "BT" and each.syscall in ACCEPTS


def _waits(each: Spending) -> bool:
    return each.state not in RUNS


def _resolves(each: Spending) -> bool:
    return each.by in RESOLVERS or each.on.endswith(":53") or "systemd/resolve" in each.on


def _all(condition: Callable[[Spending], bool]) -> Callable[[Spending], str | None]:
    """Return a key that reports all of them together."""
    return lambda each: "" if condition(each) else None


def _by_place(condition: Callable[[Spending], bool]) -> Callable[[Spending], str | None]:
    """Return a key that reports those on one file or socket together."""
    return lambda each: each.on if condition(each) else None


RULES: Final[tuple[Rule, ...]] = (
    Rule(_span_fails, _failing_span, vain=True),
    Rule(lambda each: f"{each.on}\0{each.by}" if each.state == "client" else None, _called),
    Rule(_by_place(lambda each: each.state == "producer"), _handed_over),
    Rule(_all(lambda each: each.state == "self"), _own_code, state="self"),
    Rule(_all(lambda each: each.state == "BP"), _off_cpu, state="BP"),
    Rule(_by_place(is_queue), _worker),
    Rule(_by_place(lambda each: each.syscall in LOCKS and each.result in TURNED_AWAY), _lock_tried, vain=True),
    Rule(_by_place(lambda each: each.syscall in LOCKS and _waits(each) and each.state != "BD"), _lock),
    Rule(_fails, _failing, vain=True),
    Rule(_all(lambda each: each.state == "BF" or (each.syscall.startswith("futex") and _waits(each))), _futex),
    Rule(_all(lambda each: _waits(each) and _resolves(each)), _names),
    Rule(_by_place(lambda each: each.syscall == "connect" and _waits(each)), _connection),
    Rule(_all(lambda each: each.state == "BD" and each.syscall in WRITES), _written),
    Rule(_all(lambda each: each.state == "BD" and each.syscall in READS), _read),
    Rule(_all(lambda each: each.state == "BD"), _disk),
    Rule(_all(lambda each: is_sleep(each.state, each.syscall)), _slept),
    Rule(_all(lambda each: each.state == "BS" and not each.on), _limited),
    Rule(_all(lambda each: each.syscall in CHILDREN and _waits(each)), _child),
    Rule(_by_place(lambda each: each.socket and each.syscall in SENDS and _waits(each)), _taken),
    Rule(_by_place(lambda each: each.socket and _waits(each)), _answer),
    Rule(_all(lambda each: each.state == "RU"), _computes, state="RU"),
    Rule(_all(lambda each: each.state == "RS"), _kernel, state="RS"),
    Rule(_all(lambda each: each.state == "BN"), _network),
    Rule(_sent_by, _message),
    Rule(lambda each: f"{each.syscall}\0{each.by}" if each.state == "BT" else None, _lock_words),
)
"""The rules in the order of precedence: the first one that matches applies. Without a match, the state is reported."""

SLEEP_RULE: Final = next(place for place, rule in enumerate(RULES) if rule.describe is _slept)
