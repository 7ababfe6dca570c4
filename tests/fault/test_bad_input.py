"""Bad input of every kind to the command line: one clear line, the exit code of the contract, nothing lost."""
import json
import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "end_to_end"))
import support  # noqa: E402
from support import chat, verbatim  # noqa: E402

USAGE, UNFINISHED = 2, 3


class BadInput(support.ProgramTest):
    def start(self, *flags, **more):
        """A gateway that must refuse to start."""
        return verbatim("gateway", "--listen", "127.0.0.1:0", "--data", self.data, *flags, timeout=60, **more)

    def model_copy(self):
        copy = self.folder / "model"
        shutil.copytree(support.DEMO_MODEL, copy)
        return copy

    def make_log(self):
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            self.assertEqual(gateway.post("/v1/chat/completions", chat("Hello!", temperature=0)).status, 200)

    # The command line itself.

    def test_usage_errors_are_one_line_and_exit_2(self):
        for args in ((), ("no-such-command",), ("gateway", "--no-such-flag"), ("log",), ("log", "show"),
                     ("gateway", "--listen", "nonsense", "--data", self.data),
                     ("gateway", "--listen", "127.0.0.1:99999", "--data", self.data),
                     ("gateway", "--listen", "127.0.0.1:0", "--data", self.data, "--model", "no-equals-sign"),
                     ("gateway", "--listen", "127.0.0.1:0", "--data", self.data, "--upstream", "x=ftp://host"),
                     ("engine", "generate", "--model", support.DEMO_MODEL, "--prompt-ids", "1,x"),
                     ("engine", "generate", "--prompt", "x", "--prompt-ids", "1"),
                     ("engine", "generate", "--prompt", "x", "--messages", "m.json"),
                     ("replay", "--data", self.data)):
            self.assert_one_line_error(verbatim(*args, timeout=30), USAGE)
        self.assert_one_line_error(verbatim("log", "show", timeout=30), USAGE, "see verbatim log show --help")

    def test_numbers_and_names_out_of_range_are_refused_and_never_wrapped_around(self):
        generate = ("engine", "generate", "--prompt", "x", "--max-tokens", "1")
        for args, named in (((*generate, "--threads", "100000"), "--threads"), ((*generate, "--threads", "-1"), "--threads"),
                            ((*generate, "--neighbours", "-1"), "--neighbours"), ((*generate, "--seed", "-5"), "--seed"),
                            ((*generate, "--seed", "18446744073709551616"), "--seed"), ((*generate, "--seed", "1e3"), "--seed"),
                            ((*generate, "--prefill-chunk", "0"), "--prefill-chunk"), ((*generate, "--top-k", "-1"), "--top-k"),
                            (("engine", "selfcheck", "--seconds", "-1"), "--seconds"),
                            (("log", "list", "--limit", "-1"), "--limit"), (("log", "list", "--limit", "0"), "--limit"), (("log", "list", "--status", "done"), "--status"),
                            (("export", "--out", "x", "--limit", "1.5"), "--limit"),
                            (("export", "--out", "x", "--status", "done"), "--status"),
                            (("replay", "--sample", "-4"), "--sample")):
            self.assert_one_line_error(verbatim(*args, timeout=30), USAGE, named)
        self.run_well(*generate, "--seed", "18446744073709551615")

    def test_what_is_unknown_is_named(self):
        for args, word in ((("nosuch",), "nosuch"), (("--nosuch",), "--nosuch"), (("log", "nosuch"), "nosuch"),
                           (("gateway", "--no-such-flag"), "--no-such-flag"),
                           (("engine", "generate", "--prompt", "x", "--profile", "mma-ampere/1"), "mma-ampere/1")):
            self.assert_one_line_error(verbatim(*args, timeout=30), USAGE, word)

    def test_a_folder_that_may_not_be_read_is_no_missing_log(self):
        self.make_log()
        program, other = support.VERBATIM, None
        if os.geteuid() == 0:  # nobody is kept out of anything as root
            self.folder.chmod(0o755)
            program = shutil.copy(support.VERBATIM, self.folder / "verbatim")
            other = lambda: os.setuid(65534)  # noqa: E731
        else:
            self.data.chmod(0)
            self.addCleanup(self.data.chmod, 0o700)
        for command in (("log", "list"), ("verify",), ("replay", "--all"), ("keys", "list"), ("export", "--out", self.folder / "x" / "y")):
            ended = subprocess.run([program, *command, "--data", self.data], capture_output=True, text=True, timeout=60,
                                   preexec_fn=other)
            self.assertEqual(ended.returncode, UNFINISHED, ended)
            self.assertRegex(ended.stderr, r"^verbatim: [^\n]*Permission denied[^\n]*\n$")

    def test_a_configuration_says_where_the_log_is_and_is_checked_by_every_command(self):
        self.make_log()
        config = self.folder / "c.toml"
        config.write_text(f'[log]\ndata = "{self.data}"\n')
        self.assertEqual(len(self.run_well("log", "list", "--config", config, "--json").json["records"]), 1)
        self.assertEqual(self.run_well("verify", "--config", config, "--json").json["verdict"], "VALID")
        # --data goes before it.
        self.assert_one_line_error(verbatim("log", "list", "--config", config, "--data", self.folder / "none"), USAGE, "no log")
        config.write_text('[log]\ndata = 1\n')
        for command in (("log", "list"), ("verify",), ("gateway",), ("gateway", "--check")):
            self.assert_one_line_error(verbatim(*command, "--config", config, timeout=30), USAGE, "log.data", "line 2")
        self.assert_one_line_error(verbatim("log", "list", "--config", self.folder / "no.toml"), USAGE, "no.toml")

    def test_a_check_says_what_a_start_would_find(self):
        config = self.folder / "c.toml"
        config.write_text('[gateway]\nlisten = "127.0.0.1:4567"\nadmin = "127.0.0.1:4567"\n')
        self.assert_one_line_error(verbatim("gateway", "--config", config, "--check"), USAGE, "same address")
        made = self.run_well("gateway", "--new-key", "old", "--json").json
        config.write_text(f'[[key]]\nname = "old"\nhash = "{made["hash"]}"\nexpires = 2020-01-31\n')
        checked = self.run_well("gateway", "--config", config, "--check")
        self.assertIn("'old' expired at 2020-01-31", checked.err)
        self.assertIn("the configuration is well", checked.err)
        config.write_text('[[upstream]]\nname = "x"\nurl = "http://127.0.0.1:1"\ncredential_env = "VERBATIM_NOT_SET"\n')
        self.assert_one_line_error(verbatim("gateway", "--config", config, "--check"), USAGE, "VERBATIM_NOT_SET", "is not set")

    def test_a_start_that_fails_leaves_no_folder(self):
        config, key = self.folder / "c.toml", self.folder / "key.pem"
        key.write_text("no PEM")
        tls = f'[tls]\ncertificate = "{key}"\nkey = "{key}"\n'
        upstream = f'[[upstream]]\nname = "x"\nurl = "https://127.0.0.1:1"\nca_file = "{key}"\n'
        token = '[log]\nsigning_key = "pkcs11:token=t;object=o?module-path=/no/such/module.so"\n'
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        demo = ("--model", f"demo={support.DEMO_MODEL}")
        for name, text, flags in (("a port in use", "", ("--listen", address)), ("the admin's port in use", "", ("--admin", address)),
                                  ("an address of another", "", ("--listen", "192.0.2.1:0")), ("no such name", "", ("--listen", "no.invalid:0")),
                                  ("a bad certificate", tls, ()), ("a bad CA", upstream, ()), ("no such token", token, ()),
                                  ("no such model", "", ("--model", "x=/no/such/model"))):
            with self.subTest(name):
                config.write_text(text)
                data = self.folder / name / "data"
                listen = () if "--listen" in flags else ("--listen", "127.0.0.1:0")
                failed = verbatim("gateway", *listen, "--config", config, "--data", data, *demo, *flags, timeout=60)
                self.assertIn(failed.code, (USAGE, UNFINISHED), failed)
                self.assert_one_line_error(failed, failed.code)
                self.assertFalse(data.exists(), list(data.rglob("*")))
        # What was there before stays, and is no log either.
        self.data.mkdir()
        (self.data / "note").write_text("mine")
        self.assertEqual(self.start("--admin", address, *demo).code, UNFINISHED)
        self.assertEqual([each.name for each in self.data.iterdir()], ["note"])
        # A log that is there is not touched.
        log = self.folder / "log"
        with self.gateway(*demo, data=log):
            pass
        before = (log / "log.db").read_bytes()
        failed = verbatim("gateway", "--listen", address, "--data", log, *demo, timeout=60)
        self.assert_one_line_error(failed, UNFINISHED, "cannot listen", address)
        self.assertEqual((log / "log.db").read_bytes(), before)

    def test_an_empty_value_is_no_value(self):
        """`--key "$(cat key)"` without the file must not mean any key, nor `verify ""` the log of this folder."""
        self.make_log()
        for args in (("verify", "--data", self.data, "--key", ""), ("verify", ""), ("gateway", "--new-key", ""),
                     ("gateway", "--listen", "", "--data", self.data), ("log", "list", "--data", self.data, "--since", "")):
            self.assert_one_line_error(verbatim(*args, timeout=30), USAGE, "empty")
        self.assert_one_line_error(verbatim("verify", "--data", self.data, "--key", "/no/such/file", timeout=30), USAGE,
                                   "/no/such/file")

    def test_an_empty_file_is_no_file_that_was_not_named(self):
        """What an empty file would say is what an option that is not given says: check nothing."""
        self.make_log()
        record = self.records()[0]["id"]
        bundle, receipt = self.folder / "bundle", self.folder / "receipt"
        self.run_well("export", "--data", self.data, "--out", bundle)
        receipt.write_text(self.run_well("receipt", record, "--data", self.data).out)
        vkey = self.assert_valid()["vkey"]
        for text in ("", " \n\r\n\t\n"):
            empty = self.folder / "empty"
            empty.write_text(text)
            for args in (*(("verify", "--data", self.data, option, empty)
                           for option in ("--key", "--checkpoint", "--policy", "--tsa-ca", "--receipt", "--config")),
                         *(("verify", "--receipt", receipt, "--key", vkey, option, empty)
                           for option in ("--checkpoint", "--policy", "--tsa-ca")),
                         *(("replay", "--bundle", bundle, "--all", option, empty)
                           for option in ("--key", "--policy", "--checkpoint", "--calibration")),
                         ("replay", "--data", self.data, "--sample", "1", "--checkpoint", empty),
                         ("timestamp", "list", "--data", self.data, "--tsa-ca", empty),
                         ("timestamp", "add", "--data", self.data, "--query", empty, "--response", receipt),
                         ("witness", "ask", "--data", self.data, "--policy", empty),
                         ("witness", "serve", "--state", self.folder / "w", "--name", "w.example/1", "--log", empty),
                         ("probe", "--url", "http://127.0.0.1:1", "--request", empty),
                         ("engine", "render", "--messages", empty), ("engine", "generate", "--max-tokens", "1", "--messages", empty),
                         ("gateway", "--check", "--config", empty)):
                with self.subTest(args=args):
                    self.assert_one_line_error(verbatim(*args, timeout=60), USAGE, str(empty) if args[-1] == empty else "")

    def test_no_output_goes_over_a_part_of_a_log(self):
        self.make_log()
        bundle = self.folder / "bundle"
        self.run_well("export", "--data", self.data, "--out", bundle)
        (self.folder / "link").symlink_to(self.data)
        state = self.folder / "witness"
        state.mkdir()
        (state / "witness.key").write_text("a key")
        names = ("log.db", "log.db-wal", "log.db-journal", "log.db-shm", "keys.db", "keys.db-wal", "keys.db-journal",
                 "master.key", "log.key", "high-water", "lock", "models.json", "cosigned", "cosigned/5", "append.sock")
        places = [*(self.data / name for name in names), self.folder / "link" / "log.db", f"{self.data}/../data/log.db-wal",
                  f"{self.data}/keys.db-wal/", state / "witness.key", state / "witness.db-wal"]

        def files():
            return {path: path.read_bytes() for folder in (self.data, state) for path in folder.rglob("*") if path.is_file()}

        self.records()  # what a reader leaves beside the log is there before
        before = files()
        generate = ("engine", "generate", "--prompt", "x", "--max-tokens", "1")
        for place in places:
            for args in (("timestamp", "query", "--data", self.data, "--out", place), ("export", "--data", self.data, "--out", place),
                         ("backup", "--data", self.data, place),
                         *(("replay", "--bundle", bundle, "--all", option, place) for option in ("--report", "--csv", "--metrics", "--statements")),
                         ("replay", "calibrate", "--all", "--data", self.data, "--engine", f"demo={support.DEMO_MODEL}", "--out", place),
                         *(("probe", "--url", "http://127.0.0.1:1", "--model", "demo", option, place) for option in ("--report", "--csv", "--series")),
                         *((*generate, option, place) for option in ("--fingerprint", "--layer-digests"))):
                if place != places[0] and args[0] in ("replay", "probe", "engine"):
                    continue  # one check for all: the names are tried with what is quick
                with self.subTest(args=args):
                    self.assert_one_line_error(verbatim(*args, timeout=60), USAGE)
        self.assertEqual({path: data for path, data in files().items() if not path.name.endswith(("-wal", "-shm"))},
                         {path: data for path, data in before.items() if not path.name.endswith(("-wal", "-shm"))})
        self.assert_valid()

    def test_what_a_client_or_an_operator_says_is_one_cell_of_a_table(self):
        """A model's name or a reason can have line ends, escapes and turned directions in it: none reaches a terminal."""
        evil = "demo\n0       0193a5e0-7c1a-7b3e-9d2f-0123456789ab  \x1b[2J\x1b]0;x\x07\r\u009b8m\u202e\x7f"
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            gateway.post("/v1/chat/completions", {**chat("x"), "model": evil})
            record = gateway.post("/v1/chat/completions", {**chat("x"), "x\nleaf 7 of 9": evil}).record
            self.assertEqual(gateway.request("GET", "/v1/models/%0aforged%1b").status, 404)
        self.run_well("hold", "add", "--all", "--reason", evil, "--data", self.data)
        index = max(self.records("--all-types"), key=lambda each: each["index"])["index"]
        for args, lines in ((("log", "list"), 1 + 3), (("hold", "list"), 1), (("log", "show", record), None), (("log", "show", str(index)), None)):
            shown = self.run_well(*args, "--data", self.data).out
            self.assertNotRegex(shown, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]|(?m:^0193)")
            if lines:
                self.assertEqual(len(shown.splitlines()), lines, shown)
        for args in (("log", "show", os.fsdecode(b"\x9b\xff")), (os.fsdecode(b"\x9b"),), ("verify", os.fsdecode(b"/\x9b")),
                     ("log", "list", "--since", os.fsdecode(b"\x9b"))):
            run = subprocess.run([support.VERBATIM, *map(os.fsencode, args)], capture_output=True, timeout=30)
            self.assertEqual(run.returncode, USAGE, run)
            run.stderr.decode()  # else it is no UTF-8

    def test_a_body_looks_like_no_leaf(self):
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            forged = b'{"model":"demo","max_tokens":2,\n"messages":[{"role":"user","content":"x"}]\n\n' \
                     b'\nleaf 1 of 2\n  status                        complete\n}'
            record = gateway.post("/v1/chat/completions", forged).record
        shown = self.run_well("log", "show", record, "--contents", "--data", self.data).out
        self.assertEqual(len([line for line in shown.splitlines() if line.startswith("leaf ")]), 2, shown)
        self.assertIn("\n  | leaf 1 of 2\n  |   status", shown)

    def test_texts_for_leaves_are_utf8(self):
        self.make_log()
        for args in (("hold", "add", "--all"), ("erase", "--subject", "0" * 32), ("keys", "rotate")):
            self.assert_one_line_error(verbatim(*args, "--data", self.data, "--reason", os.fsdecode(b"\xff"), timeout=30),
                                       USAGE, "--reason")
        for name in ("x" + "\u00e4" * 70, os.fsdecode(b"x\xff")):
            self.run_well("export", "--data", self.data, "--out", self.folder / name)

    def test_output_that_cannot_be_written_is_no_success(self):
        self.make_log()
        for args in (("log", "list"), ("checkpoint",), ("verify", "--json"), ("log", "list", "--json")):
            command = [support.VERBATIM, *args, "--data", str(self.data)]
            for stdout, closed in ((open("/dev/full", "wb"), False), (None, True)):
                run = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, timeout=60,
                                     preexec_fn=(lambda: os.close(1)) if closed else None)
                self.assertEqual(run.returncode, UNFINISHED, (args, closed))
                self.assertIn(b"output", run.stderr)
                if stdout:
                    stdout.close()

    def test_help_has_an_example_for_every_subcommand(self):
        top = self.run_well("--help").out
        self.assertIn("Example", top)
        for command in (["gateway"], ["log", "list"], ["log", "show"], ["verify"], ["checkpoint"], ["receipt"],
                        ["model", "fingerprint"], ["model", "sign"], ["model", "verify"], ["engine", "generate"], ["engine", "score"], ["engine", "tokenize"],
                        ["engine", "render"], ["replay"], ["export"], ["prune"], ["timestamp", "ask"]):
            shown = self.run_well(*command, "--help").out
            self.assertIn("verbatim " + " ".join(command), shown)

    def test_what_is_not_in_this_version_says_so_with_exit_2(self):
        roadmap = (support.SOURCE / "docs" / "roadmap.md").read_text()
        self.assert_one_line_error(verbatim("export", "--out", self.folder / "b", "--format", "eu-ai-act", timeout=30), USAGE,
                                   "'export --format eu-ai-act' is not in this version")
        self.assertIn("`export --format eu-ai-act`", roadmap)

    def test_what_are_no_messages_is_said_as_that(self):
        for content in ('{"a": 1}', '"x"', '{"messages": {}}'):
            path = self.folder / "messages.json"
            path.write_text(content)
            for command in ("render", "generate"):
                self.assert_one_line_error(verbatim("engine", command, "--messages", path, timeout=30), USAGE,
                                           "no array of messages", str(path))

    def test_a_sampling_setting_out_of_range_is_told_its_range(self):
        self.assert_one_line_error(verbatim("engine", "generate", "--prompt", "x", "--temperature", "-1", timeout=30),
                                   USAGE, "--temperature: '-1' is not a number from 0 to 1000000")

    def test_a_command_without_what_it_needs_says_so_with_exit_2(self):
        for command in (["probe", "--model", "m"], ["witness"], ["keys"], ["erase"], ["hold"], ["prune"],
                        ["engine", "generate"], ["model", "sign", "x"], ["model", "verify", "x", "--key", "y"]):
            self.assert_one_line_error(verbatim(*command, timeout=30), USAGE)

    # The gateway's start.

    def test_a_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            finished = verbatim("gateway", "--listen", f"127.0.0.1:{port}", "--data", self.data, "--upstream",
                                "openai=http://127.0.0.1:9", timeout=30)
        self.assert_one_line_error(finished, UNFINISHED, f"listen = 127.0.0.1:{port}")

    def test_a_model_that_is_not_there(self):
        self.assert_one_line_error(self.start("--model", "demo=/no/such/model"), USAGE, "/no/such/model")

    def test_truncated_weights(self):
        model = self.model_copy()
        weights = model / "model.safetensors"
        good = weights.read_bytes()
        for size in (0, 7, 8, 100, len(good) // 2, len(good) - 1):
            weights.write_bytes(good[:size])
            self.assert_one_line_error(self.start("--model", f"demo={model}"), USAGE)
            self.assert_one_line_error(verbatim("engine", "generate", "--model", model, "--prompt", "x", timeout=60), USAGE)

    def test_weights_and_configurations_made_to_mislead(self):
        good_config = json.loads((support.DEMO_MODEL / "config.json").read_text())
        changes = [{"hidden_size": 1 << 40}, {"hidden_size": -1}, {"num_hidden_layers": 10**9}, {"vocab_size": 0},
                   {"num_attention_heads": 0}, {"num_key_value_heads": 3}, {"architectures": ["NoSuchForCausalLM"],
                                                                            "model_type": "no-such"},
                   {"hidden_size": "64"}, {"rms_norm_eps": -1}, {"rope_theta": 0}]
        for change in changes:
            model = self.model_copy()
            (model / "config.json").write_text(json.dumps({**good_config, **change}))
            finished = verbatim("engine", "generate", "--model", model, "--prompt", "x", timeout=60)
            self.assert_one_line_error(finished, USAGE)
            shutil.rmtree(model)
        for name, text in (("config.json", "{"), ("config.json", "[" * 100000), ("tokenizer.json", "{}"),
                           ("tokenizer.json", "\x00"), ("model.safetensors", "\xff" * 64)):
            model = self.model_copy()
            (model / name).write_bytes(text.encode("latin-1"))
            finished = verbatim("engine", "generate", "--model", model, "--prompt", "x", timeout=60)
            self.assert_one_line_error(finished, USAGE)
            shutil.rmtree(model)

    def test_a_malformed_configuration_names_the_line(self):
        config = self.folder / "verbatim.toml"
        for text in ("listen = \n", "[gateway\n", "no_such_setting = 1\n", "\xff\xfe"):
            config.write_bytes(text.encode("latin-1"))
            finished = self.start("--config", config)
            self.assert_one_line_error(finished, USAGE, "verbatim.toml")
        self.assert_one_line_error(self.start("--config", self.folder / "absent.toml"), USAGE, "absent.toml")

    def test_a_folder_that_cannot_be_written(self):
        blocked = self.folder / "file"
        blocked.write_text("not a folder")
        finished = verbatim("gateway", "--listen", "127.0.0.1:0", "--data", blocked / "data", "--upstream",
                            "openai=http://127.0.0.1:9", timeout=30)
        self.assertIn(finished.code, (USAGE, UNFINISHED))
        self.assert_one_line_error(finished, finished.code)
        readonly = self.folder / "readonly"
        readonly.mkdir(mode=0o555)
        as_nobody = (lambda: (os.setgroups([]), os.setgid(65534), os.setuid(65534))) if os.geteuid() == 0 else None
        os.chmod(self.folder, 0o755)
        finished = verbatim("gateway", "--listen", "127.0.0.1:0", "--data", readonly / "data", "--upstream",
                            "openai=http://127.0.0.1:9", timeout=30, preexec=as_nobody)
        self.assert_one_line_error(finished, UNFINISHED, "readonly")

    # A log that is not as it should be.

    def test_a_log_of_a_newer_version_is_left_alone(self):
        self.make_log()
        path = self.data / "log.db"
        with sqlite3.connect(path) as database:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            self.assertGreater(version, 0)
            database.execute(f"PRAGMA user_version = {version + 1}")
        database.close()
        before = path.read_bytes()
        for finished in (self.start("--upstream", "openai=http://127.0.0.1:9"),
                         verbatim("verify", "--data", self.data), verbatim("log", "list", "--data", self.data),
                         verbatim("export", "--data", self.data, "--out", self.folder / "b")):
            self.assert_one_line_error(finished, USAGE, "newer")
        self.assertEqual(path.read_bytes(), before)

    def test_a_folder_without_a_log(self):
        for command in (["log", "list"], ["verify"], ["checkpoint"], ["export", "--out", self.folder / "b"],
                        ["replay", "--all"], ["log", "show", "0"]):
            self.assert_one_line_error(verbatim(*command, "--data", self.folder / "none", timeout=30), USAGE)
        self.assertFalse((self.folder / "none").exists(), "a reading command made a folder")

    def test_a_database_that_is_none(self):
        self.make_log()
        for content in (b"", b"not a database" * 1000, (self.data / "log.db").read_bytes()[:5000]):
            broken = self.folder / "broken"
            shutil.copytree(self.data, broken)
            for name in ("log.db-wal", "log.db-shm"):
                (broken / name).unlink(missing_ok=True)
            (broken / "log.db").write_bytes(content)
            for command in (["verify"], ["log", "list"], ["checkpoint"]):
                finished = verbatim(*command, "--data", broken, timeout=30)
                self.assertIn(finished.code, (1, USAGE, UNFINISHED), str(finished))
                self.assertNotIn("terminate", finished.err)
            started = verbatim("gateway", "--listen", "127.0.0.1:0", "--data", broken, "--upstream",
                               "openai=http://127.0.0.1:9", timeout=30)
            self.assertIn(started.code, (1, USAGE, UNFINISHED), str(started))
            if content:
                self.assertEqual((broken / "log.db").read_bytes(), content, "a broken log was written to")
            shutil.rmtree(broken)

    def test_a_hold_on_a_record_that_is_not_there_holds_nothing(self):
        self.make_log()
        size = self.assert_valid()["size"]
        self.assert_one_line_error(verbatim("hold", "add", "--id", "00000000-0000-7000-8000-000000000000", "--reason", "case",
                                            "--data", self.data), USAGE, "there is no record")
        self.assertEqual(self.assert_valid()["size"], size)

    def test_names_in_a_bundle_do_not_steer_the_terminal(self):
        self.make_log()
        bundle = self.folder / "bundle"
        self.run_well("export", "--data", self.data, "--out", bundle)
        (bundle / "\x1b[2J\x1b[HVALID\nVALID\x9b8m").write_text("x")
        finished = verbatim("verify", bundle, timeout=30)
        self.assertEqual(finished.code, 1, finished)
        self.assertTrue(finished.out.startswith("TAMPERED\n"), finished)
        self.assertNotRegex(finished.out, "[\x00-\x09\x0b-\x1f\x7f-\x9f]|\nVALID")

    def test_endless_input_is_refused_within_its_bound(self):
        self.make_log()
        vkey = self.assert_valid()["vkey"]
        with open("/dev/zero", "rb") as endless:
            finished = subprocess.run([support.VERBATIM, "verify", "--receipt", "-", "--key", vkey], stdin=endless,
                                      capture_output=True, timeout=60,
                                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 29, 1 << 29)))
        self.assertEqual((finished.returncode, b"64 MiB" in finished.stderr), (USAGE, True), finished.stderr)

    def test_records_that_are_not_there(self):
        self.make_log()
        for name in ("0193a5e0-7c1a-7b3e-9d2f-0123456789ab", "999999", "nonsense", "-1", "../../etc/passwd"):
            self.assert_one_line_error(verbatim("log", "show", "--data", self.data, "--", name), USAGE)
            self.assert_one_line_error(verbatim("receipt", "--data", self.data, "--", name), USAGE)

    def test_verify_takes_no_nonsense(self):
        self.make_log()
        nonsense = self.folder / "nonsense"
        nonsense.write_bytes(os.urandom(500))
        for args in (("--key", "nonsense"), ("--checkpoint", nonsense), ("--policy", nonsense),
                     ("--checkpoint", "/no/such/file")):
            finished = verbatim("verify", "--data", self.data, *args)
            self.assert_one_line_error(finished, USAGE)
        self.assert_one_line_error(verbatim("verify", nonsense), USAGE)

    def test_export_never_overwrites(self):
        self.make_log()
        kept = self.folder / "kept"
        kept.mkdir()
        (kept / "mine").write_text("precious")
        finished = verbatim("export", "--data", self.data, "--out", kept)
        self.assert_one_line_error(finished, USAGE)
        self.assertEqual([p.name for p in kept.iterdir()], ["mine"])


if __name__ == "__main__":
    support.main()
