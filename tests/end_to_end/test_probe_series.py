"""`verbatim probe --series`: a time series of one endpoint, a baseline, and an alarm when its answers change."""
import json
import re
import subprocess
import threading
import time
from datetime import datetime
from pathlib import Path

import support
from mock_upstream import MockUpstream, Reply
from test_probe import PlainText


class Endpoint:
    """An endpoint whose answers the test changes between two runs."""

    def __init__(self, *texts):
        self.texts, self.fingerprint, self.status, self.count = texts, None, "200 OK", 0
        self.model, self.finish, self.refuses, self.pause = "mock", "stop", lambda question: False, 0
        self.lock = threading.Lock()

    def __call__(self, request):
        with self.lock:
            self.count += 1
            text = self.texts[self.count % len(self.texts)]
        question = json.loads(request.body)["messages"][0]["content"]
        if self.status != "200 OK" or self.refuses(question):
            return Reply.json('{"error":{"message":"busy"}}', "503 Service Unavailable")
        time.sleep(self.pause)
        if callable(text):
            text = text(question)
        body = {"model": self.model, "choices": [{"index": 0, "finish_reason": self.finish,
                                                  "message": {"role": "assistant", "content": text}}]}
        if self.fingerprint:
            body["system_fingerprint"] = self.fingerprint
        return Reply.json(json.dumps(body))


class ProbeSeriesTest(support.ProgramTest):
    def setUp(self):
        super().setUp()
        self.series = self.folder / "series"

    def run_series(self, url, *args, code=0, question=("--prompt", "What is a log?"), n=20):
        finished = self.run_well("probe", "--url", url, "--model", "m", *question, "-n", n, "--series", self.series, *args,
                                 "--json", code=code)
        return finished.json

    def files(self):
        return sorted(self.series.glob("*.json"))

    def test_the_first_run_is_the_baseline_and_equal_answers_are_no_change(self):
        with MockUpstream(Endpoint("A log is a list.")) as mock:
            first = self.run_series(mock.url)
            second = self.run_series(mock.url)
        self.assertTrue(first["is_baseline"])
        self.assertIsNone(first["test"])
        self.assertEqual((second["is_baseline"], second["changed"], second["reasons"]), (False, False, []))
        self.assertEqual(second["baseline"], first["time"])
        self.assertEqual((second["test"]["p_value"], second["test"]["mmd2"]), (1, 0))
        self.assertEqual((second["test"]["before"], second["test"]["now"]), (20, 20))
        self.assertEqual(len(self.files()), 2)
        for path in self.files():
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            kept = json.loads(path.read_text())
            self.assertEqual(kept["format"], "verbatim-probe-run/1")
            self.assertEqual(kept["questions"][0]["texts"], ["A log is a list."])
            self.assertEqual(path.stem, kept["time"].replace("-", "").replace(":", ""))
            datetime.fromisoformat(kept["time"])

    def test_another_model_is_an_alarm_with_one_line(self):
        endpoint = Endpoint("A log is a list.")
        with MockUpstream(endpoint) as mock:
            self.run_series(mock.url)
            endpoint.texts = ["Logs are records."]
            found = self.run_series(mock.url, code=1)
            said = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "What is a log?", "-n", 20, "--series",
                                    self.series, "--quiet")
        self.assertEqual((found["changed"], found["reasons"]), (True, ["answers"]))
        self.assertEqual(found["test"]["p_value"], 0.0001)
        self.assertEqual(said.code, 1)
        self.assertEqual(said.err, "")
        self.assertRegex(said.out, r"^CHANGED since the baseline of \S+Z: p = 0\.0001 at a false-positive rate of 0\.01, "
                                   r"20 answers against 20\n  question 1 of 1, now: Logs are records\.\n  before:          A log is a list\.\n$")

    def test_an_endpoint_that_always_varied_has_not_changed(self):
        with MockUpstream(Endpoint("one", "two", "three", "four")) as mock:
            self.run_series(mock.url)
            found = self.run_series(mock.url)
        self.assertEqual(found["distinct"], 4)
        self.assertGreater(found["test"]["p_value"], 0.5)

    def test_small_changes_show_in_many_questions(self):
        prompts = self.folder / "prompts"
        prompts.write_text("".join(f"Question {i}?\n" for i in range(12)) + "\n")
        endpoint = Endpoint(lambda question: "Answer to " + question)
        with MockUpstream(endpoint) as mock:
            question = ("--prompts", prompts)
            baseline = self.run_series(mock.url, question=question, n=10)
            self.assertEqual((baseline["questions"], baseline["n"], baseline["distinct"]), (12, 120, 12))
            self.assertFalse(self.run_series(mock.url, question=question, n=10)["changed"])
            endpoint.texts = [lambda question: "Answer to " + question] * 4 + [lambda question: "No answer to " + question]
            self.assertTrue(self.run_series(mock.url, question=question, n=10, code=1)["changed"])

    def test_a_new_system_fingerprint_is_an_alarm_of_its_own(self):
        endpoint = Endpoint("same")
        endpoint.fingerprint = "fp_1"
        with MockUpstream(endpoint) as mock:
            self.run_series(mock.url)
            self.assertFalse(self.run_series(mock.url)["changed"])
            endpoint.fingerprint = "fp_2"
            found = self.run_series(mock.url, code=1)
            self.assertEqual((found["reasons"], found["new_fingerprints"]), (["system_fingerprint"], ["fp_2"]))
            self.assertEqual(found["test"]["p_value"], 1)
            # What is known becomes the baseline.
            self.assertTrue(self.run_series(mock.url, "--new-baseline")["is_baseline"])
            self.assertFalse(self.run_series(mock.url)["changed"])

    def test_missing_answers_leave_it_open_and_are_kept(self):
        endpoint = Endpoint("same")
        with MockUpstream(endpoint) as mock:
            endpoint.status = "503 Service Unavailable"
            refused = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 5, "--series", self.series)
            self.assert_one_line_error(refused, 3, "too few answers for a baseline: 0 of 5")
            self.assertEqual(self.files(), [])
            endpoint.status = "200 OK"
            self.run_series(mock.url)
            endpoint.status = "503 Service Unavailable"
            found = self.run_series(mock.url, code=3)
            self.assertEqual((found["answered"], found["test"], found["changed"]), (0, None, False))
            self.assertEqual(json.loads(self.files()[-1].read_text())["failures"], {"http_503": 20})
            endpoint.status = "200 OK"
            self.assertFalse(self.run_series(mock.url)["changed"])

    def test_a_question_that_is_no_longer_answered_is_an_alarm_of_its_own(self):
        metrics, report, prompts = self.folder / "probe.prom", self.folder / "report.html", self.folder / "prompts"
        prompts.write_text("one\ntwo\n")
        endpoint = Endpoint("same")
        command = ["probe", "--model", "m", "--prompts", prompts, "-n", 8, "--series", self.series, "--metrics", metrics,
                   "--report", report, "--quiet"]
        with MockUpstream(endpoint) as mock:
            self.run_well(*command, "--url", mock.url)
            once = iter([True])
            endpoint.refuses = lambda question: question == "two" and next(once, False)
            self.assertIn("no change", self.run_well(*command, "--url", mock.url).out, "a single failure is no change")
            endpoint.refuses = lambda question: question == "two"
            said = self.run_well(*command, "--url", mock.url, code=1)
            self.assertRegex(said.out, r"^CHANGED .*; how many questions are answered has changed, now 8 of 16: p = 0\.000\d; "
                                       r"too few answers to 1 of 2 questions\n$")
            self.assertIn('last_changed{series="series",model="m"} 1\n', metrics.read_text())
            self.assertIn("How many questions are answered has changed", PlainText(report.read_text()).text)
            found = self.run_well(*command, "--url", mock.url, "--json", code=1).json
            self.assertEqual((found["reasons"], found["questions_open"], found["test"]["p_value"]), (["answered"], 1, 1))
            self.assertLess(found["answered_test"]["p_value"], 0.001)
            endpoint.refuses = lambda question: question == "one"
            self.assertIn("now 8 of 16", self.run_well(*command, "--url", mock.url, code=1).out, "the first one too")
            # Half of one question, on which nothing can be said, is neither a change nor none.
            turn = iter(range(100))
            endpoint.refuses = lambda question: question == "two" and next(turn) % 2 == 0
            said = self.run_well(*command, "--url", mock.url, code=3)
            self.assertIn("too few answers to 1 of 2 questions", said.out)

    def test_a_change_behind_the_compared_characters_is_an_alarm(self):
        endpoint = Endpoint("x" * 1000 + "A")
        with MockUpstream(endpoint) as mock:
            self.run_series(mock.url)
            self.assertFalse(self.run_series(mock.url)["changed"])
            endpoint.texts = ["x" * 1000 + "B"]
            found = self.run_series(mock.url, code=1)
        self.assertEqual((found["reasons"], found["test"]["p_value"]), (["answers"], 0.0001))

    def test_what_answers_tell_of_themselves_is_noted(self):
        report = self.folder / "report.html"
        endpoint = Endpoint("same")
        with MockUpstream(endpoint) as mock:
            self.run_series(mock.url)
            endpoint.model, endpoint.finish = "mock-2", "length"
            found = self.run_series(mock.url, "--report", report)
            self.assertEqual((found["changed"], found["models"], found["new_models"]),
                             (False, [{"model": "mock-2", "count": 20}], ["mock-2"]))
            self.assertEqual((found["finish_reasons"], found["new_finish_reasons"]),
                             ([{"finish_reason": "length", "count": 20}], ["length"]))
            said = self.run_well("probe", "--url", mock.url, "--model", "m", "--prompt", "What is a log?", "-n", 20, "--series",
                                 self.series, "--quiet")
        self.assertRegex(said.out, "^no change .*; new model name mock-2; new finish reason length\n$")
        self.assertIn("no change, new model name mock-2, new finish reason length", PlainText(report.read_text()).text)

    def test_what_can_be_refused_is_refused_before_anything_is_asked(self):
        endpoint = Endpoint("same")
        with MockUpstream(endpoint) as mock:
            self.run_series(mock.url)
            kept = self.files()[0]
            asked = endpoint.count
            base = ["probe", "--url", mock.url, "--model", "m", "-n", 20, "--series", self.series]
            for args, words in [(["--prompt", "Who are you?"], "other questions"),
                                (["--prompt", "What is a log?", "--concurrency", "2"], "another load"),
                                (["--prompt", "What is a log?", "--concurrency", "1,2"], "under 1 loads, not 2"),
                                (["--prompt", "What is a log?", "--neighbours", "2"], "under 1 loads, not 2"),
                                (["--prompt", "What is a log?", "--max-tokens", "9"], "other questions"),
                                (["--prompt", "What is a log?", "--api", "anthropic"], "another API")]:
                self.assert_one_line_error(support.verbatim(*base, *args), 2, words)
            run = json.loads(kept.read_text())
            run["time"] = run["baseline"] = "2130-01-01T00:00:00.000000Z"
            (self.series / "21300101T000000.000000Z.json").write_text(json.dumps(run))
            for more in ([], ["--new-baseline"]):
                self.assert_one_line_error(support.verbatim(*base, "--prompt", "What is a log?", *more), 2, "a later run already")
        self.assertEqual(endpoint.count, asked)

    def test_of_first_runs_at_once_one_is_the_baseline(self):
        endpoint = Endpoint("same")
        endpoint.pause = 0.2  # long enough for all to begin
        with MockUpstream(endpoint) as mock:
            command = [support.VERBATIM, "probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", "6", "--quiet",
                       "--series", str(self.series)]
            running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
            ended = [(*process.communicate(timeout=120), process.returncode) for process in running]
        kept = [json.loads(path.read_text()) for path in self.files()]
        self.assertEqual(sum(run["time"] == run["baseline"] for run in kept), 1)
        self.assertEqual(sum(code == 0 for _, _, code in ended), len(kept))
        for out, err, code in ended:
            if code != 0:
                self.assertEqual((out, code), ("", 3))
                self.assertIn("another run of this series is under way", err)
        self.assertEqual(endpoint.count, 6 * len(kept), "refused before anything is asked")

    def test_a_series_in_the_folder_of_a_log_is_refused(self):
        with self.gateway() as gateway, MockUpstream(Endpoint("same")) as mock:
            base = ["probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 6]
            for series, data in [(self.data, self.data), (self.data / "series", self.data), (self.folder / "a/../data", self.data),
                                 (self.data, self.folder / "elsewhere")]:
                refused = support.verbatim(*base, "--series", series, "--data", data)
                self.assert_one_line_error(refused, 2, "folder of the log")
            self.assertEqual(mock.requests, [])
            self.assertFalse((self.data / "series").exists())
            self.assertIn("process", (self.data / "lock").read_text())

    def test_loads_are_compared_each_with_itself(self):
        load = ("--concurrency", "1,4", "--neighbours", 2)
        endpoint = Endpoint("same")
        with MockUpstream(endpoint) as mock:
            self.run_series(mock.url, *load, n=6)
            found = self.run_series(mock.url, *load, n=6)
            self.assertEqual((found["test"]["before"], found["test"]["now"]), (24, 24))
            other = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "What is a log?", "-n", 6, "--series",
                                     self.series)
            self.assert_one_line_error(other, 2, "under 4 loads, not 1", "--new-baseline")
            endpoint.status = "503 Service Unavailable"
            self.assertEqual(self.run_series(mock.url, *load, n=6, code=3)["answered"], 0)
            endpoint.status = "200 OK"
            self.assertEqual(len(self.files()), 3)
            other = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "What is a log?", "-n", 6, "--series",
                                     self.series, "--concurrency", 8)
            self.assert_one_line_error(other, 2, "another load")

    def test_a_series_is_of_one_endpoint_and_one_question(self):
        with MockUpstream(Endpoint("same")) as mock, MockUpstream(Endpoint("same")) as elsewhere:
            self.run_series(mock.url)
            for url, question, words in [(elsewhere.url, "What is a log?", "another endpoint"),
                                         (mock.url, "Who are you?", "other questions")]:
                refused = support.verbatim("probe", "--url", url, "--model", "m", "--prompt", question, "-n", 6, "--series",
                                           self.series)
                self.assert_one_line_error(refused, 2, words, "--new-baseline")
            self.assertEqual(len(self.files()), 1)
            # A new baseline may ask for something else, and from then on that is what is asked.
            other = ("--prompt", "Who are you?")
            self.assertTrue(self.run_series(elsewhere.url, "--new-baseline", question=other)["is_baseline"])
            self.assertFalse(self.run_series(elsewhere.url, question=other)["changed"])
            refused = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "What is a log?", "-n", 6, "--series",
                                       self.series)
            self.assert_one_line_error(refused, 2, "another endpoint")

    def test_an_alarm_that_can_never_come_is_no_absence_of_change(self):
        metrics, report = self.folder / "probe.prom", self.folder / "report.html"
        endpoint = Endpoint("same")
        command = ["probe", "--model", "m", "--prompt", "x", "-n", 6, "--series", self.series, "--metrics", metrics, "--report",
                   report, "--quiet"]
        with MockUpstream(endpoint) as mock:
            refused = support.verbatim(*command, "--url", mock.url, "--alpha", 0.001)
            self.assert_one_line_error(refused, 2, "never raise an alarm at --alpha 0.001", "-n 7")
            self.assertEqual(endpoint.count, 0, "said before anything is asked")
            self.run_well(*command, "--url", mock.url)
            endpoint.texts = ["other"]
            said = self.run_well(*command, "--url", mock.url, "--alpha", 0.001, code=3)
            self.assertRegex(said.out, r"^UNDECIDED: too few answers .* p = 0\.00\d+ .*, of which no p below 0\.0022 can come\n$")
            self.assertIn('verbatim_probe_last_undecided{series="series",model="m"} 1\n', metrics.read_text())
            self.assertIn("Too few answers to say", PlainText(report.read_text()).text)
            self.assertNotIn("no change", PlainText(report.read_text()).text)
            # At the rate that so many answers allow, and of as few answers when the baseline has more.
            self.run_well(*command, "--url", mock.url, code=1)
            self.assertIn('verbatim_probe_last_undecided{series="series",model="m"} 0\n', metrics.read_text())
            self.run_well("probe", "--url", mock.url, "--model", "m", "--prompt", "x", "-n", 12, "--series", self.series,
                          "--new-baseline")
            endpoint.texts = ["same"]
            self.run_well(*command, "--url", mock.url, "--alpha", 0.001, code=1)

    def test_a_run_without_answers_is_told_to_be_open(self):
        metrics = self.folder / "probe.prom"
        endpoint = Endpoint("same")
        with MockUpstream(endpoint) as mock:
            self.run_series(mock.url, "--metrics", metrics)
            self.assertIn('last_undecided{series="series",model="m"} 0\n', metrics.read_text())
            endpoint.status = "503 Service Unavailable"
            self.assertTrue(self.run_series(mock.url, "--metrics", metrics, code=3)["undecided"])
        self.assertIn('last_undecided{series="series",model="m"} 1\n', metrics.read_text())
        self.assertIn('last_changed{series="series",model="m"} 0\n', metrics.read_text())

    def test_a_fingerprint_does_not_steer_the_terminal(self):
        endpoint = Endpoint("same")
        with MockUpstream(endpoint) as mock:
            self.run_series(mock.url)
            endpoint.fingerprint = "fp\nverbatim: all is well\u009b2J\u202e" + "x" * 200
            said = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "What is a log?", "-n", 20, "--series",
                                    self.series, "--quiet")
        self.assertEqual(said.code, 1)
        self.assertRegex(said.out, r"^CHANGED .*; new system_fingerprint fp\?verbatim: all is well\?2J\?x{70,100}\u2026\n$")

    def test_the_metrics_are_those_of_the_series(self):
        metrics = self.folder / "probe.prom"
        endpoint = Endpoint("same")
        with MockUpstream(endpoint) as mock:
            self.run_series(mock.url, "--metrics", metrics)
            self.assertNotIn("p_value", metrics.read_text())
            self.run_series(mock.url, "--metrics", metrics)
            endpoint.texts = ["other"]
            found = self.run_series(mock.url, "--metrics", metrics, code=1)
        text = metrics.read_text()
        samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        labels = '{series="series",model="m"}'
        told = {name.removeprefix("verbatim_probe_").removesuffix(labels): float(value) for name, value in samples.items()}
        self.assertEqual((told["runs_total"], told["changed_total"], told["last_changed"]), (3, 1, 1))
        self.assertEqual((told["last_p_value"], told["last_mmd2"]), (found["test"]["p_value"], found["test"]["mmd2"]))
        self.assertEqual((told["last_asked"], told["last_answered"], told["last_distinct"]), (20, 20, 1))
        self.assertEqual(told["last_run_timestamp_seconds"], int(datetime.fromisoformat(found["time"]).timestamp()))
        self.assertEqual(told["baseline_timestamp_seconds"], int(datetime.fromisoformat(found["baseline"]).timestamp()))
        self.assertEqual(len(re.findall(r"^# TYPE ", text, re.M)), len(samples))

    def test_the_report_is_drawn_from_the_series_and_shows_hostile_text_as_text(self):
        report = self.folder / "report.html"
        endpoint = Endpoint("The same <b>answer</b>, as ever")
        with MockUpstream(endpoint) as mock:
            self.run_series(mock.url, "--report", report)
            self.assertIn("A baseline, and nothing to compare with it yet", PlainText(report.read_text()).text)
            self.assertNotIn(" % to ", PlainText(report.read_text()).text, "no interval for what these answers picked themselves")
            self.run_series(mock.url, "--report", report)
            self.assertIn("% to 100 %", PlainText(report.read_text()).text)
            self.assertIn("No change since the baseline", PlainText(report.read_text()).text)
            endpoint.texts = ["The same <script>alert(1)</script>\u202egnp"]
            self.run_series(mock.url, "--report", report, code=1)
        page = report.read_text()
        plain = PlainText(page)
        self.assertIn("The answers have changed", plain.text)
        self.assertIn("3 runs, of which 1 found a change", plain.text)
        self.assertIn("answers changed", plain.text)
        self.assertIn("20 \u2192 0", plain.text)
        self.assertIn("0 \u2192 20", plain.text)
        self.assertNotIn("script", plain.tags)
        self.assertNotIn("b", plain.tags)
        self.assertNotIn("\u202e", page)
        self.assertEqual(re.findall(r'(?:src|href)="', page), [])
        self.assertEqual(report.stat().st_mode & 0o777, 0o600)

    def test_files_that_are_no_runs_are_named(self):
        with MockUpstream(Endpoint("same")) as mock:
            self.run_series(mock.url)
            good = self.files()[0].read_text()
            (self.series / "notes.txt").write_text("not read")
            (self.series / "x.json.tmp.1").write_text("{")
            self.run_series(mock.url)
            hostile = json.loads(good)
            hostile["questions"][0]["phases"][0]["answers"] = [7]
            for text, word in [("{", "run"), ("{}", "format"), (json.dumps(hostile), "answers"), ("[]", "format"),
                               (good.replace("run/1", "run/2"), "run/2"), (good.replace('"time":"2', '"time":"x2'), "time")]:
                (self.series / "bad.json").write_text(text)
                refused = support.verbatim("probe", "--url", mock.url, "--model", "m", "--prompt", "What is a log?", "-n", 6,
                                           "--series", self.series)
                self.assert_one_line_error(refused, 2, word, "bad.json")

    def test_mistakes_are_named(self):
        base = ["probe", "--url", "http://127.0.0.1:9", "--model", "m"]
        prompts = self.folder / "prompts"
        prompts.write_text("\n\n")
        for args, word in [
            (["--series", self.series], "--prompts"),
            (["--series", self.series, "--prompt", "x", "--prompts", prompts], "one kind of question"),
            (["--series", self.series, "--prompts", prompts], "prompts"),
            (["--series", self.series, "--prompt", "x", "-n", 4], "5 to 200"),
            (["--series", self.series, "--prompt", "x", "-n", 201], "5 to 200"),
            (["--series", self.series, "--prompt", "x", "--csv", "x.csv"], "--csv"),
            (["--series", self.series, "--prompt", "x", "--alpha", "0"], "--alpha"),
            (["--series", self.series, "--prompt", "x", "--alpha", "0.00001"], "--alpha"),
            (["--prompt", "x", "--new-baseline"], "--series"),
            (["--prompt", "x", "--metrics", "m.prom"], "--series"),
            (["--prompts", prompts], "--series"),
        ]:
            self.assert_one_line_error(support.verbatim(*base, *args), 2, word)

    def test_what_the_systemd_unit_runs_is_this(self):
        unit = (support.SOURCE / "deploy/systemd/verbatim-probe@.service").read_text()
        program, command, *flags = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).split()
        self.assertEqual((Path(program).name, command), ("verbatim", "probe"))
        prompts = self.folder / "prompts"
        prompts.write_text("What is a log?\n")
        with MockUpstream(Endpoint("same")) as mock:
            given = {"--url": mock.url, "--model": "m", "--prompts": prompts, "--series": self.series,
                     "--metrics": self.folder / "probe.prom", "--report": self.folder / "probe.html"}
            self.assertEqual(flags.pop(), "$PROBE_FLAGS")
            for option, value in given.items():
                flags[flags.index(option) + 1] = value
            for _ in range(2):
                self.run_well("probe", *flags, "-n", 6)
        self.assertIn("verbatim_probe_runs_total", (self.folder / "probe.prom").read_text())
        self.assertIn("No change", (self.folder / "probe.html").read_text())


if __name__ == "__main__":
    support.main()
