"""The languages of the clients under test: their needs on this machine, their build and their run.

python -m tests.clients.tools prints the missing Debian packages.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import blocks

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
DOCUMENT = ROOT / "docs" / "openapi.json"
NODE = ROOT / "build" / "clients" / "node"  # where the Makefile installs what the Node client needs
GO_CACHE = ROOT / "build" / "clients" / "go"  # kept: to compile Go's own packages takes minutes on a slow machine
JARS = {
    Path("/usr/share/java/jackson-core.jar"): "libjackson2-core-java",
    Path("/usr/share/java/jackson-annotations.jar"): "libjackson2-annotations-java",
    Path("/usr/share/java/jackson-databind.jar"): "libjackson2-databind-java",
    Path("/usr/share/java/jsr305.jar"): "libjsr305-java",
    Path("/usr/share/java/geronimo-annotation-1.3-spec.jar"): "libgeronimo-annotation-1.3-spec-java",
}
PROGRAMS = {"go": "golang-go", "javac": "default-jdk-headless", "node": "nodejs", "npm": "npm"}
PAGE = "docs/clients.md"
# language: its word on the page, how it asks for the server's address, and what must stand around the page's lines.
GUIDE = {
    "python": (
        "py",
        'os.environ["PYWHEEL_URL"]',
        'import os\ntoken = os.environ["PYWHEEL_TOKEN"]\ndeliver = print\n%s',
    ),
    "node": (
        "js",
        "String(process.env.PYWHEEL_URL)",
        "const token = String(process.env.PYWHEEL_TOKEN);\nconst deliver = console.log;\n%s",
    ),
    "java": (
        "java",
        'System.getenv("PYWHEEL_URL")',
        """
import java.util.*;
import pywheel.client.*;
import pywheel.client.api.*;
import pywheel.client.model.*;

public class Guide {
    static void deliver(Object body) { System.out.println(body); }

    public static void main(String[] arguments) throws Exception {
        String token = System.getenv("PYWHEEL_TOKEN");
        %s
    }
}
""",
    ),
}
GO = """package main

import ("encoding/json"; "errors"; "io"; "log"; "net/http"; "strings"; "time")

var delivered = make(chan string)

func deliver(body json.RawMessage) error {
	delivered <- string(body)
	return nil
}

func must(right bool, found ...any) {
	if !right { log.Fatal(found...) }
}

// busy answers as a proxy does.
type busy struct{}

func (busy) RoundTrip(*http.Request) (*http.Response, error) {
	header := http.Header{"Retry-After": {"7"}}
	return &http.Response{StatusCode: 503, Header: header, Body: io.NopCloser(strings.NewReader("<html>"))}, nil
}

func refused(err error, status int, name string) {
	var problem *Problem
	must(errors.As(err, &problem) && problem.Status == status && strings.HasSuffix(problem.Type, ":" + name), err)
	must(problem.Detail != "", "no detail")
}

func main() {
	var first, again, job Job
	body := map[string]any{"topic": "mail", "body": 5}
	must(call("POST", "/v1/jobs", "once", body, &first) == nil, "put")
	must(call("POST", "/v1/jobs", "once", body, &again) == nil && first.Id == again.Id, "put twice", first, again)
	var claims Claims
	must(call("POST", "/v1/reserve", "", map[string]any{"topics": []string{"mail"}}, &claims) == nil, "reserve")
	claim := "/v1/claims/" + claims.Jobs[0].Receipt
	must(call("POST", claim + "/nack", "", map[string]any{"delay": 0}, nil) == nil, "nack")
	refused(call("POST", claim + "/ack", "", nil, nil), 409, "claim-lost")
	go work("mail", deliver)
	found := <-delivered
	must(found == "5", found)
	for state := struct{ State string }{}; state.State != "done"; time.Sleep(10 * time.Millisecond) {
		must(call("GET", "/v1/jobs/" + first.Id, "", nil, &state) == nil, "get")
	}
	refused(call("GET", "/v1/jobs/no", "", nil, &job), 404, "no-such-job")
	token = "pw_000000000000_wrong"
	refused(work("mail", deliver), 401, "token-unknown")
	client.Transport = busy{}
	var problem *Problem
	err := call("GET", "/v1/jobs/1", "", nil, &job)
	must(errors.As(err, &problem) && problem.Status == 503 && problem.RetryAfter == 7 * time.Second, err)
}
"""


def missing():
    """Return the Debian packages that have what is not here."""
    yield from (package for program, package in PROGRAMS.items() if shutil.which(program) is None)
    yield from (package for jar, package in JARS.items() if not jar.exists())


def run(*command, cwd=None, **env):
    """Run a command that must succeed; return what it prints."""
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def guide(language, folder, name):
    """Write the page's lines as a program: its job is due at once, of a topic of the language's own, and it ends."""
    word, address, around = GUIDE[language]
    [code] = blocks(PAGE, word)
    for shown, instead in (
        ('"http://127.0.0.1:8080"', address),
        ('"30m"', '"0s"'),
        ("while True:", "for _ in range(1):"),
    ):
        code = code.replace(shown, instead)
    (folder / name).write_text((around % code).replace('"mail"', f'"{language}"'), encoding="utf-8")
    return folder / name


def built_go(folder):
    quiet = {"GO111MODULE": "off", "GOCACHE": str(GO_CACHE)}
    run("go", "build", "-o", folder / "scenarios", HERE / "go" / "main.go", **quiet)
    client = (ROOT / "examples" / "go-client" / "client.go").read_text(encoding="utf-8")
    for name, code in (("client.go", client), ("guide.go", GO)):
        code = code.replace('"http://127.0.0.1:8080"', 'os.Getenv("PYWHEEL_URL")').replace('"mail"', '"go"')
        (folder / name).write_text(code, encoding="utf-8")
    run("go", "build", "-o", folder / "guide", folder / "client.go", folder / "guide.go", **quiet)
    return [folder / "scenarios"], [folder / "guide"]


def built_java(folder):
    """Generate the client as the page tells to, and compile it with the scenarios and the page's lines."""
    (folder / "ignore").write_text("**/RFC3339Java*\n**/RFC3339Instant*\n")  # they need what Debian has not
    shutil.copy(DOCUMENT, folder)
    [generate] = blocks(PAGE, "bash")
    more = [
        *("--ignore-file-override", "ignore", "--additional-properties", "dateLibrary=legacy"),
        *("--type-mappings", "OffsetDateTime=String,DateTime=String,Date=String"),
        *("--global-property", "apiDocs=false,modelDocs=false,apiTests=false,modelTests=false"),
    ]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run("sh", "-c", f"{generate.strip()} {shlex.join(more)}", cwd=folder, PATH=path)
    jars = os.pathsep.join(map(str, JARS))
    sources = [*(folder / "client" / "src" / "main").rglob("*.java"), *(HERE / "java").rglob("*.java")]
    run("javac", "-nowarn", "-d", folder / "classes", "-cp", jars, *sources, guide("java", folder, "Guide.java"))
    java = ["java", "-cp", os.pathsep.join((str(folder / "classes"), jars))]
    return [*java, "Scenarios"], [*java, "Guide"]


def built_node(folder):
    """Lay out the example with the scenarios and the page's lines; have the compiler check them against the types."""
    shutil.copytree(ROOT / "examples" / "node-client", folder, dirs_exist_ok=True)
    shutil.copytree(HERE / "node", folder / "tests")
    (folder / "node_modules").symlink_to(NODE / "node_modules")
    lines = guide("node", folder, "guide.mjs")
    run(NODE / "node_modules" / ".bin" / "tsc", "--project", folder)
    return ["node", folder / "tests" / "scenarios.mjs"], ["node", lines]


def built_python(folder):
    return [sys.executable, HERE / "python_client.py"], [sys.executable, guide("python", folder, "guide.py")]


BUILT = {"python": built_python, "node": built_node, "java": built_java, "go": built_go}


def node_types(output):
    """Write the types of the OpenAPI document for Node."""
    program = NODE / "node_modules" / ".bin" / "openapi-typescript"
    run(program, DOCUMENT, "--default-non-nullable=false", "--output", output)


def scenarios():
    return json.loads((HERE / "scenarios.json").read_text(encoding="utf-8"))["scenarios"]


if __name__ == "__main__":
    if sys.argv[1:]:
        node_types(Path(sys.argv[1]).resolve())
    else:
        print(*missing(), sep="\n")
