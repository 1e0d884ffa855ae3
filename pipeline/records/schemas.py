"""JSON Schemas (draft 2020-12) of what leaves for other people's tools: a promise, see `deploy/anomalies.md`.

`deploy/schemas/` and the AsyncAPI document follow from what is here, and a test holds it against what `outputs` writes.
A minor version of laggard may add fields and kinds; so an object may have fields that its schema does not name. What a
reader relies on changes only with a new major version, which the schema's id and the header `ce_dataschema` tell.
"""

from __future__ import annotations

from typing import Any, Final

from laggard.pipeline.records.diagnosis_json import PROGRESSES, THREAD_STATES
from laggard.pipeline.records.feedback import SAYS
from laggard.pipeline.records.limits import MAX_PID
from laggard.pipeline.records.models import RESOURCES
from laggard.pipeline.records.outputs import ANOMALY_CHANGES, BASES, CHANGES, EXCUSES, KEY_NAMES, NOTICE_CHANGES
from laggard.pipeline.records.requests import Segment

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
VERSION: Final = 1
"""Of all of them: the major one. It grows when a reader of the older form would misread the newer one."""

Schema = dict[str, Any]


def schema_id(kind: str) -> str:
    """What names the schema of a kind: `urn:laggard:anomaly:1`."""
    return f"urn:laggard:{kind}:{VERSION}"


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _number(description: str, **more: Any) -> Schema:
    return {"type": "number", "description": description, **more}


def _perhaps(description: str, **more: Any) -> Schema:
    """A number, or null for one that is not there or that JSON does not have."""
    return {"type": ["number", "null"], "description": description, **more}


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _count(description: str, **more: Any) -> Schema:
    return {"type": "integer", "minimum": 0, "description": description, **more}


def _texts(description: str) -> Schema:
    return {"type": "array", "description": description, "items": {"type": "string"}}


def _amounts(description: str) -> Schema:
    """Seconds by state."""
    return {
        "type": "object",
        "description": description,
        "additionalProperties": {"type": "number", "minimum": 0},
    }


def _object(description: str, properties: Schema, **more: Any) -> Schema:
    return {
        "type": "object",
        "description": description,
        "required": list(properties),
        "properties": properties,
        **more,
    }


FEATURE: Final = _object(
    "One counter of a row.",
    {
        "feature": _text("Its name, with its base unit: `memory_rss_bytes`."),
        "value": _perhaps("What it was, in that unit."),
        "mean": _perhaps(
            "What is usual for this row; null where nothing is known yet. Where its basis is `threshold`: from which "
            "value on it is high."
        ),
        "standard_deviation": _perhaps("How far it usually is from that."),
        "score": _perhaps("How unusual the value is."),
    },
)
STRETCH: Final = _object(
    "A stretch of high use, or a dip.",
    {
        "high": _flag("Whether it is high use."),
        "begin_ts": _number("When it began, seconds since the Unix epoch."),
        "end_ts": _number("When it ended, or the time of the record where it lasts."),
        "mean": _perhaps("Of what the row's first feature tells, in its unit."),
        "dips": _count("How many dips there were in it, where it is made of phases that are too many to keep."),
    },
)
ROW: Final = _object(
    "One entity: a process, or the host itself.",
    {
        "row": _text("Its id, unique in the frame, the same from tick to tick: `nginx[4711@99]`."),
        "name": _text("Its name: `nginx`."),
        "score": _perhaps("How unusual it is."),
        "age_s": _perhaps("How long it has been learned, in seconds.", minimum=0),
        "basis": _text(
            "What it is compared with: its own past (`itself`); as far as that is too short, other rows of its name "
            "(`name`), where there were none, how rows of any name began (`starts`), or all rows (`all`); or no past "
            "at all, but a limit (`threshold`).",
            enum=list(BASES),
        ),
        "waits": _flag("Whether what is most unusual about it is that it waits for others: a victim, not the cause."),
        "features": {
            "type": "array",
            "description": "The worst first; not all of them.",
            "items": {"$ref": "#/$defs/feature"},
        },
        "phases": {
            "type": "array",
            "description": "Of an event, such as of prolonged high use: the stretches of high use and the dips between "
            "them, in the order of time. Not there where the operator tells no events.",
            "items": {"$ref": "#/$defs/stretch"},
        },
    },
    required=["row", "name", "score", "age_s", "features"],
)

LOCATION: Final = _object(
    "One function on stacks, as far as it is known.",
    {
        "function": _text("Its name; empty where there is no symbol."),
        "module": _text(
            "The file that it was mapped from, `[kernel]` or `[vdso]`; for interpreted code its source file; empty "
            "where it is in no file."
        ),
        "offset": {
            "type": ["integer", "null"],
            "minimum": 0,
            "description": "In the module, in bytes; the address where there is no module; null where it is not known.",
        },
        "line": {
            "type": ["integer", "null"],
            "minimum": 1,
            "description": "In the source; null where it is not known.",
        },
    },
)
STACK: Final = _object(
    "What a thread was found at.",
    {
        "locations": {
            "type": "array",
            "description": "The innermost first, each as its place in the record's `locations`, counted from 0.",
            "items": {"type": "integer", "minimum": 0},
        },
        "samples": _count("How many samples found it there."),
        "state": _text("Whether it ran or was blocked.", enum=list(THREAD_STATES)),
        "wait_channel": _text("The kernel's function in which it was blocked; empty where it ran."),
        "system_call": _text("The system call that it was in; empty where there was none."),
    },
)
THREAD: Final = _object(
    "One thread over a phase.",
    {
        "tid": _count("Its id on the host.", maximum=MAX_PID),
        "name": _text("Its own name."),
        "entry": {
            "type": ["integer", "null"],
            "minimum": 0,
            "description": "Where it began, as a place in the record's `locations`; null where that is not known.",
        },
        "first_ts": _number("When it was seen first in this phase, seconds since the Unix epoch.", minimum=0),
        "last_ts": _number("When it was seen last in this phase.", minimum=0),
        "user_s": _number("CPU time in user mode between the two, in seconds.", minimum=0),
        "system_s": _number("CPU time in kernel mode between the two, in seconds.", minimum=0),
        "samples": _count("How often it was looked at."),
        "stacks": {
            "type": "array",
            "description": "What it was found at: the most frequent first; not all of them.",
            "items": {"$ref": "#/$defs/stack"},
        },
    },
)
PHASE: Final = _object(
    "A stretch of high use, or the dip between two of them.",
    {
        "high": _flag("Whether it is high use."),
        "begin_ts": _number("Seconds since the Unix epoch.", minimum=0),
        "end_ts": _number("Where it lasts still, the time of its last sample.", minimum=0),
        "samples": _count("How many were taken."),
        "left_out": _count("How many threads with less use are not here, for the bound on the record's size."),
        "threads": {
            "type": "array",
            "description": "By CPU time, the greatest first.",
            "items": {"$ref": "#/$defs/thread"},
        },
    },
)

BLAME: Final = _object(
    "Who is likely to blame, and the counter that tells so: what the sentence names first.",
    {
        "row": _text("The row's id: `nginx[4711@99]`."),
        "name": _text("Its name: `nginx`."),
        "feature": _text("The counter, with its base unit; empty where none is known."),
        "value": _perhaps("Of that counter, in its base unit."),
        "usual": _perhaps("The mean of what is usual."),
        "usual_deviation": _perhaps("The standard deviation of that."),
        "resources": _texts("What it takes or lacks: `cpu`, `disk`, `memory`, `network`; empty where not known."),
    },
)

_DESCRIBED: Final = {
    "host": _text("The host's name."),
    "row": _text("The host's, `web-1`, or that of all its processes of one name, `web-1/nginx`."),
    "feature": _text("The counter, with its base unit: `cpu_wait_ratio`."),
    "resource": _text("What it is about; empty where that is not known.", enum=list(RESOURCES)),
    "description": _text("What it is, in plain words. For people: its wording may change at any time."),
}
TERM: Final = _object(
    "One metric in a model.",
    {
        **_DESCRIBED,
        "coefficient": _perhaps("What one unit more of it adds; null in a model that is no equation."),
        "family": _texts("Metrics that say the same, the best first, each as `ROW:FEATURE`."),
    },
)
CANDIDATE: Final = _object(
    "One metric that goes with the performance metric by itself.",
    {
        **_DESCRIBED,
        "r": _perhaps("The correlation coefficient."),
        "p_value": _perhaps("How likely so much would be without any correlation."),
    },
)

LEAF: Final = _object(
    "A member, a group, or a cluster of them that is not told one by one.",
    {
        "label": _text("Of the member or group; of a cluster, of its first one."),
        "members": _count("How many members or groups it stands for."),
        "deviating": _count("How many of these deviate."),
        "kind": _text("How the first of those does, as in `ranked`; empty where none does."),
        "height": _perhaps("At which the last of them merge; 0 where there is one."),
    },
)
LEVEL: Final = _object(
    "One step of the top-down analysis: the members of one group, or groups of one, as a dendrogram.",
    {
        "path": _text("Of the group; empty at the top."),
        "leaves": {
            "type": "array",
            "description": "Members, or groups, or clusters of them where there would be too many leaves.",
            "items": {"$ref": "#/$defs/leaf"},
        },
        "merges": {
            "type": "array",
            "description": "One less than leaves, by their height: the two clusters that are merged, the height, and "
            "how many members or groups are in both. Clusters are numbered from 0: the leaves first, then what each "
            "merge makes.",
            "items": {"type": "array", "items": {"type": ["number", "null"]}, "minItems": 4, "maxItems": 4},
        },
        "p_values": {
            "type": "array",
            "description": "Of each merge: the approximately unbiased p-value in percent; null where there is none.",
            "items": {"type": ["number", "null"], "minimum": 0, "maximum": 100},
        },
    },
)
RANKED: Final = _object(
    "Members of a pool that behave unlike the others: one, or a group.",
    {
        "rows": _texts("The id of the member; of a group, such as those of a host, its path."),
        "name": _text("Of the member, or of the group."),
        "kind": _text(
            "How they deviate: for a while they did much more, and are back (`spike`), or go on doing so (`busy`); "
            "they hold more and more (`leak`), do nothing while others work (`stuck`), get less done (`slower`), left "
            "the pool (`left`), began later (`younger`), or their metrics vary otherwise (`different`). A later "
            "version may have more.",
            minLength=1,
        ),
        "score": _perhaps("How unusual: 1 or more. Null where it is too great for a number."),
        "height": _perhaps("At which they merge with others in the dendrogram; null without one."),
        "p_value": _perhaps(
            "The approximately unbiased p-value of that merge in percent; null where none was computed.",
            minimum=0,
            maximum=100,
        ),
        "begin_ts": _perhaps("Since when, seconds since the Unix epoch; null where that is not known.", minimum=0),
        "end_ts": _perhaps("Until when; null while it lasts.", minimum=0),
        "window": _count("Ticks of the window that shows it best; 0 for the whole life."),
        "level": _text("Path of the group inside which they deviate; empty at the top."),
        "features": {
            "type": "array",
            "description": "What sets them apart, worst first: their value, and the pool's usual mean and deviation.",
            "items": {"$ref": "#/$defs/feature"},
        },
        "sentence": _text("What it is, in plain words. For people: its wording may change at any time."),
    },
)

_TS: Final = _number("The time that it is about, by the clock of the host: seconds since the Unix epoch.", minimum=0)
_OPERATOR: Final = _text("The operator that found it: `gaussian`.")
_AGE: Final = _perhaps("How long the operator has been learning this key, in seconds.", minimum=0)
_YOUNG: Final = _flag("Whether that is too short to be relied on.")
_SENTENCE: Final = _text("What it is, in plain words. For people: its wording may change at any time.")
_SCORE: Final = _perhaps("How unusual: above 1. Null where it is too great for a number.", exclusiveMinimum=1)
_WORST: Final = _perhaps("The worst so far: above 1. Null where it is too great for a number.", exclusiveMinimum=1)
_LIVE: Final = _flag("Whether it is about now; false for recorded data that was replayed, which never alerts.")
_SCOPE: Final = _text("What the rows are: `process`, `host`, ...; empty where that is not known.")
_BLAME: Final = {
    "description": "Who is likely to blame; null where nobody is.",
    "anyOf": [{"$ref": "#/$defs/blame"}, {"type": "null"}],
}
_ROWS: Final = {
    "type": "array",
    "description": "The evidence: the worst rows first; not all of them.",
    "items": {"$ref": "#/$defs/row"},
}
_KEYS: Final = {
    "host": _text("The host that it is about. The record's key.", minLength=1),
    "application": _text("The application that it is about. The record's key.", minLength=1),
    "pool": _text("The pool that it is about. The record's key.", minLength=1),
    "service": _text("The service that it is about. The record's key.", minLength=1),
}


def _kind(
    kind: str,
    description: str,
    properties: Schema,
    *,
    keyed: bool = False,
    parts: Schema | None = None,
    optional: tuple[str, ...] = (),
) -> Schema:
    """A record's schema.

    Args:
        kind: the record's.
        description: what it says.
        properties: its fields, required but for those that are optional.
        keyed: whether it has exactly one of the fields that hold a key, too.
        parts: what its fields are made of, by name.
        optional: what an older laggard of the same major version did not write.

    """
    schema = {
        "$schema": DIALECT,
        "$id": schema_id(kind),
        "title": kind,
        **_object(description, {"kind": {"const": kind}, **properties}),
    }
    schema["required"] = [name for name in schema["required"] if name not in optional]
    if keyed:
        schema["properties"] |= _KEYS
        schema["oneOf"] = [{"required": [name]} for name in KEY_NAMES]
    if parts:
        schema["$defs"] = parts
    return schema


_SILENT: Final = _perhaps(
    "Where it counts as over without being seen to end, because its host or its operator fell silent: when that was "
    "heard last, seconds since the Unix epoch. Else null.",
    minimum=0,
)
_ACCEPTED: Final = _flag("Whether it ended because it lasted so long that it is the new baseline.")

_EXCUSE: Final = _text(
    "What a person said, if it ended by that: it is usual, or expected. Else empty.", enum=list(EXCUSES)
)
CASE: Final = _object(
    "What a person speaks of. An empty field means all.",
    {
        "name": _text("The name of the row."),
        "resources": _texts("What it takes: `cpu`, `disk`, `memory`, `network`."),
        "feature": _text("The counter that told so."),
        "excess": _perhaps("The distance of its value from the baseline, in its base unit; null for any.", minimum=0),
    },
)

_ANOMALY: Final = {
    "ts": _TS,
    "id": _text("Of this anomaly: the same whenever the same input is processed again.", format="uuid"),
    "operator": _OPERATOR,
    "parameters": {
        "type": "object",
        "description": "The operator's, by name.",
        "additionalProperties": {"type": ["number", "string", "boolean", "null"]},
    },
    "score": _SCORE,
    "ranking": _ROWS,
    "sentence": _SENTENCE,
    "model_age_s": _AGE,
    "young": _YOUNG,
    "live": _LIVE,
    "scope": _SCOPE,
    "blame": _BLAME,
    "onset_ts": _perhaps("The estimated time of its onset; null if that of its detection.", minimum=0),
}
EVIDENCE: Final = _object(
    "What one operator saw of an incident: an anomaly, as it was told last.",
    {
        "anomaly": _text("Its id.", format="uuid"),
        "operator": _OPERATOR,
        "scope": _SCOPE,
        "opened_ts": _number("When it began: its onset, or its detection. Seconds since the Unix epoch.", minimum=0),
        "until_ts": _perhaps("When its score was last above 1; null while it has not ended.", minimum=0),
        "score": _WORST,
        "young": _YOUNG,
        "sentence": _SENTENCE,
        "blame": _BLAME,
    },
)
_RANKED: Final = {"feature": FEATURE, "row": ROW, "stretch": STRETCH}
_BLAMING: Final = _RANKED | {"blame": BLAME}

SCHEMAS: Final[dict[str, Schema]] = {
    "anomaly": _kind(
        "anomaly",
        "A score passed 1, the false-alarm budget. It is told once, and again only after the score has stayed at 1 or "
        "below for a minute.",
        _ANOMALY,
        keyed=True,
        parts=_BLAMING,
        optional=("scope", "blame", "onset_ts"),
    ),
    "progress": _kind(
        "progress",
        "What became of an anomaly: at most once a minute that it got twice as bad or blames another row; that it goes "
        "on, ever less often; and that it has ended.",
        {
            **_ANOMALY,
            "ts": _number("When it was so, by the clock of the host: seconds since the Unix epoch.", minimum=0),
            "id": _text("Of the anomaly.", format="uuid"),
            "score": _WORST,
            "change": _text("What became of it.", enum=list(ANOMALY_CHANGES)),
            "number": _count("Of this record among those of the anomaly; the first is 1.", minimum=1),
            "opened_ts": _number("When the anomaly was told first, seconds since the Unix epoch.", minimum=0),
            "until_ts": _number("When its score was last above 1, seconds since the Unix epoch.", minimum=0),
            "silent_since_ts": _SILENT,
            "accepted": _ACCEPTED,
            "feedback": _EXCUSE,
        },
        keyed=True,
        parts=_BLAMING,
        optional=("silent_since_ts", "onset_ts", "accepted", "feedback"),
    ),
    "notice": _kind(
        "notice",
        "Something suspicious: the score passed the budget of notices, but not that of anomalies. It is told when it "
        "opens and when it ends. It belongs to no incident.",
        {
            **_ANOMALY,
            "id": _text("Of this notice: the same in both records, whenever the input is processed.", format="uuid"),
            "score": _perhaps("The worst so far, as a share of what the budget of notices allows.", exclusiveMinimum=1),
            "change": _text("What happened to it.", enum=list(NOTICE_CHANGES)),
            "opened_ts": _number("When it was told first, seconds since the Unix epoch.", minimum=0),
            "until_ts": _number("When its score was last above 1, seconds since the Unix epoch.", minimum=0),
            "became": _text("The id of the anomaly that it has become. Else empty."),
        },
        keyed=True,
        parts=_BLAMING,
    ),
    "incident": _kind(
        "incident",
        "Anomalies of one cause, joined over time, rows and operators. It is told when it opens, when it grows, and "
        "when it closes; each record has all that is known of it.",
        {
            "ts": _number("The time of what changed it, by the clock of the host: seconds since the epoch.", minimum=0),
            "id": _text("Of the incident: the same in all records of it.", format="uuid"),
            "number": _count("Of this record among those of the incident; the first is 1.", minimum=1),
            "change": _text("What happened to it.", enum=list(CHANGES)),
            "opened_ts": _number("When its first anomaly began, seconds since the Unix epoch.", minimum=0),
            "until_ts": _perhaps("When a score of it was last above 1; null while it is open.", minimum=0),
            "operator": _text("The operator that saw the worst of it: `gaussian`."),
            "score": _WORST,
            "blame": _BLAME,
            "ranking": _ROWS,
            "sentence": _SENTENCE,
            "model_age_s": _AGE,
            "young": _flag("Whether all operators that saw it had learned for too short to be relied on."),
            "live": _LIVE,
            "evidence": {
                "type": "array",
                "description": "What each operator saw, the oldest first.",
                "minItems": 1,
                "items": {"$ref": "#/$defs/evidence"},
            },
            "left_out": _count("So many anomalies with less score have ended and are not among the evidence."),
            "merged_into": _text(
                "Where it was closed because it proved to be the same trouble as another one: the id of that one, "
                "which goes on. Else empty."
            ),
            "silent_since_ts": _SILENT,
            "accepted": _ACCEPTED,
            "feedback": _EXCUSE,
        },
        keyed=True,
        parts=_BLAMING | {"evidence": EVIDENCE},
        optional=("silent_since_ts", "accepted", "feedback"),
    ),
    "feedback": _kind(
        "feedback",
        "A person said something of anomalies, and an operator has taken it: from here on it holds.",
        {
            "operator": _OPERATOR,
            "ts": _number("When it was said, seconds since the Unix epoch.", minimum=0),
            "id": _text("Names it.", minLength=1),
            "says": _text(
                "`usual`: it is no anomaly. `expected`: it is none until a time. `withdrawn`: what was said under this "
                "id holds no more.",
                enum=list(SAYS),
            ),
            "cases": {
                "type": "array",
                "description": "What it is about; all anomalies of the key if there is none.",
                "items": {"$ref": "#/$defs/case"},
            },
            "until_ts": _perhaps(
                "Until when it is expected, seconds since the Unix epoch; null unless it is.", minimum=0
            ),
            "incident": _text("The id of the incident that it is about; empty if there is none."),
            "note": _text("Why, for people."),
            "live": _LIVE,
        },
        keyed=True,
        parts={"case": CASE},
    ),
    "ranking": _kind(
        "ranking",
        "The answer to a mark (`it is slow now`): what was unusual on that host at that moment.",
        {
            "ts": _number("The time of the mark, seconds since the Unix epoch.", minimum=0),
            "host": _text("The host that was marked. The record's key.", minLength=1),
            "mark": _text("The note that came with the mark; may be empty."),
            "frame_ts": _perhaps("The time of the frame that was ranked; null where none was near.", minimum=0),
            "score": _perhaps("Of that frame; null where none was near."),
            "model_age_s": _AGE,
            "young": _YOUNG,
            "sentence": _SENTENCE,
            "rows": _ROWS,
        },
        parts=_RANKED,
        optional=("sentence",),
    ),
    "diagnosis": _kind(
        "diagnosis",
        "What one process was doing while something was wrong with it, or with its host: its threads, and what each "
        "executed. It is told when the first samples are there (`opened`), now and then (`extended`), and when it is "
        "over (`closed`), under one id; a later record has all that an earlier one has, within the bound on its size.",
        {
            "ts": _number("When it was told, by the clock of the host: seconds since the Unix epoch.", minimum=0),
            "id": _text("Of the event of this process: the same in all records of it.", format="uuid"),
            "progress": _text("How far it is.", enum=list(PROGRESSES)),
            "host": _text("The host that it is on. The record's key.", minLength=1),
            "row": _text("The process's row in frames and anomalies of its host: `nginx[4711@99]`.", minLength=1),
            "name": _text("Its name.", minLength=1),
            "pid": _count("Its id on the host.", maximum=MAX_PID),
            "command": _text("Its command line; empty where that is not told."),
            "reason": _text(
                "The condition that began it: `cpu` (the share of all processors), `single_cpu` (of one), `quota` (its "
                "control group is held back), `io_pressure`, `memory_pressure`. A later version may have more.",
                minLength=1,
            ),
            "value": _perhaps("The measure of that condition when it began, as a ratio; null where there is none."),
            "threshold": _perhaps("What that is above."),
            "methods": _texts("What told what its threads executed: `proc`, `perf`, `py-spy`, `eu-stack`, `jcmd`."),
            "notes": _texts("What is not here and why, for people: their wording may change at any time."),
            "sampler_cpu_s": _number("CPU time that taking the samples took, in seconds, helpers included.", minimum=0),
            "stopped_s": _number("For how long the process was stopped for it, in seconds, in sum.", minimum=0),
            "complete": _flag("False where it ended early: the process ended, the agent did, a bound was reached."),
            "locations": {
                "type": "array",
                "description": "The functions that stacks and entries refer to, each once.",
                "items": {"$ref": "#/$defs/location"},
            },
            "phases": {"type": "array", "description": "In the order of time.", "items": {"$ref": "#/$defs/phase"}},
        },
        parts={"location": LOCATION, "stack": STACK, "thread": THREAD, "phase": PHASE},
    ),
    "model": _kind(
        "model",
        "A performance model that was built: which metrics of its hosts tell a performance metric of an application, "
        "and how.",
        {
            "ts": _number("The end of the interval at which it was built, seconds since the epoch.", minimum=0),
            "id": _text("Of this model: the same whenever the same input is processed again.", format="uuid"),
            "application": _text("The application that it is about. The record's key.", minLength=1),
            "performance": _text("What it tells, with its unit: `response_time_mean_s`.", minLength=1),
            "type": _text("Of the model: `linear`, ..."),
            "equation": _text("For people: its form may change at any time."),
            "intercept": _perhaps("What the terms are added to; null in a model that is no equation."),
            "terms": {
                "type": "array",
                "description": "The metrics in it, the first chosen first.",
                "items": {"$ref": "#/$defs/term"},
            },
            "r2": _perhaps("The share of the variance that it tells, by cross-validation."),
            "p_value": _perhaps("Of the test that gave up the model before it; null for the first one."),
            "begin_ts": _number("Where its training began, seconds since the Unix epoch.", minimum=0),
            "end_ts": _number("Where that ended.", minimum=0),
            "samples": _count("So many intervals it was trained on."),
            "reason": _text(
                "Why it was built: `first`, `grown` (there are more samples), `changed` (the relation, or the response "
                "times), `poor` (it tells too little), `wish`. A later version may have more.",
                minLength=1,
            ),
            "candidates": {
                "type": "array",
                "description": "The metrics that go with the performance metric by themselves, the best first.",
                "items": {"$ref": "#/$defs/candidate"},
            },
            "live": _LIVE,
        },
        parts={"term": TERM, "candidate": CANDIDATE},
    ),
    "pool": _kind(
        "pool",
        "Which members of a pool behave unlike the others. It is told when that changes; `laggard replay` tells it "
        "once more for the whole at the end.",
        {
            "ts": _number("The time of the tick, by the clock of its host: seconds since the epoch.", minimum=0),
            "id": _text("Of this record: the same whenever the same input is processed again.", format="uuid"),
            "operator": _text("The operator that found it: `covariance`."),
            "pool": _text("The pool that it is about. The record's key.", minLength=1),
            "members": _count("How many are there at this tick."),
            "age_s": _perhaps("How long the operator has been learning this pool, in seconds.", minimum=0),
            "young": _YOUNG,
            "whole": _flag("Whether it is about all of the recorded data, at their end, and not about the moment."),
            "ranking": {
                "type": "array",
                "description": "Those that deviate, the worst first; empty where none does.",
                "items": {"$ref": "#/$defs/ranked"},
            },
            "levels": {
                "type": "array",
                "description": "Dendrograms, top-down: of the whole pool first, then of groups that deviate or have "
                "members that do. Empty where it is about the moment.",
                "items": {"$ref": "#/$defs/level"},
            },
            "live": _LIVE,
        },
        parts={"feature": FEATURE, "ranked": RANKED, "leaf": LEAF, "level": LEVEL},
    ),
    "request": _kind(
        "request",
        "A request that is out of line: where its time went, and what it was waiting for or doing.",
        {
            "ts": _number("When the request began, seconds since the Unix epoch.", minimum=0),
            "id": _text("Of this record: the same whenever the same input is processed again.", format="uuid"),
            "operator": _text("The operator that found it: `requests`."),
            "service": _text("What served it. The record's key.", minLength=1),
            "request": _text("Its id, unique in the service.", minLength=1),
            "name": _text("What was asked for: `GET /cart`; may be empty."),
            "host": _text("Which one recorded it; may be empty."),
            "duration_s": _number("How long it took, in seconds.", minimum=0),
            "score": _perhaps(
                "How far it is from the nearest request in a dense region, in units of the distance within which "
                "requests are neighbours; null where there is no such region.",
                exclusiveMinimum=1,
            ),
            "odd": _flag(
                "Whether it is out of line by what it did, and not by where its time went: it may have been fast."
            ),
            "cluster": _text("The name of those that are alike; empty while there is none."),
            "cause": _text("For people: its wording may change at any time."),
            "times_s": _amounts("How long it was in each state, in seconds; they sum to `duration_s`."),
            "usual_s": _amounts("The mean of that over normal requests; empty while none is known."),
            "critical_s": _amounts(
                "Like `times_s`, with each wait replaced by what was waited for, as far as that is known."
            ),
            "threads": _texts("Those of the path, its own first: `php-fpm[812]`; on other hosts `db-1/mysqld[99]`."),
            "path": {
                "type": "array",
                "description": "Its critical path in the order of time: the thread's place in `threads`, begin and end "
                "in seconds after `ts`, the state, and the system call or what was waited for.",
                "items": {
                    "type": "array",
                    "prefixItems": [
                        {"type": "integer", "minimum": 0},
                        {"type": "number", "minimum": 0},
                        {"type": "number", "minimum": 0},
                        {"type": "string", "minLength": 1},
                        {"type": "string"},
                    ],
                    "minItems": len(Segment._fields),
                    "maxItems": len(Segment._fields),
                },
            },
            "young": _YOUNG,
            "live": _LIVE,
        },
    ),
    "prediction": _kind(
        "prediction",
        "What a model said of one interval, beside what was. Only `laggard replay --json --scores` prints it.",
        {
            "ts": _number("The interval's end, seconds since the Unix epoch.", minimum=0),
            "operator": _text("The operator whose model it is: `regression`."),
            "application": _text("The application that it is about.", minLength=1),
            "performance": _text("Which performance metric, with its unit.", minLength=1),
            "value": _perhaps("What it was; null where nothing was measured."),
            "predicted": _perhaps("What the model says; null where it cannot say."),
            "p_value": _perhaps("How likely its errors would be so if the relation had not changed."),
            "r2": _perhaps("The share of the variance that it tells, over the newest window."),
        },
    ),
    "score": _kind(
        "score",
        "One operator's score of one key at one tick, or of one request. Only `laggard replay --json --scores` prints "
        "it.",
        {
            "ts": _number("Of the tick, or when the request began, seconds since the Unix epoch.", minimum=0),
            "operator": _OPERATOR,
            "request": _text("The id of the request; not there for a tick.", minLength=1),
            "score": _perhaps("Above 1 is anomalous; null where nothing was scored."),
        },
        keyed=True,
        optional=("request",),
    ),
}
"""Of what the topics of anomalies, models and diagnoses hold and `laggard replay --json` prints, by kind."""
