"""The connection to Grafana: the client of the library grafana-api, with retries and readable errors.

It fixes faults of the library (1.0.3). The library treats an answer without a body (204) as an error, and fails on
errors that are not objects. It hides headers, and follows the redirect of a POST with a GET.
"""

from __future__ import annotations

import random
import re
import time
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import urlsplit

import requests
from grafana_api import GrafanaFace
from grafana_api.grafana_api import GrafanaException

from laggard.pipeline.grafana.errors import GrafanaError, GrafanaUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType

ATTEMPTS: Final = 5
FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 60.0
"""The longest pause for the `Retry-After` of Grafana, or of a proxy before it."""

_BUSY: Final = frozenset({429, 503})
_BROKEN: Final = frozenset({500, 502, 504})
_SHOWN: Final = 300
"""The most characters of a text of Grafana that are shown."""


class Connection:
    """A connection to one Grafana, with one token.

    Parameters:
        url: the address, with the path under which it is served.
        token: the token of a service account.
        ca_file: its certificate authorities; None for the usual ones.
        timeout_s: the time limit for an answer.
        sleep: waits between attempts.

    Attributes:
        url: the address without a slash at its end.
        face: the library's methods, to be run by `call`.

    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_file: Path | None = None,
        timeout_s: float = 10.0,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        parts = urlsplit(url)
        path = parts.path.strip("/")
        assert parts.hostname is not None
        self.url = url.rstrip("/")
        self._sleep = sleep
        self._ca_file = ca_file
        self._timeout_s = timeout_s
        self._answer: requests.Response | None = None
        self.face = GrafanaFace(
            auth=token,
            host=f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname,
            port=parts.port,
            url_path_prefix=f"{path}/" if path else "",
            protocol=parts.scheme,
            verify=str(ca_file) if ca_file else True,
            timeout=timeout_s,
        )
        session: requests.Session = self.face.api.s
        session.hooks["response"].append(self._keep)
        session.max_redirects = 0

    def _keep(self, answer: requests.Response, *_: object, **__: object) -> None:
        self._answer = answer

    def _answered(self) -> requests.Response | None:
        """Return the last answer, None without one."""
        return self._answer

    def close(self) -> None:
        """Close the connections."""
        self.face.api.s.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def ask(
        self,
        method: str,
        path: str,
        what: str,
        right: str = "",
        *,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        absent: tuple[int, ...] = (),
        changes: bool = False,
    ) -> Any:
        """Make a call below `/api` for which the library has no method, through its client.

        Args:
            method: the HTTP method.
            path: the quoted path below `/api`.
            what: the action, for errors: "save ...".
            right: the right that the token needs.
            body: the body, for JSON.
            headers: further headers.
            absent: the statuses for which to return None.
            changes: whether a repeated call has another effect than a single one.

        """
        run = getattr(self.face.api, method)
        return self.call(lambda: run(path, json=body, headers=headers), what, right, absent, changes=changes)

    def object(
        self, run: Callable[[], Any], what: str, right: str, absent: tuple[int, ...] = ()
    ) -> dict[str, Any] | None:
        """Run `call`, whose result must be an object, and return it; None for a status in `absent`."""
        found = self.call(run, what, right, absent)
        if found is None or isinstance(found, dict):
            return found
        raise GrafanaError(f"Grafana at {self.url} was to {what} and answered no object")

    def objects(self, run: Callable[[], Any], what: str, right: str) -> list[dict[str, Any]]:
        """Run `call`, whose result must be a list of objects, and return it."""
        found = self.call(run, what, right)
        if isinstance(found, list) and all(isinstance(each, dict) for each in found):
            return found
        raise GrafanaError(f"Grafana at {self.url} was to {what} and answered no list of objects")

    def call(
        self, run: Callable[[], Any], what: str, right: str = "", absent: tuple[int, ...] = (), *, changes: bool = False
    ) -> Any:
        """Run a call, with retries if these may help. Raises GrafanaError if it fails."""
        again = _BUSY if changes else _BUSY | _BROKEN
        for attempt in range(1, ATTEMPTS + 1):
            self._answer = None
            try:
                return run()
            except requests.exceptions.JSONDecodeError as error:
                if not error.doc:
                    return None  # 204
                raise GrafanaError(
                    f"what answers at {self.url} is no Grafana's API: it was to {what} and answered something else "
                    "than JSON; is there a proxy with a page to log in?"
                ) from None
            except (GrafanaException, TypeError) as error:
                # The library raises a TypeError for an error that is not an object.
                answer = self._answered()
                if answer is None or answer.ok:
                    raise
                if answer.status_code in absent:
                    return None
                if answer.status_code not in again or attempt == ATTEMPTS:
                    raise self._refusal(answer, what, right) from error
                self._sleep(_pause_s(answer, attempt))
            except requests.exceptions.TooManyRedirects as error:
                target = error.response.headers.get("Location", "elsewhere") if error.response is not None else ""
                raise GrafanaError(
                    f"{self.url} sends on to {shortened(target)}; expected in grafana.url the address that it ends at"
                ) from None
            except requests.exceptions.RequestException as error:
                raise self._unreachable(error) from None
            except OSError as error:
                # The TLS library raises this for a missing file.
                raise GrafanaError(f"grafana.ca_file: {self._ca_file} cannot be used: {error}") from None
        raise AssertionError("not reached: the last attempt returns or raises")

    def _refusal(self, answer: requests.Response, what: str, right: str) -> GrafanaError:
        status, message = answer.status_code, _message(answer)
        because = f" It says: {message}" if message else ""
        why = {
            401: "it does not know the token; expected one of a service account in grafana.token or grafana.token_file",
            403: "the token may not; expected " + (f"the right {right}" if right else "a token with more rights"),
            404: "it is not there",
            409: "something else stands in its place",
            412: "somebody has changed it meanwhile; try again",
            422: "it takes it for invalid, or a quota is used up",
            429: "it has been asked too often",
        }.get(status, "it failed" if status >= 500 else "it takes the request for wrong")
        kind = GrafanaUnavailable if status in _BUSY | _BROKEN else GrafanaError
        return kind(f"Grafana at {self.url} was to {what}: {why} ({status}).{because}", status)

    def _unreachable(self, error: requests.exceptions.RequestException) -> GrafanaError:
        reason = shortened(_cause(error))
        match error:
            case requests.exceptions.SSLError():
                return GrafanaError(
                    f"the TLS connection to Grafana at {self.url} failed: {reason}; expected its authority in "
                    "grafana.ca_file, where that is not a usual one"
                )
            case requests.exceptions.Timeout():
                return GrafanaUnavailable(
                    f"Grafana at {self.url} has not answered within {self._timeout_s:g} s (setting grafana.timeout)"
                )
            case _:
                return GrafanaUnavailable(f"Grafana at {self.url} cannot be reached: {reason}")


def _cause(error: requests.exceptions.RequestException) -> str:
    """Return the error of the network without the library's wrapping: pool, connection, number of tries."""
    cause = error.args[0] if error.args else error
    cause = getattr(cause, "reason", None) or cause
    return re.sub(r"^\w+\(host=[^)]*\): ", "", str(cause))


def _pause_s(answer: requests.Response, attempt: int) -> float:
    """Return the requested pause, otherwise a growing one, with jitter so that clients do not retry together."""
    retry_after = answer.headers.get("Retry-After", "")
    if retry_after.isascii() and retry_after.isdigit():
        return min(float(retry_after), LONGEST_PAUSE_S)
    return float(FIRST_PAUSE_S * 2 ** (attempt - 1) * random.uniform(0.75, 1.25))  # noqa: S311 - not a secret


def _message(answer: requests.Response) -> str:
    """Return the message of an error of Grafana; empty for a page of a proxy."""
    try:
        found = answer.json()
    except ValueError:
        return "" if "html" in answer.headers.get("Content-Type", "") else shortened(answer.text)
    if isinstance(found, dict):
        found = found.get("message") or found.get("msg") or found.get("error") or ""
    return shortened(str(found))


def shortened(text: str) -> str:
    """Return a foreign text on one line, cut if it is long."""
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
