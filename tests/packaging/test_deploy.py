"""The files for containers match their schemas, and their commands and options exist."""

import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from tests.packaging.tools import PROJECT, ROOT, python, run

pytestmark = pytest.mark.packaging

DEPLOY = ROOT / "deploy"
MANIFESTS = DEPLOY / "kubernetes" / "pywheel.yaml"
SCRAPES = DEPLOY / "prometheus" / "prometheus.yml"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
ALL = list(yaml.safe_load_all(MANIFESTS.read_text()))
SERVICES = yaml.safe_load(COMPOSE.read_text())["services"]


def of_kind(kind):
    return {manifest["metadata"]["name"]: manifest for manifest in ALL if manifest["kind"] == kind}


DEPLOYMENTS = of_kind("Deployment")
CONTAINERS = {name: made["spec"]["template"]["spec"]["containers"][0] for name, made in DEPLOYMENTS.items()}
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "pywheel"}


def test_the_compose_file_matches_its_schema():
    run([*python("-m", "check_jsonschema"), "--builtin-schema", "vendor.compose-spec", COMPOSE])


def test_the_manifests_match_the_schemas_of_kubernetes():
    said = run([*python("-m", "kubernetes_validate"), "--strict", MANIFESTS])
    assert said.count("passed") == len(ALL)


def test_a_linter_finds_nothing_in_the_dockerfile():
    assert run([Path(sys.executable).with_name("hadolint"), "--no-color", DEPLOY / "Dockerfile"]) == ""


def test_the_image_is_built_from_what_is_sent_to_it():
    """Its context leaves out all but what the build of a wheel reads."""
    kept = re.findall(r"^!(\S+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for name in kept)


def test_the_image_has_every_extra_but_those_of_programs():
    [everything] = PROJECT["project"]["optional-dependencies"]["all"]
    wanted = set(re.search(r"\[(.*)\]", everything)[1].split(",")) - {"django", "numpy"}
    said = re.findall(r"\[([a-z,]+)\]", DOCKERFILE)
    assert [set(extras.split(",")) for extras in said] == [wanted] * 2  # built, and installed


def test_an_init_is_the_first_process_of_each_container():
    """pywheel reaps no orphans of others, as the first process must."""
    words = yaml.safe_load(re.search(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)[1])
    assert words == ["tini", "--", "pywheel"]
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"apt-get install .*\btini\b", final)
    assert not any("command" in container for container in CONTAINERS.values())  # it would replace the entry point
    assert not any("entrypoint" in service for service in OURS.values())


# ---- what they say to the product -----------------------------------------------------------------------------------


def command_lines():
    """Yield every command line of pywheel in these files: of containers, units, and of comments."""
    for name, container in {**CONTAINERS, **OURS}.items():
        yield pytest.param([str(word) for word in container.get("args") or container["command"]], id=name)
    yield pytest.param(yaml.safe_load(re.search(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)[1]), id="image")
    for unit in (DEPLOY / "systemd").glob("*.service"):
        words = shlex.split(re.search(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)[1])
        assert words[0].endswith("/bin/pywheel")
        yield pytest.param(words[1:], id=unit.name)
    comments = re.findall(r"^#.* exec \w+ pywheel ([^>\n]*[^>\n ])", COMPOSE.read_text(), re.MULTILINE)
    comments += re.findall(
        r"^ *# `?pywheel (token [^`>\n]*[^`>\n ])", (DEPLOY / "prometheus/prometheus.yml").read_text(), re.MULTILINE
    )
    assert len(comments) == 3
    for words in map(shlex.split, sorted(set(comments))):
        yield pytest.param(words, id=" ".join(words))


def parsed(words):
    """Have the real parser take a command line, which raises for what it does not know."""
    from typer.main import get_command

    from pywheel.cli.app import application

    command, left = get_command(application()), list(words)
    while hasattr(command, "commands") and left != ["--help"]:
        command = command.commands[left.pop(0)]
    return left == ["--help"] or command.make_context("pywheel", left)


@pytest.mark.parametrize("words", list(command_lines()))
def test_the_parser_takes_every_command_line(words):
    assert parsed(words)


@pytest.mark.parametrize("words", [["serve", "--no-such-option"], ["work"], ["serve", "--port", "x"]], ids=" ".join)
def test_the_parser_refuses_what_makes_no_sense(words):
    with pytest.raises(Exception, match=r"No such option|Missing|valid int"):
        parsed(words)


def test_every_variable_is_one_that_the_product_reads():
    told = {variable["name"] for container in CONTAINERS.values() for variable in container["env"]}
    for service in OURS.values():
        told |= set(service["environment"])
    told |= set(re.findall(r"(\w+)=", " ".join(re.findall(r"^ENV (.*)$", DOCKERFILE, re.MULTILINE))))
    read = "".join(file.read_text() for file in (ROOT / "src" / "pywheel").rglob("*.py"))
    assert {name for name in told if f'"{name}"' not in read} == {"PYTHONUNBUFFERED"}  # CPython's own


# ---- what a cluster and compose do with them ------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_start_may_take_minutes_and_a_hang_may_not(name):
    """While the startup probe has not succeeded, the liveness probe kills nobody."""
    container = CONTAINERS[name]
    [port] = container["ports"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked == {"path": "/readyz" if probe == "readinessProbe" else "/healthz", "port": port["name"]}
    startup, liveness = container["startupProbe"], container["livenessProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 600
    assert liveness["periodSeconds"] * liveness["failureThreshold"] <= 60
    assert str(port["containerPort"]) in container["args"]


def test_no_password_stands_beside_the_deployment():
    assert of_kind("Secret") == {}
    for container in CONTAINERS.values():
        assert all("value" not in variable for variable in container["env"])
    assert "password" not in re.sub(r"#.*", "", MANIFESTS.read_text()).lower()
    written = re.findall(r"://[^:/@\s]+:([^@\s]+)@", re.sub(r"^#.*", "", COMPOSE.read_text(), flags=re.MULTILINE))
    assert all(password.startswith("${POSTGRES_PASSWORD") for password in written)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_pod_is_one_image_without_rights_that_others_reach_by_a_policy_alone(name):
    pod, container = DEPLOYMENTS[name]["spec"]["template"]["spec"], CONTAINERS[name]
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert not container["image"].endswith(":latest")
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    labels = DEPLOYMENTS[name]["spec"]["template"]["metadata"]["labels"]
    policy = of_kind("NetworkPolicy")[name]["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert "Ingress" in policy["policyTypes"]
    for rule in policy["ingress"]:
        assert rule["from"]
        assert rule["ports"] == [{"port": container["ports"][0]["name"]}]


def test_what_selects_pods_finds_some():
    pods = [made["spec"]["template"]["metadata"]["labels"] for made in DEPLOYMENTS.values()]
    for service in of_kind("Service").values():
        assert any(service["spec"]["selector"].items() <= labels.items() for labels in pods)
    for budget in of_kind("PodDisruptionBudget").values():
        assert any(budget["spec"]["selector"]["matchLabels"].items() <= labels.items() for labels in pods)


def test_a_service_answers_until_nobody_sends_it_requests_and_is_never_away_as_a_whole():
    """A pod gets SIGTERM and leaves the endpoints at once, but those who send requests hear of that seconds later."""
    from pywheel.server.process import _GRACE

    pod, container = DEPLOYMENTS["pywheel-serve"]["spec"]["template"]["spec"], CONTAINERS["pywheel-serve"]
    [word, seconds] = container["lifecycle"]["preStop"]["exec"]["command"]
    assert word == "sleep"
    assert 5 <= int(seconds) < pod["terminationGracePeriodSeconds"] - _GRACE
    budgets = {name: made["spec"]["maxUnavailable"] for name, made in of_kind("PodDisruptionBudget").items()}
    assert budgets == dict.fromkeys(DEPLOYMENTS, 1)


def test_compose_waits_for_what_is_healthy():
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}, (name, other)
            assert "healthcheck" in SERVICES[other], (name, other)
    asked = " ".join(SERVICES["db"]["healthcheck"]["test"])
    assert "--host 127.0.0.1" in asked  # not the socket of the server that makes the database, and stops again
    for name in OURS:
        assert "/readyz" in OURS[name]["healthcheck"]["test"][-1]
        assert "depends_on" in OURS[name]
