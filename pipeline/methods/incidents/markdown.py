"""An incident as Markdown, for a ticket or a chat: the finding, its evidence, and the work of processes.

Names, commands and notes are not trusted. All text from outside is code, inline or fenced, with fences that are longer
than any run of backticks in it, and with control characters escaped. So nothing in it becomes a heading, a link, an
image, HTML or a mention of a person (CommonMark 0.31, 4.5, 6.1).
"""

from __future__ import annotations

import math
import re
import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from laggard.pipeline.explaining.explain import printable
from laggard.pipeline.explaining.units import readable, readable_duration, readable_usual
from laggard.pipeline.methods.diagnoses.words import sentence as doing
from laggard.pipeline.methods.incidents.queries import lasted_s, worst
from laggard.pipeline.methods.incidents.report import TOLD_FEATURES, TOLD_ROWS, whose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from laggard.operators.ranking import RowScore
    from laggard.pipeline.core.records.diagnosis import Diagnosis
    from laggard.pipeline.core.records.outputs import Blame, Evidence, Incident
    from laggard.pipeline.methods.incidents.account import Account
    from laggard.pipeline.methods.incidents.beside import Beside

WIDTH: Final = 100
"""The columns of sentences, which viewers do not wrap."""

MOST_DOING: Final = 3
"""The most diagnoses that are included."""


def markdown(
    incident: Incident,
    account: Account,
    diagnoses: Sequence[Diagnosis],
    link: str,
    now: float,
    *,
    beside: Beside | None = None,
) -> str:
    """Return all that a colleague needs to start.

    Args:
        incident: its last record.
        account: its other records.
        diagnoses: the diagnoses while it lasted, those of culprits first.
        link: the URL of its page; left out if it is not of http or https.
        now: seconds since the Unix epoch, for the duration of an open incident.
        beside: the report of another method on its subject, if there is one.

    """
    return "\n".join(_lines(incident, account, diagnoses, link, now=now, beside=beside)) + "\n"


def _lines(
    incident: Incident,
    account: Account,
    diagnoses: Sequence[Diagnosis],
    link: str,
    *,
    now: float,
    beside: Beside | None,
) -> Iterator[str]:
    is_open = incident.change != "closed"
    yield f"## Incident on {code(whose(incident))}: {'open' if is_open else 'closed'}"
    yield ""
    yield from fenced(incident.sentence)
    yield ""
    until = "and still open" if is_open else f"to {_moment(incident.until_ts)}"
    yield f"- From {_moment(incident.opened_ts)} {until}, {readable_duration(lasted_s(incident, now))}"
    yield f"- Worst score: {_score(incident.score)}, where 1 is what the false-alarm budget allows"
    if incident.blame is not None:
        yield f"- Blamed: {_blamed(incident.blame)}"
    yield f"- Id: {code(incident.id)}"
    if url := web_link(link):
        yield f"- Page: <{url}>"
    yield ""
    yield "### Seen by"
    for each in incident.evidence:
        yield ""
        yield from _seen(each, account)
    if incident.left_out:
        yield ""
        yield f"And by {incident.left_out:,} more, which have ended."
    if beside is not None:
        yield ""
        yield f"### {beside.title}"
        yield ""
        yield from fenced(" ".join(beside.sentences))
    if diagnoses:
        yield ""
        yield "### What processes were doing"
        for one in diagnoses[:MOST_DOING]:
            yield ""
            yield from fenced(doing(one))
    if account.marks:
        yield ""
        yield "### Marks"
        yield ""
        for mark in account.marks:
            yield f"- {_moment(mark.ts)}{f': {code(mark.mark)}' if mark.mark else ''}"


def _seen(evidence: Evidence, account: Account) -> Iterator[str]:
    until = "on" if math.isnan(evidence.until_ts) else f"to {_moment(evidence.until_ts)}"
    scope = f" ({code(evidence.scope)})" if evidence.scope else ""
    young = ", when its model was young" if evidence.young else ""
    yield (
        f"**{code(evidence.operator)}**{scope} from {_moment(evidence.opened_ts)} {until}, "
        f"score {_score(evidence.score)}{young}:"
    )
    yield ""
    yield from fenced(evidence.sentence)
    rows = _rows(account, evidence)
    if rows:
        yield ""
    for row in rows:
        yield f"- {_score(row.score)} {code(row.row)}"
        for feature in row.features[:TOLD_FEATURES]:
            usual = readable_usual(feature.feature, feature.mean, feature.standard_deviation)
            beside = "above" if row.basis == "threshold" else "usually"
            comparison = f", {beside} {usual}" if math.isfinite(feature.mean) else ""
            yield f"  - {code(feature.feature)}: {readable(feature.feature, feature.scored)}{comparison}"


def _rows(account: Account, evidence: Evidence) -> list[RowScore]:
    newest = account.newest.get(evidence.anomaly)
    rows = () if newest is None else newest.ranking.rows
    return [row for place, row in enumerate(rows[:TOLD_ROWS]) if not place or row.score > 1.0]


def _blamed(blame: Blame) -> str:
    """Return the culprit; the rankings have the features."""
    return code(blame.name) if blame.name == blame.row else f"{code(blame.name)}, {code(blame.row)}"


def code(text: str) -> str:
    """Return a code span of one line."""
    text = printable(text)
    fence = "`" * (_longest_run(text) + 1)
    # Viewers remove one space from both sides, except for text of spaces only. It separates the fence from a backtick.
    spaced = not text or (text.strip(" ") and (text[0] in "` " or text[-1] in "` "))
    return f"{fence} {text} {fence}" if spaced else f"{fence}{text}{fence}"


def fenced(text: str) -> Iterator[str]:
    """Yield a block of code with a text in lines of `WIDTH`."""
    text = printable(text)
    fence = "`" * max(_longest_run(text) + 1, 3)
    yield f"{fence}text"
    yield from textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    yield fence


def web_link(link: str) -> str:
    """Return the URL, quoted for angle brackets; empty if it is not of http or https."""
    try:
        parts = urlsplit(link)
    except ValueError:
        return ""
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        return ""
    return quote(link, safe="%/:?#[]@!$&'()*+,;=~-._")


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _score(score: float) -> str:
    return readable("", worst(score))


def _moment(ts: float) -> str:
    return f"{datetime.fromtimestamp(ts, UTC):%Y-%m-%d %H:%M:%S} UTC"
