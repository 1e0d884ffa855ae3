"""Dead letters: their list, one with all details, and replays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final
from weakref import WeakKeyDictionary

import msgspec

from laggard.pipeline.core.bus import BusError, BusUnavailable, Partition
from laggard.pipeline.core.topics import APPLICATIONS, COUNTERS, DEAD_LETTERS, POOLS, REQUESTS
from laggard.pipeline.dead_letters import Replayed, decoded, hex_dump, letter_at, newest_letters, replay_of, returned
from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.investigator.endpoint import Answer, Endpoint, Number, Question
from laggard.pipeline.settings.general import GeneralSettings
from laggard.pipeline.web.errors import RequestError

if TYPE_CHECKING:
    from laggard.pipeline.dead_letters import Letter
    from laggard.pipeline.investigator.reading import Reading

INPUTS: Final = (COUNTERS, APPLICATIONS, POOLS, REQUESTS)
"""The topics whose letters can be replayed: operators read them, producers write them. Laggard writes all others."""

SHOWN_BYTES: Final = 4096
"""The most bytes of a value that are shown, as text and in hexadecimal digits."""

SHOWN_TEXT: Final = 20_000
"""The most characters of a decoded value."""

REPLAYED: Final = "replayed-letters.json"
"""The file of replayed letters, in the directory `state`."""

_replayed: WeakKeyDictionary[Reading, Replayed] = WeakKeyDictionary()


class DeadLetterHead(Answer, frozen=True):
    """A dead letter: a record that could not be used."""

    partition: Annotated[int, msgspec.Meta(description="the partition of the dead letter")]
    offset: Annotated[int, msgspec.Meta(description="its offset in that partition")]
    key: Annotated[str, msgspec.Meta(description="the key of the original record, with unprintable characters escaped")]
    ts: Annotated[
        float | None,
        msgspec.Meta(
            description="the time of the original record, seconds since the Unix epoch; null if it could not be read"
        ),
    ]
    operator: Annotated[str, msgspec.Meta(description="the operator that rejected the record")]
    topic: Annotated[str, msgspec.Meta(description="the full name of the topic of the original record")]
    place: Annotated[str, msgspec.Meta(description="the place of the original record: `laggard.counters[0]@1042`")]
    reason: Annotated[str, msgspec.Meta(description="the error, and the value that was expected")]
    bytes: Annotated[
        int, msgspec.Meta(description="the size of the original value in bytes, even if only its beginning was kept")
    ]
    replay_of: Annotated[
        str, msgspec.Meta(description="the place of the record of which it is the replay; empty for none")
    ]


class DeadLetters(Answer, frozen=True):
    """The newest dead letters, latest times first."""

    there: Annotated[
        int, msgspec.Meta(description="the number of dead letters; an upper bound if not all of them were read")
    ]
    letters: Annotated[list[DeadLetterHead], msgspec.Meta(description="the newest dead letters, latest times first")]


class LettersQuestion(Question, frozen=True):
    """The most dead letters to return."""

    most: Annotated[int, msgspec.Meta(ge=1, le=200, description="the most dead letters to return")] = 50


class DeadLetterHeader(Answer, frozen=True):
    """A header of the record."""

    name: Annotated[str, msgspec.Meta(description="the name of the header, with unprintable characters escaped")]
    value: Annotated[
        str,
        msgspec.Meta(description="its value as UTF-8 text, cut after 4096 bytes, with unprintable characters escaped"),
    ]


class DeadLetterWhole(Answer, frozen=True):
    """A dead letter with all details."""

    letter: Annotated[DeadLetterHead, msgspec.Meta(description="the same data as in the list")]
    headers: Annotated[list[DeadLetterHeader], msgspec.Meta(description="the headers of the original record")]
    decoded: Annotated[str, msgspec.Meta(description="the content of the record as JSON; empty if it is unreadable")]
    wrong: Annotated[str, msgspec.Meta(description="the defect that makes it no record of laggard; empty without one")]
    text: Annotated[str, msgspec.Meta(description=f"the first {SHOWN_BYTES} bytes of the value as UTF-8 text")]
    hex: Annotated[str, msgspec.Meta(description="the same bytes in hexadecimal digits")]
    shown_bytes: Annotated[int, msgspec.Meta(description="the number of bytes in `text` and `hex`")]
    replayable: Annotated[str, msgspec.Meta(description="the reason why it cannot be replayed; empty if it can")]
    replayed_ts: Annotated[
        float | None, msgspec.Meta(description="the time of the replay, seconds since the Unix epoch; null without one")
    ]
    returned: Annotated[
        DeadLetterHead | None,
        msgspec.Meta(description="the dead letter that the same operator wrote for the replay; null without one"),
    ]


class LetterQuestion(Question, frozen=True):
    """A dead letter, by its partition and offset among the dead letters."""

    offset: Annotated[int, msgspec.Meta(ge=0, le=2**62, description="the offset of the dead letter")]
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1, description="the partition of the dead letter")] = 0


class NewReplay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to replay a dead letter, once."""

    offset: Annotated[int, msgspec.Meta(ge=0, le=2**62, description="the offset of the dead letter")]
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1, description="the partition of the dead letter")] = 0


class Replay(Answer, frozen=True):
    """A replayed record."""

    topic: Annotated[str, msgspec.Meta(description="the full name of the topic to which the record was sent")]
    key: Annotated[str, msgspec.Meta(description="the key of the record")]
    ts: Annotated[Number, msgspec.Meta(description="the time of the replay, seconds since the Unix epoch")]


def letters(reading: Reading, question: LettersQuestion) -> DeadLetters:
    """Return the newest dead letters."""
    heads = [_head(each) for each in newest_letters(reading.bus, reading.topics, question.most)]
    bounds = reading.bus.all_bounds(reading.bus.partitions(reading.topics.name(DEAD_LETTERS))).values()
    # On Kafka, ends of transactions have offsets, too: if all letters were read, their count is exact.
    there = sum(end - oldest for oldest, end in bounds) if len(heads) >= question.most else len(heads)
    return DeadLetters(there, sorted(heads, key=lambda each: (-(each.ts or 0.0), -each.offset))[: question.most])


def letter(reading: Reading, question: LetterQuestion) -> DeadLetterWhole:
    """Return a dead letter with all details."""
    found = _dead_letter(reading, question)
    value = found.record.value
    decoded_text, wrong = decoded(value)
    back = returned(reading.bus, found)
    return DeadLetterWhole(
        _head(found),
        [DeadLetterHeader(printable(name), _text(content)) for name, content in found.headers],
        _lines(decoded_text)[:SHOWN_TEXT],
        printable(wrong),
        _lines(value[:SHOWN_BYTES].decode(errors="replace")),
        hex_dump(value[:SHOWN_BYTES]),
        min(len(value), SHOWN_BYTES),
        _unfit(reading, found),
        _known(reading).when(found),
        None if back is None else _head(back),
    )


def replay(reading: Reading, _: Question, new: NewReplay) -> Replay:
    """Replay a letter's record to its topic, under its key, with its headers; only once."""
    found = _dead_letter(reading, new)
    if unfit := _unfit(reading, found):
        raise RequestError(409, f"the letter cannot be sent again: {unfit}", "another letter")
    known = _known(reading)
    with known.lock:
        if known.when(found) is not None:
            raise RequestError(409, "the letter was sent again already", "a letter that was not")
        reading.allowance.take()
        ts = reading.clock()
        try:
            known.remember(found, ts)
        except OSError as error:
            reason = f"that it was sent cannot be remembered: {error.strerror}"
            raise RequestError(503, reason, "a directory `state` that can be written") from None
        try:
            reading.bus.append([replay_of(found)])
        except BusUnavailable:
            known.forget(found)
            raise
        except BusError as error:
            known.forget(found)
            raise RequestError(409, f"the bus does not take it: {error}", "another letter") from None
    return Replay(found.topic, found.record.key, ts)


def _known(reading: Reading) -> Replayed:
    return _replayed.setdefault(reading, Replayed(reading.settings[GeneralSettings].state / REPLAYED))


def _dead_letter(reading: Reading, question: LetterQuestion | NewReplay) -> Letter:
    topic = reading.topics.name(DEAD_LETTERS)
    partitions = reading.bus.partitions(topic)
    partition = Partition(topic, question.partition)
    oldest, end = reading.bus.bounds(partition) if partition in partitions else (0, 0)
    found = letter_at(reading.bus, partition, question.offset) if oldest <= question.offset < end else None
    if found is None:
        expected = f"an offset from {oldest} to {end - 1}" if end > oldest else "a letter that is there"
        raise RequestError(
            404, f"there is no dead letter {question.offset} in partition {question.partition}", expected
        )
    return found


def _unfit(reading: Reading, dead_letter: Letter) -> str:
    """Return why a letter cannot be replayed; empty if it can."""
    if dead_letter.topic not in map(reading.topics.name, INPUTS):
        return "it is not of a topic that producers write to"
    if dead_letter.cut:
        return "only its beginning was kept"
    if not dead_letter.record.value:
        return "nothing of it could be read"
    return ""


def _head(dead_letter: Letter) -> DeadLetterHead:
    record = dead_letter.record
    return DeadLetterHead(
        record.partition.number,
        record.offset,
        printable(record.key),
        record.ts or None,
        printable(dead_letter.operator),
        printable(dead_letter.topic),
        printable(dead_letter.origin),
        printable(dead_letter.reason),
        dead_letter.cut or len(record.value),
        printable(dead_letter.replay_of),
    )


def _text(content: bytes) -> str:
    return printable(content[:SHOWN_BYTES].decode(errors="replace"))


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


ENDPOINTS: Final = (
    Endpoint("/pipeline/letters", "The newest dead letters.", DeadLetters, letters, LettersQuestion),
    Endpoint("/pipeline/letter", "All of one dead letter.", DeadLetterWhole, letter, LetterQuestion),
    Endpoint("/pipeline/replays", "Send a dead letter's record again.", Replay, replay, body=NewReplay, status=201),
)
