"""Tokens of SoftHSM in a folder of the test's own, and a module before it that fails as it is told to."""
import shutil
import subprocess
import unittest
from pathlib import Path

import support

SOFTHSM = Path("/usr/lib/softhsm/libsofthsm2.so")
FAULTY = Path(support.VERBATIM).resolve().parents[1] / "tests" / "audit" / "faulty_pkcs11.so"
PIN = "0451-canary-pin"


class SoftTokens:
    """What tests/audit/faulty_pkcs11.cpp says of faults holds here."""

    def __init__(self, folder):
        for needed in (SOFTHSM, FAULTY):
            if not needed.exists():
                raise AssertionError(f"{needed} is not there: ./deploy/install-packages test, and build all")
        if not shutil.which("pkcs11-tool") or not shutil.which("softhsm2-util"):
            raise unittest.SkipTest("SKIPPED: needs Debian's softhsm2 and opensc")
        self.folder = Path(folder)
        (self.folder / "tokens").mkdir(parents=True)
        config = self.folder / "softhsm2.conf"
        config.write_text(f"directories.tokendir = {self.folder / 'tokens'}\nobjectstore.backend = file\nlog.level = ERROR\n")
        self.env = {"SOFTHSM2_CONF": str(config), "FAULTY_PKCS11": str(self.folder), "TEST_PIN": PIN}

    def run(self, *command):
        subprocess.run([str(part) for part in command], check=True, capture_output=True, env={"PATH": "/usr/bin", **self.env})

    def init(self, label):
        self.run("softhsm2-util", "--init-token", "--free", "--so-pin", "12345678", "--pin", PIN, "--label", label)

    def make_key(self, token, label, number):
        self.run("pkcs11-tool", "--module", SOFTHSM, "--login", "--pin", PIN, "--token-label", token, "--keypairgen",
                 "--key-type", "EC:edwards25519", "--label", label, "--id", f"{number:02x}")

    def uri(self, token, key, module=FAULTY, pin="env:TEST_PIN"):
        return f"pkcs11:token={token};object={key}?module-path={module}&pin-source={pin}"

    def fault(self, word):
        (self.folder / "fault").write_text(word)

    def mend(self):
        (self.folder / "fault").unlink()

    def logins(self):
        file = self.folder / "logins"
        return len(file.read_text().splitlines()) if file.exists() else 0
