"""What the log's key signs, verified by Sigstore's JavaScript: replay statements, and the manifest of a bundle."""
import base64
import copy
import json
import unittest

import support
from support import chat

SPKI_ED25519 = bytes.fromhex("302a300506032b6570032100")  # RFC 8410


def spki(vkey):
    """A vkey's public key in the form that TLS and Sigstore know, base64."""
    key = base64.b64decode(vkey.split("+", 2)[2])[1:]
    return base64.b64encode(SPKI_ED25519 + key).decode()


def flipped(text, at):
    """Base64 of the same bytes, but for one bit."""
    data = bytearray(base64.b64decode(text))
    data[at] ^= 1
    return base64.b64encode(data).decode()


class SigstoreTest(support.ProgramTest):

    def signed_bundles(self):
        """By name, of a log that has replayed its records."""
        with self.gateway("--model", f"demo={support.DEMO_MODEL}") as gateway:
            gateway.post("/v1/chat/completions", chat("one", temperature=0))
            gateway.post("/v1/chat/completions", chat("two", temperature=0.8, seed=42))
        self.run_well("replay", "--all", "--quiet", "--data", self.data)
        out = self.folder / "evidence"
        self.run_well("export", "--out", out, "--data", self.data)
        found = {f"statement of leaf {path.parent.name}": path for path in out.glob("contents/*/statement")}
        self.assertEqual(len(found), 2)
        found["manifest"] = out / "manifest.sig.json"
        return {name: json.loads(path.read_bytes()) for name, path in found.items()}

    def test_sigstores_verifier_accepts_what_was_signed_and_nothing_else(self):
        support.node_or_skip()
        bundles = self.signed_bundles()
        vkey = self.run_well("keys", "list", "--data", self.data).out.strip()
        stranger = spki("x+00000000+" + base64.b64encode(b"\x01" + bytes(range(32))).decode())
        cases, expected = [], {}

        def case(name, outcome, bundle, keys):
            cases.append({"name": name, "bundle": bundle, "keys": keys})
            expected[name] = outcome

        ours = {vkey: spki(vkey)}
        for name, bundle in bundles.items():
            case(name, "accepted", bundle, ours)
            envelope = bundle["dsseEnvelope"]
            payload = base64.b64decode(envelope["payload"])
            self.assertEqual(json.loads(payload)["_type"], "https://in-toto.io/Statement/v1")
            for at in (0, len(payload) // 2, len(payload) - 1):
                changed = copy.deepcopy(bundle)
                changed["dsseEnvelope"]["payload"] = flipped(envelope["payload"], at)
                case(f"{name}: payload changed at {at}", "SIGNATURE_ERROR", changed, ours)
            for kind in ("application/vnd.in-toto+jso", "text/plain", ""):
                changed = copy.deepcopy(bundle)
                changed["dsseEnvelope"]["payloadType"] = kind
                case(f"{name}: type '{kind}'", "SIGNATURE_ERROR", changed, ours)
            changed = copy.deepcopy(bundle)
            changed["dsseEnvelope"]["signatures"][0]["sig"] = flipped(envelope["signatures"][0]["sig"], 40)
            case(f"{name}: signature changed", "SIGNATURE_ERROR", changed, ours)
            case(f"{name}: another key under the hint", "SIGNATURE_ERROR", bundle, {vkey: stranger})
            case(f"{name}: a key that is not trusted", "PUBLIC_KEY_ERROR", bundle, {"other": spki(vkey)})
        names = sorted(bundles)
        for one, other in zip(names, names[1:]):
            changed = copy.deepcopy(bundles[one])
            changed["dsseEnvelope"]["signatures"] = bundles[other]["dsseEnvelope"]["signatures"]
            case(f"{one} with the signature of {other}", "SIGNATURE_ERROR", changed, ours)

        file = self.folder / "cases.json"
        file.write_text(json.dumps(cases))
        outcomes = {each["name"]: each["outcome"] for each in support.run_node("sigstore_verify.mjs", str(file))}
        self.assertEqual(outcomes, expected)


if __name__ == "__main__":
    support.main()
