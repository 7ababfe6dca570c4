"""Rules about the source: layout, names that must not be in it, files that nothing uses. CONTRIBUTING.md says why."""
import ast
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# clang-format keeps code within 100 columns. Comments, which it does not touch, may run a little longer; a line with a
# text in quotes cannot always be broken.
COLUMNS = 125
PYTHON_COLUMNS = 150
FUNCTION_LINES = 100
# One function that holds a whole policy may be long; so may a kernel.
LONG_FUNCTIONS_ALLOWED = ("kernels/", "tests/kernels/", "gateway/exchange.cpp")
CPP = (".cpp", ".hpp", ".cu", ".cuh")
# Written so that this file does not contain what it looks for.
BANNED = {
    r"\bTO" r"DO\b|\bFIX" r"ME\b|\bX" r"XX\b":
        "a note to finish later: finish it, or leave it out and say so in docs/roadmap.md",
    r"/wor" r"k/|/roo" r"t/|/hom" r"e/[a-z]|\.lib" r"rary/": "a path of one machine",
    r"regis" r"try\.npmjs|deb\.deb" r"ian\.org|py" r"pi\.org": "the host of a package registry",
}
STATEMENT = re.compile(r"^\s*(if|else|for|while|switch|do|try|catch|namespace|class|struct|enum|union|return|case|"
                       r"extern|default|\}|#|//)\b|^\s*(\}|#|//)|=\s*\{$|\benum\b")


def files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            capture_output=True)
    if listed.returncode == 0:
        names = [n for n in listed.stdout.decode().split("\0") if n]
    else:  # a source archive without git
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                 if p.is_file() and not str(p.relative_to(ROOT)).startswith(("build/", ".git/", "verbatim-"))]
    return [name for name in sorted(set(names)) if (ROOT / name).is_file()]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8", errors="replace")


def is_binary(name):
    return b"\0" in (ROOT / name).read_bytes()[:8192]


def long_functions(lines, limit):
    """(line, length) of functions with more lines than that, outside of classes. Relies on clang-format's layout: a head,
    which may have several lines, begins in the first column, and its body ends with `}` there."""
    found, at = [], 0
    while at < len(lines):
        head = at
        if lines[at].endswith("{"):
            while head > 0 and lines[head - 1].strip() and not re.search(r"[;{}]$|^\s*(#|//|public:|private:)",
                                                                         lines[head - 1]):
                head -= 1
            if lines[head][:1] != " " and not STATEMENT.search(lines[head]) and "(" in "".join(lines[head:at + 1]):
                end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith("}")), at)
                if end - head + 1 > limit:
                    found.append((head + 1, end - head + 1))
        at += 1
    return found


class StyleTest(unittest.TestCase):
    def report(self, faults):
        if faults:
            self.fail("\n" + "\n".join(faults))

    def cpp(self):
        return [name for name in files() if name.endswith(CPP)]

    def test_lines_fit(self):
        faults = []
        for name in files():
            limit = COLUMNS if name.endswith(CPP) else PYTHON_COLUMNS if name.endswith(".py") else None
            if limit is None:
                continue
            for number, line in enumerate(text(name).split("\n"), 1):
                if len(line) > limit and '"' not in line:
                    faults.append(f"{name}:{number}: {len(line)} columns, at most {limit}")
                if "\t" in line or line != line.rstrip():
                    faults.append(f"{name}:{number}: a tab, or white space at the end")
        self.report(faults)

    def test_functions_fit_a_screen_or_two(self):
        faults = []
        for name in self.cpp():
            if not name.startswith(LONG_FUNCTIONS_ALLOWED):
                for line, length in long_functions(text(name).split("\n"), FUNCTION_LINES):
                    faults.append(f"{name}:{line}: a function of {length} lines, at most {FUNCTION_LINES}")
        self.report(faults)

    def test_the_check_of_function_length_finds_long_functions(self):
        body = ["int f() {"] + ["  g();"] * 100 + ["}"]
        self.assertEqual(long_functions(body, 90), [(1, 102)])
        constructor = ["A::A(int b)", "    : b_(b) {", "  g();", "}", ""] + ["int x;"] * 100 + ["    }"]
        self.assertEqual(long_functions(constructor, 90), [])
        self.assertEqual(long_functions(["namespace a {"] + ["int x;"] * 100 + ["}  // namespace a"], 90), [])

    def test_clang_format_has_nothing_to_change(self):
        formatter = shutil.which("clang-format") or shutil.which("clang-format-14")
        self.assertTrue(formatter, "no clang-format: ./deploy/install-packages test")
        names = self.cpp()
        run = subprocess.run([formatter, "--dry-run", "--Werror", "--ferror-limit=1", *names], cwd=ROOT,
                             capture_output=True, text=True)
        wrong = sorted({line.split(":")[0] for line in run.stderr.splitlines() if ": error:" in line})
        self.report([f"{name}: run clang-format -i" for name in wrong])
        self.assertEqual(run.returncode, 0, run.stderr[-2000:])

    def test_banned_words_are_absent(self):
        faults = []
        for name in files():
            if is_binary(name) or name.endswith(("package-lock.json", ".jsonl")) and "registry" not in text(name):
                continue
            for number, line in enumerate(text(name).split("\n"), 1):
                for pattern, why in BANNED.items():
                    hit = re.search(pattern, line)
                    if hit:
                        faults.append(f"{name}:{number}: '{hit[0]}': {why}")
        self.report(faults)

    def included(self, name):
        """(line, text, file it leads to or None) of each quoted include. Tests may name a file of their own folder."""
        for number, line in enumerate(text(name).split("\n"), 1):
            found = re.match(r'#include "([^"]+)"', line)
            if found:
                places = [found[1]] if "/" in found[1] else []
                if name.startswith("tests/"):
                    places.append(str(Path(name).parent / found[1]))
                yield number, found[1], next((p for p in places if (ROOT / p).is_file()), None)

    def test_includes_are_from_the_root_and_lead_to_files(self):
        self.report([f"{name}:{number}: \"{what}\" is not the path of a file from the root"
                     for name in self.cpp() for number, what, leads_to in self.included(name) if leads_to is None])

    def test_headers_begin_with_pragma_once(self):
        self.report([f"{name}: no #pragma once in its first line" for name in files()
                     if name.endswith((".hpp", ".cuh")) and not text(name).startswith("#pragma once\n")])

    def test_no_header_is_unused(self):
        included = {leads_to for name in self.cpp() for _, _, leads_to in self.included(name)}
        self.report([f"{name}: nothing includes it" for name in files()
                     if name.endswith((".hpp", ".cuh")) and name not in included])

    def test_no_source_is_unbuilt(self):
        lists = {name: text(name) for name in files() if name.endswith("CMakeLists.txt")}
        faults = []
        for name in files():
            if not name.endswith((".cpp", ".cu")):
                continue
            stem = Path(name).stem.removesuffix("_test").removesuffix("_fuzz")
            # Named whole, or through a list of stems that a foreach goes over.
            named = re.compile(r"(^|[\s/(\"])%s(_test|_fuzz)?(\.cpp|\.cu)?([\s)\"]|$)" % re.escape(stem), re.M)
            above = [content for at, content in lists.items() if name.startswith(str(Path(at).parent) + "/")]
            if not any(named.search(content) for content in above):
                faults.append(f"{name}: no CMakeLists.txt above it names it")
        self.report(faults)

    def test_every_component_has_tests(self):
        components = {name.split("/")[0] for name in files() if re.match(r"[a-z_]+/[a-z_/]*\.cpp$", name)} - {"tests"}
        tested = {name.split("/")[1] for name in files() if name.startswith("tests/")}
        # The command line is tested from the outside.
        self.report([f"{component}/ has no tests/{component}/" for component in components - tested - {"cli"}])

    def test_python_files_parse_and_scripts_can_be_run(self):
        for name in files():
            if name.endswith(".py"):
                ast.parse(text(name), name)
            if text(name)[:2] == "#!" and not is_binary(name):
                self.assertTrue(os.access(ROOT / name, os.X_OK), f"{name} has a #! line but is not executable")

    def test_links_in_documents_lead_somewhere(self):
        faults = []
        for name in files():
            if not name.endswith(".md"):
                continue
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text(name)):
                if not re.match(r"[a-z]+:", target) and not (ROOT / name).parent.joinpath(target).exists():
                    faults.append(f"{name}: a link to {target}, which is not there")
        self.report(faults)

    def test_files_are_small(self):
        limit = 4_300_000
        self.report([f"{name}: {size} bytes" for name in files()
                     if (size := (ROOT / name).stat().st_size) > limit])


if __name__ == "__main__":
    unittest.main(verbosity=2)
