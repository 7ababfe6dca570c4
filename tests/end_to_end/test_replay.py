"""`verbatim replay` as a run: its report, tables, design, resumption; and answers of another engine, calibrated."""
import csv
import json
import re
import shutil
import sqlite3
import struct
import subprocess
import tempfile
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import support
from support import Gateway, chat

KINDS = ["BITWISE", "TOKEN_EXACT", "WITHIN_MARGIN", "DIVERGED", "NOT_REPLAYABLE", "ERASED", "PRUNED"]


class Tables(HTMLParser):
    """The rows of a page's tables as texts, by the tables' column heads; the page's text; the names of its elements."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.text, self.tags, self.links = {}, "", Counter(), []
        self.head, self.row, self.cell = None, None, None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        if tag == "a":
            self.links.append(dict(attributes)["href"])
        if tag == "table":
            self.head, self.rows = [], []
        if tag == "tr":
            self.row = []
        if tag in ("td", "th"):
            self.cell = ""

    def handle_endtag(self, tag):
        if tag == "th":
            self.head.append(self.cell)
        if tag == "td":
            self.row.append(self.cell.strip())
        if tag in ("td", "th"):
            self.cell = None
        if tag == "tr" and self.row:
            self.rows.append(self.row)
        if tag == "table":
            self.tables[tuple(self.head)] = self.rows

    def handle_data(self, data):
        self.text += data
        if self.cell is not None:
            self.cell += data


def perturbed(model, folder, scale):
    """A copy of a model whose every 37th weight is off by a factor."""
    shutil.copytree(model, folder)
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    header = struct.unpack("<Q", data[:8])[0]
    tensors = json.loads(data[8:8 + header])
    sizes = {"F32": ("<f", 4), "BF16": (None, 2), "F16": ("<e", 2)}
    for name, tensor in sorted(tensors.items()):
        if name == "__metadata__":
            continue
        form, size = sizes[tensor["dtype"]]
        begin, end = (8 + header + at for at in tensor["data_offsets"])
        for at in range(begin, end, 37 * size):
            if form:
                data[at:at + size] = struct.pack(form, struct.unpack(form, data[at:at + size])[0] * scale)
            else:  # bf16 is the upper half of f32
                value = struct.unpack("<f", b"\0\0" + data[at:at + 2])[0] * scale
                data[at:at + 2] = struct.pack("<f", value)[2:]
    path.write_bytes(data)
    return folder


class ReplayTest(support.ProgramTest):
    """One log, recorded once: honest answers of the local model, and others that cannot be computed again."""

    @classmethod
    def setUpClass(cls):
        cls.original = Path(tempfile.mkdtemp(prefix="verbatim-replay-"))
        cls.addClassCleanup(shutil.rmtree, cls.original, ignore_errors=True)
        with Gateway(cls.original / "data", "--model", f"demo={support.DEMO_MODEL}") as gateway:
            for index in range(6):
                gateway.post("/v1/chat/completions", chat(f"Who are you, number {index}?", temperature=0))
            gateway.post("/v1/chat/completions", chat("Tell me a story.", temperature=1, seed=3))
            gateway.post("/v1/chat/completions", {**chat("x"), "model": "none"})

    def setUp(self):
        super().setUp()
        shutil.copytree(self.original / "data", self.data)

    def replay(self, *args, code=0, env=None):
        return self.run_well("replay", "--data", self.data, *args, "--json", code=code, env=env).json

    def verdict_leaves(self):
        """The newest verdict leaf of each record, as the log holds it."""
        found = {}
        for record in self.records("--all-types"):
            if record["type"] == "replay_verdict":
                leaf = self.run_well("log", "show", record["index"], "--data", self.data, "--json").json["leaves"][0]["leaf"]
                found[leaf["record"]] = leaf
        return found

    def test_the_reports_figures_are_those_of_the_leaves(self):
        report, table = self.folder / "report.html", self.folder / "records.csv"
        run = self.replay("--all", "--report", report, "--csv", table)
        leaves = self.verdict_leaves()
        self.assertEqual(len(leaves), 8)
        page = Tables(report.read_text())
        kinds = Counter(leaf["verdict"] for leaf in leaves.values())
        shown = next(rows for head, rows in page.tables.items() if head[0] == "verdict" and len(head) == 4)
        self.assertEqual({row[0]: int(row[1]) for row in shown if int(row[1])}, dict(kinds))
        for row in shown:
            share = kinds[row[0]] / len(leaves)
            self.assertEqual(row[2], "0 %" if share == 0 else f"{100 * share:.1f} %")
        reasons = Counter(leaf["reason"] for leaf in leaves.values() if "reason" in leaf)
        shown = page.tables.get(("verdict", "reason", "which means", "records"), [])
        self.assertEqual({row[1]: int(row[3]) for row in shown}, dict(reasons))
        self.assertTrue(all(row[2] for row in shown), shown)  # each reason in words
        tokens = sum(leaf["tokens"] for leaf in leaves.values())
        self.assertIn(f"{tokens} tokens compared", page.text)
        margins = [sum(column) for column in zip(*(leaf["margins"] for leaf in leaves.values() if "margins" in leaf))]
        self.assertEqual(sum(margins), tokens)
        self.assertEqual(run["figures"]["margins"]["counts"], margins)
        self.assertEqual(run["figures"]["verdicts"], {kind: kinds[kind] for kind in KINDS})
        self.assertIn(f"of {tokens} tokens", page.text)
        records = next(rows for head, rows in page.tables.items() if head[0] == "record")
        self.assertEqual({row[0]: (row[3], int(row[5])) for row in records},
                         {leaf["record"]: (leaf["verdict"], leaf["tokens"]) for leaf in leaves.values()})
        with open(table, newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["id"]: (row["verdict"], row["reason"]) for row in rows},
                         {leaf["record"]: (leaf["verdict"], leaf.get("reason", "")) for leaf in leaves.values()})
        self.assert_valid()

    def test_the_report_loads_nothing_and_is_recorded_as_a_reading_of_its_texts(self):
        report = self.folder / "report.html"
        self.replay("--all", "--report", report)
        page = Tables(report.read_text())
        self.assertTrue(page.links)
        self.assertTrue(all(link.startswith("#r-") for link in page.links), page.links)
        self.assertFalse({"script", "img", "link", "iframe", "object"} & set(page.tags))
        self.assertNotRegex(report.read_text(), r'\b(src|action|formaction|background)=|url\(|@import')
        self.assertEqual(report.stat().st_mode & 0o777, 0o600)
        accesses = [r for r in self.records("--all-types") if r["type"] == "access"]
        self.assertEqual(len(accesses), 7)

    def test_a_report_without_texts_shows_none_and_reads_none(self):
        report = self.folder / "report.html"
        self.replay("--all", "--report", report, "--no-texts")
        self.assertNotIn("demo model", Tables(report.read_text()).text)
        self.assertEqual([r for r in self.records("--all-types") if r["type"] == "access"], [])

    def test_a_place_that_cannot_be_written_to_is_named_before_a_verdict_is_recorded(self):
        size = self.assert_valid()["size"]
        for flag in ("--report", "--csv", "--metrics"):
            for path, word in ((self.folder / "none" / "out", "No such file"), (self.folder, "a folder is where")):
                finished = support.verbatim("replay", "--all", flag, path, "--data", self.data)
                self.assert_one_line_error(finished, 2, word, str(path))
                self.assertNotIn(".tmp", finished.err)
        same = self.folder / "out"
        self.assert_one_line_error(support.verbatim("replay", "--all", "--report", same, "--csv", same, "--data", self.data), 2,
                                   "two outputs go to the same file")
        self.assertEqual(self.assert_valid()["size"], size)

    def test_a_run_goes_on_where_one_ended(self):
        some = [record["id"] for record in self.records()][:3]
        self.replay("--id", some[0], "--id", some[1], "--id", some[2])
        run = self.replay("--all", "--resume")
        self.assertEqual([r["id"] for r in run["records"] if r.get("resumed")], some)
        self.assertEqual(sum(run["summary"].values()), 8)
        judged = self.verdicts_in_the_log()
        again = self.replay("--all", "--resume")
        # What no engine judged is looked at again, and says nothing new.
        self.assertTrue(all(r.get("resumed") for r in again["records"]))
        self.assertEqual(self.verdicts_in_the_log(), judged)
        self.assertEqual(again["summary"], run["summary"])
        self.assertEqual(again["figures"]["margins"], run["figures"]["margins"])
        self.assertFalse(any(r.get("resumed") for r in self.replay("--all")["records"]))

    def verdicts_in_the_log(self):
        return sum(r["type"] == "replay_verdict" for r in self.records("--all-types"))

    def test_nightly_runs_write_a_verdict_once(self):
        self.run_well("erase", "--id", self.records()[0]["id"], "--reason", "asked", "--data", self.data)
        metrics = self.folder / "replay.prom"
        night = ("--last", "72", "--resume", "--metrics", metrics)
        first = self.replay(*night)
        self.assertEqual({r["verdict"] for r in first["records"]}, {"BITWISE", "NOT_REPLAYABLE", "ERASED"})
        self.assertEqual(self.verdicts_in_the_log(), len(first["records"]))
        counted = [line for line in metrics.read_text().splitlines() if line.startswith("verbatim_replay_verdict_total")]
        for options in ((), ("--method", "decode"), ()):
            again = self.replay(*night, *options)
            self.assertEqual(again["summary"], first["summary"])
        self.assertEqual([r["leaf"] for r in again["records"]], [r["leaf"] for r in first["records"]])
        # By the other method its BITWISE ones were computed once more; of the rest nothing was said twice.
        bitwise = first["summary"]["BITWISE"]
        self.assertEqual(self.verdicts_in_the_log(), len(first["records"]) + bitwise)
        self.assertEqual([line for line in metrics.read_text().splitlines() if line.startswith("verbatim_replay_verdict_total")],
                         [line if "BITWISE" not in line else line.replace(f" {bitwise}", f" {2 * bitwise}") for line in counted])
        # What can change is looked at all the same, and said when it does.
        self.run_well("erase", "--id", self.records()[1]["id"], "--reason", "asked", "--data", self.data)
        self.assertEqual(self.replay(*night)["summary"]["ERASED"], 2)
        self.assertEqual(self.verdicts_in_the_log(), len(first["records"]) + bitwise + 1)

    def test_the_terminal_says_how_many_of_each_and_why_not(self):
        lines = self.run_well("replay", "--data", self.data, "--all").out.splitlines()
        self.assertIn("8 records: 7 BITWISE (87.5 %), 1 NOT_REPLAYABLE (12.5 %)", lines)
        self.assertIn("  not replayable, status: 1", lines)
        self.assertTrue(any(re.fullmatch(r"\d+ tokens compared, \d+ of them nearly tied .*", line) for line in lines), lines)

    def test_a_run_that_was_killed_goes_on_too(self):
        begun = subprocess.Popen([support.VERBATIM, "replay", "--all", "--data", self.data],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(begun.kill)
        database = sqlite3.connect(f"file:{self.data / 'log.db'}?mode=ro", uri=True)
        self.addCleanup(database.close)

        def judged():
            return database.execute("SELECT count(*) FROM leaf WHERE type = 'replay_verdict'").fetchone()[0]

        while judged() == 0:
            self.assertIsNone(begun.poll(), "the run ended without a verdict")
        begun.kill()
        begun.wait()
        self.assert_valid()
        before = self.verdict_leaves()
        self.assertGreaterEqual(len(before), 1)
        run = self.replay("--all", "--resume")
        self.assertEqual({r["id"] for r in run["records"] if r.get("resumed")}, set(before))
        self.assertEqual(sum(run["summary"].values()), 8)
        self.assert_valid()

    def test_a_second_run_gives_the_same_leaves_however_many_records_at_a_time(self):
        def fields(*args):
            self.replay("--all", *args)
            leaves = self.verdict_leaves()
            return {record: {k: v for k, v in leaf.items() if k not in ("id", "time", "contents")}
                    for record, leaf in leaves.items()}

        before = fields()
        for parallel in (1, 3, 64):
            self.assertEqual(fields("--parallel", parallel), before)
        judged = [r["index"] for r in self.records("--all-types") if r["type"] == "replay_verdict"]
        order = [self.run_well("log", "show", index, "--data", self.data, "--json").json["leaves"][0]["leaf"]["record"]
                 for index in judged]
        self.assertEqual(order, 4 * [record["id"] for record in self.records()])
        self.assert_one_line_error(support.verbatim("replay", "--all", "--parallel", 0, "--data", self.data), 2, "--parallel")

    def test_the_design_is_stated_and_a_kept_checkpoint_draws_the_same_sample(self):
        kept = self.folder / "checkpoint"
        kept.write_text(self.run_well("checkpoint", "--data", self.data).out)
        first = self.replay("--sample", 3, "--checkpoint", kept)
        self.assertIn("3 of the 8 exchanges in the log of", first["design"])
        self.assertEqual(first["figures"]["matching"], 8)
        second = self.replay("--sample", 3, "--checkpoint", kept, "--resume")
        self.assertEqual([r["id"] for r in second["records"]], [r["id"] for r in first["records"]])
        kept.write_text(kept.read_text().replace("\n", "x\n", 1))
        self.assert_one_line_error(support.verbatim("replay", "--data", self.data, "--sample", 3, "--checkpoint", kept), 2,
                                   "checkpoint")

    def test_a_checkpoint_that_an_older_key_signed_draws_the_same_sample(self):
        kept = self.folder / "checkpoint"
        kept.write_text(self.run_well("checkpoint", "--data", self.data).out)
        first = self.replay("--sample", 3, "--checkpoint", kept)
        self.run_well("keys", "rotate", "--reason", "a new year", "--data", self.data)
        self.run_well("keys", "retire", "--reason", "known to all", "--data", self.data)
        second = self.replay("--sample", 3, "--checkpoint", kept)
        self.assertEqual([r["id"] for r in second["records"]], [r["id"] for r in first["records"]])

    def test_a_scheduled_run_samples_recent_records_within_its_time_and_counts_on(self):
        metrics = self.folder / "replay.prom"
        for runs in (1, 2):
            run = self.replay(*self.scheduled_flags(metrics))
            self.assertEqual(sum(run["summary"].values()), 8)
            text = metrics.read_text()
            # What has a verdict is not judged again.
            self.assertIn('verbatim_replay_verdict_total{verdict="BITWISE"} 7\n', text)
            self.assertIn('verbatim_replay_last_records{verdict="BITWISE"} 7\n', text)
            self.assertIn(f"verbatim_replay_runs_total {runs}\n", text)
        self.assertEqual(metrics.stat().st_mode & 0o777, 0o644)
        self.assert_one_line_error(support.verbatim("replay", "--data", self.data, "--last", 1, "--since", "2026-01-01"), 2,
                                   "--last")

    def scheduled_flags(self, metrics):
        """What the systemd unit runs, but for its paths."""
        unit = (support.SOURCE / "deploy/systemd/verbatim-replay.service").read_text()
        program, command, *flags = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).split()
        self.assertEqual((Path(program).name, command), ("verbatim", "replay"))
        flags[flags.index("--metrics") + 1] = metrics
        at = flags.index("--data")
        del flags[at:at + 2]
        return flags

    def test_environments_are_compared(self):
        run = self.replay("--all")
        self.assertEqual(len(run["environments"]), 1)
        self.assertEqual(run["environments"][0]["differs"], [])
        self.assertEqual(run["here"], run["environments"][0]["recorded"])
        self.assertEqual(run["engines_checked"], 1)

    def test_weights_that_were_changed_are_a_reason_and_the_run_goes_on(self):
        other = perturbed(support.DEMO_MODEL, self.folder / "other", 1.5)
        run = self.replay("--all", "--engine", f"demo={other}")
        self.assertEqual(run["summary"]["NOT_REPLAYABLE"], 8)
        self.assertEqual(Counter(r["reason"] for r in run["records"])["weights_differ"], 7)

    def test_what_of_a_model_changed_is_the_reason(self):
        def changed(name, file, before, after):
            folder = self.folder / name
            shutil.copytree(support.DEMO_MODEL, folder)
            text = (folder / file).read_bytes()
            self.assertIn(before, text)
            (folder / file).write_bytes(text.replace(before, after, 1))
            run = self.replay("--all", "--engine", f"demo={folder}")
            return {record["reason"] for record in run["records"] if record["model"] == "demo"}

        self.assertEqual(changed("a", "config.json", b'"rope_theta": 10000', b'"rope_theta": 20000'), {"config_differs"})
        self.assertEqual(changed("b", "tokenizer.json", b'"version": "1.0"', b'"version":  "1.0"'), {"tokenizer_differs"})
        self.assertEqual(changed("c", "tokenizer_config.json", b"{% for", b"{%  for"), {"template_differs"})

    def test_a_model_that_is_named_does_not_hide_the_others(self):
        run = self.replay("--all", "--engine", f"another={support.DEMO_MODEL}")
        self.assertEqual(run["summary"]["BITWISE"], 7)

    def test_a_model_that_cannot_be_read_is_not_called_missing(self):
        broken = self.folder / "broken"
        shutil.copytree(support.DEMO_MODEL, broken)
        weights = broken / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:200_000])
        run = self.replay("--all", "--engine", f"demo={broken}", env={"VERBATIM_DEMO_MODEL": str(broken)})
        self.assertEqual(Counter(r["reason"] for r in run["records"])["weights_unreadable"], 7)

    def test_a_record_that_takes_more_memory_than_is_allowed_is_not_replayed(self):
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            long = gateway.post("/v1/completions", {"model": "demo", "prompt": "The log", "temperature": 0, "max_tokens": 300,
                                                    "ignore_eos": True}).record
        run = self.replay("--all", "--kv-bytes-max", 512 << 10)  # one block: 256 positions of this model
        self.assertEqual([r["id"] for r in run["records"] if r["reason"] == "memory"], [long])
        self.assertEqual(run["summary"]["BITWISE"], 7)
        self.assertEqual(self.replay("--all")["summary"]["BITWISE"], 8)
        run = self.replay("--all", "--kv-bytes-max", 256 << 10)  # no block at all
        self.assertEqual(Counter(r["reason"] for r in run["records"])["memory"], 8)

    def test_the_records_of_a_tenant(self):
        self.assertEqual(len(self.replay("--tenant", "default")["records"]), 8)
        nobodys = self.replay("--tenant", "nobody")
        self.assertEqual((nobodys["records"], nobodys["design"].count("of the tenant nobody")), ([], 1))

    def test_calibrate_is_asked_for_by_its_name(self):
        self.assert_one_line_error(support.verbatim("replay", "calibrate", "--data", self.data, "--all"), 2, "--engine")
        self.assert_one_line_error(
            support.verbatim("replay", "calibrate", "--data", self.data, "--all", "--engine", f"demo={support.DEMO_MODEL}"),
            2, "0 honest records are too few")


class ForeignTest(support.ProgramTest):
    """A gateway in front of another server of the same weights."""

    def test_another_engines_answers_are_calibrated_and_others_told_apart(self):
        far = self.gateway("--model", f"demo={support.DEMO_MODEL}", data=self.folder / "far")
        wrong_weights = perturbed(support.DEMO_MODEL, self.folder / "wrong", 3)
        wrong = self.gateway("--model", f"demo={wrong_weights}", data=self.folder / "wrong-data")
        with self.gateway("--upstream", f"far={far.url}") as gateway:
            for index in range(39):
                gateway.post("/v1/chat/completions", chat(f"What is number {index}?", temperature=0))
        calibration = self.folder / "calibration.json"
        made = self.run_well("replay", "calibrate", "--data", self.data, "--model", "demo", "--engine",
                             f"demo={support.DEMO_MODEL}", "--alternative", f"wrong={wrong_weights}", "--rate", 0.05,
                             "--out", calibration, "--json").json
        self.assertEqual(made["calibration"]["records"], 39)
        self.assertEqual(made["calibration"]["threshold"], "0")  # the same engine, so no noise at all
        self.assertGreater(made["alternatives"][0]["records_beyond"]["share"], 0.5)
        self.assertGreater(made["alternatives"][0]["tokens_needed"], 0)
        run = self.run_well("replay", "--data", self.data, "--all", "--engine", f"demo={support.DEMO_MODEL}",
                            "--calibration", calibration, "--json").json
        self.assertEqual(run["summary"]["TOKEN_EXACT"], 39)
        self.assertEqual({r["weights"] for r in run["records"]}, {"claimed"})
        honest = {record["id"] for record in self.records()}
        with self.gateway("--upstream", f"wrong={wrong.url}") as gateway:
            for index in range(5):
                gateway.post("/v1/chat/completions", chat(f"What is number {index}?", temperature=0),
                             {"cache-control": "no-store"})
        run = self.run_well("replay", "--data", self.data, "--all", "--engine", f"demo={support.DEMO_MODEL}",
                            "--calibration", calibration, "--json", code=1).json
        others = [r for r in run["records"] if r["id"] not in honest]
        self.assertGreater(sum(r["verdict"] == "DIVERGED" for r in others), 2, others)
        self.assertEqual({r["verdict"] for r in run["records"] if r["id"] in honest}, {"TOKEN_EXACT"})
        types = [r["type"] for r in self.records("--all-types")]
        self.assertEqual(types.count("calibration"), 1)
        self.assert_valid()


if __name__ == "__main__":
    support.main()
