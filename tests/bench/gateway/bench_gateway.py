#!/usr/bin/env python3
"""What the gateway costs: the same mock upstream reached directly, through nginx, and through verbatim in each mode.

  tests/bench/gateway/bench_gateway.py [--program build/release/cli/verbatim] [--seconds 3] [--rounds 3] [--json FILE]
  tests/bench/gateway/bench_gateway.py --smoke       a few seconds; checks that every request has its record

Loopback only; ends by itself, and ends what it started. Every contender is measured in every round, one after the
other, so that what else the machine does hits all alike; the table gives medians over the rounds. Read the ratios:
absolute figures are those of the machine named above the table. Needs wrk and nginx (deploy/install-packages bench),
and for streams any Node.
"""
import argparse
import json
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")
REQUEST_BYTES, ANSWER_BYTES, CHUNKS = 625, 974, 64


def padded(make, size):
    """make(padding) with as much padding as gives that size."""
    return make("x" * (size - len(make(""))))


REQUEST = padded(lambda pad: json.dumps({
    "model": "gpt-bench", "max_tokens": 128, "user": "bench",
    "messages": [{"role": "system", "content": "You are a helpful assistant."},
                 {"role": "user", "content": "What is an audit log good for? " + pad}]}), REQUEST_BYTES)
ANSWER = padded(lambda pad: json.dumps({
    "id": "chatcmpl-bench", "object": "chat.completion", "created": 1760000000, "model": "gpt-bench",
    "choices": [{"index": 0, "finish_reason": "stop",
                 "message": {"role": "assistant", "content": "An audit log shows who did what. " + pad}}],
    "usage": {"prompt_tokens": 120, "completion_tokens": 160, "total_tokens": 280}}), ANSWER_BYTES)


def find(name):
    found = shutil.which(name) or next((str(p) for p in [ROOT / f"build/tools/{name}/usr/sbin/{name}",
                                                         Path("/usr/sbin") / name] if p.exists()), None)
    if not found:
        sys.exit(f"verbatim: no {name} on this machine: run ./deploy/install-packages bench")
    return found


def find_node():
    shipped = sorted((ROOT / "build/npm/node_modules").glob("node-linux-*/bin/node"))
    return str(shipped[0]) if shipped else shutil.which("node")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_port(port, process, what):
    for _ in range(500):
        if process.poll() is not None:
            sys.exit(f"verbatim: {what} ended with {process.returncode} before it listened")
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    sys.exit(f"verbatim: {what} did not listen on port {port} within 10 s")


class Server:
    """A process with its children: what CPU time they used, and what memory they hold."""

    def __init__(self, name, url, process):
        self.name, self.url, self.process = name, url, process

    def pids(self):
        pids = [self.process.pid]
        for pid in pids:
            try:
                pids += [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
            except FileNotFoundError:
                pass
        return pids

    def cpu_seconds(self):
        total = 0
        for pid in self.pids():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICK

    def rss_mib(self):
        kib = 0
        for pid in self.pids():
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    kib += int(line.split()[1])
        return kib / 1024

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()


def start_nginx(folder, name, server, http=""):
    port = free_port()
    place = folder / name
    place.mkdir()
    (place / "nginx.conf").write_text(
        f"daemon off; master_process off; worker_processes 1; pid {place}/pid; error_log {place}/error.log crit;\n"
        "worker_rlimit_nofile 8192; events { worker_connections 4096; }\n"
        f"http {{ access_log off; keepalive_requests 1000000000; client_body_temp_path {place}/b;\n"
        f"proxy_temp_path {place}/p; fastcgi_temp_path {place}/f; uwsgi_temp_path {place}/u; scgi_temp_path {place}/s;\n"
        f"{http}\nserver {{ listen 127.0.0.1:{port} backlog=4096; {server} }} }}\n")
    process = subprocess.Popen([find("nginx"), "-p", str(place), "-c", str(place / "nginx.conf"), "-e",
                                str(place / "error.log")], stdin=subprocess.DEVNULL)
    wait_for_port(port, process, name)
    return Server(name, f"http://127.0.0.1:{port}", process)


def start_json_upstream(folder):
    return start_nginx(folder, "upstream", f"location / {{ default_type application/json; return 200 '{ANSWER}'; }}")


def start_stream_upstream(folder):
    node = find_node()
    if not node:
        sys.exit("verbatim: no Node on this machine: run ./deploy/install-packages test")
    port = free_port()
    process = subprocess.Popen([node, str(HERE / "stream_upstream.mjs"), str(port), str(CHUNKS)],
                               stdin=subprocess.DEVNULL)
    wait_for_port(port, process, "the upstream of streams")
    return Server("upstream", f"http://127.0.0.1:{port}", process)


def start_proxy(folder, upstream):
    address = upstream.url.removeprefix("http://")
    return start_nginx(
        folder, "nginx", "location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ''; "
        "proxy_buffering off; }",
        f"upstream up {{ server {address}; keepalive 256; keepalive_requests 1000000000; }}")


def start_verbatim(folder, program, upstream, mode):
    place = folder / f"verbatim-{mode}"
    place.mkdir()
    (place / "verbatim.toml").write_text(f'[log]\nmode = "{mode}"\n[gateway]\nadmin_enabled = false\n')
    log = open(place / "output", "wb")
    port = free_port()
    process = subprocess.Popen(
        [program, "gateway", "--listen", f"127.0.0.1:{port}", "--data", str(place / "data"), "--config",
         str(place / "verbatim.toml"), "--upstream", f"openai={upstream.url}"],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    wait_for_port(port, process, f"verbatim gateway ({(place / 'output')})")
    server = Server(f"verbatim {mode}", f"http://127.0.0.1:{port}", process)
    server.data = place / "data"
    return server


def lua_quoted(text):
    level = "=" * next(n for n in range(1, 9) if f"]{'=' * n}]" not in text)
    return f"[{level}[{text}]{level}]"


def write_scripts(folder):
    for name, body in (("json", json.loads(REQUEST)), ("stream", {**json.loads(REQUEST), "stream": True}),
                       ("hit", {**json.loads(REQUEST), "temperature": 0})):
        (folder / f"{name}.lua").write_text(
            'wrk.method = "POST"\nwrk.headers["content-type"] = "application/json"\n'
            'wrk.headers["authorization"] = "Bearer bench"\n'
            f"wrk.body = {lua_quoted(json.dumps(body))}\n"
            "done = function(s, l, r)\n"
            '  io.write(string.format(\'RESULT {"requests":%d,"us":%d,"errors":%d,"p50":%d,"p99":%d,"max":%d}\\n\',\n'
            "    s.requests, s.duration, s.errors.connect + s.errors.read + s.errors.write + s.errors.status\n"
            "    + s.errors.timeout, l:percentile(50), l:percentile(99), l.max))\nend\n")


def measure(server, script, connections, seconds):
    before = server.cpu_seconds()
    run = subprocess.run([find("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s", "-s", str(script),
                          server.url + "/v1/chat/completions"], capture_output=True, text=True,
                         timeout=seconds + 60)
    line = next((ln for ln in run.stdout.splitlines() if ln.startswith("RESULT ")), None)
    if run.returncode != 0 or line is None:
        sys.exit(f"verbatim: wrk failed against {server.name}: {run.stderr or run.stdout}")
    result = json.loads(line[7:])
    if result["errors"] or not result["requests"]:
        sys.exit(f"verbatim: {server.name} answered {result['errors']} of {result['requests']} requests badly")
    return {"requests": result["requests"], "rps": result["requests"] / (result["us"] / 1e6), "p50_us": result["p50"],
            "p99_us": result["p99"], "cpu_us": (server.cpu_seconds() - before) * 1e6 / result["requests"],
            "rss_mib": server.rss_mib()}


def run_rounds(servers, script, connections, seconds, rounds):
    """The medians of each server's figures over the rounds, by name."""
    all_rounds = {server.name: [] for server in servers}
    for number in range(rounds + 1):
        for server in servers:
            # The first round only warms up.
            figures = measure(server, script, connections, seconds if number else min(1, seconds))
            if number or rounds == 0:
                all_rounds[server.name].append(figures)
            server.requests = getattr(server, "requests", 0) + figures["requests"]
    return {name: {key: statistics.median(f[key] for f in figures) for key in figures[0]}
            for name, figures in all_rounds.items()}


def machine(folder):
    cpu = next((ln.split(":")[1].strip() for ln in Path("/proc/cpuinfo").read_text().splitlines()
                if ln.startswith("model name")), platform.machine())
    flags = Path("/proc/cpuinfo").read_text()
    synced = []
    with open(folder / "sync-probe", "wb") as probe:
        for _ in range(50):
            probe.write(b"x" * 4096)
            probe.flush()
            start = time.perf_counter()
            os.fdatasync(probe.fileno())
            synced.append((time.perf_counter() - start) * 1e6)
    nginx = subprocess.run([find("nginx"), "-v"], capture_output=True, text=True).stderr.split("/")[-1].strip()
    return {"cpu": cpu, "cores": os.cpu_count(), "avx512": "avx512f" in flags, "kernel": platform.release(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "fdatasync_4k_us_p50": round(statistics.median(synced)), "fdatasync_4k_us_max": round(max(synced)),
            "load_before": os.getloadavg()[0], "nginx": nginx, "date": time.strftime("%Y-%m-%d")}


def print_table(title, results, base):
    print(f"\n{title}")
    print("| | RPS | x nginx | added p50 us | p50 us | p99 us | CPU us/request | RSS MiB |")
    print("|---|---|---|---|---|---|---|---|")
    for name, f in results.items():
        print(f"| {name} | {f['rps']:,.0f} | {f['rps'] / results[base]['rps']:.2f} | "
              f"{f['p50_us'] - results['direct']['p50_us']:,.0f} | {f['p50_us']:,.0f} | {f['p99_us']:,.0f} | "
              f"{f['cpu_us']:.1f} | {f['rss_mib']:.0f} |")
    sys.stdout.flush()


def check_records(program, server):
    """Every request that wrk counted has a complete record, in a log that verifies."""
    listed = subprocess.run([program, "log", "list", "--data", str(server.data), "--json"], capture_output=True, check=True)
    complete = sum(r["status"] in ("complete", "cache_hit") for r in json.loads(listed.stdout)["records"])
    if complete < server.requests:
        sys.exit(f"verbatim: {server.name} answered {server.requests} requests and has {complete} complete records")
    verified = subprocess.run([program, "verify", "--data", str(server.data), "--json"], capture_output=True, text=True)
    if verified.returncode != 0 or json.loads(verified.stdout)["verdict"] != "VALID":
        sys.exit(f"verbatim: the log of {server.name} is not valid: {verified.stdout[:400]} {verified.stderr[-400:]}")
    print(f"{server.name}: {server.requests} requests answered, {complete} complete records, log VALID")


def bench(program, folder, arguments):
    write_scripts(folder)
    report = {"machine": machine(folder), "seconds": arguments.seconds, "rounds": arguments.rounds, "tables": {}}
    facts = report["machine"]
    print(f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, Linux {facts['kernel']}, nginx "
          f"{facts['nginx']}; fdatasync of 4 KiB: {facts['fdatasync_4k_us_p50']} us (max {facts['fdatasync_4k_us_max']}); "
          f"load {facts['load_before']:.1f}; {facts['date']}")
    print(f"wrk, one thread, {arguments.rounds} interleaved rounds of {arguments.seconds} s, medians; "
          f"request {REQUEST_BYTES} bytes")
    for kind, start_upstream in (("json", start_json_upstream), ("stream", start_stream_upstream)):
        place = folder / kind
        place.mkdir()
        started = []
        try:
            upstream = start_upstream(place)
            started.append(upstream)
            direct = Server("direct", upstream.url, upstream.process)
            proxy = start_proxy(place, upstream)
            started.append(proxy)
            gateways = []
            for mode in arguments.modes:
                gateways.append(start_verbatim(place, program, upstream, mode))
                started.append(gateways[-1])
            cases = [(kind, n) for n in arguments.connections]
            if kind == "json" and not arguments.smoke:
                cases.append(("hit", 16))
            for script, connections in cases:
                results = run_rounds([direct, proxy, *gateways], folder / f"{script}.lua", connections,
                                     arguments.seconds, arguments.rounds)
                what = {"json": f"JSON answer of {ANSWER_BYTES} bytes", "stream": f"stream of {CHUNKS} events",
                        "hit": "the same greedy request again: verbatim answers from its cache"}[script]
                print_table(f"{what}, {connections} connections", results, "nginx")
                report["tables"][f"{script}/{connections}"] = results
        finally:
            codes = {server.name: server.stop() for server in reversed(started)}
        for gateway in gateways:
            if codes[gateway.name] != 0:
                sys.exit(f"verbatim: {gateway.name} ended with {codes[gateway.name]} on SIGTERM")
            check_records(program, gateway)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.environ.get("VERBATIM", str(ROOT / "build/release/cli/verbatim")))
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--modes", nargs="*", default=["relaxed", "overlap", "strict"])
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.seconds, arguments.rounds, arguments.connections, arguments.modes = 1, 0, [8], ["strict"]
    if not os.access(arguments.program, os.X_OK):
        sys.exit(f"verbatim: no program ({arguments.program}): run ./deploy/build, or name it with --program")
    # On the disk that builds are on, not in a memory file system: syncing is part of what is measured.
    where = ROOT / "build" / "bench"
    where.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gateway-", dir=where) as folder:
        report = bench(arguments.program, Path(folder), arguments)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
