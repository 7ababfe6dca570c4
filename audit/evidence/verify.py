#!/usr/bin/env python3
"""Verifies a Verbatim evidence bundle. Needs Python 3.8 and nothing else: no network, no trust in who made it.

usage: verify.py [BUNDLE] [--key VKEY] [--checkpoint FILE]
       verify.py --receipt FILE --key VKEY

BUNDLE is the bundle's folder or zip file (default: the folder of this file). VKEY is the log's public key (or a file
that holds it) as you have it from somewhere else than the bundle; without it the key that the bundle names is used, and that is said.
--checkpoint names an older checkpoint of this log that you kept: the bundle must contain that very tree.
--receipt names what `verbatim receipt` wrote: one leaf with its proof and checkpoint.

A time stamp (RFC 3161) must be of a checkpoint of this very log. Whose stamp it is, this script does not check: it writes
neither token nor note anywhere, and `openssl ts -verify -token_in` wants both (leaves of type `timestamp` hold them).

Checks, in this order:
  1. the signature of the checkpoint (signed note, Ed25519), by the key given or one that it led to;
  2. that the entries hash to the checkpoint's root (RFC 6962), and every tile to the tree;
  3. that each disclosed content opens the salted commitment in its leaf, and none was erased before;
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
import zlib

FORMATS = ("verbatim-evidence/1", "verbatim-evidence/2")


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


# ---- where a bundle lies: a folder, or a zip file ----


def is_bundle_path(name):
    plain = all(part not in ("", ".", "..") for part in name.split("/"))
    return plain and len(name.encode()) <= 512 and not re.search(r"[\x00-\x1f\x7f\\]", name)


class Folder:
    def __init__(self, path):
        self.path = path
        self.files = {}  # name -> whether it is a plain file; links are not followed
        self.look("")

    def look(self, below):
        with os.scandir(os.path.join(self.path, *below.split("/")) if below else self.path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    self.look(below + entry.name + "/")
                else:
                    self.files[below + entry.name] = entry.is_file(follow_symlinks=False)

    def names(self):
        return iter(self.files)

    def read(self, name):
        if not self.files.get(name, True):
            raise Invalid(name + " is no plain file")
        try:
            if name in self.files:
                with open(os.path.join(self.path, *name.split("/")), "rb") as file:
                    return file.read()
        except OSError:
            pass
        raise Invalid("missing or unreadable: " + name)


class Zip:
    """A zip file that has one meaning: its entries lie one after another from the first byte, its directory follows them
    at once and lists exactly them, and the end follows the directory (PKWARE's APPNOTE, section 4.3)."""

    BYTES_MAX = 1 << 30  # of one file

    def __init__(self, path):
        self.file = open(path, "rb")
        self.size = os.path.getsize(path)
        self.entries = {}  # name -> (place of the data, bytes packed, bytes, method, crc)
        behind = self.size - 22
        end = self.at(behind, 22)
        if end[:4] != b"PK\x05\x06" or end[4:8] != bytes(4) or end[20:22] != bytes(2):
            raise Invalid("not a zip file, or one with bytes or a comment after its end")
        count, length, start = (number(end[a:b]) for a, b in ((10, 12), (12, 16), (16, 20)))
        if behind >= 76 and self.at(behind - 20, 4) == b"PK\x06\x07":
            behind -= 76
            wide = self.at(behind, 76)
            if wide[:4] != b"PK\x06\x06" or number(wide[4:12]) != 44 or number(wide[64:72]) != behind:
                raise Invalid("the zip file's zip64 end is not where it should be")
            real = [number(wide[a : a + 8]) for a in (32, 40, 48)]
            for narrow, full, marker in zip((count, length, start), real, (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)):
                if narrow not in (full, marker):
                    raise Invalid("the zip file has two ends that disagree")
            count, length, start = real
        if start + length != behind:
            raise Invalid("the zip file has bytes before it, or beside its directory")
        directory, reached = self.at(start, length), 0
        for _ in range(count):
            directory, reached = self.take(directory, reached)
        if directory or reached != start:
            raise Invalid("the zip file has bytes that its directory does not list")

    def at(self, place, length):
        if place < 0 or place + length > self.size:
            raise Invalid("the zip file is cut short")
        self.file.seek(place)
        return self.file.read(length)

    def take(self, directory, reached):
        """One entry of the directory, compared with what lies at its place. Returns the rest, and where it ends."""
        head = directory[:46]
        if len(head) < 46 or head[:4] != b"PK\x01\x02" or head[32:36] != bytes(4):
            raise Invalid("the zip file's directory is damaged")
        flags, method, crc = number(head[8:10]), number(head[10:12]), head[16:20]
        name_length, extra_length = number(head[28:30]), number(head[30:32])
        rest = directory[46 + name_length + extra_length :]
        raw_name = directory[46 : 46 + name_length]
        sizes = [number(head[24:28]), number(head[20:24]), number(head[42:46])]
        length, packed, place = wide_sizes(directory[46 + name_length : 46 + name_length + extra_length], sizes)
        name = raw_name.decode()
        local = self.at(place, 30)
        data = place + 30 + number(local[26:28]) + number(local[28:30])
        same = local[:4] == b"PK\x03\x04" and self.at(place + 30, number(local[26:28])) == raw_name
        end = data + packed
        if flags & 1 or not same or number(local[6:8]) != flags or number(local[8:10]) != method or place != reached:
            raise Invalid("the zip file has two opinions on its entry " + name)
        if flags & 8:
            end = self.after_descriptor(name, end, crc, packed, length)
        else:
            extra = self.at(data - number(local[28:30]), number(local[28:30]))
            if local[14:18] != crc or wide_sizes(extra, [number(local[22:26]), number(local[18:22]), 0])[:2] != [length, packed]:
                raise Invalid("the zip file has two opinions on its entry " + name)
        folder = name.endswith("/")
        if not is_bundle_path(name[:-1] if folder else name) or name in self.entries or (folder and length):
            raise Invalid("the zip file has a name twice, or one that leads out: " + name)
        if number(head[4:6]) >> 8 == 3 and (number(head[38:42]) >> 28) not in (0, 8, 4):
            raise Invalid("the zip file has an entry that is no plain file: " + name)
        if not folder:
            self.entries[name] = (data, packed, length, method, number(crc))
        return rest, end

    def after_descriptor(self, name, end, crc, packed, length):
        for width in (4, 8):
            said = crc + packed.to_bytes(8, "little")[:width] + length.to_bytes(8, "little")[:width]
            for descriptor in (b"PK\x07\x08" + said, said):
                if end + len(descriptor) <= self.size and self.at(end, len(descriptor)) == descriptor:
                    return end + len(descriptor)
        raise Invalid("the zip file has two opinions on its entry " + name)

    def names(self):
        return iter(self.entries)

    def read(self, name):
        if name not in self.entries:
            raise Invalid("missing or unreadable: " + name)
        place, packed, length, method, crc = self.entries[name]
        if length > self.BYTES_MAX or method not in (0, 8):
            raise Invalid(name + " is too large, or packed in another way than deflate")
        data = self.at(place, packed)
        try:
            if method == 8:
                unpacker = zlib.decompressobj(-15)
                data = unpacker.decompress(data, length + 1)
                if not unpacker.eof or unpacker.unused_data:
                    raise Invalid(name + " is damaged in the zip file")
        except zlib.error:
            raise Invalid(name + " is damaged in the zip file")
        if len(data) != length or zlib.crc32(data) != crc:
            raise Invalid(name + " is damaged in the zip file")
        return data


def number(raw):
    return int.from_bytes(raw, "little")


def wide_sizes(extra, values):
    """(bytes, packed, place) with those that a zip64 field holds put in."""
    values = list(values)
    while len(extra) >= 4:
        kind, length = number(extra[:2]), number(extra[2:4])
        if kind == 1:
            at = 4
            for i, value in enumerate(values):
                if value == 0xFFFFFFFF:
                    values[i] = number(extra[at : at + 8])
                    at += 8
        extra = extra[4 + length :]
    return values


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


def split_note(note):
    """(text, [(name, raw signature), ...]), nothing of it verified."""
    text, separator, signatures = note.rpartition("\n\n")
    if not separator or not note.endswith("\n"):
        raise Invalid("the checkpoint is not a signed note")
    signed_by = []
    for line in signatures.splitlines():
        if not line.startswith("\u2014 "):
            raise Invalid("the checkpoint has a line that is no signature")
        who, _, encoded = line[2:].partition(" ")
        signed_by.append((who, unbase64(encoded, "a signature")))
    return text + "\n", signed_by


def open_note(note, vkey):
    """Returns the text that the key signed."""
    name, key_id, public = parse_vkey(vkey)
    text, signatures = split_note(note)
    for who, raw in signatures:
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


# ---- the keys of one log, each announced by the one before it ----


class Keys:
    """Begins with a key that is trusted, and grows by what that key vouches for."""

    def __init__(self, first):
        self.links = [[first, 0]]  # (vkey, smallest tree that it signs), oldest first

    def rotate(self, note, index=None):
        title, origin, at, old, new = split_note(note)[0].split("\n")[:5]
        same = "\n".join((title, origin, at, old, new)) + "\n" == open_note(note, old) == open_note(note, new)
        if not same or title != "verbatim/key-rotation/v1" or str(int(at)) != at or index not in (None, int(at)):
            raise Invalid("a note of one key about its successor is malformed")
        if old != self.newest() or {origin, parse_vkey(new)[0]} != {parse_vkey(old)[0]}:
            raise Invalid("a key was changed by another than the newest: to " + new)
        if int(at) < self.links[-1][1] or new in self.all():
            raise Invalid("the changes of the log's key do not follow from each other")
        self.links.append([new, int(at) + 1])

    def all(self):
        return [vkey for vkey, _ in self.links]

    def newest(self):
        return self.links[-1][0]

    def origin(self):
        return parse_vkey(self.newest())[0]

    def open(self, note):
        """(origin, size, root) of a checkpoint that the newest key for a tree of its size signed."""
        size = parse_checkpoint(split_note(note)[0])[1]
        return parse_checkpoint(open_note(note, [vkey for vkey, at in self.links if at <= size][-1]))


def keys_of(records):
    if not records or records[0].get("type") != "log_created":
        raise Invalid("leaf 0 does not say how the log was created")
    keys = Keys(records[0]["vkey"])
    for index, record in enumerate(records):
        if record.get("type") == "key_rotated":
            keys.rotate(record["note"], index)
    return keys


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


def read_pruned(bundle, minimum):
    """(leaf hashes, entries) below a minimum index: of most leaves the hashes alone are there, and None for the entry."""
    hashes, entries, present = [], [], set(bundle.names())
    for tile in range(minimum // 256):
        data = bundle.read("tile/0/" + tile_name(tile))
        if len(data) != 256 * 32:
            raise Invalid("tile/0/%s does not hold 256 hashes" % tile_name(tile))
        hashes += [data[i : i + 32] for i in range(0, len(data), 32)]
    for index, value in enumerate(hashes):
        name = "kept/%d" % index
        entries.append(bundle.read(name) if name in present else None)
        if entries[-1] is not None and leaf_hash(entries[-1]) != value:
            raise Invalid(name + " is not the leaf of its tile")
    return hashes, entries


def check_prune(records, minimum, names, problems):
    """What is not here must be what the newest leaf about pruning says. Returns how many leaves that are."""
    pruned = ([r for r in records if r.get("type") == "prune"] or [{"minimum_index": 0, "kept": []}])[-1]
    kept = ["kept/%d" % index for index in pruned["kept"]]
    if pruned["minimum_index"] != minimum or sorted(kept) != sorted(n for n in names if n.startswith("kept/")):
        problems.append("the leaves that are not here are not those that a leaf says were pruned")
    return minimum - len(kept)


def read_entries(bundle, size, minimum):
    entries = []
    for tile in range(minimum // 256, (size + 255) // 256):
        width = min(256, size - tile * 256)
        name = "tile/entries/" + tile_name(tile) + ("" if width == 256 else ".p/%d" % width)
        data, at = bundle.read(name), 0
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
            if bundle.read(name) != b"".join(hashes):
                raise Invalid(name + " does not hold the tree's hashes")
        row = [tree_hash(row[i : i + 256]) for i in range(0, len(row) // 256 * 256, 256)]
        level += 1


# ---- contents and exchanges ----


def commitment(salt, data):
    return hashlib.sha256(b"verbatim/commit/v1\x00" + salt + data).hexdigest()


def check_contents(bundle, records, problems):
    opened = withheld = 0
    named = set()
    present = set(bundle.names())
    for index, record in enumerate(records):
        for content in record.get("contents", []):
            if not re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)*", content["field"]):
                raise Invalid("leaf %d has a content with a strange name" % index)
            name = "contents/%d/%s" % (index, content["field"])
            if name not in present:
                withheld += 1
                continue
            named.update((name, name + ".salt"))
            salt = bytes.fromhex(bundle.read(name + ".salt").decode().strip())
            data = bundle.read(name)
            if len(salt) != 32 or len(data) != content["bytes"] or commitment(salt, data) != content["commitment"]:
                problems.append(name + " is not what leaf %d committed to" % index)
            else:
                opened += 1
    for name in sorted(present):
        if name.startswith("contents/") and name not in named:
            problems.append(name + " is a content that no leaf commits to")
    return opened, withheld


def check_erasures(records, present, problems):
    """What the log says is gone cannot be disclosed by one who no longer has it."""
    erased = 0
    for index, record in enumerate(records):
        if record.get("type") != "erasure":
            continue
        for item in record["erased"]:
            for field in item["fields"]:
                erased += 1
                name = "contents/%d/%s" % (item["leaf"], field)
                if name in present:
                    problems.append("leaf %d says that it was erased, but here is %s" % (index, name))
    return erased


def check_exchanges(records, problems):
    requests, answered, first, recovered = {}, {}, {}, 0
    for index, record in enumerate(records):
        kind, identity = record.get("type"), record.get("id")
        # An exchange's two leaves share their id; every other leaf has its own.
        if identity is not None and first.setdefault(identity, index) != index and kind != "response":
            problems.append("leaf %d has the record id of leaf %d" % (index, first[identity]))
        if kind == "request":
            requests[identity] = index
        elif kind == "response":
            if identity in answered:
                problems.append("record %s has two response leaves" % identity)
            pruned = not records[min(record.get("request", 0), index)]
            if requests.get(identity) != record.get("request") and not pruned:
                problems.append("response leaf %d does not name its request" % index)
            answered[identity] = index
            requests.setdefault(identity, record.get("request"))
            recovered += record.get("status") == "interrupted"
    return len(requests), len(requests) - len(answered), recovered


# ---- time stamps (RFC 3161) ----

SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
TST_INFO = bytes.fromhex("2a864886f70d0109100104")
SHA_256 = bytes.fromhex("608648016503040201")


def der(data):
    """The values that lie one after another in DER: [(tag, value), ...]."""
    values, at = [], 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length >= 0x80:
            size = length - 0x80
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        if tag & 0x1F == 0x1F or at + length > len(data):
            raise Invalid("a time stamp's token is malformed")
        values.append((tag, data[at : at + length]))
        at += length
    return values


def read_token(token):
    """(imprint, time) of a token: CMS SignedData that holds a TSTInfo. Its signature is not checked."""
    ((_, content),) = der(token)
    (_, kind), (_, explicit) = der(content)
    signed = der(der(explicit)[0][1])
    (_, inner_kind), (_, inner) = der(signed[2][1])
    info = der(der(der(inner)[0][1])[0][1])
    (_, algorithm), (_, imprint) = der(info[2][1])
    if kind != SIGNED_DATA or inner_kind != TST_INFO or der(algorithm)[0][1] != SHA_256 or info[4][0] != 0x18:
        raise Invalid("a time stamp's token is malformed, or of another hash than SHA-256")
    return imprint, info[4][1].decode()


def roots_at(leaves, sizes):
    """Tree heads of several sizes, by size."""
    roots, edge = {0: tree_hash([])}, []  # edge: complete subtrees as (leaves, hash), largest first
    for size, value in enumerate(leaves, 1):
        width = 1
        while edge and edge[-1][0] == width:
            value, width = node_hash(edge.pop()[1], value), width * 2
        edge.append((width, value))
        if size in sizes:
            root = edge[-1][1]
            for _, left in reversed(edge[:-1]):
                root = node_hash(left, root)
            roots[size] = root
    return roots


def check_timestamps(records, leaves, keys, problems):
    """Each is of a checkpoint that the log signed, of this very tree. Returns (size, time) of the newest."""
    stamps = [(index, record) for index, record in enumerate(records) if record.get("type") == "timestamp"]
    roots = roots_at(leaves, {record["size"] for _, record in stamps})
    newest = None
    for index, record in stamps:
        origin, size, root = keys.open(record["note"])
        imprint, time = read_token(unbase64(record["token"], "a time stamp"))
        if hashlib.sha256(record["note"].encode()).digest() != imprint or imprint.hex() != record["imprint"]:
            problems.append("leaf %d: the time stamp is of something else than the checkpoint" % index)
        elif (origin, size, root.hex()) != (keys.origin(), record["size"], record["root"]) or size > index:
            problems.append("leaf %d: what was stamped is no earlier checkpoint of this log" % index)
        elif roots[size] != root:
            problems.append("FORKED: leaf %d has a time stamp of a checkpoint for other leaves" % index)
        newest = (size, time)
    return len(stamps), newest


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
        data = bundle.read(name)
        if hashlib.sha256(data).hexdigest() != listed["sha256"]:
            problems.append(name + " is not the file that the manifest lists")
    names = [listed["name"] for listed in manifest.get("files", [])]
    listed_names = set(names)
    if len(names) != len(listed_names):
        problems.append("the manifest lists a file twice")
    for name in sorted(set(bundle.names()) - listed_names - {"manifest.json", "manifest.sig.json"}):
        problems.append(name + " is not in the manifest")
    signed = json.loads(bundle.read("manifest.sig.json"))
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


def check_kept(kept, keys, origin, leaves, problems):
    """An older checkpoint that somebody kept: the same log, and a prefix of this tree."""
    kept_origin, size, root = keys.open(kept)
    if kept_origin != origin:
        problems.append("the given checkpoint is of another log, " + kept_origin)
    elif size > len(leaves):
        problems.append("STALE: the given checkpoint has %d leaves, the bundle has %d" % (size, len(leaves)))
    elif tree_hash(leaves[:size]) != root:
        problems.append("FORKED: the given checkpoint of size %d was signed for other leaves" % size)


def verify(bundle, trusted_key, kept):
    manifest_bytes = bundle.read("manifest.json")
    manifest = json.loads(manifest_bytes)
    if manifest.get("format") not in FORMATS:
        raise Invalid("manifest.json is of format %r; this script knows %s" % (manifest.get("format"), " and ".join(FORMATS)))
    vkey = manifest["vkey"]
    problems = []
    note = bundle.read("checkpoint").decode()
    size = parse_checkpoint(split_note(note)[0])[1]
    minimum = manifest.get("minimum_index", 0)
    if not isinstance(minimum, int) or minimum % 256 != 0 or not 0 <= minimum <= size:
        raise Invalid("the manifest's minimum index is no whole number of tiles")
    leaves, entries = read_pruned(bundle, minimum)
    for entry in read_entries(bundle, size, minimum):
        leaves.append(leaf_hash(entry))
        entries.append(entry)
    records = [{} if entry is None else parse_leaf(index, entry) for index, entry in enumerate(entries)]
    keys = keys_of(records)
    # What follows is checked under the bundle's own keys: with another, all of it would be one fault said many times.
    if trusted_key and trusted_key not in keys.all():
        problems.append("the bundle is signed by another key than the one given: " + vkey)
    origin, size, root = keys.open(note)
    if tree_hash(leaves) != root:
        raise Invalid("the entries do not hash to the checkpoint's root")
    check_tiles(bundle, leaves)
    if origin != parse_vkey(vkey)[0]:
        problems.append("the checkpoint is of another log than the key")
    for member, truth in (("size", size), ("origin", origin), ("vkey", keys.newest())):
        if manifest.get(member) != truth:
            problems.append("the manifest says another %s than the checkpoint" % member)
    if records[0].get("origin") != origin:
        problems.append("leaf 0 names another log")
    opened, withheld = check_contents(bundle, records, problems)
    erased = check_erasures(records, set(bundle.names()), problems)
    exchanges, still_open, interrupted = check_exchanges(records, problems)
    pruned = check_prune(records, minimum, bundle.names(), problems)
    stamps, stamped = check_timestamps(records, leaves, keys, problems)
    check_manifest(bundle, manifest_bytes, manifest, vkey, problems)
    if kept is not None:
        check_kept(kept, keys, origin, leaves, problems)

    print("origin     " + origin)
    print("size       %d leaves, %d exchanges (%d still open, %d interrupted by a crash)"
          % (size, exchanges, still_open, interrupted))
    print("root       " + root.hex())
    if pruned:
        print("PRUNED     %d leaves below %d, as a leaf says: of them the hashes are here" % (pruned, minimum))
    print("contents   %d opened and equal to their commitments, %d not in this bundle, of which %d erased"
          % (opened, withheld, erased))
    last = {r["record"]: r["verdict"] for r in records if r.get("type") == "replay_verdict"}
    for verdict in sorted(set(last.values())):
        print("replayed   %d records: %s" % (list(last.values()).count(verdict), verdict))
    if stamped:
        print("stamped    %d times; the last says that %d leaves were there at %s (whose stamp: not checked here)"
              % (stamps, *stamped))
    print("key        " + vkey + ("" if trusted_key else "  (named by the bundle itself: pass --key to pin it)"))
    return problems


# ---- receipts (C2SP tlog-proof) ----


def read_receipt(text):
    """(leaf, rotations, token, index, hashes, checkpoint) of what `verbatim receipt` wrote, with --json or without."""
    leaf, rotations, token = None, b"", b""
    if text.startswith("{"):
        both = json.loads(text)
        text, leaf = both["receipt"], both["leaf"].encode()
    head, separator, note = text.partition("\n\n")
    lines = head.split("\n")
    if not separator or lines.pop(0) != "c2sp.org/tlog-proof@v1":
        raise Invalid("the receipt is not a tlog-proof")
    if lines and lines[0].startswith("extra "):
        extra = unbase64(lines.pop(0)[6:], "the receipt's extra line")
        held, _, rotations = extra.partition(b"\n")
        rotations, _, token = rotations.partition(b"\n")
        leaf = held if leaf is None else leaf
    if leaf is None:
        raise Invalid("the receipt does not hold its leaf")
    index = re.fullmatch(r"index (0|[1-9][0-9]*)", lines.pop(0) if lines else "")
    if not index:
        raise Invalid("the receipt names no index")
    hashes = [unbase64(line, "a hash of the receipt") for line in lines]
    if any(len(value) != 32 for value in hashes):
        raise Invalid("a hash of the receipt is not 32 bytes")
    return leaf, json.loads(rotations or b"[]"), unbase64(token.decode(), "a time stamp"), int(index.group(1)), hashes, note


def root_of_path(leaf, index, size, hashes):
    """The root that an inclusion proof leads to (RFC 9162 section 2.1.3.2), or None if it has the wrong length."""
    if index >= size:
        return None
    node, last, value = index, size - 1, leaf_hash(leaf)
    for sibling in hashes:
        if last == 0:
            return None
        if node % 2 == 1 or node == last:
            value = node_hash(sibling, value)
            while node % 2 == 0 and node != 0:
                node, last = node >> 1, last >> 1
        else:
            value = node_hash(value, sibling)
        node, last = node >> 1, last >> 1
    return value if last == 0 else None


def verify_receipt(text, vkey, kept):
    problems = []
    leaf, rotations, token, index, hashes, note = read_receipt(text)
    parse_leaf(index, leaf)
    keys = Keys(vkey)
    for rotation in rotations:  # those before the given key say nothing of what it vouches for
        if split_note(rotation)[0].split("\n")[3] == keys.newest():
            keys.rotate(rotation)
    origin, size, root = keys.open(note)
    if origin != parse_vkey(vkey)[0]:
        problems.append("the checkpoint is of another log than the key")
    if root_of_path(leaf, index, size, hashes) != root:
        problems.append("the proof does not lead from the leaf to the checkpoint's root")
    if kept is not None:
        kept_origin, kept_size, kept_root = keys.open(kept)
        if kept_origin != origin:
            problems.append("the given checkpoint is of another log, " + kept_origin)
        elif kept_size == size and kept_root != root:
            problems.append("FORKED: the given checkpoint of size %d was signed for other leaves" % size)
    time = None
    if token:
        imprint, time = read_token(token)
        if hashlib.sha256(note.encode()).digest() != imprint:
            problems.append("the time stamp is of something else than the checkpoint")
    print("origin     " + origin)
    print("index      %d of %d leaves" % (index, size))
    print("leaf       " + leaf.decode())
    if time:
        print("stamped    at %s (whose stamp: not checked here)" % time)
    return problems


# ---- the command line ----


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def usage(text):
    print("verify.py: " + text, file=sys.stderr)
    return 2


def main(arguments):
    bundle, given = None, {"--key": None, "--checkpoint": None, "--receipt": None}
    arguments = list(arguments)
    while arguments:
        argument = arguments.pop(0)
        if argument in ("-h", "--help"):
            print(__doc__)
            return 0
        if argument in given and arguments:
            given[argument] = arguments.pop(0)
        elif bundle is None and not argument.startswith("-"):
            bundle = argument
        else:
            return usage("%s is not understood: see --help" % argument)
    key, kept, receipt = given["--key"], None, None
    try:
        if key is not None:
            if os.path.isfile(key):
                key = text_of(key).strip()
            elif "+" not in key:
                raise Invalid("%s is neither a public key (NAME+HASH+BASE64) nor a file that holds one" % key)
            key = key.strip()
            parse_vkey(key)
        kept = given["--checkpoint"] and text_of(given["--checkpoint"])
        receipt = given["--receipt"] and text_of(given["--receipt"])
    except (Invalid, OSError, ValueError) as fault:
        return usage(str(fault))
    if receipt is not None and (key is None or bundle is not None):
        return usage("--receipt goes with --key, and without a bundle")
    bundle = bundle or os.path.dirname(os.path.abspath(__file__))
    if receipt is None and not (os.path.isfile(bundle) or os.path.exists(os.path.join(bundle, "manifest.json"))):
        return usage("no manifest.json in %s: not a bundle" % bundle)
    try:
        if receipt is not None:
            problems = verify_receipt(receipt, key, kept)
        else:
            problems = verify(Zip(bundle) if os.path.isfile(bundle) else Folder(bundle), key, kept)
    except Invalid as fault:
        problems = [str(fault)]
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError) as fault:
        problems = ["malformed: %s: %s" % (type(fault).__name__, fault)]
    for problem in problems:
        print("problem    " + problem)
    print("INVALID" if problems else "VALID")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
