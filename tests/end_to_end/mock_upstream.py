"""An HTTP/1.1 upstream whose every byte a test chooses, and which keeps every byte it was sent.

A test gives a function from Request to Reply. A reply's body is a list of steps, sent in order: bytes, a pause in
seconds (float), RESET (the connection is reset) or CLOSE (closed without an end).
"""
import contextlib
import os
import socket
import socketserver
import ssl
import struct
import threading
import time
from dataclasses import dataclass, field

RESET = object()
CLOSE = object()


@dataclass
class Request:
    head: bytes  # as received, without the blank line
    method: str
    target: str
    headers: list  # of (name, value), in order, as received
    body: bytes
    connection: int  # which of the upstream's connections brought it

    def header(self, name):
        values = [v for n, v in self.headers if n.lower() == name.lower()]
        return values[0] if values else None


@dataclass
class Reply:
    status: str = "200 OK"
    headers: list = field(default_factory=lambda: [("content-type", "application/json")])
    steps: list = field(default_factory=list)
    framing: str = "length"  # "length", "chunked", "close", or "raw": the steps are all that is sent, head included

    @staticmethod
    def json(text, status="200 OK", headers=()):
        body = text.encode() if isinstance(text, str) else text
        return Reply(status, [("content-type", "application/json"), *headers], [body])

    @staticmethod
    def events(steps, headers=()):
        return Reply("200 OK", [("content-type", "text/event-stream"), *headers], list(steps), "chunked")

    @staticmethod
    def raw(*steps):
        return Reply("", [], list(steps), "raw")

    def body(self):
        return b"".join(s for s in self.steps if isinstance(s, bytes))


class RawServer:
    """A listener for what MockUpstream cannot say: serve(connection) has a connection and a thread to itself. `heads` is what
    read_head() read. Serves until its listener is closed."""

    def __init__(self, userinfo=""):
        self.heads = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://{userinfo}127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def read_head(self, file):
        """A request's head with its blank line; None if the connection ended first."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = file.readline()
            if not line:
                return None
            head += line
        self.heads.append(head)
        return head


class MockUpstream:
    """Serves until close(). `requests` grows as requests arrive; `disconnects` counts clients that left early."""

    def __init__(self, answer, certificate=None):
        self.answer = answer
        self.requests = []
        self.disconnects = 0
        self.lock = threading.Lock()
        self.connections = 0
        self.open = set()
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self):
                outer._serve(self)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 256

            def get_request(self):
                connection, address = super().get_request()
                if certificate:
                    connection = certificate.wrap_socket(connection, server_side=True)
                return connection, address

            def handle_error(self, request, client_address):
                pass  # a client that hung up is part of many tests

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def _serve(self, handler):
        with self.lock:
            self.connections += 1
            number = self.connections
            self.open.add(handler.connection)
        try:
            self._serve_requests(handler, number)
        finally:
            with self.lock:
                self.open.discard(handler.connection)

    def close_connections(self):
        """Shuts every connection that is open, as an idle time-out does."""
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError):  # its client may have gone
                    connection.shutdown(socket.SHUT_RDWR)

    def _serve_requests(self, handler, number):
        while True:
            request = _read_request(handler.rfile, number)
            if request is None:
                return
            with self.lock:
                self.requests.append(request)
            try:
                if not self._send(handler, self.answer(request)):
                    return
            except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
                with self.lock:
                    self.disconnects += 1
                return

    @staticmethod
    def _send(handler, reply):
        head = f"HTTP/1.1 {reply.status}\r\n"
        for name, value in reply.headers:
            head += f"{name}: {value}\r\n"
        if reply.framing == "length":
            head += f"content-length: {len(reply.body())}\r\n"
        elif reply.framing == "chunked":
            head += "transfer-encoding: chunked\r\n"
        else:
            head += "connection: close\r\n"
        send = handler.connection.sendall
        if reply.framing != "raw":
            send(head.encode("latin-1") + b"\r\n")
        for step in reply.steps:
            if step is RESET:
                linger = struct.pack("ii", 1, 0)
                handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                handler.connection.close()
                return False
            if step is CLOSE:
                return False
            if isinstance(step, float):
                time.sleep(step)
            elif reply.framing == "chunked":
                send(b"%x\r\n%s\r\n" % (len(step), step))
            else:
                send(step)
        if reply.framing == "chunked":
            send(b"0\r\n\r\n")
        return reply.framing != "close"


def _read_request(file, number):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = file.readline(65536)
        if not line:
            return None
        head += line
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = [tuple(part.strip() for part in line.split(":", 1)) for line in lines]
    named = {name.lower(): value for name, value in headers}
    body = b""
    if named.get("transfer-encoding", "").lower() == "chunked":
        while size := int(file.readline().split(b";")[0], 16):
            body += file.read(size)
            file.readline()
        while file.readline() not in (b"\r\n", b""):
            pass
    elif "content-length" in named:
        body = file.read(int(named["content-length"]))
    return Request(head[:-4], method, target, headers, body, number)


def make_certificate(folder, name="127.0.0.1"):
    """A self-signed certificate for `name`, valid now: (an SSLContext for the server, the path of the certificate)."""
    import subprocess

    key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
    kind = "IP" if name[0].isdigit() else "DNS"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test",
         "-addext", f"subjectAltName={kind}:{name}", "-keyout", key, "-out", certificate],
        check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate
