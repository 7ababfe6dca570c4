"""Bundles that the program made, changed and signed anew by one who holds the log's key: neither verifier calls them valid."""
import base64
import hashlib
import importlib.util
import json
import shutil
import struct
import subprocess
import sys
import tempfile
import unicodedata
import uuid
import warnings
import zipfile
from pathlib import Path

import support
from faults import CHAT, CHAT_PATH
from mock_upstream import MockUpstream, Reply
from support import Gateway

SCRIPT = support.SOURCE / "audit" / "evidence" / "verify.py"
specification = importlib.util.spec_from_file_location("verify", SCRIPT)
verify = importlib.util.module_from_spec(specification)
sys.dont_write_bytecode = True
specification.loader.exec_module(verify)

ANSWER = ('{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},'
          '"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"\U00010000":1,"\uffff":5}}')


def canonical(value):
    """Of what has ASCII names alone."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def leaf(kind="note", time="2026-11-30T07:07:20.000000Z", number=1, **members):
    return {"id": f"0193a5e0-7c1a-7b3e-9d2f-{number:012x}", "time": time, "type": kind, "v": 1, **members}


def with_text(text):
    """A leaf with this text for its last member, `x`."""
    return canonical(leaf(x=0))[:-2] + text.encode("utf-8", "surrogatepass") + b"}"


def with_members(text):
    """A leaf with one more member, an object of this text."""
    return with_text("{" + text + "}")


class Forger:
    """What a bundle holds, and the key to sign what became of it."""

    def __init__(self, bundle, secret):
        self.files = {str(path.relative_to(bundle)): path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
        self.manifest = json.loads(self.files.pop("manifest.json"))
        self.signature = json.loads(self.files.pop("manifest.sig.json"))
        self.size, self.vkey, self.origin = self.manifest["size"], self.manifest["vkey"], self.manifest["origin"]
        minimum = self.manifest.get("minimum_index", 0)
        held = verify.Folder(str(bundle))
        self.hashes, self.leaves = verify.read_pruned(held, minimum)
        self.leaves += verify.read_entries(held, self.size, minimum)
        seed = base64.b64decode(secret.split("+", 4)[4])[1:]
        digest = hashlib.sha512(seed).digest()
        self.scalar = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | 1 << 254
        self.prefix, self.public = digest[32:], verify.parse_vkey(self.vkey)[2]

    def sign(self, message):
        """Ed25519 (RFC 8032 section 5.1.6)."""
        def point(scalar):
            x, y, z, _ = verify.multiply(scalar, verify.BASE)
            inverse = pow(z, verify.P - 2, verify.P)
            return (y * inverse % verify.P | (x * inverse % verify.P & 1) << 255).to_bytes(32, "little")
        r = int.from_bytes(hashlib.sha512(self.prefix + message).digest(), "little") % verify.L
        k = int.from_bytes(hashlib.sha512(point(r) + self.public + message).digest(), "little")
        return point(r) + ((r + k * self.scalar) % verify.L).to_bytes(32, "little")

    def tree_files(self, leaves, minimum):
        """The checkpoint, tiles, entries and kept leaves of a tree, and its root."""
        row = [self.hashes[i] if entry is None else verify.leaf_hash(entry) for i, entry in enumerate(leaves)]
        root, files = verify.tree_hash(row), {}
        text = f"{self.origin}\n{len(leaves)}\n{base64.b64encode(root).decode()}\n"
        signature = verify.parse_vkey(self.vkey)[1] + self.sign(text.encode())
        files["checkpoint"] = f"{text}\n\u2014 {self.origin} {base64.b64encode(signature).decode()}\n".encode()
        files.update({f"kept/{i}": entry for i, entry in enumerate(leaves[:minimum]) if entry is not None})
        for name in verify.tiles_of(len(leaves), minimum):
            if not name.startswith("tile/entries/"):
                continue
            number = int(name.split("/")[2][:3])
            files[name] = b"".join(struct.pack(">H", len(e)) + e for e in leaves[number * 256 : number * 256 + 256])
        level = 0
        while row:
            for tile in range(0, len(row), 256):
                hashes = row[tile : tile + 256]
                partial = "" if len(hashes) == 256 else f".p/{len(hashes)}"
                files[f"tile/{level}/{verify.tile_name(tile // 256)}{partial}"] = b"".join(hashes)
            row = [verify.tree_hash(row[i : i + 256]) for i in range(0, len(row) // 256 * 256, 256)]
            level += 1
        return files, root

    def write(self, out, leaves=None, more=None, manifest=None, listing=None, statement=None, signature=None):
        """`more`: files, or None for one that is left out. The others change, in place, what is then signed: the manifest,
        its list of files, the statement about it, and (not signed) the bundle around that. What is bytes is taken instead."""
        leaves = self.leaves if leaves is None else leaves
        minimum = self.manifest.get("minimum_index", 0)
        files, root = self.tree_files(leaves, minimum)
        files.update({name: data for name, data in self.files.items() if not name.startswith(("tile/", "kept/", "checkpoint"))})
        files.update(more or {})
        files = {name: data for name, data in files.items() if data is not None}
        members = {**self.manifest, "size": len(leaves), "root": root.hex()}
        members["files"] = [{"bytes": len(files[n]), "name": n, "sha256": hashlib.sha256(files[n]).hexdigest()} for n in sorted(files)]
        (listing or (lambda _: None))(members["files"])
        text = (manifest or (lambda _: None))(members) or canonical(members)
        said = {"_type": "https://in-toto.io/Statement/v1", "predicateType": "urn:verbatim:evidence:1",
                "predicate": {"origin": self.origin, "root": root.hex(), "size": len(leaves)},
                "subject": [{"digest": {"sha256": hashlib.sha256(text).hexdigest()}, "name": "manifest.json"}]}
        said = (statement or (lambda _: None))(said) or canonical(said)
        kind = b"application/vnd.in-toto+json"
        signed = json.loads(json.dumps(self.signature))
        envelope = signed["dsseEnvelope"]
        envelope["payload"] = base64.b64encode(said).decode()
        pae = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(said), said)
        envelope["signatures"][0]["sig"] = base64.b64encode(self.sign(pae)).decode()
        files["manifest.json"] = text
        files["manifest.sig.json"] = (signature or (lambda _: None))(signed) or canonical(signed)
        for name, data in files.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_bytes(data)
        return out


class VerifiersAgree(support.ProgramTest):
    """One log and two bundles of it, before and after it was pruned, made once."""

    @classmethod
    def setUpClass(cls):
        cls.made = Path(tempfile.mkdtemp(prefix="verbatim-agree-"))
        cls.addClassCleanup(shutil.rmtree, cls.made, ignore_errors=True)
        upstream = MockUpstream(lambda request: Reply.json(ANSWER))
        cls.addClassCleanup(upstream.close)
        data, export = cls.made / "data", lambda name: support.verbatim("export", "--data", data, "--out", cls.made / name)
        with Gateway(data, "--upstream", f"openai={upstream.url}") as gateway:
            gateway.post(CHAT_PATH, CHAT)
        exported = [export("whole"), export("whole.zip")]
        with Gateway(data, "--upstream", f"openai={upstream.url}") as gateway:
            for _ in range(130):
                gateway.request("GET", "/v1/models")
            gateway.post(CHAT_PATH, CHAT)
        pruned = support.verbatim("prune", "--before", support.now(), "--reason", "policy", "--data", data)
        exported.append(export("pruned"))
        if any(done.code != 0 for done in (*exported, pruned)):
            raise AssertionError(f"{pruned}, {', '.join(map(str, exported))}")
        secret = (data / "log.key").read_text().splitlines()[0]
        cls.whole, cls.pruned = Forger(cls.made / "whole", secret), Forger(cls.made / "pruned", secret)

    def asked(self, bundle):
        """What both say: (the program calls it valid, verify.py does, what both printed)."""
        program = support.verbatim("verify", bundle, "--json")
        script = subprocess.run([sys.executable, "-I", "-B", str(SCRIPT), str(bundle)], capture_output=True, timeout=120, cwd="/")
        printed = script.stdout.decode()
        self.assertIn(program.code, (0, 1, 2), program)
        self.assertEqual(script.stderr, b"", bundle)
        self.assertNotIn("malformed: ", printed)
        self.assertEqual(script.returncode == 0, printed.endswith("\nVALID\n"), printed)
        return program.code == 0, script.returncode == 0, f"{program.out}\n{printed}"

    def assert_valid_for_both(self, bundle):
        program, script, printed = self.asked(bundle)
        self.assertTrue(program and script, printed)

    def assert_refused(self, bundle, what):
        program, script, printed = self.asked(bundle)
        self.assertFalse(script, f"{what}: {printed}")
        self.assertFalse(program, f"{what}: {printed}")

    def forged(self, forger, **changes):
        return forger.write(Path(tempfile.mkdtemp(dir=self.folder)), **changes)

    def refuse_leaves(self, forger, cases):
        """Each case: leaves that come after the bundle's own, as objects or bytes."""
        for what, leaves in cases.items():
            added = [each if isinstance(each, bytes) else canonical(each) for each in leaves]
            self.assert_refused(self.forged(forger, leaves=forger.leaves + added), what)

    # What is right.

    def test_names_that_utf16_sorts_otherwise_are_canonical_for_both(self):
        self.assertTrue(any('"\U00010000":1,"prompt' not in e.decode() and '"\U00010000":1,"\uffff":5' in e.decode()
                            for e in self.whole.leaves), "the upstream's usage is not in the log")
        for name in ("whole", "whole.zip", "pruned"):
            self.assert_valid_for_both(self.made / name)

    def test_what_is_signed_anew_unchanged_or_with_an_unknown_leaf_is_valid_for_both(self):
        for forger in (self.whole, self.pruned):
            self.assert_valid_for_both(self.forged(forger))
            good = [leaf("note"), with_text("[" * 511 + "]" * 511), with_text('{"a":' * 511 + "1" + "}" * 511),
                    with_text("[9007199254740992,-9007199254740992]"),
                    with_members('"\\u0000\\b\\u001f\\"\\\\\x7f\u2028/":1,"\U00010000":1,"\uffff":2')]
            for entry in good:
                entry = entry if isinstance(entry, bytes) else canonical(entry)
                self.assert_valid_for_both(self.forged(forger, leaves=[*forger.leaves, entry]))

    # Leaves.

    def test_a_leaf_that_is_not_canonical_json_is_refused(self):
        self.refuse_leaves(self.whole, {text[:60]: [with_text(text)] for text in (
            "1.5", "1e2", "1.0", "NaN", "Infinity", "-Infinity", "-0", "9007199254740993", "-9007199254740993", "18446744073709551616",
            "1" + "0" * 400, "1" + "0" * 5000, "01", '"\\u0041"', '"\\/"', '"\\u000A"', '"\\u007f"', '"\\ud800"', '"\ud800"', '"\x01"',
            " 1", '{"\uffff":2,"\U00010000":1}', '{"b":1,"a":2}', '{"a":1,"a":1}', '{"a":1,"a":2}', '{"a":{"a":1,"a":2}}',
            "[" * 513 + "]" * 513, '{"a":' * 600 + "1" + "}" * 600, "[" * 30000 + "]" * 30000)})
        self.refuse_leaves(self.whole, {"duplicate type": [canonical(leaf())[:-1] + b',"v":1}'], "BOM": [b"\xef\xbb\xbf" + canonical(leaf())],
                                        "nothing": [b""], "array": [b"[]"], "NUL": [canonical(leaf()) + b"\0"],
                                        "UTF-8": [with_text('"?"').replace(b"?", b"\xc0\xaf")]})

    def test_a_leaf_without_its_members_is_refused(self):
        digest = "0" * 64
        def contents(**more): return [leaf(contents=[{"field": "a", "commitment": digest, "bytes": 1, **more}])]
        self.refuse_leaves(self.whole, {
            "v true": [{**leaf(), "v": True}], "v 2": [{**leaf(), "v": 2}], "v text": [{**leaf(), "v": "1"}],
            "no id": [{**leaf(), "id": ""}], "id": [{**leaf(), "id": "a"}], "bare id": [{**leaf(), "id": uuid.uuid4().hex}],
            "no time": [leaf(time="")], "month": [leaf(time="2026-13-30T07:07:20.000000Z")], "day": [leaf(time="2026-02-30T07:07:20.000000Z")],
            "hour": [leaf(time="2026-11-30T24:07:20.000000Z")], "no zone": [leaf(time="2026-11-30T07:07:20.000000")],
            "contents": [leaf(contents={})], "bytes true": contents(bytes=True), "bytes less": contents(bytes=-1), "field": contents(field="A"),
            "dots": contents(field="a..b"), "salt": contents(field="a.salt"), "long field": contents(field="a" * 65),
            "commitment": contents(commitment="0"), "upper case": contents(commitment="A" * 64), "canonical": [leaf(canonical={"key": digest})],
            "17 contents": [leaf(contents=[{"field": f"f{i}", "commitment": digest, "bytes": 1} for i in range(17)])],
            "expires": [leaf(canonical={"key": digest, "expires_us": True})]})
        self.refuse_leaves(self.whole, {
            "version 4": [{**leaf(), "id": "0193a5e0-7c1a-4b3e-9d2f-000000000001"}], "upper case id": [{**leaf(), "id": leaf()["id"].upper()}],
            "a day": [leaf(time="2026-11-30")], "no microseconds": [leaf(time="2026-11-30T07:07:20Z")],
            "other zone": [leaf(time="2026-11-30T07:07:20.000000+01:00")], "leap second": [leaf(time="2026-11-30T07:07:60.000000Z")],
            "year 0": [leaf(time="0000-01-01T00:00:00.000000Z")],
            "content twice": [leaf(contents=[{"field": "a", "commitment": digest, "bytes": 1}] * 2)]})

    def test_a_response_that_answers_no_open_request_is_refused(self):
        size = len(self.whole.leaves)
        def answer(number=1, **more): return leaf("response", number=number, status="complete", **more)
        answered = next(json.loads(e) for e in self.whole.leaves if b'"type":"response"' in e)
        self.refuse_leaves(self.whole, {
            "no request": [answer()], "leaf 0": [answer(request=0)], "itself": [answer(request=size)], "true": [answer(request=True)],
            "text": [answer(request="1")], "less than nothing": [answer(request=-1)], "beyond": [answer(request=2**53)],
            "a note": [leaf(), answer(request=size)], "a later one": [answer(request=size + 1), leaf("request", number=2)],
            "another's": [leaf("request", number=2), answer(request=size)],
            "answered before": [{**answer(), "id": answered["id"], "request": answered["request"]}],
            "twice": [leaf("request"), answer(request=size), answer(request=size)],
            "id twice": [leaf(), leaf()]})
        # Of a log that was pruned.
        size = len(self.pruned.leaves)
        gone = next(i for i, e in enumerate(self.pruned.leaves) if e is None)
        self.assert_valid_for_both(self.forged(self.pruned, leaves=[*self.pruned.leaves, canonical(answer(request=gone))]))
        self.refuse_leaves(self.pruned, {"no request": [answer()], "a note": [leaf(), answer(request=size)], "true": [answer(request=True)]})
        self.refuse_leaves(self.pruned, {"leaf 0, which was kept": [answer(request=0)],
                                         "pruned and answered": [answer(request=gone), answer(request=gone, number=2)],
                                         "id twice": [answer(request=gone), answer(request=gone + 1)]})

    def test_an_erasure_of_what_never_was_is_refused(self):
        def erasure(*items, number=1): return leaf("erasure", number=number, scope={"record": leaf()["id"]}, reason="r", erased=list(items))
        index, there = next((i, json.loads(e)) for i, e in enumerate(self.whole.leaves) if b'"request.body"' in e)
        self.assertEqual(there["type"], "request")
        once = {"leaf": index, "fields": ["request.body"]}
        hidden = {name: None for name in self.whole.files if name.startswith(f"contents/{index}/request.body")}
        self.assert_valid_for_both(self.forged(self.whole, leaves=[*self.whole.leaves, canonical(erasure(once))], more=hidden))
        self.refuse_leaves(self.whole, {
            "here": [erasure(once)], "no list": [{**erasure(), "erased": {}}], "none": [leaf("erasure")], "true": [erasure({**once, "leaf": True})],
            "less": [erasure({**once, "leaf": -1})], "a field": [erasure({**once, "fields": ["A"]})], "fields": [erasure({**once, "fields": "a"})]})
        self.refuse_leaves(self.whole, {"no such field": [erasure({**once, "fields": ["a"]})],
                                        "no such leaf": [erasure({**once, "leaf": 10**9})]})
        twice = [*self.whole.leaves, canonical(erasure(once)), canonical(erasure(once, number=2))]
        self.assert_refused(self.forged(self.whole, leaves=twice, more=hidden), "twice")

    def test_a_prune_leaf_that_cannot_be_is_refused(self):
        index = next(i for i, e in enumerate(self.pruned.leaves) if e is not None and b'"type":"prune"' in e)
        said = json.loads(self.pruned.leaves[index])
        self.assertEqual(said["minimum_index"], 256)
        def changed(**members):
            leaves = list(self.pruned.leaves)
            leaves[index] = canonical({**said, **members})
            return leaves
        kept = said["kept"]
        for what, members in {
                "fewer kept": {"kept": kept[1:]}, "more kept": {"kept": [*kept, 255]}, "false": {"kept": [False, *kept[1:]]},
                "text": {"kept": ["0", *kept[1:]]}, "beyond the minimum": {"kept": [*kept, 256]}, "beyond the tree": {"kept": [*kept, 2**53]},
                "no list": {"kept": {"0": 1}}, "null": {"kept": None}, "minimum true": {"minimum_index": True},
                "minimum text": {"minimum_index": "256"},
                "no tile": {"minimum_index": 255}, "larger": {"minimum_index": 512}, "nothing": {"minimum_index": 0, "kept": []}}.items():
            self.assert_refused(self.forged(self.pruned, leaves=changed(**members)), what)
        for what, members in {"kept twice": {"kept": [kept[0], *kept]}, "descending": {"kept": kept[::-1]}}.items():
            self.assertGreater(len(kept), 1)
            self.assert_refused(self.forged(self.pruned, leaves=changed(**members)), what)
        # A leaf that says that it is gone itself, or speaks of what comes after it.
        early = list(self.pruned.leaves)
        early[255] = canonical({**leaf("prune"), "minimum_index": 256, "kept": sorted({*kept, 255})})
        early[index] = canonical(leaf(number=2))
        self.assert_refused(self.forged(self.pruned, leaves=early), "a prune leaf below its own minimum index")
        self.refuse_leaves(self.whole, {"nothing is gone": [leaf("prune", minimum_index=256, kept=[])]})

    # The bundle around them.

    def test_files_that_are_not_of_the_tree_are_refused(self):
        hexadecimal = b"0" * 64 + b"\n"
        for what, more in {"kept/00": {"kept/00": b"{}"}, "kept/x": {"kept/x": b"1"}, "kept/300": {"kept/300": b"1"}, "kept/1": {"kept/1": b"1"},
                           "a content": {"contents/1/x": b"", "contents/1/x.salt": hexadecimal}, "a salt": {"contents/1/x.salt": hexadecimal},
                           "no leaf 0": {"kept/0": None}, "no tile": {"tile/1/000.p/1": None}}.items():
            self.assert_refused(self.forged(self.pruned, more=more), what)
        for what, more in {"a level": {"tile/7/000": b"junk"}, "pruned entries": {"tile/entries/000": b"junk"},
                           "an older tile": {"tile/0/001.p/1": b"0" * 32}}.items():
            self.assert_refused(self.forged(self.pruned, more=more), what)
        salt = next(name for name in self.whole.files if name.endswith(".salt"))
        text = self.whole.files[salt]
        for what, bad in {"no digits": b"x" * 64 + b"\n", "short": text[1:], "spaced": b" ".join((text[:2], text[2:]))}.items():
            self.assert_refused(self.forged(self.whole, more={salt: bad}), what)
        for what, bad in {"more": text + b"x", "no newline": text[:-1]}.items():
            self.assert_refused(self.forged(self.whole, more={salt: bad}), what)

    def test_a_manifest_that_is_not_about_this_bundle_is_refused(self):
        def members(**more): return {"manifest": lambda manifest: manifest.update(more)}
        def rewritten(old, new): return {"manifest": lambda manifest: canonical(manifest).replace(old, new, 1)}
        def listed(**more): return {"listing": lambda files: files[0].update(more)}
        size = len(self.pruned.leaves)
        for what, changes in {
                "size": members(size=size + 1), "size as text": members(size=str(size)), "origin": members(origin="other"), "vkey": members(vkey=""),
                "a key with white space": members(vkey=self.pruned.vkey + "\n"),
                "no minimum": {"manifest": lambda manifest: manifest.pop("minimum_index") and None}, "minimum 0": members(minimum_index=0),
                "minimum true": members(minimum_index=True), "minimum 255": members(minimum_index=255),
                "format 3": members(format="verbatim-evidence/3"),
                "member twice": rewritten(b'"size":', b'"size":1,"size":'),
                "nested": rewritten(b'"size":', b'"r":' + b"[" * 600 + b"]" * 600 + b',"size":'),
                "deep": rewritten(b'"size":', b'"r":' + b"[" * 30000 + b"]" * 30000 + b',"size":'), "NaN": rewritten(b'"size":', b'"r":NaN,"size":'),
                "no files": members(files=None), "files": members(files=[1]), "sha256": listed(sha256="0" * 64), "name": listed(name="../x"),
                "name 2": listed(name="manifest.json"), "file twice": {"listing": lambda files: files.insert(0, files[0])},
                "not listed": {"listing": lambda files: files.pop()}, "no object": {"manifest": lambda manifest: b"[]"}}.items():
            self.assert_refused(self.forged(self.pruned, **changes), what)
        for what, changes in {
                "root": members(root="0" * 64), "no root": members(root=None), "upper case": {"manifest": lambda m: m.update(root=m["root"].upper())},
                "format 1": members(format="verbatim-evidence/1"), "records": members(records=True), "less": members(records=-1),
                "selection": members(selection=[]), "bytes": listed(bytes=1), "bytes true": listed(bytes=True),
                "order": {"listing": lambda files: files.reverse()}, "white space": {"manifest": lambda m: canonical(m) + b"\n"},
                "float": rewritten(b'"size":', b'"r":1.5,"size":')}.items():
            self.assert_refused(self.forged(self.pruned, **changes), what)
        for what, changes in {"format 2": members(format="verbatim-evidence/2"), "minimum 0": members(minimum_index=0)}.items():
            self.assert_refused(self.forged(self.whole, **changes), what)

    def test_a_signature_that_is_not_about_this_manifest_is_refused(self):
        def envelope(change): return {"signature": lambda signed: change(signed["dsseEnvelope"])}
        def signature(change): return envelope(lambda e: e["signatures"][0].update(sig=change(e["signatures"][0]["sig"])))
        def trailing(text):
            """The same bytes, with a bit that does not count."""
            self.assertTrue(text.endswith("=="))
            digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
            return text[:-3] + digits[digits.index(text[-3]) + 1] + "=="
        for what, changes in {
                "subject": {"statement": lambda s: s["subject"][0]["digest"].update(sha256="0" * 64)}, "trailing bits": signature(trailing),
                "no padding": signature(lambda s: s.rstrip("=")), "padding": signature(lambda s: s + "="),
                "white space": signature(lambda s: s + "\n"),
                "foreign": signature(lambda s: s[:8] + "*" + s[8:]), "two": envelope(lambda e: e["signatures"].append(e["signatures"][0])),
                "kind": envelope(lambda e: e.update(payloadType="text/plain")),
                "twice": {"signature": lambda signed: canonical(signed).replace(b'{"dsse', b'{"mediaType":1,"dsse', 1)},
                "deep": {"signature": lambda signed: canonical(signed).replace(b'{"dsse', b'{"a":' + b"[" * 600 + b"]" * 600 + b',"dsse',
                1)}}.items():
            self.assert_refused(self.forged(self.whole, **changes), what)
        for what, changes in {
                "root": {"statement": lambda s: s["predicate"].update(root="0" * 64)}, "size": {"statement": lambda s: s["predicate"].update(size=1)},
                "type": {"statement": lambda s: s.update(predicateType="other")}, "name": {"statement": lambda s: s["subject"][0].update(name="x")},
                "hint": {"signature": lambda s: s["verificationMaterial"]["publicKey"].update(hint="x")}}.items():
            self.assert_refused(self.forged(self.whole, **changes), what)

    def test_a_checkpoint_in_another_form_is_refused(self):
        good = self.whole.tree_files(self.whole.leaves, 0)[0]["checkpoint"].decode()
        self.assert_valid_for_both(self.forged(self.whole))
        for what, bad in {"carriage returns": good.replace("\n", "\r\n"), "line separator": good[:-1] + "\u2028\n", "no end": good[:-1],
                          "padding": good[:-2] + "==\n", "a line more": good + "x\n",
                          "number": good.replace(f"\n{len(self.whole.leaves)}\n", "\n\u0661\n"),
                          "a tab": good.replace("\n\u2014", "\t\n\u2014"), "another text": good.replace("\n\n", "\nx\n\n")}.items():
            self.assert_refused(self.forged(self.whole, more={"checkpoint": bad.encode()}), what)

    def test_json_that_two_programs_could_read_two_ways_is_refused(self):
        def outer(text): return {"signature": lambda signed: canonical(signed)[:-1] + b',"zz":' + text + b"}"}
        def inner(text): return {"manifest": lambda manifest: canonical(manifest)[:-1] + b',"zz":' + text + b"}"}
        size = b'"size":%d' % len(self.whole.leaves)
        for what, changes in {
                "float": outer(b"1.5"), "2^53+1": outer(b"9007199254740993"), "less": outer(b"-9007199254740993"), "huge": outer(b"1" * 30),
                "BOM": {"signature": lambda signed: b"\xef\xbb\xbf" + canonical(signed)},
                "2 MiB": {"signature": lambda signed: canonical(signed) + b" " * (2 << 20)},
                "manifest 1.5": inner(b"1.5"), "manifest 1e21": inner(b"1e+21"), "manifest 2^53+2": inner(b"9007199254740994"),
                "statement float": {"statement": lambda said: canonical(said).replace(size, size + b".0")},
                "statement BOM": {"statement": lambda said: b"\xef\xbb\xbf" + canonical(said)}}.items():
            self.assert_refused(self.forged(self.whole, **changes), what)
        self.assert_valid_for_both(self.forged(self.whole, **outer(b"9007199254740992")))
        self.assert_valid_for_both(self.forged(self.whole, **inner(b"9007199254740992")))

    def test_an_empty_tree_is_refused(self):
        self.assert_refused(self.forged(self.whole, leaves=[]), "no leaf")

    def test_folders_alone_count_for_nothing(self):
        index = next(i for i, e in enumerate(self.whole.leaves) if b'"request.body"' in e)
        hidden = {name: None for name in self.whole.files if name.startswith(f"contents/{index}/request.body")}
        for name, more in (("contents/1/x", {}), ("kept/5", {}), ("x", {}), (f"contents/{index}/request.body", hidden)):
            bundle = self.forged(self.whole, more=more)
            (bundle / name).mkdir(parents=True)
            self.assert_valid_for_both(bundle)
        self.assert_refused(self.forged(self.whole, more={"kept/5/z": b"x"}), "a file in a folder under kept/")

    def test_a_note_is_measured_in_bytes(self):
        good = self.whole.tree_files(self.whole.leaves, 0)[0]["checkpoint"].decode()
        for letters, judge in ((100, self.assert_valid_for_both), (600000, lambda bundle: self.assert_refused(bundle, "a note of 1.2 MB"))):
            judge(self.forged(self.whole, more={"checkpoint": (good + "\u2014 " + "\u00e9" * letters + " AAAAAAA=\n").encode()}))

    def test_a_receipt_and_its_key_are_read_one_way(self):
        index = max(i for i, e in enumerate(self.pruned.leaves) if e is not None and b'"type":"request"' in e)
        done = support.verbatim("receipt", str(index), "--data", self.made / "data", "--json")
        self.assertEqual(done.code, 0, done)
        receipt, key = self.folder / "receipt", self.folder / "key"
        def judged(text, vkey):
            receipt.write_text(text)
            key.write_text(vkey)
            program = support.verbatim("verify", "--receipt", receipt, "--key", key)
            script = subprocess.run([sys.executable, "-I", "-B", str(SCRIPT), "--receipt", str(receipt), "--key", str(key)],
                                    capture_output=True, timeout=120, cwd="/")
            self.assertEqual(program.code == 0, script.returncode == 0, f"{program}\n{script}")
            return program.code == 0
        good = done.out.strip()
        self.assertTrue(judged(good, self.whole.vkey))
        self.assertTrue(judged(good, f"\n {self.whole.vkey}\t\r\n\n"))
        for text in ("1.5", "1152921504606846976", "-9007199254740993"):
            self.assertFalse(judged(good[:-1] + f',"zz":{text}}}', self.whole.vkey), text)
        self.assertTrue(judged(good[:-1] + ',"zz":9007199254740992}', self.whole.vkey))

    # Zip files.

    def zipped(self, change=None, method=zipfile.ZIP_DEFLATED, made=None):
        """The bundle as a zip file of Python's, its bytes changed after; `made` changes each entry before it is written."""
        out = self.folder / f"{uuid.uuid4().hex}.zip"
        with zipfile.ZipFile(out, "w") as archive:
            for path in sorted(p for p in (self.made / "whole").rglob("*") if p.is_file()):
                entry = zipfile.ZipInfo(str(path.relative_to(self.made / "whole")))
                entry.compress_type, entry.external_attr = method, 0o100644 << 16
                (made or (lambda _: None))(entry)
                archive.writestr(entry, path.read_bytes())
        if change:
            data = bytearray(out.read_bytes())
            change(data)
            out.write_bytes(data)
        return out

    def test_a_zip_file_with_two_opinions_is_refused(self):
        def first(entry): return entry.filename == "checkpoint"
        def put(data, place, value): data[place : place + len(value)] = value
        def directory(place, value): return lambda data: put(data, data.find(b"PK\1\2") + place, value)
        def local(place, value): return lambda data: put(data, place, value)
        def extra(raw): return lambda entry: first(entry) and setattr(entry, "extra", raw)
        def attributes(value): return lambda entry: first(entry) and setattr(entry, "external_attr", value)
        def named(name, real):
            field = b"\1" + struct.pack("<I", verify.zlib.crc32(name.encode())) + real.encode()
            return lambda e: first(e) and (setattr(e, "filename", name), setattr(e, "extra", struct.pack("<HH", 0x7075, len(field)) + field))
        for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
            self.assert_valid_for_both(self.zipped(method=method))
        self.assert_valid_for_both(self.zipped(made=extra(struct.pack("<HHBI", 0x5455, 5, 1, 0))))
        for what, archive in {
                "name": self.zipped(local(30, b"x")), "directory's name": self.zipped(directory(46, b"x")),
                "size": self.zipped(local(22, b"\1\0\0\0")),
                "packed": self.zipped(local(18, b"\1\0\0\0")), "crc": self.zipped(local(14, b"\1\0\0\0")), "method": self.zipped(local(8, b"\0\0")),
                "directory's size": self.zipped(directory(24, b"\1\0\0\0")), "encrypted": self.zipped(local(6, b"\1\0")),
                "place": self.zipped(directory(42, b"\1\0\0\0")),
                "a DOS folder": self.zipped(made=lambda e: first(e) and (setattr(e, "create_system", 0), setattr(e, "external_attr", 0x10))),
                "a link": self.zipped(made=attributes(0o120777 << 16)), "a device": self.zipped(made=attributes(0o020666 << 16)),
                "a folder": self.zipped(made=attributes(0o040755 << 16)),
                "a field cut short": self.zipped(made=extra(struct.pack("<HH", 0x5455, 50)))}.items():
            self.assert_refused(archive, what)
        for what, archive in {
                "bzip2": self.zipped(method=zipfile.ZIP_BZIP2), "lzma": self.zipped(method=zipfile.ZIP_LZMA),
                "another name": self.zipped(made=named("other", "checkpoint")),
                "a field twice": self.zipped(made=extra(struct.pack("<HHBI", 0x5455, 5, 1, 0) * 2)),
                "entries of this disk": self.zipped(lambda data: put(data, len(data) - 14, b"\1\0"))}.items():
            self.assert_refused(archive, what)
        for name in ("checkpoint", "checkpoint/x", "../x", "/x", "a//b", "a\\b"):
            archive = self.zipped()
            with warnings.catch_warnings(), zipfile.ZipFile(archive, "a") as more:
                warnings.simplefilter("ignore")  # of a name that is there twice
                more.writestr(zipfile.ZipInfo(name), b"x")
            self.assert_refused(archive, name)

    # What is printed.

    def test_nothing_in_a_bundle_steers_the_terminal(self):
        steering = "\x1b[2J\x9b2J\x7f\r\u2028\u202e\u2066"
        bundle = self.forged(self.whole, leaves=[*self.whole.leaves, canonical(leaf("replay_verdict", record=steering, verdict=steering))])
        self.assert_valid_for_both(bundle)
        for name in (steering, "x" + steering):
            (bundle / name).write_bytes(b"x")
        (bundle / b"\xff\xfe".decode(errors="surrogateescape")).write_bytes(b"x")
        named = self.forged(self.whole, listing=lambda files: files[0].update(name="check\u202epoint"))
        bad_id = self.forged(self.whole, leaves=[*self.whole.leaves, canonical({**leaf(), "id": steering})])
        for path in (bundle, named, bad_id):
            printed = subprocess.run([sys.executable, "-I", "-B", str(SCRIPT), str(path)], capture_output=True, timeout=120)
            self.assertEqual((printed.returncode, printed.stderr), (1, b""))
            text = printed.stdout.decode().replace("\n", "")
            self.assertEqual([c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")], [])
            self.assertIn("\\u202e", text)


if __name__ == "__main__":
    support.main()
