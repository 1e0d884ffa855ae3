"""The kustomizations: they build, are valid, and fit together and to laggard."""

from __future__ import annotations

import subprocess
from typing import Any

import kubernetes_validate
import pytest
from jsonschema import Draft202012Validator

from laggard.pipeline.cli import COMMANDS
from laggard.pipeline.core.records.declared import KEY_NAMES
from laggard.pipeline.core.topics import COUNTERS, Topics
from laggard.pipeline.grafana.labels import JOB, PLACE
from laggard.pipeline.grafana.rules import prometheus_rules
from laggard.pipeline.web.guard import HEALTH
from tests.deploy.files import BY_VARIABLE, DEPLOY, check_settings, documents, schema
from tests.deploy.tools import kustomize

pytestmark = pytest.mark.timeout(600)  # the first time, kustomize may have to be built

KUBERNETES = DEPLOY / "kubernetes"
OVERLAYS = ("base", "overlays/example")
OLDEST = "1.30"
"""Where a security context can name an AppArmor profile."""

CUSTOM = {
    "ScaledObject": "scaledobject-keda-v1alpha1",
    "TriggerAuthentication": "triggerauthentication-keda-v1alpha1",
    "PodMonitor": "podmonitor-monitoring-v1",
    "PrometheusRule": "prometheusrule-monitoring-v1",
}


@pytest.fixture(scope="module")
def built() -> dict[str, list[Any]]:
    """By overlay, all resources."""
    return {overlay: build(overlay) for overlay in OVERLAYS}


def build(overlay: str) -> list[Any]:
    done = subprocess.run([*kustomize(), str(KUBERNETES / overlay)], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert "deprecated" not in done.stderr
    return documents(done.stdout)


@pytest.fixture(params=OVERLAYS)
def resources(request: pytest.FixtureRequest, built: dict[str, list[Any]]) -> list[Any]:
    return built[request.param]


def of_kind(resources: list[Any], kind: str) -> Any:
    (found,) = (resource for resource in resources if resource["kind"] == kind)
    return found


def of_name(resources: list[Any], kind: str, name: str) -> Any:
    (found,) = (each for each in resources if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def workloads(resources: list[Any]) -> list[Any]:
    return [resource for resource in resources if "template" in resource.get("spec", {})]


def closed(value: Any) -> Any:
    """A schema of an API whose server drops fields that are not named: here they are errors."""
    if isinstance(value, dict):
        same = {name: closed(each) for name, each in value.items()}
        open_ended = "additionalProperties" in value or "x-kubernetes-preserve-unknown-fields" in value
        return same if open_ended or "properties" not in value else {**same, "additionalProperties": False}
    return [closed(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_every_resource_is_valid(resources: list[Any], version: str) -> None:
    for resource in resources:
        if resource["kind"] in CUSTOM:
            Draft202012Validator(closed(schema(CUSTOM[resource["kind"]]))).validate(resource)
        else:
            kubernetes_validate.validate(resource, version, strict=True)


def test_what_is_not_valid_is_found(built: dict[str, list[Any]]) -> None:
    worker = of_kind(built["base"], "StatefulSet")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**worker, "spec": {**worker["spec"], "replica": 2}}, OLDEST, strict=True)
    scaled = of_kind(built["overlays/example"], "ScaledObject")
    with pytest.raises(Exception, match="maxReplicas"):
        Draft202012Validator(closed(schema(CUSTOM["ScaledObject"]))).validate(
            {**scaled, "spec": {**scaled["spec"], "maxReplicas": 2}}
        )


def test_all_is_in_one_namespace(resources: list[Any]) -> None:
    inside = {each["metadata"].get("namespace") for each in resources if each["kind"] != "Namespace"}
    assert inside == {of_kind(resources, "Namespace")["metadata"]["name"]}


def test_selectors_find_their_pods(resources: list[Any]) -> None:
    labels = {each["kind"]: each["spec"]["template"]["metadata"]["labels"] for each in workloads(resources)}
    worker = labels["StatefulSet"].items()
    for kind in ("StatefulSet", "DaemonSet", "Deployment"):
        assert of_kind(resources, kind)["spec"]["selector"]["matchLabels"].items() <= labels[kind].items()
    assert of_name(resources, "Service", "laggard-worker")["spec"]["selector"].items() <= worker
    page = of_name(resources, "Service", "laggard-page")["spec"]["selector"].items()
    assert page <= labels["Deployment"].items()
    assert not page <= worker
    assert of_kind(resources, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= worker
    for monitor in (each for each in resources if each["kind"] == "PodMonitor"):
        assert monitor["spec"]["selector"]["matchLabels"].items() <= worker
    policy = of_kind(resources, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    assert all(policy.items() <= each.items() for each in labels.values())


def test_every_variable_is_a_setting_that_takes_the_value(resources: list[Any]) -> None:
    configured = of_kind(resources, "ConfigMap")
    check_settings(configured["data"])
    for workload in workloads(resources):
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        assert container["args"][0] in COMMANDS
        assert container["envFrom"] == [{"configMapRef": {"name": configured["metadata"]["name"]}}]
        check_settings({each["name"]: each.get("value", "$") for each in container.get("env", [])})
        secrets = [each for each in container.get("env", []) if BY_VARIABLE[each["name"]].secret]
        assert all("secretKeyRef" in each["valueFrom"] for each in secrets)
    assert not [name for name in configured["data"] if BY_VARIABLE[name].secret]


def test_pods_are_confined(resources: list[Any]) -> None:
    for workload in workloads(resources):
        pod = workload["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        context = pod.get("securityContext", {}) | container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"]["drop"] == ["ALL"]
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod["automountServiceAccountToken"]
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]
        agent = workload["kind"] == "DaemonSet"
        # What the agent needs was measured: see deploy/docs/operations/permissions.md.
        assert context["capabilities"].get("add", []) == (["SYS_PTRACE", "DAC_READ_SEARCH", "PERFMON"] if agent else [])
        assert context.get("runAsNonRoot", False) == (not agent)
        assert [pod.get("hostPID", False), pod.get("hostNetwork", False)] == [agent, agent]


def test_probes_ask_what_the_worker_answers(resources: list[Any]) -> None:
    (container,) = of_kind(resources, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    listen = {each["name"]: each.get("value") for each in container["env"]}["LAGGARD_WEB_LISTEN"]
    assert listen == f"0.0.0.0:{port['containerPort']}"
    paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/-/healthy", "liveness": "/-/healthy", "readiness": "/-/ready"}
    assert set(paths.values()) <= set(HEALTH)


def test_the_page_is_where_its_probes_and_its_service_look(resources: list[Any]) -> None:
    (container,) = of_kind(resources, "Deployment")["spec"]["template"]["spec"]["containers"]
    (port,) = container["ports"]
    listen = {each["name"]: each.get("value") for each in container["env"]}["LAGGARD_SERVE_LISTEN"]
    assert listen == f"0.0.0.0:{port['containerPort']}"
    (served,) = of_name(resources, "Service", "laggard-page")["spec"]["ports"]
    assert (served["port"], served["targetPort"]) == (port["containerPort"], port["name"])
    assert {container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness")} <= set(HEALTH)


def test_prometheus_calls_the_job_as_the_rules_do(built: dict[str, list[Any]]) -> None:
    resources = built["overlays/example"]
    monitor = of_kind(resources, "PodMonitor")["spec"]
    assert of_kind(resources, "StatefulSet")["spec"]["template"]["metadata"]["labels"][monitor["jobLabel"]] == JOB
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert [each.get("targetLabel") for each in endpoint["relabelings"]] == [*PLACE, None]
    assert endpoint["relabelings"][-1] == {"action": "labeldrop", "regex": "|".join(KEY_NAMES)}
    assert of_kind(resources, "PrometheusRule")["spec"] == prometheus_rules()


def test_workers_scale_on_the_lag_of_their_group_up_to_the_partitions(built: dict[str, list[Any]]) -> None:
    resources = built["overlays/example"]
    scaled = of_kind(resources, "ScaledObject")["spec"]
    worker = of_kind(resources, "StatefulSet")
    assert scaled["scaleTargetRef"] == {"kind": worker["kind"], "name": worker["metadata"]["name"]}
    assert "replicas" not in worker["spec"], "two would set it"
    configured = of_kind(resources, "ConfigMap")["data"]
    assert str(scaled["maxReplicaCount"]) == configured["LAGGARD_TOPICS_PARTITIONS"]
    (trigger,) = scaled["triggers"]
    topics = Topics()
    assert trigger["metadata"]["consumerGroup"] == topics.group("gaussian")
    assert trigger["metadata"]["topic"] == topics.name(COUNTERS)
    assert f"kafka://{trigger['metadata']['bootstrapServers']}" == configured["LAGGARD_BUS_LOCATION"]
    assert trigger["authenticationRef"]["name"] == of_kind(resources, "TriggerAuthentication")["metadata"]["name"]
