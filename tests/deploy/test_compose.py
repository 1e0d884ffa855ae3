"""The image and the Compose file: valid, and fitting to each other and to laggard."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from laggard.pipeline.cli import COMMANDS
from laggard.pipeline.core.records.declared import KEY_NAMES
from laggard.pipeline.grafana.labels import JOB, PLACE
from tests.deploy.files import DEPLOY, ROOT, assignments, check_settings, documents
from tests.deploy.tools import compose_loader

COMPOSE = DEPLOY / "compose/compose.yaml"
HADOLINT = Path(sys.executable).with_name("hadolint")
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def composed() -> Any:
    (document,) = documents(COMPOSE.read_text())
    return document


def test_hadolint_has_nothing_to_say_about_the_image() -> None:
    done = subprocess.run([HADOLINT, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_speaks() -> None:
    done = subprocess.run([HADOLINT, "-"], input="FROM debian\n", capture_output=True, text=True, check=False)
    assert "DL3006" in done.stdout


def test_the_image_is_made_of_what_is_there() -> None:
    copied = [
        word for line in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE) for word in line.split()
    ]
    allowed = re.findall(r"^!(\S+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert sorted(copied) == sorted(allowed)
    assert all((ROOT / name).exists() for name in copied)
    assert {"operators", "pipeline", "producers"} <= set(copied)
    check_settings(dict(re.findall(r"(LAGGARD_\w+)=(\S+)", DOCKERFILE)))


VERSIONED = re.compile(r"[\w./-]+:v?\d+\.\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?")


def test_images_have_versions(composed: Any) -> None:
    bases = re.findall(r"^ARG PYTHON=(\S+)$", DOCKERFILE, re.MULTILINE)
    used = {service["image"] for service in composed["services"].values()} - {"laggard"}
    assert len(used) == 3
    assert [name for name in [*bases, *used] if not re.fullmatch(VERSIONED, name)] == []


TOKENS = {"LAGGARD_WEB_TOKEN": "0123456789abcdef", "LAGGARD_SERVE_TOKEN": "fedcba9876543210"}


def load(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **TOKENS, "GRAFANA_PASSWORD": "secret", **environment}
    return subprocess.run([compose_loader(), path], env=given, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.timeout(600)  # the first time, the loader has to be built
def test_compose_loads_it() -> None:
    done = load(COMPOSE, LAGGARD_TOPICS_PARTITIONS="8")
    assert done.returncode == 0, done.stderr
    (loaded,) = documents(done.stdout)
    worker = loaded["services"]["worker"]
    assert Path(worker["build"]["context"]) == ROOT
    assert (ROOT / worker["build"]["dockerfile"]).is_file()
    assert worker["environment"]["LAGGARD_TOPICS_PARTITIONS"] == "8"
    assert worker["environment"]["LAGGARD_WEB_TOKEN"] == "0123456789abcdef"
    assert worker["cap_drop"] == ["ALL"]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("depends_on: [prometheus]", "depends_on: [prometeus]", "prometeus"),
        ("cap_drop: [ALL]", "drop_cap: [ALL]", "drop_cap"),
        ("secrets: [web_token]", "secrets: [token]", "token"),
    ],
)
def test_compose_refuses_what_is_wrong(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    text = COMPOSE.read_text()
    assert right in text
    changed = tmp_path / "compose.yaml"
    changed.write_text(text.replace(right, wrong))
    done = load(changed)
    assert done.returncode
    assert said in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", TOKENS)
def test_a_token_has_to_be_given(name: str) -> None:
    assert "put a token" in load(COMPOSE, **{name: ""}).stderr


def test_every_variable_is_a_setting_that_takes_the_value(composed: Any) -> None:
    ours = {name: service for name, service in composed["services"].items() if service["image"] == "laggard"}
    assert set(ours) == {"topics", "worker", "page", "agent"}
    for service in ours.values():
        assert service["command"][0] in COMMANDS
        check_settings(service["environment"])


def test_what_has_to_be_given_stands_in_the_example() -> None:
    given = assignments((DEPLOY / "compose/example.env").read_text())
    text = COMPOSE.read_text()
    asked = set(re.findall(r"\$\{(\w+)", text)) | set(re.findall(r"\{environment: (\w+)\}", text))
    assert set(given) == asked
    check_settings({name: value for name, value in given.items() if value})
    for name, default in re.findall(r"\$\{(\w+):-([^}]*)\}", text):
        assert given[name] == default


def test_agent_and_workers_reach_the_same_broker(composed: Any) -> None:
    services = composed["services"]
    advertised = dict(
        listener.split("://") for listener in services["broker"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    )
    locations = {
        name: services[name]["environment"]["LAGGARD_BUS_LOCATION"] for name in ("agent", "worker", "topics", "page")
    }
    assert locations["agent"] == f"kafka://{advertised['OUTSIDE']}"
    assert locations["worker"] == locations["topics"] == locations["page"] == f"kafka://{advertised['INSIDE']}"
    assert f"127.0.0.1:{advertised['OUTSIDE'].split(':')[1]}" in services["broker"]["ports"][0]


def test_the_page_is_served_to_this_machine_alone(composed: Any) -> None:
    page = composed["services"]["page"]
    port = page["environment"]["LAGGARD_SERVE_LISTEN"].removeprefix("0.0.0.0:")
    assert page["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert f"127.0.0.1:{port}/-/healthy" in page["healthcheck"]["test"][-1]


def test_prometheus_finds_the_workers_and_grafana_finds_prometheus(composed: Any) -> None:
    services = composed["services"]
    (scraping,) = documents((DEPLOY / "compose/prometheus.yml").read_text())
    (job,) = scraping["scrape_configs"]
    assert job["job_name"] == JOB
    assert {each["target_label"] for each in job["relabel_configs"] if "target_label" in each} <= set(PLACE)
    assert {each["regex"] for each in job["relabel_configs"] if "regex" in each} == {"|".join(KEY_NAMES)}
    inside = [volume.split(":")[1] for volume in services["prometheus"]["volumes"]]
    assert set(scraping["rule_files"]) <= set(inside)
    (found,) = job["dns_sd_configs"]
    assert found["names"] == ["worker"]
    assert services["worker"]["environment"]["LAGGARD_WEB_LISTEN"] == f"0.0.0.0:{found['port']}"
    (secret,) = services["prometheus"]["secrets"]
    assert job["authorization"]["credentials_file"] == f"/run/secrets/{secret}"
    (provisioned,) = documents((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())
    (source,) = provisioned["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provisioned,) = documents((DEPLOY / "grafana/provisioning/dashboards/laggard.yaml").read_text())
    (provider,) = provisioned["providers"]
    mounts = dict(volume.split(":")[1::-1] for volume in services["grafana"]["volumes"])
    assert mounts[provider["options"]["path"]] == "../grafana/dashboards"
    for kind in ("datasources", "dashboards"):
        assert mounts[f"/etc/grafana/provisioning/{kind}"] == f"../grafana/provisioning/{kind}"
    mounted = [volume.split(":")[0] for service in services.values() for volume in service.get("volumes", [])]
    assert all((COMPOSE.parent / name).exists() for name in mounted if name.startswith("."))
