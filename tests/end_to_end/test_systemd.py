"""The systemd units: systemd itself finds nothing wrong with them, and what they run are commands of the program."""
import shutil
import subprocess

import support

UNITS = support.SOURCE / "deploy" / "systemd"


class SystemdTest(support.ProgramTest):
    def test_systemd_finds_nothing_wrong_with_the_units(self):
        analyze = shutil.which("systemd-analyze")
        if analyze is None:
            print("SKIPPED: systemd-analyze is not installed", flush=True)
            self.skipTest("systemd-analyze is not installed")
        units = sorted(UNITS.iterdir())
        self.assertGreaterEqual(len(units), 4)
        for unit in units:
            # The program is where this build made it, not where a package would put it.
            (self.folder / unit.name).write_text(unit.read_text().replace("/usr/bin/verbatim", support.VERBATIM))
        for unit in units:
            run = subprocess.run([analyze, "verify", "--man=no", "--recursive-errors=no", f"./{unit.name}"], cwd=self.folder,
                                 capture_output=True, text=True, timeout=60)
            said = "\n".join(line for line in run.stderr.splitlines() if unit.name in line)
            self.assertEqual((run.returncode, said), (0, ""), unit.name)

    def test_what_is_wrong_would_be_found(self):
        if shutil.which("systemd-analyze") is None:
            print("SKIPPED: systemd-analyze is not installed", flush=True)
            self.skipTest("systemd-analyze is not installed")
        unit = self.folder / "wrong.service"
        unit.write_text((UNITS / "verbatim-replay.service").read_text().replace("/usr/bin/verbatim", support.VERBATIM)
                        .replace("Nice=10", "Nise=10"))
        run = subprocess.run(["systemd-analyze", "verify", "--man=no", "./wrong.service"], cwd=self.folder, capture_output=True,
                             text=True, timeout=60)
        self.assertIn("Nise", run.stderr)

    def test_the_sample_configuration_is_one(self):
        sample = support.SOURCE / "deploy" / "gateway.toml"
        checked = self.run_well("gateway", "--config", sample, "--check")
        self.assertIn("/var/lib/verbatim", checked.err)

    def test_timers_start_services_that_are_there(self):
        names = {unit.name for unit in UNITS.iterdir()}
        for name in names:
            if name.endswith(".timer"):
                self.assertIn(name.replace(".timer", ".service"), names)

    def test_the_options_of_the_services_are_the_programs(self):
        for unit in UNITS.glob("*.service"):
            command = next(line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")).split()[1:]
            # With --help at the end the command says what it takes, unless something before it is unknown.
            known = self.run_well(command[0], "--help").out
            for word in command:
                if word.startswith("--"):
                    self.assertRegex(known, rf"(^|[\s,]){word}\b", unit.name)


if __name__ == "__main__":
    support.main()
