"""What the tests of the whole program share: starting and ending it, asking it, and reading what it wrote.

Every test runs the real binary ($VERBATIM) in a temporary folder and on port 0, and ends only what it started.
"""
import base64
import contextlib
import datetime
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

VERBATIM = os.environ.get("VERBATIM", "")
SOURCE = Path(__file__).resolve().parents[2]
DEMO_MODEL = SOURCE / "local_engine" / "demo" / "model"
NPM = SOURCE / "build" / "npm" / "node_modules"
UUID_V7 = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$")
SKIPPED = 77  # CTest's SKIP_RETURN_CODE


class Finished:
    """A command that has ended."""

    def __init__(self, args, code, out, err):
        self.args, self.code, self.out, self.err = args, code, out, err

    @property
    def json(self):
        try:
            return json.loads(self.out)
        except json.JSONDecodeError as error:
            raise AssertionError(f"stdout is not one JSON value ({error}): {self.out[:400]!r}; {self}")

    def __str__(self):
        command = " ".join(str(a) for a in self.args)
        return f"`verbatim {command}` ended with {self.code}; stderr: {self.err.strip()[-600:]!r}"


def verbatim(*args, stdin=None, timeout=120, env=None, cwd=None, preexec=None):
    """Runs one subcommand to its end."""
    run = subprocess.run([VERBATIM, *map(str, args)], input=stdin, capture_output=True, timeout=timeout, cwd=cwd,
                         env={**os.environ, **(env or {})}, preexec_fn=preexec)
    return Finished(args, run.returncode, run.stdout.decode(errors="replace"), run.stderr.decode(errors="replace"))


class Answer:
    """One HTTP response. `complete` is False when the connection ended before the body did."""

    def __init__(self, status, headers, body, complete):
        self.status, self.headers, self.body, self.complete = status, headers, body, complete

    def header(self, name):
        values = [v for n, v in self.headers if n.lower() == name.lower()]
        return values[0] if values else None

    @property
    def record(self):
        return self.header("x-verbatim-record")

    @property
    def cache(self):
        return self.header("x-verbatim-cache")

    @property
    def json(self):
        return json.loads(self.body)


class Gateway:
    """`verbatim gateway` on a free port. Ended by stop() (SIGTERM, drains) or kill() (SIGKILL)."""

    def __init__(self, data, *flags, env=None, preexec=None, output=None):
        self.data = Path(data)
        self.output = output or self.data.parent / f"{self.data.name}.gateway-{time.monotonic_ns()}.log"
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                [VERBATIM, "gateway", "--listen", "127.0.0.1:0", "--data", str(data), *map(str, flags)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, **(env or {})},
                preexec_fn=preexec)
        self.wait_until_listening()

    def wait_until_listening(self, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = re.search(r"listening on https?://([0-9.]+):(\d+)", self.output.read_text(errors="replace"))
            if found:
                self.host, self.port = found[1], int(found[2])
                self.url = f"http://{self.host}:{self.port}"
                return
            if self.process.poll() is not None:
                raise AssertionError(f"the gateway ended with {self.process.returncode}: {self.log_tail()}")
            time.sleep(0.01)
        self.kill()
        raise AssertionError(f"the gateway did not listen within {seconds} s: {self.log_tail()}")

    def log_tail(self):
        return self.output.read_text(errors="replace")[-2000:]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            code = self.stop()
            if kind is None and code != 0:
                raise AssertionError(f"the gateway ended with {code} on SIGTERM: {self.log_tail()}")

    def stop(self, seconds=30):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the gateway did not end within {seconds} s of SIGTERM: {self.log_tail()}")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def request(self, method, path, body=None, headers=None, timeout=60):
        """One request on a connection of its own. A body that is no bytes is sent as JSON."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            connection.request(method, path, body, {"content-type": "application/json", **(headers or {})})
            response = connection.getresponse()
            complete = True
            try:
                data = response.read()
            except http.client.IncompleteRead as cut:
                data, complete = cut.partial, False
            except ConnectionError:
                data, complete = b"", False
            return Answer(response.status, response.getheaders(), data, complete)
        finally:
            connection.close()

    def post(self, path, body, headers=None, timeout=60):
        return self.request("POST", path, body, headers, timeout)


def now():
    """The time, as the command line reads it."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


def chat(content, **more):
    return {"model": "demo", "messages": [{"role": "user", "content": content}], "max_tokens": 24, **more}


class ProgramTest(unittest.TestCase):
    """A temporary folder, and questions to the program with their exit code checked."""

    maxDiff = 4000

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="verbatim-test-"))
        self.data = self.folder / "data"
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def gateway(self, *flags, data=None, **more):
        gateway = Gateway(data or self.data, *flags, **more)
        self.addCleanup(gateway.kill)
        return gateway

    def run_well(self, *args, code=0, **more):
        finished = verbatim(*args, **more)
        self.assertEqual(finished.code, code, str(finished))
        return finished

    def records(self, *args, data=None):
        return self.run_well("log", "list", *args, "--data", data or self.data, "--json").json["records"]

    def leaves(self, record, data=None):
        """The leaves of a record by type, as `log show` gives them."""
        shown = self.run_well("log", "show", record, "--data", data or self.data, "--json").json
        return {leaf["type"]: leaf for leaf in leaves_in(shown)}

    def contents(self, record, data=None):
        """The opened contents of a record, by field, as bytes."""
        shown = self.run_well("log", "show", record, "--contents", "--data", data or self.data, "--json").json
        return contents_in(shown)

    def verify(self, *args, code=0, data=None):
        return self.run_well("verify", *args, "--data", data or self.data, "--json", code=code).json

    def assert_valid(self, data=None):
        report = self.verify(data=data)
        self.assertEqual(report["verdict"], "VALID", report)
        self.assertEqual(report["problems"], [])
        return report

    def assert_one_line_error(self, finished, code, *words):
        """The error form of the command line: one line, `verbatim: what (where): advice`."""
        self.assertEqual(finished.code, code, str(finished))
        lines = [line for line in finished.err.splitlines() if line.startswith("verbatim: ")]
        self.assertEqual(len(lines), 1, f"not one error line: {finished}")
        for word in words:
            self.assertIn(word, lines[0])


def leaves_in(shown):
    """The leaves in what `log show --json` printed."""
    return [entry["leaf"] for entry in shown["leaves"]]


def contents_in(shown):
    """The contents in what `log show --contents --json` printed, by field, as bytes."""
    return {field: base64.b64decode(opened["base64"]) if "base64" in opened else opened["text"].encode()
            for field, opened in shown["contents"].items()}


def run_verify_py(test, bundle, *args, code=0):
    """The project's own verify.py, in a Python that neither environment nor packages of this machine help."""
    script = SOURCE / "audit" / "evidence" / "verify.py"
    finished = subprocess.run([sys.executable, "-I", "-B", str(script), str(bundle), *map(str, args)], capture_output=True,
                              text=True, timeout=120, cwd="/")
    test.assertEqual(finished.returncode, code, finished.stdout + finished.stderr)
    return finished.stdout


def node_or_skip():
    """Node 22 and the packages that deploy/npm-packages installs."""
    node = next((path for path in NPM.glob("node-linux-*/bin/node")), None)
    if node is None:
        reason = "the npm packages of the tests are not in build/npm: run ./deploy/npm-packages"
        print(f"SKIPPED: {reason}", flush=True)
        raise unittest.SkipTest(reason)
    return node


def run_node(script, *args, env=None, timeout=120):
    """Runs a script of this folder with those packages in reach; returns the JSON values that it printed, one a line."""
    with tempfile.TemporaryDirectory(prefix="verbatim-node-") as folder:
        # Modules are looked up from the script's own folder.
        shutil.copy(Path(__file__).parent / script, folder)
        os.symlink(NPM, os.path.join(folder, "node_modules"))
        run = subprocess.run([str(node_or_skip()), os.path.join(folder, script), *args], capture_output=True,
                             timeout=timeout, env={**os.environ, "NODE_NO_WARNINGS": "1", **(env or {})})
    if run.returncode != 0:
        raise AssertionError(f"{script} {' '.join(args)} ended with {run.returncode}:\n"
                             f"{run.stderr.decode(errors='replace')[-3000:]}\n{run.stdout.decode()[-1000:]}")
    return [json.loads(line) for line in run.stdout.splitlines()]


@contextlib.contextmanager
def eventually(seconds=10):
    """Yields a function that is called with a condition until it holds: `with eventually() as wait: wait(f)`."""

    def wait(condition, what="the condition"):
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not hold within {seconds} s")
            time.sleep(0.02)

    yield wait


def main():
    """Runs the tests of the calling file; 77 if every one was skipped."""
    if not VERBATIM or not os.access(VERBATIM, os.X_OK):
        sys.exit("set VERBATIM to the program, for example build/release/cli/verbatim")
    program = unittest.main(module="__main__", verbosity=2, exit=False)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun == 0:
        sys.exit("no test was run")
    sys.exit(SKIPPED if len(result.skipped) == result.testsRun else 0)
