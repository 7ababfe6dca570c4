"""A replay's report in a real browser: it is laid out at every width, by day and by night and on paper, and draws what it counts."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import zlib
from pathlib import Path

import support
from support import Gateway, chat
from test_replay import perturbed

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")

# Shows the report in a frame of a given width, and becomes what was measured there.
WRAPPER = """<!doctype html><meta charset="utf-8"><title>measure</title>
<iframe id="frame" style="width:%dpx;height:1500px;border:0" src="report.html"></iframe>
<script>
document.getElementById("frame").onload = function () {
  const page = this.contentDocument, root = page.documentElement, view = this.contentWindow;
  const all = selector => [...page.querySelectorAll(selector)];
  const said = {
    overflow: root.scrollWidth - root.clientWidth,
    page: view.getComputedStyle(page.body).backgroundColor,
    ink: view.getComputedStyle(page.body).color,
    drawn: all("svg rect").map(part => part.getAttribute("class")),
    branches: all("svg path.branch").length,
    label: Math.min(...all("svg.labelled").map(svg => 12 * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)),
    scrolling: all(".scroll").filter(box => box.scrollWidth > box.clientWidth).length,
    drawings: all("svg").map(svg => svg.getBoundingClientRect()).map(box => [box.width, box.height]),
    broken: all("a").filter(a => !page.getElementById(a.getAttribute("href").slice(1))).length,
    text: page.body.innerText
  };
  document.body.textContent = "MEASURED" + JSON.stringify(said) + "END";
};
</script>"""


def png_rows(data):
    """The bytes of a picture's lines, filtered as they are: enough to see that it is not one colour."""
    body, at = b"", 8
    while at < len(data):
        size = int.from_bytes(data[at:at + 4], "big")
        if data[at + 4:at + 8] == b"IDAT":
            body += data[at + 8:at + 8 + size]
        at += 12 + size
    return zlib.decompress(body)


class ReportPagesTest(support.ProgramTest):

    @classmethod
    def setUpClass(cls):
        if not CHROMIUM:
            raise unittest.SkipTest("no chromium here: the reports are not looked at in a browser")
        cls.made = Path(tempfile.mkdtemp(prefix="verbatim-pages-"))
        cls.addClassCleanup(shutil.rmtree, cls.made, ignore_errors=True)
        wrong_weights = perturbed(support.DEMO_MODEL, cls.made / "wrong", 3)
        with Gateway(cls.made / "far", "--model", f"demo={wrong_weights}") as far, \
                Gateway(cls.made / "near", "--model", f"demo={support.DEMO_MODEL}") as near:
            with Gateway(cls.made / "data", "--upstream", f"far={far.url}", "--model", f"local={support.DEMO_MODEL}") as gateway:
                for index in range(4):
                    gateway.post("/v1/chat/completions", {**chat(f"What is number {index}?", temperature=0), "model": "local"})
                    gateway.post("/v1/chat/completions", chat(f"What is number {index}?", temperature=0))
                gateway.post("/v1/chat/completions", {**chat("x", temperature=0), "model": "m" * 200})
                gateway.post("/v1/chat/completions", chat("x", temperature=1))
            with Gateway(cls.made / "data", "--upstream", f"near={near.url}") as gateway:
                gateway.post("/v1/chat/completions", chat("Who are you?", temperature=0))
        cls.replayed = support.verbatim("replay", "--data", cls.made / "data", "--all", "--engine", f"demo={support.DEMO_MODEL}",
                                   "--report", cls.made / "report.html", "--json").json

    def browser(self, *args):
        profile = tempfile.mkdtemp(dir=self.folder)
        done = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--no-first-run", "--allow-file-access-from-files",
             f"--user-data-dir={profile}", *map(str, args)], capture_output=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout.decode()

    def measure(self, width, *flags):
        (self.made / "measure.html").write_text(WRAPPER % width)
        page = self.browser("--virtual-time-budget=5000", f"--window-size={width + 100},1600", *flags, "--dump-dom",
                            f"file://{self.made}/measure.html")
        found = re.search("MEASURED(.*)END", page, re.DOTALL)
        self.assertTrue(found, page[:1000])
        return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))

    def test_no_width_scrolls_sideways_and_links_lead_somewhere(self):
        for width in (400, 720, 1000, 1100, 1800):
            page = self.measure(width)
            self.assertEqual((page["overflow"], page["broken"]), (0, 0), width)
            for box in page["drawings"]:
                self.assertLessEqual(box[0], max(width, 736))  # what has labels scrolls by itself
                self.assertGreater(box[1], 5)
            self.assertGreater(page["label"], 9.9, width)
            if width >= 1000:
                self.assertEqual(page["scrolling"], 0, width)

    def test_day_and_night_differ_and_both_can_be_read(self):
        def light(colour):
            return sum(map(int, re.findall(r"\d+", colour)[:3]))
        day, night = self.measure(1000), self.measure(1000, "--blink-settings=preferredColorScheme=0")
        self.assertGreater(light(day["page"]) - light(day["ink"]), 400)
        self.assertGreater(light(night["ink"]) - light(night["page"]), 400)

    def test_what_is_drawn_is_what_was_counted(self):
        summary = self.replayed["summary"]
        self.assertEqual((summary["BITWISE"], summary["TOKEN_EXACT"]), (4, 1))
        self.assertGreater(summary["DIVERGED"], 2)
        self.assertEqual(summary["NOT_REPLAYABLE"], 2)
        page = self.measure(1000)
        for kind, count in summary.items():
            self.assertEqual(count > 0, kind.lower() in page["drawn"], kind)
        diverged = [r for r in self.replayed["records"] if r["verdict"] == "DIVERGED"]
        self.assertIn(f"{len(diverged)} of 9 records that could be computed again diverged", page["text"])
        # Each fork is a stem and two branches.
        forks = sum(record["reason"] == "token" for record in diverged)
        self.assertEqual(page["branches"], 3 * forks)
        for record in diverged:
            self.assertIn(f"{record['deficit']} logit units", page["text"])
        self.assertIn("is the word of who gave --engine", page["text"])

    def test_it_prints_and_is_not_blank(self):
        picture, paper = self.folder / "page.png", self.folder / "page.pdf"
        report = f"file://{self.made}/report.html"
        self.browser("--window-size=1000,3000", f"--screenshot={picture}", report)
        self.assertGreater(len(set(png_rows(picture.read_bytes()))), 100)
        self.browser(f"--print-to-pdf={paper}", "--no-pdf-header-footer", report)
        pages = len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes()))
        self.assertTrue(2 <= pages <= 12, pages)


if __name__ == "__main__":
    support.main()
