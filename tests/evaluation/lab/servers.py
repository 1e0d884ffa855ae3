"""What the shop's servers say of themselves: PostgreSQL's statistics, nginx's status, the application's counters."""

from __future__ import annotations

import re
import socket
from concurrent.futures import Future, ThreadPoolExecutor, wait
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import psycopg
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector
from psycopg.rows import dict_row

from tests.evaluation.lab.counters import Rates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.evaluation.lab.counters import Values
    from tests.evaluation.lab.tiers import Shop

VIEWS: Final = {
    "pg_stat_database": "SELECT * FROM pg_stat_database WHERE datname = current_database()",
    "pg_stat_bgwriter": "SELECT * FROM pg_stat_bgwriter",
    "pg_stat_wal": "SELECT * FROM pg_stat_wal",
    "pg_stat_user_tables": "SELECT * FROM pg_stat_user_tables",
    "pg_statio_user_tables": "SELECT * FROM pg_statio_user_tables",
    "pg_stat_user_indexes": "SELECT * FROM pg_stat_user_indexes",
    "pg_statio_user_indexes": "SELECT * FROM pg_statio_user_indexes",
    "pg_stat_slru": "SELECT * FROM pg_stat_slru",
    "pg_stat_activity": """
        SELECT state, kind AS wait_event_type, count(pid) AS count
        FROM (VALUES ('active'), ('idle'), ('idle in transaction')) AS states (state)
        CROSS JOIN (VALUES ('none'), ('Client'), ('IO'), ('IPC'), ('LWLock'), ('Lock'), ('Timeout')) AS kinds (kind)
        LEFT JOIN (SELECT pid, state, coalesce(wait_event_type, 'none') AS kind FROM pg_stat_activity
            WHERE pid <> pg_backend_pid()) AS found USING (state, kind) GROUP BY 1, 2""",
    "pg_locks": """
        SELECT mode, count(pid) AS count
        FROM (VALUES ('AccessShareLock'), ('RowShareLock'), ('RowExclusiveLock'), ('ShareLock'), ('ExclusiveLock'),
            ('AccessExclusiveLock')) AS modes (mode) LEFT JOIN pg_locks USING (mode) GROUP BY 1""",
}
LABELS: Final = ("relname", "indexrelname", "name", "state", "wait_event_type", "mode")
"""Columns that say of what a line is."""
NO_METRIC: Final = re.compile(r"(id$|name$|_reset$|last_|datfrozenxid)")
GAUGES: Final = re.compile(r"numbackends|n_(live|dead)_tup|n_mod_since|n_ins_since|^count$")
STATES: Final = re.compile(r"(Active|Reading|Writing|Waiting)(?: connections)?: (\d+)")
MILLISECONDS: Final = re.compile(r"_time$")


class Servers:
    """All three. What does not answer in time is not there at that look."""

    def __init__(self, shop: Shop, patience_s: float) -> None:
        self._shop = shop
        self._patience_s = patience_s
        self._connection = psycopg.connect(shop.database, row_factory=dict_row, autocommit=True)
        self._pool = ThreadPoolExecutor(3)
        asks: tuple[Callable[[], tuple[Values, Values]], ...] = (self._application, self._web, self._database)
        self._asks = {host: (ask, Rates()) for host, ask in zip(("app", "web", "db"), asks, strict=True)}
        self._under_way: dict[str, Future[Values]] = {}
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(shop.counted))
        self._registry = registry

    def ask(self) -> None:
        """Begin to ask them, but for those that still owe an answer."""
        for host, (ask, rates) in self._asks.items():
            if host not in self._under_way:
                self._under_way[host] = self._pool.submit(self._answer, ask, rates)

    def answers(self) -> dict[str, Values]:
        """By host, what they answered in time; an answer that comes later is that of the next look."""
        wait(self._under_way.values(), self._patience_s)
        came = [host for host, future in self._under_way.items() if future.done()]
        return {host: self._under_way.pop(host).result() for host in came}

    def close(self) -> None:
        """Ask no more."""
        self._pool.shutdown(cancel_futures=True)
        self._connection.close()

    @staticmethod
    def _answer(ask: Callable[[], tuple[Values, Values]], rates: Rates) -> Values:
        return rates.read(*ask())

    def _database(self) -> tuple[Values, Values]:
        counted: Values = {}
        gauges: Values = {}
        for view, query in VIEWS.items():
            for row in self._connection.execute(query.encode()):
                labels = _labels({label: str(row[label]) for label in LABELS if label in row})
                for column, value in row.items():
                    if NO_METRIC.search(column) or not isinstance(value, (int, float, Decimal)):
                        continue
                    if GAUGES.search(column):
                        gauges[f"{view}_{column}{labels}"] = float(value)
                    elif MILLISECONDS.search(column):
                        counted[f"{view}_{column}_ratio{labels}"] = float(value) / 1e3
                    else:
                        counted[f"{view}_{column}_per_s{labels}"] = float(value)
        return counted, gauges

    def _web(self) -> tuple[Values, Values]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(60.0)
            connection.connect(str(self._shop.status))
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            text = b""
            while more := connection.recv(4096):
                text += more
        page = text.decode().partition("\r\n\r\n")[2]
        accepted, handled, requests = re.findall(r"\d+", page.splitlines()[2])
        counted = {"nginx_connections_accepted_per_s": accepted, "nginx_connections_handled_per_s": handled}
        counted["nginx_http_requests_per_s"] = requests
        states = {f"nginx_connections_{name.lower()}": count for name, count in STATES.findall(page)}
        return {name: float(n) for name, n in counted.items()}, {name: float(n) for name, n in states.items()}

    def _application(self) -> tuple[Values, Values]:
        counted: Values = {}
        gauges: Values = {}
        for family in self._registry.collect():
            for sample in family.samples:
                labels = _labels(sample.labels)
                if family.type == "gauge":
                    gauges[f"{sample.name}{labels}"] = sample.value
                else:
                    counted[f"{sample.name.removesuffix('_total')}_per_s{labels}"] = sample.value
        return counted, gauges


def _labels(labels: Mapping[str, str]) -> str:
    """As in a name of Prometheus; nothing where there are none."""
    pairs = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""
