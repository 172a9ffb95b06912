"""Settings -> a Spark session for our jobs. Executors use our Python, and Spark opens no unneeded network ports."""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from omnigraph.errors import InvalidInput, Kind, Unsupported

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA: Final = 17
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    PUSHDOWN: "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL_SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
}
"""Executors of a cluster must reach the driver; those of one process need no network. A bulk job needs throughput, not latency: the
collector with the shortest pauses costs a quarter more (docs/design/load.md)."""
_MASTER: Final = re.compile(r"local|yarn$|(?:spark|k8s|sc)://")
_PORTS: Final = {"spark": 7077, "sc": 15002}
_ANSWER_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


def session(
    *,
    master: str | None = None,
    app: str = "omnigraph",
    memory: str = "2g",
    settings: Mapping[str, str] | None = None,
    log_file: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """Return the active session, or start one.

    `master` is the master URL of Spark, or `sc://host` for a Spark Connect server. The default is that of `spark-submit` or
    SPARK_REMOTE, otherwise `local[*]`.

    `log_file` receives the log of Spark. Without it Spark logs to standard error.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        missing = "Spark jobs need pyspark: pip install 'omnigraph[spark]'"
        raise Unsupported(Kind.UNSUPPORTED, missing, package="pyspark") from error
    if master is not None and not (isinstance(master, str) and _MASTER.match(master)):
        message = f"master is where Spark runs: local[2], spark://host:7077, yarn, k8s://... or sc://host, not {master!r}"
        raise InvalidInput(Kind.INVALID_ARGUMENT, message, master=str(master))
    if (active := SparkSession.getActiveSession()) is not None:
        with suppress(Unsupported):  # loads and exports need no registration
            register(active)
        return active
    if master is None and not _submitted():
        master = os.environ.get("SPARK_REMOTE", "local[*]")
    remote = master is not None and master.startswith("sc://")
    if not remote:
        require_java()
    if master is not None:
        require_answer(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.remote(master) if remote else builder.master(master)
    local = _LOCAL_SETTINGS if master is not None and master.startswith("local") else {}
    for key, value in {**_SETTINGS, **local, **({} if remote else {"spark.driver.memory": memory}), **(settings or {})}.items():
        builder = builder.config(key, value)
    with _redirect_stderr(log_file), warnings.catch_warnings():
        # Spark forks and executes Java, which does not use Lance.
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        try:
            made: SparkSession = builder.getOrCreate()
        except Exception as error:  # any error of Spark, Java or a socket
            raise _start_error(master, error) from error
    register(made)
    return made


def register(spark: SparkSession) -> None:
    """Register the format "omnigraph" with a session that `session` did not start. See `omnigraph.spark.source`.

    If the session does not push filters to Python sources, Spark evaluates them after the rows are read.
    """
    from pyspark.errors import AnalysisException

    from omnigraph.spark.source import OmniGraphSource, PushingSource  # here: it subclasses classes of pyspark, which may not be installed

    pushes = (spark.conf.get(PUSHDOWN, "false") or "").lower() == "true"
    if not pushes:
        log.warning("filters on omnigraph data frames are evaluated after the rows are read; to push them down set %s=true first", PUSHDOWN)
    try:
        spark.dataSource.register(PushingSource if pushes else OmniGraphSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        another = "only one session of a Spark application can register a Python data source, and another session has; use that session"
        raise Unsupported(Kind.UNSUPPORTED, another) from error


def _start_error(master: str | None, error: Exception) -> Unsupported:
    """Return the error with the message of the Java exception, without its stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    said = next((found[1] for line in lines if (found := re.match(r": [\w.$]+(?:Exception|Error): (.+)", line))), lines[0])
    where = "as spark-submit says" if master is None else f"with master {master!r}"
    return Unsupported(Kind.UNSUPPORTED, f"Spark did not start {where}: {said.rstrip('.')}", master=master)


def _submitted() -> bool:
    """Return whether `spark-submit` started this process and sets the master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")


@contextmanager
def _redirect_stderr(file: str | os.PathLike[str] | None) -> Iterator[None]:
    """Redirect standard error to a file while Java starts, and restore it. Java inherits the file. No setting covers its first lines."""
    if file is None:
        yield
        return
    sys.stderr.flush()
    with open(file, "ab") as log_file:
        ours = os.dup(2)
        os.dup2(log_file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(ours, 2)
            os.close(ours)


def require_java() -> None:
    """Raise an error unless a suitable Java is installed. The error of Spark itself would be a Java stack trace."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    remedy = "install it (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    if java is None or not os.path.exists(java):
        raise Unsupported(Kind.UNSUPPORTED, f"Spark needs Java {OLDEST_JAVA} or newer, and java is not installed; {remedy}", java=java)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', said.stderr + said.stdout)
    if found is None or int(found[1]) < OLDEST_JAVA:
        is_ = f"Java {found[1]}" if found is not None else "no Java that prints its version"
        raise Unsupported(Kind.UNSUPPORTED, f"Spark needs Java {OLDEST_JAVA} or newer, {java} is {is_}; {remedy}", java=java)


def require_answer(master: str) -> None:
    """Raise an error unless the master accepts a connection. Spark itself retries for one to ten minutes."""
    scheme, _, rest = master.partition("://")
    if scheme not in _PORTS:
        return
    for place in re.split("[/;]", rest)[0].split(","):
        with suppress(OSError, ValueError, OverflowError):  # unknown host, invalid port, or connection refused
            found = urlsplit(f"//{place}")
            with socket.create_connection((found.hostname or "", found.port or _PORTS[scheme]), timeout=_ANSWER_SECONDS):
                return
    silent = f"nothing answers at {master}; is Spark running there, and does this machine reach it?"
    raise Unsupported(Kind.UNSUPPORTED, silent, master=master)
