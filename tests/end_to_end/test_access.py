"""Who may use the gateway, and by which way it is reached and reaches others: keys, TLS, proxies, reloads."""
import http.client
import json
import re
import signal
import socket
import ssl
import threading
import tomllib

import support
from faults import CHAT, CHAT_PATH, DONE, MESSAGES_PATH, chat_chunk
from mock_upstream import MockUpstream, RawServer, Reply, make_certificate

WHOLE = json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]})
GREEDY = {**CHAT, "temperature": 0}


class ConfiguredTest(support.ProgramTest):
    """A gateway whose configuration is `toml`, in which UPSTREAM stands for the URL of a mock."""

    def start(self, toml, answer=lambda request: Reply.json(WHOLE), certificate=None, **more):
        self.upstream = MockUpstream(answer, certificate)
        self.addCleanup(self.upstream.close)
        self.config = self.folder / "verbatim.toml"
        self.write(toml)
        self.server = self.gateway("--config", self.config, **more)

    def write(self, toml):
        self.config.write_text(toml.replace("UPSTREAM", self.upstream.url))

    def reload(self, toml, said):
        """Sends SIGHUP and waits until the gateway has said so."""
        before = self.server.output.read_text().count(said)
        self.write(toml)
        self.server.process.send_signal(signal.SIGHUP)
        with support.eventually() as wait:
            wait(lambda: self.server.output.read_text().count(said) > before, f"'{said}' in {self.server.log_tail()}")

    def config_leaves(self):
        leaves = []
        for index in range(self.verify()["size"]):
            for leaf in support.leaves_in(self.run_well("log", "show", str(index), "--data", self.data, "--json").json):
                if leaf["type"] == "config":
                    leaves.append(leaf)
        return leaves


UPSTREAM = '[[upstream]]\nname = "openai"\nurl = "UPSTREAM"\n'


class Keys(ConfiguredTest):
    def make_key(self, name):
        return self.run_well("gateway", "--new-key", name, "--json").json

    def setUp(self):
        super().setUp()
        self.keys = {name: self.make_key(name) for name in ("one", "two", "late", "few")}
        toml = UPSTREAM + 'credential_env = "PROVIDER_KEY"\n'
        for name, more in (("one", 'tenant = "a"\nmodels = ["m", "demo-*"]'), ("two", 'tenant = "b"'),
                           ("late", 'expires = "2020-01-01"'), ("few", "requests_per_minute = 2")):
            toml += f'[[key]]\nname = "{name}"\nhash = "{self.keys[name]["hash"]}"\n{more}\n'
        self.toml = toml
        self.start(toml, env={"PROVIDER_KEY": "sk-PROVIDER"})

    def ask(self, name, body=CHAT, path=CHAT_PATH, form="authorization"):
        key = self.keys[name]["key"] if name in self.keys else name
        return self.server.post(path, body, {form: f"Bearer {key}" if form == "authorization" else key})

    def test_a_key_is_for_the_gateway_and_the_credential_for_the_provider(self):
        for form in ("authorization", "x-api-key"):
            for path in (CHAT_PATH, MESSAGES_PATH):
                answer = self.ask("one", path=path, form=form)
                self.assertEqual(answer.status, 200, answer.body)
                sent = self.upstream.requests[-1]
                self.assertEqual(sent.header(form), "Bearer sk-PROVIDER" if form == "authorization" else "sk-PROVIDER")
                self.assertNotIn(b"vb-", sent.head)
                leaf = self.leaves(answer.record)["request"]
                self.assertEqual((leaf["key"], leaf["tenant"]), ("one", "a"))
        for file in self.data.rglob("*"):
            if file.is_file() and not file.is_socket():
                self.assertNotIn(b"sk-PROVIDER", file.read_bytes())
                self.assertNotIn(self.keys["one"]["key"][12:].encode(), file.read_bytes())
        self.assertNotIn("sk-PROVIDER", self.run_well("gateway", "--config", self.config, "--check",
                                                   env={"PROVIDER_KEY": "sk-PROVIDER"}).out)

    def test_who_may_not_is_told_why_in_the_shape_of_the_api_and_recorded(self):
        for name, body, status, kind in (("", CHAT, 401, "missing_key"), ("sk-other", CHAT, 401, "unknown_key"),
                                         ("late", CHAT, 401, "expired_key"),
                                         ("one", {**CHAT, "model": "gpt"}, 403, "model_not_allowed"),
                                         ("one", b"no JSON", 403, "model_not_allowed")):
            with self.subTest(kind):
                answer = self.ask(name, body) if name else self.server.post(CHAT_PATH, body)
                self.assertEqual((answer.status, answer.json["error"]["code"]), (status, kind))
                leaves = self.leaves(answer.record)
                self.assertEqual((leaves["response"]["status"], leaves["response"]["error"]["kind"]), ("rejected", kind))
        anthropic = self.server.post(MESSAGES_PATH, CHAT)
        self.assertEqual((anthropic.status, anthropic.json["error"]["type"]), (401, "authentication_error"))
        self.assertEqual(self.upstream.requests, [])
        self.assertEqual([self.ask("few").status for _ in range(3)], [200, 200, 429])
        refused = self.ask("few")
        self.assertIn(int(refused.header("retry-after")), range(1, 61))

    def test_a_key_for_certain_models_cannot_be_talked_round(self):
        """Servers differ in which of two members they take, and some read what is no JSON: such bodies name no model."""
        for body in (b'{"model":"m","mod\\u0065l":"gpt"}', b'{"model":"m","x":NaN,"model":"gpt"}', b'{"model":"gpt","model":"m"}',
                     b'{"model":"m"} {"model":"gpt"}', b'{"model":"m"', b'[{"model":"m"}]'):
            answer = self.ask("one", body)
            self.assertEqual((answer.status, answer.json["error"]["code"]), (403, "model_not_allowed"), body)
            self.assertNotIn("model", self.leaves(answer.record)["request"])
        for path in ("/v1/models/../chat/completions", "/v1/models/%2e%2E/chat/completions"):
            refused = self.server.request("GET", path, headers={"authorization": "Bearer " + self.keys["one"]["key"]})
            self.assertEqual(refused.status, 403, path)
        self.assertEqual(self.upstream.requests, [])
        self.assertEqual(self.ask("one", b'{"mod\\u0065l":"m"}').status, 200)

    def test_tenants_share_no_answers(self):
        self.assertEqual(self.ask("one", GREEDY).cache, "miss")
        self.assertEqual(self.ask("one", GREEDY).cache, "hit")
        self.assertEqual(self.ask("two", GREEDY).cache, "miss")

    def test_a_key_that_is_taken_away_is_of_no_use_from_then_on(self):
        self.assertEqual(self.ask("two").status, 200)
        without = self.toml.replace(f'[[key]]\nname = "two"\nhash = "{self.keys["two"]["hash"]}"\ntenant = "b"\n', "")
        self.reload(without, "is in force")
        self.assertEqual(self.ask("two").status, 401)
        self.assertEqual(self.ask("one").status, 200)

    def test_a_credential_that_is_not_there_is_an_error_that_does_not_quote_it(self):
        for toml in (UPSTREAM + 'credential_env = "NO_SUCH"\n', UPSTREAM + f'credential_file = "{self.folder}/none"\n'):
            self.write(toml)
            self.assert_one_line_error(support.verbatim("gateway", "--config", self.config, "--check"), 2)
        (self.folder / "secret").write_text("sk-A secret\n")
        self.write(UPSTREAM + f'credential_file = "{self.folder}/secret"\n')
        finished = support.verbatim("gateway", "--config", self.config, "--check")
        self.assert_one_line_error(finished, 2, "openai")
        self.assertNotIn("sk-A", finished.err)


class Reload(ConfiguredTest):
    def test_a_new_configuration_comes_into_force_and_a_bad_one_does_not(self):
        self.start(UPSTREAM)
        self.assertEqual(self.server.post(CHAT_PATH, CHAT).status, 200)
        with MockUpstream(lambda request: Reply.json('{"second":true}')) as second:
            self.reload(UPSTREAM.replace("UPSTREAM", second.url), "is in force")
            self.assertEqual(self.server.post(CHAT_PATH, CHAT).body, b'{"second":true}')
            for bad in ("[gateway", "no_such_key = 1\n", UPSTREAM + 'ca_file = "/no/such"\n',
                        UPSTREAM + '[gateway]\nadmin_enabled = false\n', UPSTREAM + '[log]\nmode = "relaxed"\n'):
                self.reload(bad, "is refused")
                self.assertEqual(self.server.post(CHAT_PATH, CHAT).body, b'{"second":true}')
        leaves = self.config_leaves()
        self.assertEqual(len(leaves), 2)
        self.assertNotEqual(leaves[0]["sha256"], leaves[1]["sha256"])
        self.assert_valid()

    def test_a_stream_that_is_under_way_ends_as_it_began(self):
        self.start(UPSTREAM, lambda request: Reply.events([chat_chunk("a"), 1.0, chat_chunk(None, "stop"), DONE]))
        connection = http.client.HTTPConnection(self.server.host, self.server.port, timeout=30)
        self.addCleanup(connection.close)
        connection.request("POST", CHAT_PATH, json.dumps({**CHAT, "stream": True}))
        response = connection.getresponse()
        response.read1(10)
        self.reload(UPSTREAM.replace("UPSTREAM", "http://127.0.0.1:1"), "is in force")
        self.assertTrue(response.read().endswith(DONE))
        self.assertEqual(self.server.post(CHAT_PATH, CHAT).status, 502)


class Tls(ConfiguredTest):
    def certificate(self, name):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return make_certificate(folder)[1], folder / "key.pem"

    def ask(self, trusted, client=None, body=CHAT):
        context = ssl.create_default_context(cafile=str(trusted))
        if client:
            context.load_cert_chain(*client)
        connection = http.client.HTTPSConnection(self.server.host, self.server.port, timeout=30, context=context)
        try:
            connection.request("POST", CHAT_PATH, json.dumps(body), {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read(), response.getheader("x-verbatim-record")
        finally:
            connection.close()

    def toml(self, certificate, key, more=""):
        return f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n{more}' + UPSTREAM

    def test_clients_are_served_by_tls_and_the_certificate_is_reloaded(self):
        first, second = self.certificate("first"), self.certificate("second")
        stream = [chat_chunk("a"), 0.3, chat_chunk(None, "stop"), DONE]
        self.start(self.toml(*first), lambda request: Reply.events(stream) if b"stream" in request.body else Reply.json(WHOLE))
        self.assertIn("listening on https://", self.server.output.read_text())
        status, body, record = self.ask(first[0])
        self.assertEqual((status, body), (200, WHOLE.encode()))
        self.assertEqual(self.leaves(record)["response"]["status"], "complete")
        self.assertTrue(self.ask(first[0], body={**CHAT, "stream": True})[1].endswith(DONE))
        with self.assertRaises(ssl.SSLError):
            self.ask(second[0])
        with socket.create_connection((self.server.host, self.server.port), 10) as plain:
            plain.sendall(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
            plain.settimeout(10)
            self.assertNotIn(b"HTTP/1.1 200", plain.recv(1000))
        self.reload(self.toml(*second), "is in force")
        self.assertEqual(self.ask(second[0])[0], 200)
        self.reload(self.toml(second[0], first[1]), "is refused")  # a key of another certificate
        self.assertEqual(self.ask(second[0])[0], 200)
        self.assertEqual(self.server.stop(), 0)
        self.assert_valid()

    def test_a_client_that_leaves_and_one_that_says_nothing_end_well(self):
        certificate = self.certificate("server")
        self.start(self.toml(*certificate), lambda request: Reply.events([chat_chunk("a")] + [0.05, chat_chunk("b")] * 200))
        context = ssl.create_default_context(cafile=str(certificate[0]))
        connection = http.client.HTTPSConnection(self.server.host, self.server.port, timeout=30, context=context)
        connection.request("POST", CHAT_PATH, json.dumps({**CHAT, "stream": True}))
        response = connection.getresponse()
        record = response.getheader("x-verbatim-record")
        response.read1(10)
        response.close()
        connection.close()
        with support.eventually() as wait:
            leaf = wait(lambda: self.leaves(record).get("response"))
        self.assertEqual(leaf["status"], "client_disconnect")
        with socket.create_connection((self.server.host, self.server.port), 10):
            self.assertEqual(self.server.stop(40), 0)

    def test_clients_must_show_a_certificate_where_one_is_asked_for(self):
        server, client, other = self.certificate("server"), self.certificate("client"), self.certificate("other")
        self.start(self.toml(*server, f'client_ca = "{client[0]}"\n'))
        self.assertEqual(self.ask(server[0], client)[0], 200)
        for stranger in (None, other):
            with self.assertRaises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
                self.ask(server[0], stranger)
        self.assertEqual(len(self.upstream.requests), 1)

    def test_upstreams_that_ask_for_a_certificate_get_it(self):
        context, authority = make_certificate(self.folder)
        client = self.certificate("client")
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client[0])
        shown = f'client_certificate = "{client[0]}"\nclient_key = "{client[1]}"\n'
        self.start(UPSTREAM + f'ca_file = "{authority}"\n' + shown, certificate=context)
        self.assertEqual(self.server.post(CHAT_PATH, CHAT).status, 200)
        self.reload(UPSTREAM + f'ca_file = "{authority}"\n', "is in force")
        self.assertEqual(self.server.post(CHAT_PATH, CHAT).status, 502)


class ConnectProxy(RawServer):
    """Connects whoever asks for it to one port of this machine, whatever name is asked for."""

    def __init__(self, port, answer=b"HTTP/1.1 200 Connection established\r\n\r\n"):
        self.port, self.answer = port, answer
        super().__init__(userinfo="user:pass@")

    def serve(self, client):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += client.recv(1)
        self.heads.append(head)
        client.sendall(self.answer)
        if b" 200 " not in self.answer:
            return client.close()
        server = socket.create_connection(("127.0.0.1", self.port))
        threading.Thread(target=self.pump, args=(server, client), daemon=True).start()
        self.pump(client, server)

    @staticmethod
    def pump(source, target):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Proxies(support.ProgramTest):
    def start_behind(self, **more):
        context, certificate = make_certificate(self.folder, "api.test")
        self.upstream = MockUpstream(lambda request: Reply.json(WHOLE), context)
        self.addCleanup(self.upstream.close)
        self.proxy = ConnectProxy(self.upstream.port, **more)
        self.addCleanup(self.proxy.listener.close)
        return self.gateway("--upstream", "openai=https://api.test", env={
            "HTTPS_PROXY": self.proxy.url, "https_proxy": "", "NO_PROXY": "", "no_proxy": "", "SSL_CERT_FILE": certificate})

    def test_https_upstreams_are_reached_through_the_proxy_and_checked_behind_it(self):
        gateway = self.start_behind()
        for _ in range(2):
            answer = gateway.post(CHAT_PATH, CHAT, {"authorization": "Bearer sk-secret"})
            self.assertEqual((answer.status, answer.body), (200, WHOLE.encode()))
        self.assertEqual(self.upstream.requests[0].header("host"), "api.test")
        self.assertEqual(len(self.proxy.heads), 1, "the connection is kept")
        self.assertIn(b"CONNECT api.test:443 HTTP/1.1\r\n", self.proxy.heads[0])
        self.assertIn(b"Proxy-Authorization: Basic dXNlcjpwYXNz\r\n", self.proxy.heads[0])
        self.assertNotIn(b"sk-secret", self.proxy.heads[0])

    def test_a_proxy_that_does_not_connect_is_a_502_that_says_so(self):
        answer = self.start_behind(answer=b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").post(CHAT_PATH, CHAT)
        self.assertEqual((answer.status, answer.json["error"]["code"]), (502, "proxy"))
        self.assertIn("407", answer.json["error"]["message"])
        self.assertEqual(self.leaves(answer.record)["response"]["status"], "upstream_error")


def shown_defaults():
    """The configuration in docs/configuration.md."""
    text = (support.SOURCE / "docs/configuration.md").read_text()
    return tomllib.loads(re.search(r"```toml\n(.*?)```", text, re.S)[1])


class Schema(support.ProgramTest):
    def test_the_schema_has_the_keys_and_defaults_that_the_documentation_shows(self):
        schema = json.loads(self.run_well("gateway", "--schema").out)
        for name, value in shown_defaults().items():
            table = schema["properties"][name]
            for entry in value if isinstance(value, list) else [value]:
                properties = (table["items"] if isinstance(value, list) else table)["properties"]
                for key, default in entry.items():
                    self.assertIn(key, properties, name)
                    if "default" in properties[key] and not isinstance(value, list):
                        self.assertEqual(properties[key]["default"], default, f"{name}.{key}")
            if not isinstance(value, list):
                self.assertEqual(set(properties), set(value), f"{name}: not all keys are shown")

    def test_the_program_knows_every_key_of_the_schema_and_no_other(self):
        schema = json.loads(self.run_well("gateway", "--schema").out)
        config = self.folder / "c.toml"
        for name, table in schema["properties"].items():
            many = table["type"] == "array"
            for key, value in (table["items"] if many else table)["properties"].items():
                # A value of the wrong type must be refused as that, and not as a key that is not known.
                config.write_text(f"[[{name}]]\n{key} = 1.5\n" if many else f"[{name}]\n{key} = 1.5\n")
                finished = support.verbatim("gateway", "--config", config, "--check")
                self.assertEqual(finished.code, 2, f"{name}.{key}")
                self.assertIn(f"'{name}.{key}' must be", finished.err)

    def test_check_prints_the_configuration_and_starts_nothing(self):
        config = self.folder / "c.toml"
        config.write_text('[gateway]\nlisten = "127.0.0.1:0"\nadmin_token = "sk-SECRET"\n[[upstream]]\nname = "o"\nurl = "http://h"\n')
        finished = self.run_well("gateway", "--config", config, "--check", "--data", self.data)
        self.assertEqual(json.loads(finished.out)["upstreams"][0]["name"], "o")
        self.assertNotIn("SECRET", finished.out + finished.err)
        self.assertFalse(self.data.exists())
        self.assertNotIn("open to whoever", finished.err)

    def test_an_admin_listener_that_others_reach_without_a_token_is_warned_of(self):
        for token, warned in (("", True), ('admin_token = "sk-SECRET"\n', False)):
            config = self.folder / "c.toml"
            config.write_text(f'[gateway]\nadmin = "0.0.0.0:0"\n{token}[[upstream]]\nname = "o"\nurl = "http://h"\n')
            finished = self.run_well("gateway", "--config", config, "--check")
            self.assertEqual("open to whoever reaches 0.0.0.0:0: set gateway.admin_token" in finished.err, warned, finished)


if __name__ == "__main__":
    support.main()
