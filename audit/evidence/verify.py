#!/usr/bin/env python3
"""Verifies a Verbatim evidence bundle. Needs Python 3.8 and nothing else: no network, no trust in who made it.

usage: verify.py [BUNDLE] [--key VKEY]

BUNDLE is the bundle's folder (default: the folder of this file). VKEY is the log's public key (or a file
that holds it) as you have it from somewhere else than the bundle; without it the key that the bundle names is used, and that is said.

Checks, in this order:
  1. the signature of the checkpoint (signed note, Ed25519);
  2. that the entries hash to the checkpoint's root (RFC 6962), and every tile to the tree;
  3. that each disclosed content opens the salted commitment in its leaf;
  4. that every exchange has its request and its one response, and names them rightly;
  5. the manifest: every file it lists, and its own signature (DSSE).

Exit code: 0 valid; 1 not valid; 2 usage, or not a bundle.
"""

import base64
import hashlib
import json
import os
import re
import sys

FORMAT = "verbatim-evidence/1"


class Invalid(Exception):
    """One fault, in words."""


# ---- Ed25519 verification (RFC 8032 section 5.1.7), in plain integers ----

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)


def recover_x(y, sign):
    if y >= P:
        return None
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    if x2 == 0:
        return None if sign else 0
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P != 0:
        x = x * SQRT_M1 % P
    if (x * x - x2) % P != 0:
        return None
    return P - x if (x & 1) != sign else x


def decompress(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    x = recover_x(y, sign)
    return None if x is None else (x, y, 1, x * y % P)


def add(p, q):
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def multiply(scalar, point):
    result = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            result = add(result, point)
        point = add(point, point)
        scalar >>= 1
    return result


def same_point(p, q):
    return (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE_X = recover_x(BASE_Y, 0)
BASE = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def ed25519_ok(public, message, signature):
    if len(public) != 32 or len(signature) != 64:
        return False
    a = decompress(public)
    r = decompress(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    return same_point(multiply(s, BASE), add(r, multiply(k, a)))


# ---- keys, notes, checkpoints (C2SP signed-note, tlog-checkpoint) ----


def unbase64(text, what):
    try:
        raw = base64.b64decode(text, validate=True)
    except Exception:
        raise Invalid(what + " is not base64")
    if base64.b64encode(raw).decode() != text:
        raise Invalid(what + " is not canonical base64")
    return raw


def parse_vkey(vkey):
    name, _, rest = vkey.strip().partition("+")
    key_id, _, key = rest.partition("+")
    raw = unbase64(key, "the key")
    if len(raw) != 33 or raw[0] != 1:
        raise Invalid("the key is not an Ed25519 key of a log")
    if hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4].hex() != key_id:
        raise Invalid("the key's id does not belong to it")
    return name, bytes.fromhex(key_id), raw[1:]


def open_note(note, vkey):
    """Returns the text that the key signed."""
    name, key_id, public = parse_vkey(vkey)
    text, separator, signatures = note.rpartition("\n\n")
    if not separator or not note.endswith("\n"):
        raise Invalid("the checkpoint is not a signed note")
    text += "\n"
    for line in signatures.splitlines():
        if not line.startswith("\u2014 "):
            raise Invalid("the checkpoint has a line that is no signature")
        who, _, encoded = line[2:].partition(" ")
        raw = unbase64(encoded, "a signature")
        if who == name and raw[:4] == key_id:
            if not ed25519_ok(public, text.encode(), raw[4:]):
                raise Invalid("the checkpoint's signature is wrong")
            return text
    raise Invalid("the checkpoint is not signed by " + name)


def parse_checkpoint(text):
    lines = text.split("\n")
    if len(lines) < 4 or not lines[1].isdigit() or str(int(lines[1])) != lines[1]:
        raise Invalid("the checkpoint's text is malformed")
    root = unbase64(lines[2], "the root")
    if len(root) != 32:
        raise Invalid("the root is not a SHA-256 value")
    return lines[0], int(lines[1]), root


# ---- the tree (RFC 6962 section 2.1, C2SP tlog-tiles) ----


def leaf_hash(entry):
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def tree_hash(hashes):
    """The hash over a list of subtrees of equal size, the last ones perhaps missing."""
    if not hashes:
        return hashlib.sha256(b"").digest()
    while len(hashes) > 1:
        paired = [node_hash(hashes[i], hashes[i + 1]) for i in range(0, len(hashes) - 1, 2)]
        if len(hashes) % 2 == 1:
            paired.append(hashes[-1])
        hashes = paired
    return hashes[0]


def tile_name(number):
    parts = ["%03d" % (number % 1000)]
    while number >= 1000:
        number //= 1000
        parts.insert(0, "x%03d" % (number % 1000))
    return "/".join(parts)


def read(bundle, name):
    path = os.path.join(bundle, *name.split("/"))
    if os.path.realpath(path) != os.path.join(os.path.realpath(bundle), *name.split("/")):
        raise Invalid(name + " leads out of the bundle, or is a link")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        raise Invalid("missing or unreadable: " + name)


def read_entries(bundle, size):
    entries = []
    for tile in range((size + 255) // 256):
        width = min(256, size - tile * 256)
        name = "tile/entries/" + tile_name(tile) + ("" if width == 256 else ".p/%d" % width)
        data, at = read(bundle, name), 0
        for _ in range(width):
            if at + 2 > len(data):
                raise Invalid(name + " is cut short")
            length = int.from_bytes(data[at : at + 2], "big")
            if at + 2 + length > len(data):
                raise Invalid(name + " is cut short")
            entries.append(data[at + 2 : at + 2 + length])
            at += 2 + length
        if at != len(data):
            raise Invalid(name + " has bytes after its last entry")
    return entries


def check_tiles(bundle, leaves):
    """Every tile of every level must hold exactly the hashes of the subtrees below it."""
    level, row = 0, leaves
    while row:
        for tile in range((len(row) + 255) // 256):
            hashes = row[tile * 256 : tile * 256 + 256]
            name = "tile/%d/%s" % (level, tile_name(tile))
            name += "" if len(hashes) == 256 else ".p/%d" % len(hashes)
            if read(bundle, name) != b"".join(hashes):
                raise Invalid(name + " does not hold the tree's hashes")
        row = [tree_hash(row[i : i + 256]) for i in range(0, len(row) // 256 * 256, 256)]
        level += 1


# ---- contents and exchanges ----


def commitment(salt, data):
    return hashlib.sha256(b"verbatim/commit/v1\x00" + salt + data).hexdigest()


def files_below(bundle):
    for folder, folders, names in os.walk(bundle):
        for name in names + [f for f in folders if os.path.islink(os.path.join(folder, f))]:
            yield os.path.relpath(os.path.join(folder, name), bundle).replace(os.sep, "/")


def check_contents(bundle, records, problems):
    opened = withheld = 0
    named = set()
    for index, record in enumerate(records):
        for content in record.get("contents", []):
            if not re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)*", content["field"]):
                raise Invalid("leaf %d has a content with a strange name" % index)
            name = "contents/%d/%s" % (index, content["field"])
            path = os.path.join(bundle, *name.split("/"))
            if not os.path.exists(path):
                withheld += 1
                continue
            named.update((name, name + ".salt"))
            salt = bytes.fromhex(read(bundle, name + ".salt").decode().strip())
            data = read(bundle, name)
            if len(salt) != 32 or len(data) != content["bytes"] or commitment(salt, data) != content["commitment"]:
                problems.append(name + " is not what leaf %d committed to" % index)
            else:
                opened += 1
    for name in sorted(files_below(bundle)):
        if name.startswith("contents/") and name not in named:
            problems.append(name + " is a content that no leaf commits to")
    return opened, withheld


def check_exchanges(records, problems):
    requests, answered, recovered = {}, {}, 0
    for index, record in enumerate(records):
        kind, identity = record.get("type"), record.get("id")
        if kind == "request":
            if identity in requests:
                problems.append("record %s has two request leaves" % identity)
            requests[identity] = index
        elif kind == "response":
            if identity in answered:
                problems.append("record %s has two response leaves" % identity)
            if requests.get(identity) != record.get("request"):
                problems.append("response leaf %d does not name its request" % index)
            answered[identity] = index
            recovered += record.get("status") == "interrupted"
    return len(requests), len(requests) - len(answered), recovered


# ---- the manifest (in-toto statement in DSSE) ----


def refuse(text):
    raise Invalid("a leaf holds a number that leaves never hold: " + text)


def parse_leaf(index, entry):
    """A leaf is canonical JSON without floats: one meaning, and one way to write it."""
    try:
        record = json.loads(entry.decode(), parse_float=refuse, parse_constant=refuse)
    except ValueError:
        raise Invalid("leaf %d is not JSON" % index)
    canonical = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if not isinstance(record, dict) or canonical.encode() != entry:
        raise Invalid("leaf %d is not canonical JSON" % index)
    if record.get("v") != 1 or not all(isinstance(record.get(m), str) for m in ("type", "id", "time")):
        raise Invalid("leaf %d lacks v, type, id or time" % index)
    return record


def check_manifest(bundle, manifest_bytes, manifest, vkey, problems):
    for listed in manifest.get("files", []):
        name = listed["name"]
        if name.startswith("/") or ".." in name.split("/"):
            raise Invalid("the manifest names a file outside of the bundle")
        data = read(bundle, name)
        if hashlib.sha256(data).hexdigest() != listed["sha256"]:
            problems.append(name + " is not the file that the manifest lists")
    names = [listed["name"] for listed in manifest.get("files", [])]
    listed_names = set(names)
    if len(names) != len(listed_names):
        problems.append("the manifest lists a file twice")
    for name in sorted(set(files_below(bundle)) - listed_names - {"manifest.json", "manifest.sig.json"}):
        problems.append(name + " is not in the manifest")
    signed = json.loads(read(bundle, "manifest.sig.json"))
    envelope = signed["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    pae = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    public = parse_vkey(vkey)[2]
    if len(envelope["signatures"]) != 1:
        raise Invalid("manifest.sig.json must hold one signature")
    if not ed25519_ok(public, pae, base64.b64decode(envelope["signatures"][0]["sig"])):
        problems.append("the manifest's signature is wrong")
    statement = json.loads(payload)
    digests = [s["digest"].get("sha256") for s in statement.get("subject", [])]
    if hashlib.sha256(manifest_bytes).hexdigest() not in digests:
        problems.append("the manifest's signature is about another manifest")


def verify(bundle, trusted_key):
    manifest_bytes = read(bundle, "manifest.json")
    manifest = json.loads(manifest_bytes)
    if manifest.get("format") != FORMAT:
        raise Invalid("manifest.json is of format %r; this script knows %s" % (manifest.get("format"), FORMAT))
    vkey = trusted_key or manifest["vkey"]
    problems = []

    origin, size, root = parse_checkpoint(open_note(read(bundle, "checkpoint").decode(), vkey))
    entries = read_entries(bundle, size)
    leaves = [leaf_hash(entry) for entry in entries]
    if tree_hash(leaves) != root:
        raise Invalid("the entries do not hash to the checkpoint's root")
    check_tiles(bundle, leaves)
    records = [parse_leaf(index, entry) for index, entry in enumerate(entries)]
    if origin != parse_vkey(vkey)[0]:
        problems.append("the checkpoint is of another log than the key")
    for member, truth in (("size", size), ("origin", origin), ("vkey", vkey)):
        if manifest.get(member) != truth:
            problems.append("the manifest says another %s than the checkpoint" % member)
    if records and (records[0].get("origin") != origin or records[0].get("vkey") != vkey):
        problems.append("leaf 0 names another log or key")
    opened, withheld = check_contents(bundle, records, problems)
    exchanges, still_open, interrupted = check_exchanges(records, problems)
    check_manifest(bundle, manifest_bytes, manifest, vkey, problems)

    print("origin     " + origin)
    print("size       %d leaves, %d exchanges (%d still open, %d interrupted by a crash)"
          % (size, exchanges, still_open, interrupted))
    print("root       " + root.hex())
    print("contents   %d opened and equal to their commitments, %d not in this bundle" % (opened, withheld))
    last = {r["record"]: r["verdict"] for r in records if r.get("type") == "replay_verdict"}
    for verdict in sorted(set(last.values())):
        print("replayed   %d records: %s" % (list(last.values()).count(verdict), verdict))
    print("key        " + vkey + ("" if trusted_key else "  (named by the bundle itself: pass --key to pin it)"))
    return problems


def main(arguments):
    bundle, key = None, None
    arguments = list(arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument in ("-h", "--help"):
            print(__doc__)
            return 0
        if argument == "--key" and arguments:
            key = arguments.pop(0)
            if os.path.isfile(key):
                with open(key, encoding="utf-8") as file:
                    key = file.read().strip()
        elif bundle is None and not argument.startswith("-"):
            bundle = argument
        else:
            print("verify.py: %s is not understood: see --help" % argument, file=sys.stderr)
            return 2
    if key is not None:
        try:
            parse_vkey(key)
        except Invalid as fault:
            print("verify.py: --key: %s" % fault, file=sys.stderr)
            return 2
    bundle = bundle or os.path.dirname(os.path.abspath(__file__))
    if not os.path.exists(os.path.join(bundle, "manifest.json")):
        print("verify.py: no manifest.json in %s: not a bundle" % bundle, file=sys.stderr)
        return 2
    try:
        problems = verify(bundle, key)
    except Invalid as fault:
        problems = [str(fault)]
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as fault:
        problems = ["malformed: %s: %s" % (type(fault).__name__, fault)]
    for problem in problems:
        print("problem    " + problem)
    print("INVALID" if problems else "VALID")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
