"""`verbatim model sign` and `verify`: the demo model, the official vectors, and what others make of our signatures."""
import base64
import copy
import hashlib
import json
import os
import shutil
import subprocess
import unittest
from pathlib import Path

import support
from support import verbatim

VALID, INVALID, USAGE = 0, 1, 2
CURVES = {"prime256v1": "sha256", "secp384r1": "sha384", "secp521r1": "sha512"}
SHARED = Path(os.environ.get("VERBATIM_SHARED", support.SOURCE.parent / "shared"))
VECTORS = SHARED / "data" / "vectors" / "audit" / "oms" / "test-vectors" / "v1.0"
# The vectors' key, recovered from the signature in key.bundle.json. The hint there is of this text.
VECTOR_KEY = """-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEsu6rZGBTjxtvRWPMixT+3HyndV0J0Ybt
aHZUcO4DEK+OJHO/4e32bb/fbJKSpRgcBsIpKLcVijUomyFOERbd7u+BTPSUjGZD
Qq6J7lTvp/EAXQGOKxW9RP0MGX3qAkvi
-----END PUBLIC KEY-----
"""


def openssl(*args):
    return subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=60).stdout


def payload_of(bundle):
    return base64.b64decode(bundle["dsseEnvelope"]["payload"])


def members_of(value, path=""):
    """The paths of all members, whatever their values."""
    if isinstance(value, dict):
        return {path}.union(*(members_of(each, f"{path}.{name}") for name, each in value.items()))
    return {path}.union(*(members_of(each, path + "[]") for each in value)) if isinstance(value, list) else {path}


def pae_of(bundle):
    """What is signed (DSSE), by this test's own reading."""
    kind, payload = bundle["dsseEnvelope"]["payloadType"].encode(), payload_of(bundle)
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


@unittest.skipUnless(shutil.which("openssl"), "SKIPPED: no openssl: ./deploy/install-packages test")
class ModelSigningTest(support.ProgramTest):
    def make_key(self, curve="prime256v1"):
        """A private key and its public half."""
        private, public = self.folder / f"{curve}.pem", self.folder / f"{curve}.pub.pem"
        if not private.exists():
            openssl("ecparam", "-name", curve, "-genkey", "-noout", "-out", private)
            private.chmod(0o600)
            openssl("pkey", "-in", private, "-pubout", "-out", public)
        return private, public

    def model_copy(self):
        copied = self.folder / "demo"
        shutil.copytree(support.DEMO_MODEL, copied)
        return copied

    def sign(self, model, signature, *flags, curve="prime256v1"):
        return self.run_well("model", "sign", model, "--key", self.make_key(curve)[0], "--signature", signature, "--json", *flags).json

    def verify(self, model, signature, *flags, code=VALID, public=None):
        return self.run_well("model", "verify", model, "--key", public or self.make_key()[1], "--signature", signature, "--json", *flags,
                             code=code).json

    def problems(self, *args):
        report = self.verify(*args, code=INVALID)
        self.assertEqual(report["verdict"], "INVALID")
        return [(problem["kind"], problem["detail"].split(" ")[0]) for problem in report["problems"]]

    def test_the_demo_model_is_what_was_signed_until_it_is_changed(self):
        model = self.model_copy()
        signature = model / "model.sig"
        signed = self.sign(model, signature)
        names = sorted(str(path.relative_to(model)) for path in model.rglob("*") if path.is_file() and path != signature)
        resources = json.loads(payload_of(json.loads(signature.read_bytes())))["predicate"]["resources"]
        self.assertEqual([(r["name"], r["digest"]) for r in resources],
                         [(name, hashlib.sha256((model / name).read_bytes()).hexdigest()) for name in names])
        self.assertEqual(signed["files"], len(names))
        self.assertEqual(signed["ignore_paths"], [".git", ".gitattributes", ".github", ".gitignore", "model.sig"])
        # What fingerprint calls oms_root, of the folder as it was before.
        self.assertEqual(signed["root"], self.run_well("model", "fingerprint", support.DEMO_MODEL, "--json").json["oms_root"])

        report = self.verify(model, signature)
        self.assertEqual((report["verdict"], report["problems"]), ("VALID", []))
        self.assertEqual((report["root"], report["key"], report["files_checked"]), (signed["root"], signed["key"], len(names)))
        shown = self.run_well("model", "verify", model, "--key", self.make_key()[1], "--signature", signature).out
        self.assertTrue(shown.startswith("VALID\n"), shown)

        weights = bytearray((model / "model.safetensors").read_bytes())
        weights[-1] ^= 1
        (model / "model.safetensors").write_bytes(weights)
        (model / "config.json").unlink()
        (model / "extra").write_text("x")
        self.assertEqual(self.problems(model, signature),
                         [("missing", "config.json"), ("extra", "extra"), ("changed", "model.safetensors")])
        self.assertEqual(self.problems(model, signature, "--ignore-unsigned"),
                         [("missing", "config.json"), ("changed", "model.safetensors")])
        shown = self.run_well("model", "verify", model, "--key", self.make_key()[1], "--signature", signature, code=INVALID).out
        self.assertEqual([line.split()[:2] for line in shown.splitlines()[:4]],
                         [["INVALID"], ["problem", "missing:"], ["problem", "extra:"], ["problem", "changed:"]])

    def test_what_is_ignored_is_said_and_links_need_a_flag(self):
        model = self.model_copy()
        (model / "cache").mkdir()
        (model / "cache" / "x").write_text("x")
        (model / "README.md").write_text("x")
        signed = self.sign(model, self.folder / "one.sig", "--ignore", "cache", "--ignore", "README.md")
        self.assertEqual(signed["ignore_paths"], [".git", ".gitattributes", ".github", ".gitignore", "README.md", "cache"])
        (model / "cache" / "y").write_text("y")
        self.verify(model, self.folder / "one.sig")
        (model / "link").symlink_to("config.json")
        key = self.make_key()[0]
        self.assert_one_line_error(verbatim("model", "sign", model, "--key", key, "--signature", self.folder / "two.sig"), USAGE,
                                   "symbolic link", "--allow-symlinks")
        self.sign(model, self.folder / "two.sig", "--allow-symlinks")
        self.verify(model, self.folder / "two.sig")
        (model / "link").unlink()
        (self.folder / "elsewhere").write_bytes((model / "config.json").read_bytes())
        (model / "link").symlink_to(self.folder / "elsewhere")
        self.assertEqual(self.problems(model, self.folder / "two.sig"), [("refused", "a")])
        self.assertFalse((self.folder / "three.sig").exists())
        self.assert_one_line_error(verbatim("model", "sign", model, "--key", key, "--signature", self.folder / "three.sig",
                                            "--allow-symlinks"), USAGE, "leads out")
        self.assertFalse((self.folder / "three.sig").exists())

    def test_a_file_with_a_newline_in_its_name_is_refused_and_printed_on_one_line(self):
        model = self.model_copy()
        signature = self.folder / "model.sig"
        self.sign(model, signature)
        (model / "a\nVALID").write_text("x")
        self.assert_one_line_error(verbatim("model", "sign", model, "--key", self.make_key()[0], "--signature", self.folder / "b.sig"),
                                   USAGE, "newline")
        shown = self.run_well("model", "verify", model, "--key", self.make_key()[1], "--signature", signature, code=INVALID).out
        self.assertNotIn("VALID", shown.splitlines())

    def test_a_single_file_is_a_model(self):
        model = self.model_copy() / "model.safetensors"
        self.sign(model, self.folder / "one.sig", curve="secp384r1")
        self.assertEqual(self.verify(model, self.folder / "one.sig", public=self.make_key("secp384r1")[1])["files_signed"], 1)

    def test_keys_and_outputs_that_are_not_taken(self):
        model, signature = self.model_copy(), self.folder / "model.sig"
        private, public = self.make_key()

        def refused(*words, key=private, out=signature, path=model):
            self.assert_one_line_error(verbatim("model", "sign", path, "--key", key, "--signature", out, timeout=30), USAGE, *words)
            self.assertFalse(signature.exists())

        refused("no such model", path=self.folder / "absent")
        refused("absent.pem", key=self.folder / "absent.pem")
        private.chmod(0o640)
        refused("others than its owner", key=private)
        private.chmod(0o600)
        locked = self.folder / "locked.pem"
        openssl("pkey", "-in", private, "-aes256", "-passout", "pass:x", "-out", locked)
        locked.chmod(0o600)
        refused("encrypted", str(locked), key=locked)
        public.chmod(0o600)
        refused("no private key", key=public)
        other = self.folder / "ed25519.pem"
        openssl("genpkey", "-algorithm", "ed25519", "-out", other)
        other.chmod(0o600)
        refused("P-256, P-384 and P-521", key=other)
        refused("something is there already", out=model / "config.json")
        refused("something is there already", out=model)
        self.sign(model, signature)
        before = signature.read_bytes()
        self.assert_one_line_error(verbatim("model", "sign", model, "--key", private, "--signature", signature), USAGE,
                                   "something is there already")
        self.assertEqual(signature.read_bytes(), before)
        # Verifying takes a public key alone.
        for key, word in ((private, "no public key"), (signature, "no public key"), (self.folder / "absent.pem", "absent.pem")):
            self.assert_one_line_error(verbatim("model", "verify", model, "--key", key, "--signature", signature), USAGE, word)
        self.assert_one_line_error(verbatim("model", "verify", model, "--key", public, "--signature", self.folder / "absent.sig"), USAGE,
                                   "absent.sig")
        stranger = self.make_key("secp521r1")[1]
        self.assertEqual(self.verify(model, signature, public=stranger, code=INVALID)["problems"][0]["kind"], "other_key")

    def test_every_official_vector(self):
        if not VECTORS.exists():
            self.skipTest("SKIPPED: no shared data; set VERBATIM_SHARED")
        model = self.folder / "signme"
        model.mkdir()
        (model / "signme-1").write_text("signme-1\n")
        (model / "signme-2").write_text("signme-2")
        (model / "ignore-me").write_text("x")
        public = self.folder / "vector.pem"
        public.write_text(VECTOR_KEY)
        report = self.verify(model, VECTORS / "valid" / "key.bundle.json", public=public)
        self.assertEqual(report["root"], "92745110b1ab4368471cbe31664e10174e954b113a3df333db860317b2c6dec4")
        # The project's tool wrote that one; ours has the same members.
        ours, theirs = self.folder / "ours.sig", json.loads((VECTORS / "valid" / "key.bundle.json").read_bytes())
        self.sign(model, ours, "--ignore", "ignore-me")
        ours = json.loads(ours.read_bytes())
        self.assertEqual(members_of(ours), members_of(theirs))
        self.assertEqual(members_of(json.loads(payload_of(ours))), members_of(json.loads(payload_of(theirs))))
        for name, word in (("certificate", "certificate"), ("sigstore", "keyless")):
            self.assert_one_line_error(verbatim("model", "verify", model, "--key", public, "--signature",
                                                VECTORS / "valid" / f"{name}.bundle.json"), USAGE, word, "model_signing")
        seen = {}
        for path in [*VECTORS.glob("invalid*/*.json")]:
            report = self.verify(model, path, public=public, code=INVALID)
            seen[path.name.split(".")[0]] = [problem["kind"] for problem in report["problems"]]
        self.assertEqual(seen, {"empty": ["bundle"], "missing-envelope": ["bundle"], "missing-tlog-entries": ["bundle"],
                                "missing-verification-material": ["bundle"], "wrong-predicate": ["signature"]})

    def test_openssl_verifies_the_signature_on_each_curve(self):
        model = self.model_copy()
        for curve, digest in CURVES.items():
            signature = self.folder / f"{curve}.sig"
            signed = self.sign(model, signature, curve=curve)
            bundle = json.loads(signature.read_bytes())
            public = self.make_key(curve)[1]
            self.assertEqual(signed["key"], hashlib.sha256(public.read_bytes()).hexdigest())
            self.assertEqual(bundle["verificationMaterial"]["publicKey"]["hint"], signed["key"])
            message, sig = self.folder / "message", self.folder / "sig"
            message.write_bytes(pae_of(bundle))
            sig.write_bytes(base64.b64decode(bundle["dsseEnvelope"]["signatures"][0]["sig"]))
            self.assertEqual(openssl("dgst", f"-{digest}", "-verify", public, "-signature", sig, message), b"Verified OK\n")

    def test_what_openssl_signs_is_valid_here(self):
        model = self.model_copy()
        for curve, digest in CURVES.items():
            private, public = self.make_key(curve)
            signature = self.folder / f"{curve}.sig"
            self.sign(model, signature, curve=curve)
            bundle = json.loads(signature.read_bytes())
            # Another writer's text of the same statement.
            payload = json.dumps(json.loads(payload_of(bundle)), indent=2).encode()
            bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
            message = self.folder / "message"
            message.write_bytes(pae_of(bundle))
            made = openssl("dgst", f"-{digest}", "-sign", private, message)
            bundle["dsseEnvelope"]["signatures"] = [{"sig": base64.b64encode(made).decode()}]
            signature.write_text(json.dumps(bundle, indent=2))
            self.assertEqual(self.verify(model, signature, public=public)["verdict"], "VALID")

    def test_sigstores_verifier_accepts_our_bundle_and_nothing_else(self):
        support.node_or_skip()
        model, signature = self.model_copy(), self.folder / "model.sig"
        hint = self.sign(model, signature)["key"]
        bundle = json.loads(signature.read_bytes())

        def spki(curve):
            der = openssl("pkey", "-pubin", "-in", self.make_key(curve)[1], "-outform", "DER")
            return base64.b64encode(der).decode()

        changed = copy.deepcopy(bundle)
        payload = bytearray(payload_of(bundle))
        payload[len(payload) // 2] ^= 1
        changed["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
        ours = {hint: spki("prime256v1")}
        cases = [{"name": "ours", "bundle": bundle, "keys": ours}, {"name": "changed", "bundle": changed, "keys": ours},
                 {"name": "another key", "bundle": bundle, "keys": {hint: spki("secp384r1")}},
                 {"name": "a key that is not trusted", "bundle": bundle, "keys": {"other": spki("prime256v1")}}]
        file = self.folder / "cases.json"
        file.write_text(json.dumps(cases))
        outcomes = {each["name"]: each["outcome"] for each in support.run_node("sigstore_verify.mjs", str(file))}
        self.assertEqual(outcomes, {"ours": "accepted", "changed": "SIGNATURE_ERROR", "another key": "SIGNATURE_ERROR",
                                    "a key that is not trusted": "PUBLIC_KEY_ERROR"})


if __name__ == "__main__":
    support.main()
