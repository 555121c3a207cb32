"""Each sample read by the tool that will read it, or by that tool's own code."""

import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from tests.compat.real_kafka import CACHE
from tests.deploy import machines, trial
from tests.deploy.samples import COMPOSE, DEPLOY, KUBERNETES, PROGRAM, SYSTEMD

ROOT: Final = DEPLOY.parents[1]
_EXPOSURE_MAX: Final = 20
"""In tenths: systemd calls a unit with less than 2.0 hardly exposed."""
_IMPORTS: Final = "import barnabas.cli.serving, barnabas.world.zookeeper"
"""All that a broker of a cluster needs."""
_VALIDATOR: Final = Path(__file__).parent / "validator"


_BROKERS: Final = KUBERNETES / "brokers.yaml"
MISTAKES: Final = (
    ("kubernetes", _BROKERS, "minReadySeconds:", "minReadySecs:"),
    ("kubernetes", _BROKERS, "maxUnavailable: 1", "maxUnavailable: -1"),
    ("kubernetes", _BROKERS, "name: config, mountPath", "name: konfig, mountPath"),
    ("kubernetes", _BROKERS, "memory: 1Gi", "memory: 8Gi"),
    ("kubernetes", _BROKERS, "runAsNonRoot: true", "runAsNonRoot: false"),
    ("compose", COMPOSE, "restart: always", "restrat: always"),
    ("compose", COMPOSE, "zookeeper-2: {condition", "zookeeper-9: {condition"),
    ("dockerfile", DEPLOY / "Dockerfile", "USER 1000", "USR 1000"),
)
_GO_MOD: Final = _VALIDATOR / "go.mod"


class SkippedError(Exception):
    """The check can not be made here; the message says what is missing."""


def units() -> list[str]:
    """`systemd-analyze`: nothing to remark, and little that a broker could do to its machine."""
    if shutil.which("systemd-analyze") is None:
        raise SkippedError("needs systemd-analyze (Debian: apt-get install systemd)")
    lines = [run("systemd-analyze", "--version").splitlines()[0].split(" (")[0]]
    with tempfile.TemporaryDirectory() as folder:
        for unit in sorted(SYSTEMD.glob("*.service")):
            # The program must be there to be verified.
            copy = Path(folder) / unit.name
            copy.write_text(unit.read_text().replace(PROGRAM, shutil.which("true") or PROGRAM))
            remarks = run("systemd-analyze", "verify", "--man=no", str(copy))
            if remarks.strip():
                raise AssertionError(remarks)
            told = run(
                "systemd-analyze", "security", "--offline=true", "--no-pager",
                f"--threshold={_EXPOSURE_MAX}", str(copy),
            )  # fmt: skip
            (level,) = re.findall(r"exposure level for \S+: (\S+)", told)
            lines.append(f"{unit.name}: no remarks, exposure level {level} of 10")
    return lines


def compose() -> list[str]:
    """The loader of `docker compose`."""
    return _validated("compose", COMPOSE)


def kubernetes() -> list[str]:
    """What the API server does with a new object: strict reading, defaults, validation."""
    (version,) = re.findall(r"^require k8s.io/kubernetes v(\S+)", _GO_MOD.read_text(), re.MULTILINE)
    return [f"Kubernetes {version}", *_validated("kubernetes", *sorted(KUBERNETES.glob("*.yaml")))]


def dockerfile() -> list[str]:
    """BuildKit's parser and lint."""
    return _validated("dockerfile", DEPLOY / "Dockerfile")


def planted() -> list[str]:
    """Each of these mistakes must be refused: or the checks above would be worth nothing."""
    _validator()
    with tempfile.TemporaryDirectory() as folder:
        for kind, file, right, wrong in MISTAKES:
            text = file.read_text()
            if right not in text:
                raise AssertionError(f"{file.name} has no {right!r} to make a mistake of")
            copy = Path(folder) / file.name
            copy.write_text(text.replace(right, wrong))
            try:
                _validated(kind, copy)
            except AssertionError:
                continue
            raise AssertionError(f"{file.name} with {wrong!r} is taken for good")
    return [f"{len(MISTAKES)} mistakes, one at a time; each is refused"]


def image() -> list[str]:
    """The commands of the Dockerfile, in the context that its ignore file leaves."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    (wheels,) = re.findall(r"^RUN pip (wheel .*)$", text, re.MULTILINE)
    (install,) = re.findall(r"^RUN --mount=\S+ +pip (install .*?) +&& ", text, re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        context = _context(home / "context")
        environment = home / "venv"
        run(sys.executable, "-m", "venv", str(environment))
        pip = f"{environment}/bin/pip --disable-pip-version-check -q"
        for words in (wheels, install):
            command = f"{pip} {words}".replace("/wheels", str(home / "wheels"))
            run("sh", "-c", command, cwd=context)
        version = run(str(environment / "bin" / "barnabas"), "--version").strip()
        run(str(environment / "bin" / "python"), "-c", _IMPORTS)
        count = len(list((home / "wheels").glob("*.whl")))
    return [f"{version} and {count - 1} other wheels, installed without a registry; it starts"]


def cluster() -> list[str]:
    """The compose sample played on machines that are network namespaces."""
    if not machines.available():
        raise SkippedError("needs root and `ip` (Debian: apt-get install iproute2)")
    if shutil.which("java") is None:
        raise SkippedError("needs Java, for ZooKeeper")
    with tempfile.TemporaryDirectory() as folder:
        return trial.play(Path(folder))


def _context(folder: Path) -> Path:
    """The files that Docker would be given."""
    kept = [
        line[1:]
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    folder.mkdir()
    for name in kept:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    return folder


def _validated(kind: str, *files: Path) -> list[str]:
    return run(str(_validator()), kind, *map(str, files)).splitlines()


@cache
def _validator() -> Path:
    if shutil.which("go") is None:
        raise SkippedError("needs Go, which brings the code of Kubernetes, Compose and BuildKit")
    program = CACHE / "deploy-validator" / "validator"
    program.parent.mkdir(parents=True, exist_ok=True)
    run("go", "build", "-o", str(program), ".", cwd=_VALIDATOR)
    return program


def run(*command: str, cwd: Path | None = None) -> str:
    """All that it prints. Raises AssertionError with that when it fails."""
    done = subprocess.run(
        command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}:\n{done.stdout}")
    return done.stdout
