"""The languages that the clients are tested in: what each needs of this machine, and how it is built and run.

python -m tests.clients.tools prints the Debian packages that are missing.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
DOCUMENT = ROOT / "docs" / "openapi.json"
NODE = ROOT / "build" / "clients" / "node"  # where the Makefile installs what the Node client needs
JARS = {
    Path("/usr/share/java/jackson-core.jar"): "libjackson2-core-java",
    Path("/usr/share/java/jackson-annotations.jar"): "libjackson2-annotations-java",
    Path("/usr/share/java/jackson-databind.jar"): "libjackson2-databind-java",
    Path("/usr/share/java/jsr305.jar"): "libjsr305-java",
    Path("/usr/share/java/geronimo-annotation-1.3-spec.jar"): "libgeronimo-annotation-1.3-spec-java",
}
PROGRAMS = {"go": "golang-go", "javac": "default-jdk-headless", "node": "nodejs", "npm": "npm"}
GENERATED = {
    "library": "native",
    "openApiNullable": "false",
    "hideGenerationTimestamp": "true",
    "dateLibrary": "legacy",
    "invokerPackage": "pywheel.client",
    "apiPackage": "pywheel.client.api",
    "modelPackage": "pywheel.client.model",
}


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


def built_go(folder):
    program = folder / "scenarios"
    run("go", "build", "-o", program, HERE / "go" / "main.go", GO111MODULE="off", GOCACHE=str(folder / "cache"))
    return [program]


def built_java(folder):
    """Generate the client, and compile it with the scenarios."""
    (folder / "ignore").write_text("**/RFC3339Java*\n**/RFC3339Instant*\n")  # they need what Debian has not
    options = ",".join(f"{name}={value}" for name, value in GENERATED.items())
    generator = Path(sys.executable).with_name("openapi-generator-cli")
    run(
        *(generator, "generate", "-g", "java", "-i", DOCUMENT, "-o", folder / "generated"),
        *("--additional-properties", options, "--ignore-file-override", folder / "ignore"),
        *("--type-mappings", "OffsetDateTime=String,DateTime=String,Date=String"),
        *("--global-property", "apiDocs=false,modelDocs=false,apiTests=false,modelTests=false"),
    )
    jars = os.pathsep.join(map(str, JARS))
    sources = [*(folder / "generated" / "src" / "main").rglob("*.java"), *(HERE / "java").rglob("*.java")]
    run("javac", "-nowarn", "-d", folder / "classes", "-cp", jars, *sources)
    return ["java", "-cp", os.pathsep.join((str(folder / "classes"), jars)), "Scenarios"]


def built_node(folder):
    """Lay out the example with the scenarios beside it, and have the compiler check both against the types."""
    shutil.copytree(ROOT / "examples" / "node-client", folder, dirs_exist_ok=True)
    shutil.copytree(HERE / "node", folder / "tests")
    (folder / "node_modules").symlink_to(NODE / "node_modules")
    run(NODE / "node_modules" / ".bin" / "tsc", "--project", folder)
    return ["node", folder / "tests" / "scenarios.mjs"]


def built_python(folder):
    return [sys.executable, HERE / "python_client.py"]


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
