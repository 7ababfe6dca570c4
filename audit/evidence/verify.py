#!/usr/bin/env python3
"""Verifies a Verbatim evidence bundle. Needs Python 3.8 and nothing else: no network, no trust in who made it.

Take this script from the project, or from a copy whose SHA-256 the project publishes; never from the bundle of whom
you audit, who could have put another in its place (`verbatim export` prints the SHA-256 of its version).

usage: verify.py [BUNDLE] [--key VKEY] [--checkpoint FILE]
       verify.py --receipt FILE --key VKEY

BUNDLE is the bundle's folder or zip file (default: the folder of this file). VKEY is the log's public key (or a file
that holds it) as you have it from somewhere else than the bundle; without it the key that the bundle names is used, and that is said.
--checkpoint names an older checkpoint of this log that you kept: the bundle must contain that very tree.
--receipt names what `verbatim receipt` wrote: one leaf with its proof and checkpoint.

A time stamp (RFC 3161) must be of a checkpoint of this very log. Its signature, and whose it is, this script does not check
(`verbatim verify --tsa-ca` does), and VALID says nothing of it: a line `UNCHECKED` does. The script writes
neither token nor note anywhere, and `openssl ts -verify -token_in` wants both (leaves of type `timestamp` hold them).

Checks, in this order:
  1. that every leaf is canonical JSON (RFC 8785) of a known form;
  2. the signature of the checkpoint (signed note, Ed25519), by the key given or one that it led to;
  3. that the entries hash to the checkpoint's root (RFC 6962), and every tile to the tree;
  4. that each disclosed content opens the salted commitment in its leaf, and none was erased before;
  5. that every response has the request that it names, and that what is missing is what a leaf says was pruned;
  6. the manifest: what it says of the tree, every file, and its own signature (DSSE).

Exit code: 0 valid; 1 not valid; 2 usage, or not a bundle.
"""

import base64
import datetime
import hashlib
import json
import os
import re
import sys
import unicodedata
import zlib

FORMATS = ("verbatim-evidence/1", "verbatim-evidence/2")  # of a whole log; of one that was pruned


UNCHECKED = "UNCHECKED  the time stamp's signature: whether it is an authority's, and its time true, is not known here"


class Invalid(Exception):
    """One fault, in words."""


def plain(text):
    """A text that does nothing to a terminal: control, format and surrogate characters, and line separators, escaped."""
    steers = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join("\\u%04x" % ord(c) if unicodedata.category(c) in steers else c for c in text)


def say(text):
    print(plain(text))


# ---- JSON, read strictly ----

DEPTH_MAX = 512
WHOLE_MAX = 2**53
sys.setrecursionlimit(5000)  # Python's own reader and writer take a few calls for each level


def read_json(raw, what, canonical=False):
    """A value without members that are there twice and without numbers that are not exact.
    `canonical`: it must be written in the one way of RFC 8785, members sorted by the UTF-16 code units of their names."""

    def whole(token):
        if len(token) > 17 or abs(int(token)) > WHOLE_MAX:
            raise Invalid(what + " holds a number beyond 2^53")
        return int(token)

    def refuse(token):
        raise Invalid("%s holds a number that is not whole: %s" % (what, token[:40]))

    def members(pairs):
        names = [name.encode("utf-16-be", "surrogatepass") for name, _ in pairs]
        if len(set(names)) != len(names):
            raise Invalid(what + " has a member twice")
        if canonical and names != sorted(names):
            raise Invalid(what + " is not canonical JSON")
        return dict(pairs)

    try:
        value = json.loads(raw.decode(), object_pairs_hook=members, parse_int=whole, parse_float=refuse, parse_constant=refuse)
        # Python escapes in strings what RFC 8785 does, and nothing else. What is no Unicode cannot be encoded.
        written = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    except ValueError:
        raise Invalid(what + " is not JSON")
    except RecursionError:
        raise Invalid(what + " is nested too deep")
    level = [value]
    for _ in range(DEPTH_MAX):
        level = below(level)
    if level:
        raise Invalid(what + " is nested too deep")
    if canonical and written != raw:
        raise Invalid(what + " is not canonical JSON")
    return value


def below(values):
    """The objects and arrays that are directly in these values."""
    inner = []
    for value in values:
        if isinstance(value, dict):
            inner.extend(value.values())
        elif isinstance(value, list):
            inner.extend(value)
    return [value for value in inner if isinstance(value, (dict, list))]


def is_whole(value):
    """Of Python's integers: True and False are some, too."""
    return type(value) is int and value >= 0


def is_digest(value):
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def same(value, truth):
    return type(value) is type(truth) and value == truth


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
    inside = all(part not in ("", ".", "..") for part in name.split("/"))
    return inside and len(os.fsencode(name)) <= 512 and not re.search(r"[\x00-\x1f\x7f\\]", name)


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
    # Fields of which every reader makes the same: zip64's sizes, times, Info-ZIP's owner. By others some readers take
    # another name, size or kind of file than the entry itself says.
    FIELDS_KNOWN = (0x0001, 0x000A, 0x5455, 0x7875)
    FLAGS_KNOWN = 0x080E  # how hard deflate tried, sizes after the data, a name in UTF-8

    def __init__(self, path):
        self.file = open(path, "rb")
        self.size = os.path.getsize(path)
        self.entries = {}  # name -> (place of the data, bytes packed, bytes, method, crc)
        behind = self.size - 22
        end = self.at(behind, 22)
        if end[:4] != b"PK\x05\x06" or end[4:8] != bytes(4) or end[8:10] != end[10:12] or end[20:22] != bytes(2):
            raise Invalid("not a zip file, or one with bytes or a comment after its end")
        count, length, start = (number(end[a:b]) for a, b in ((10, 12), (12, 16), (16, 20)))
        if behind >= 76 and self.at(behind - 20, 4) == b"PK\x06\x07":
            behind -= 76
            wide = self.at(behind, 76)
            one_disk = wide[16:24] == bytes(8) and wide[24:32] == wide[32:40] and wide[60:64] == bytes(4)
            if wide[:4] != b"PK\x06\x06" or number(wide[4:12]) != 44 or number(wide[64:72]) != behind or not one_disk:
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
        for name in self.entries:
            if any(name[:at] in self.entries for at, c in enumerate(name) if c == "/"):
                raise Invalid("the zip file has a file as a folder: " + name)

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
        extra = directory[46 + name_length : 46 + name_length + extra_length]
        if len(raw_name) != name_length or len(extra) != extra_length:
            raise Invalid("the zip file's directory is damaged")
        length, packed, place = self.real_sizes(extra, head[24:28], head[20:24], head[42:46])
        if not raw_name.isascii():
            raise Invalid("the zip file has a name that is not ASCII")
        name = raw_name.decode()
        twice = Invalid("the zip file has two opinions on its entry " + name)
        local = self.at(place, 30)
        data = place + 30 + number(local[26:28]) + number(local[28:30])
        if local[:4] != b"PK\x03\x04" or self.at(place + 30, number(local[26:28])) != raw_name or place != reached:
            raise twice
        if number(local[6:8]) != flags or number(local[8:10]) != method:
            raise twice
        if flags & ~self.FLAGS_KNOWN or method not in (0, 8) or (method == 0 and packed != length):
            raise Invalid("the zip file has an entry that is encrypted, or packed in another way than deflate: " + name)
        extra = self.at(data - number(local[28:30]), number(local[28:30]))
        said = [*self.real_sizes(extra, local[22:26], local[18:22], bytes(4))[:2], number(local[14:18])]
        if said != [length, packed, number(crc)]:
            # Only where the sizes follow the data may they be missing here.
            if not flags & 8 or any(value not in (0, truth) for value, truth in zip(said, (length, packed, number(crc)))):
                raise twice
        end = data + packed
        if flags & 8:
            end = self.after_descriptor(name, end, crc, packed, length)
        folder = name.endswith("/")
        if not is_bundle_path(name[:-1] if folder else name) or name in self.entries or (folder and length):
            raise Invalid("the zip file has a name twice, or one that leads out: " + name)
        # The kind of file: of Unix in the uppermost bits (4 a folder, 8 a plain file), of DOS in one bit.
        kind, dos_folder = number(head[38:42]) >> 28, bool(head[38] & 0x10)
        if kind not in ((0, 4) if folder else (0, 8)) or (dos_folder and not folder):
            raise Invalid("the zip file has an entry that is no plain file: " + name)
        if not folder:
            self.entries[name] = (data, packed, length, method, number(crc))
        return rest, end

    def real_sizes(self, extra, *narrow):
        """(bytes, packed, place) with those that a zip64 field holds put in; checks the other fields beside it."""
        values, kinds = [number(raw) for raw in narrow], set()
        while extra:
            kind, length = number(extra[:2]), number(extra[2:4])
            field, rest = extra[4 : 4 + length], extra[4 + length :]
            if not field or len(field) != length or kind in kinds or kind not in self.FIELDS_KNOWN:
                raise Invalid("the zip file has an extra field that is damaged, there twice, or could say something else")
            kinds.add(kind)
            if kind == 1:
                for i, value in enumerate(values):
                    if value == 0xFFFFFFFF:
                        if len(field) < 8:
                            raise Invalid("the zip file has a zip64 field that is cut short")
                        values[i], field = number(field[:8]), field[8:]
            extra = rest
        return values

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
        if length > self.BYTES_MAX:
            raise Invalid(name + " is too large")
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


# ---- keys, notes, checkpoints (C2SP signed-note, tlog-checkpoint) ----


def unbase64(text, what):
    """Of bytes there is one base64: padded, and nothing in it that does not count."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (ValueError, TypeError):
        raise Invalid(what + " is not base64")
    if base64.b64encode(raw).decode() != text:
        raise Invalid(what + " is not canonical base64")
    return raw


def is_key_name(name):
    return re.fullmatch(r"[^\s\x00-\x20+]+", name) is not None


def parse_vkey(vkey):
    name, _, rest = vkey.partition("+")
    key_id, _, key = rest.partition("+")
    raw = unbase64(key, "the key")
    if not is_key_name(name):
        raise Invalid("the key's name is empty, or has spaces")
    if len(raw) != 33 or raw[0] != 1:
        raise Invalid("the key is not an Ed25519 key of a log")
    if hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4].hex() != key_id:
        raise Invalid("the key's id does not belong to it")
    return name, bytes.fromhex(key_id), raw[1:]


def split_note(note):
    """(text, [(name, raw signature), ...]), nothing of it verified."""
    text, separator, signatures = note.rpartition("\n\n")
    if not separator or not signatures.endswith("\n") or re.search(r"[\x00-\x09\x0b-\x1f]", note) or len(note.encode()) > 1 << 20:
        raise Invalid("the checkpoint is not a signed note")
    signed_by = []
    for line in signatures[:-1].split("\n"):
        who, _, encoded = line[2:].partition(" ")
        if not line.startswith("\u2014 ") or not is_key_name(who):
            raise Invalid("the checkpoint has a line that is no signature")
        signed_by.append((who, unbase64(encoded, "a signature")))
        if len(signed_by[-1][1]) < 5 or len(signed_by) > 100:
            raise Invalid("the checkpoint has a malformed signature, or too many")
    return text + "\n", signed_by


def open_note(note, vkeys):
    """The text, if the first of the keys signed it. No signature by another of them may be wrong."""
    known = {parse_vkey(vkey)[:2]: parse_vkey(vkey)[2] for vkey in vkeys}
    text, signatures = split_note(note)
    signed_by = set()
    for who, raw in signatures:
        key = (who, raw[:4])
        if key not in known or key in signed_by:
            continue
        if not ed25519_ok(known[key], text.encode(), raw[4:]):
            raise Invalid("the checkpoint's signature is wrong")
        signed_by.add(key)
    if parse_vkey(vkeys[0])[:2] not in signed_by:
        raise Invalid("the checkpoint is not signed by " + parse_vkey(vkeys[0])[0])
    return text


def parse_checkpoint(text):
    lines = text.split("\n")
    # The last line ends, too; lines between are extensions.
    plain_size = len(lines) > 1 and re.fullmatch("0|[1-9][0-9]{0,19}", lines[1]) and int(lines[1]) < 1 << 64
    if len(lines) < 4 or lines[-1] != "" or "" in lines[:-1] or not plain_size:
        raise Invalid("the checkpoint's text is malformed")
    root = unbase64(lines[2], "the root")
    if len(root) != 32:
        raise Invalid("the root is not a SHA-256 value")
    return lines[0], int(lines[1]), root


# ---- the keys of one log, each announced by the one before it ----


def open_rotation(note):
    """(origin, index of its leaf, key so far, key from then on): signed by both keys."""
    text = split_note(note)[0]
    lines = text.split("\n")
    if len(lines) != 6 or lines[0] != "verbatim/key-rotation/v1" or not re.fullmatch("0|[1-9][0-9]{0,18}", lines[2]):
        raise Invalid("a note of one key about its successor is malformed")
    _, origin, at, old, new, _ = lines
    open_note(note, [old, new])
    open_note(note, [new, old])
    return origin, int(at), old, new


class Keys:
    """Begins with a key that is trusted, and grows by what that key vouches for."""

    def __init__(self, first):
        self.links = [(first, 0, None)]  # (vkey, smallest tree that it signs, largest one), oldest first

    def rotate(self, note, index=None):
        origin, at, old, new = open_rotation(note)
        if index not in (None, at):
            raise Invalid("a note of one key about its successor belongs to another leaf")
        if old != self.newest() or {origin, parse_vkey(new)[0]} != {self.origin()}:
            raise Invalid("a key was changed by another than the newest: to " + new)
        if at < self.links[-1][1] or new in self.all():
            raise Invalid("the changes of the log's key do not follow from each other")
        self.links.append((new, at + 1, None))

    def retire(self, vkey, index):
        for i, (key, since, until) in enumerate(self.links[:-1]):
            if key == vkey and until is None:
                self.links[i] = (key, since, index + 1)
                return
        raise Invalid("leaf %d retires a key that did not sign, or the only one that does" % index)

    def all(self):
        return [vkey for vkey, _, _ in self.links]

    def newest(self):
        return self.links[-1][0]

    def origin(self):
        return parse_vkey(self.newest())[0]

    def open(self, note):
        """(origin, size, root) of a checkpoint that the newest key for a tree of its size signed."""
        size = parse_checkpoint(split_note(note)[0])[1]
        sign = [vkey for vkey, since, until in self.links if since <= size and (until is None or size <= until)]
        return parse_checkpoint(open_note(note, sign[::-1]))


def keys_of(records):
    if not records or records[0].get("type") != "log_created":
        raise Invalid("leaf 0 does not say how the log was created")
    keys = Keys(text_in(0, records[0], "vkey"))
    for index, record in enumerate(records):
        if record.get("type") == "key_rotated":
            keys.rotate(text_in(index, record, "note"), index)
        elif record.get("type") == "key_retired":
            keys.retire(text_in(index, record, "vkey"), index)
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


def tiles_of(size, minimum):
    """The names of all tiles of a tree, and of the entries that are not pruned."""
    names, level, width = set(), 0, size
    while width:
        for tile in range((width + 255) // 256):
            name = tile_name(tile) + (".p/%d" % (width % 256) if tile == width // 256 else "")
            names.add("tile/%d/%s" % (level, name))
            if level == 0 and tile * 256 >= minimum:
                names.add("tile/entries/" + name)
        width //= 256
        level += 1
    return names


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


def read_prune(index, record):
    """(minimum index, kept leaves) of a leaf of type prune."""
    minimum, kept = record.get("minimum_index"), record.get("kept")
    if not is_whole(minimum) or not isinstance(kept, list) or len(kept) > 4000 or not all(is_whole(each) for each in kept):
        raise Invalid("leaf %d, about pruning, lacks minimum_index or kept" % index)
    if minimum % 256 != 0 or minimum > index:
        raise Invalid("leaf %d, about pruning, names a minimum index that is no whole number of earlier tiles" % index)
    if kept != sorted(set(kept)) or (kept and kept[-1] >= minimum):
        raise Invalid("leaf %d, about pruning, names kept leaves that there cannot be, or not in order" % index)
    return minimum, kept


def check_prune(records, manifest, minimum, names, problems):
    """What is not here must be what the newest leaf about pruning says. Returns how many leaves that are."""
    prunes = [read_prune(index, record) for index, record in enumerate(records) if record.get("type") == "prune"]
    said, kept = prunes[-1] if prunes else (0, [])
    if said != minimum or {"kept/%d" % index for index in kept} != {n for n in names if n.startswith("kept/")}:
        problems.append("the leaves that are not here are not those that a leaf says were pruned")
    if manifest["format"] != FORMATS[bool(prunes)] or ("minimum_index" in manifest) != bool(prunes):
        problems.append("the manifest's format is not that of a log that was%s pruned" % ("" if prunes else " not"))
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


def check_tree_names(size, minimum, names, problems):
    known = tiles_of(size, minimum)
    for name in sorted(names):
        if name.startswith("tile/") and name not in known:
            problems.append(name + " is no tile of this tree")


# ---- leaves (schema/leaf.md) ----

LEAF_BYTES_MAX = 65535
UUID_7 = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
TIME = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})[.][0-9]{6}Z")
FIELD = re.compile("[a-z0-9_]+(?:[.][a-z0-9_]+)*")


def text_in(index, record, member):
    if not isinstance(record.get(member), str):
        raise Invalid("leaf %d lacks the text %s" % (index, member))
    return record[member]


def is_time(text):
    """RFC 3339, UTC, microseconds."""
    found = TIME.fullmatch(text)
    try:
        return found is not None and bool(datetime.datetime(*map(int, found.groups())))
    except ValueError:
        return False


def is_field_name(name):
    return isinstance(name, str) and FIELD.fullmatch(name) and len(name) <= 64 and not name.endswith(".salt")


def parse_leaf(index, entry):
    """A leaf is canonical JSON without floats: one meaning, and one way to write it."""
    record = read_json(entry, "leaf %d" % index, canonical=True)
    if not isinstance(record, dict) or len(entry) > LEAF_BYTES_MAX:
        raise Invalid("leaf %d is no JSON object of at most %d bytes" % (index, LEAF_BYTES_MAX))
    if not same(record.get("v"), 1) or not all(isinstance(record.get(m), str) for m in ("type", "id", "time")):
        raise Invalid("leaf %d lacks v, type, id or time" % index)
    if not UUID_7.fullmatch(record["id"]):
        raise Invalid("leaf %d has an id that is no record id: %s" % (index, record["id"][:64]))
    if not is_time(record["time"]):
        raise Invalid("leaf %d has a time that is none: %s" % (index, record["time"][:64]))
    contents = record.get("contents", [])
    if not isinstance(contents, list) or len(contents) > 16 or not all(isinstance(item, dict) for item in contents):
        raise Invalid("leaf %d has contents that are no list of at most 16" % index)
    for item in contents:
        if not is_field_name(item.get("field")) or not is_digest(item.get("commitment")) or not is_whole(item.get("bytes")):
            raise Invalid("leaf %d has a content without field, commitment or bytes" % index)
    if len({item["field"] for item in contents}) != len(contents):
        raise Invalid("leaf %d has two contents of one name" % index)
    output = record.get("canonical", {"key": "0" * 64, "expires_us": 0})
    if not isinstance(output, dict) or not is_digest(output.get("key")) or type(output.get("expires_us")) is not int:
        raise Invalid("leaf %d has a canonical without key or expires_us" % index)
    return record


def read_erased(index, record):
    """[(leaf, field), ...] that a leaf of type erasure names."""
    erased = []
    items = record.get("erased")
    for item in items if isinstance(items, list) else [None]:
        fields = item.get("fields") if isinstance(item, dict) else None
        if not isinstance(fields, list) or not is_whole(item.get("leaf")) or not all(is_field_name(f) for f in fields):
            raise Invalid("leaf %d, about an erasure, does not say what was erased" % index)
        erased += [(item["leaf"], field) for field in fields]
    return erased


# ---- contents and exchanges ----


def commitment(salt, data):
    return hashlib.sha256(b"verbatim/commit/v1\x00" + salt + data).hexdigest()


def check_contents(bundle, records, problems):
    opened = withheld = 0
    named = set()
    present = set(bundle.names())
    for index, record in enumerate(records):
        for content in record.get("contents", []):
            name = "contents/%d/%s" % (index, content["field"])
            if name not in present:
                withheld += 1
                continue
            named.update((name, name + ".salt"))
            salt = bundle.read(name + ".salt")
            data = bundle.read(name)
            if not re.fullmatch(b"[0-9a-f]{64}\n", salt):
                problems.append(name + ".salt is not 64 hexadecimal digits and a newline")
            elif len(data) != content["bytes"] or commitment(bytes.fromhex(salt.decode()), data) != content["commitment"]:
                problems.append(name + " is not what leaf %d committed to" % index)
            else:
                opened += 1
    for name in sorted(present):
        if name.startswith("contents/") and name not in named:
            problems.append(name + " is a content that no leaf commits to")
    return opened, withheld


def check_erasures(records, minimum, present, problems):
    """What the log says is gone cannot be disclosed by one who no longer has it, and goes once."""
    erased, gone = 0, set()
    for index, record in enumerate(records):
        if record.get("type") != "erasure":
            continue
        for leaf, field in read_erased(index, record):
            name = "contents/%d/%s" % (leaf, field)
            if name in present:
                problems.append("leaf %d says that it was erased, but here is %s" % (index, name))
            pruned = leaf < minimum and not records[leaf]
            there = records[leaf].get("contents", []) if leaf < index and not pruned else []
            if not pruned and (name in gone or field not in [content["field"] for content in there]):
                problems.append("leaf %d says that %s was erased, which never was there, or was erased before" % (index, name))
            gone.add(name)
            erased += not pruned
    return erased


def check_exchanges(records, problems):
    """An exchange's two leaves share their id; every other leaf has its own. (exchanges, still open, interrupted)"""
    waiting, first, answered, recovered = {}, {}, set(), 0  # waiting: requests, index -> id; answered: pruned ones
    exchanges = 0
    for index, record in enumerate(records):
        if not record:
            continue
        kind, identity = record["type"], record["id"]
        shared = first.setdefault(identity, index) != index
        if shared and kind != "response":
            problems.append("leaf %d has the record id of leaf %d" % (index, first[identity]))
        if kind == "request":
            waiting[index] = identity
            exchanges += 1
        elif kind == "response":
            recovered += record.get("status") == "interrupted"
            request = record.get("request")
            named = is_whole(request) and request < index
            if named and waiting.get(request) == identity:
                del waiting[request]
            elif named and not records[request] and request not in answered and not shared:
                answered.add(request)  # the request was pruned
                exchanges += 1
            else:
                problems.append("leaf %d does not answer an open request of its record" % index)
    return exchanges, len(waiting), recovered


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
            if not 1 <= size <= 4:
                raise Invalid("a time stamp's token is malformed")
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


def rfc3339(time):
    """Of a token's time, with microseconds."""
    found = re.fullmatch("([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})(?:[.]([0-9]+))?Z", time)
    if not found:
        raise Invalid("a time stamp's time is malformed")
    minute = datetime.datetime(*map(int, found.groups()[:5]))
    fraction = (found.group(7) or "")[:6].ljust(6, "0")
    moment = minute + datetime.timedelta(seconds=int(found.group(6)), microseconds=int(fraction))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def check_timestamps(records, leaves, keys, problems):
    """Each is of a checkpoint that the log signed, of this very tree. Returns (size, time) of the newest."""
    stamps = []
    for index, record in enumerate(records):
        if record.get("type") == "timestamp":
            note = text_in(index, record, "note")
            token = unbase64(text_in(index, record, "token"), "a time stamp")
            stamps.append((index, record, note, keys.open(note), read_token(token)))
    roots = roots_at(leaves, {head[1] for _, _, _, head, _ in stamps})
    newest = None
    for index, record, note, (origin, size, root), (imprint, time) in stamps:
        said = {"size": size, "root": root.hex(), "imprint": imprint.hex(), "stamped": rfc3339(time)}
        if hashlib.sha256(note.encode()).digest() != imprint:
            problems.append("leaf %d: the time stamp is of something else than the checkpoint" % index)
        elif not all(same(record.get(member), value) for member, value in said.items()):
            problems.append("leaf %d does not say of a time stamp what its note and token say" % index)
        elif origin != keys.origin() or size > index:
            problems.append("leaf %d: what was stamped is no earlier checkpoint of this log" % index)
        elif roots[size] != root:
            problems.append("FORKED: leaf %d has a time stamp of a checkpoint for other leaves" % index)
        newest = (size, time)
    return len(stamps), newest


# ---- the manifest (in-toto statement in DSSE) ----


def read_manifest(raw):
    """An object whose members are of the types that it must have."""
    manifest = read_json(raw, "manifest.json", canonical=True)
    if not isinstance(manifest, dict) or manifest.get("format") not in FORMATS:
        raise Invalid("manifest.json is of another format than %s" % " and ".join(FORMATS))
    files = manifest.get("files")
    if not isinstance(files, list) or not all(isinstance(file, dict) for file in files):
        raise Invalid("the manifest lists no files")
    for file in files:
        name = file.get("name")
        if not isinstance(name, str) or not is_bundle_path(name) or name in ("manifest.json", "manifest.sig.json"):
            raise Invalid("the manifest lists a strange name: %s" % str(name)[:64])
        if not is_digest(file.get("sha256")) or not is_whole(file.get("bytes")):
            raise Invalid("the manifest does not say of %s what it is" % name)
    if not isinstance(manifest.get("vkey"), str) or not is_whole(manifest.get("records")):
        raise Invalid("the manifest lacks vkey or records")
    if not isinstance(manifest.get("selection"), dict) or not is_whole(manifest.get("minimum_index", 0)):
        raise Invalid("the manifest lacks selection, or has a minimum_index that is no index")
    return manifest


def check_files(bundle, manifest, problems):
    """What is listed is here, as it was listed, and nothing else is."""
    names = [file["name"] for file in manifest["files"]]
    if names != sorted(set(names), key=str.encode):
        problems.append("the manifest lists a file twice, or not in order")
    for file in manifest["files"]:
        data = bundle.read(file["name"])
        if hashlib.sha256(data).hexdigest() != file["sha256"] or len(data) != file["bytes"]:
            problems.append(file["name"] + " is not the file that the manifest lists")
    for name in sorted(set(bundle.names()) - set(names) - {"manifest.json", "manifest.sig.json"}):
        problems.append(name + " is not in the manifest")


def dsse_base64(text, what):
    """DSSE allows the alphabet for URLs, too."""
    return unbase64(text.replace("-", "+").replace("_", "/"), what)


def check_manifest_signature(bundle, manifest_bytes, manifest, head, problems):
    """A Sigstore bundle with one signature, by the log's key, under a statement about this manifest and this tree."""
    raw = bundle.read("manifest.sig.json")
    if len(raw) > 1 << 20:
        raise Invalid("manifest.sig.json is larger than 1 MiB")
    signed = read_json(raw, "manifest.sig.json")
    envelope, kind = signed["dsseEnvelope"], "application/vnd.in-toto+json"
    if envelope["payloadType"] != kind or len(envelope["signatures"]) != 1:
        raise Invalid("manifest.sig.json must hold one signature, under an in-toto statement")
    if signed["verificationMaterial"]["publicKey"]["hint"] != manifest["vkey"]:
        problems.append("manifest.sig.json names another key than the manifest")
    payload = dsse_base64(envelope["payload"], "the statement about the manifest")
    pae = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    signature = dsse_base64(envelope["signatures"][0]["sig"], "the manifest's signature")
    if not ed25519_ok(parse_vkey(manifest["vkey"])[2], pae, signature):
        problems.append("the manifest's signature is wrong")
    origin, size, root = head
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "predicate": {"origin": origin, "root": root.hex(), "size": size},
        "predicateType": "urn:verbatim:evidence:1",
        "subject": [{"digest": {"sha256": hashlib.sha256(manifest_bytes).hexdigest()}, "name": "manifest.json"}],
    }
    said = read_json(payload, "the statement about the manifest")
    if json.dumps(said, sort_keys=True) != json.dumps(statement, sort_keys=True):
        problems.append("the manifest's signature is about another manifest or another tree")


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
    manifest = read_manifest(manifest_bytes)
    vkey = manifest["vkey"]
    problems = []
    note = bundle.read("checkpoint").decode()
    size = parse_checkpoint(split_note(note)[0])[1]
    minimum = manifest.get("minimum_index", 0)
    if minimum % 256 != 0 or minimum > size:
        raise Invalid("the manifest's minimum index is no whole number of tiles")
    leaves, entries = read_pruned(bundle, minimum)
    for entry in read_entries(bundle, size, minimum):
        leaves.append(leaf_hash(entry))
        entries.append(entry)
    records = [{} if entry is None else parse_leaf(index, entry) for index, entry in enumerate(entries)]
    keys = keys_of(records)
    # What follows is checked under the bundle's own keys: with another, all of it would be one fault said many times.
    if trusted_key and trusted_key not in keys.all():
        problems.append("the bundle is signed by another key than the one given: " + vkey
                        + "; if the log's key was changed since, give the one of that time")
    origin, size, root = keys.open(note)
    if tree_hash(leaves) != root:
        raise Invalid("the entries do not hash to the checkpoint's root")
    check_tiles(bundle, leaves)
    check_tree_names(size, minimum, bundle.names(), problems)
    if origin != parse_vkey(vkey)[0]:
        problems.append("the checkpoint is of another log than the key")
    for member, truth in (("size", size), ("origin", origin), ("root", root.hex()), ("vkey", keys.newest())):
        if not same(manifest.get(member), truth):
            problems.append("the manifest says another %s than the checkpoint" % member)
    if records[0].get("origin") != origin:
        problems.append("leaf 0 names another log")
    opened, withheld = check_contents(bundle, records, problems)
    erased = check_erasures(records, minimum, set(bundle.names()), problems)
    exchanges, still_open, interrupted = check_exchanges(records, problems)
    pruned = check_prune(records, manifest, minimum, bundle.names(), problems)
    stamps, stamped = check_timestamps(records, leaves, keys, problems)
    check_files(bundle, manifest, problems)
    check_manifest_signature(bundle, manifest_bytes, manifest, (origin, size, root), problems)
    if kept is not None:
        check_kept(kept, keys, origin, leaves, problems)

    say("origin     " + origin)
    say("size       %d leaves, %d exchanges (%d still open, %d interrupted by a crash)"
        % (size, exchanges, still_open, interrupted))
    say("root       " + root.hex())
    if pruned:
        say("PRUNED     %d leaves below %d, as a leaf says: of them the hashes are here" % (pruned, minimum))
    say("contents   %d opened and equal to their commitments, %d not in this bundle, of which %d erased"
        % (opened, withheld, erased))
    last = {str(r.get("record")): str(r.get("verdict")) for r in records if r.get("type") == "replay_verdict"}
    for verdict in sorted(set(last.values())):
        say("replayed   %d records: %s" % (list(last.values()).count(verdict), verdict))
    if stamped:
        say("stamped    %d times; the last says that %d leaves were there at %s" % (stamps, *stamped))
        say(UNCHECKED)
    say("key        " + vkey + ("" if trusted_key else "  (named by the bundle itself: pass --key to pin it)"))
    return problems


# ---- receipts (C2SP tlog-proof) ----


def read_receipt(text):
    """(leaf, rotations, token, index, hashes, checkpoint) of what `verbatim receipt` wrote, with --json or without."""
    leaf, rotations, token = None, b"", b""
    if text.startswith("{"):
        both = read_json(text.encode(), "the receipt")
        text, leaf = both["receipt"], both["leaf"].encode() or None
    if len(text.encode()) > 1 << 20:
        raise Invalid("the receipt is larger than 1 MiB")
    head, separator, note = text.partition("\n\n")
    lines = head.split("\n")
    if not separator or lines.pop(0) != "c2sp.org/tlog-proof@v1":
        raise Invalid("the receipt is not a tlog-proof")
    if lines and lines[0].startswith("extra "):
        held, *more = unbase64(lines.pop(0)[6:], "the receipt's extra line").split(b"\n")
        leaf = held if leaf is None else leaf
        if len(more) > 2:
            raise Invalid("the receipt's extra line has more than leaf, keys and time stamp")
        rotations, token = (more + [b"", b""])[:2]
    if leaf is None:
        raise Invalid("the receipt does not hold its leaf")
    index = re.fullmatch(r"index (0|[1-9][0-9]*)", lines.pop(0) if lines else "")
    if not index:
        raise Invalid("the receipt names no index")
    hashes = [unbase64(line, "a hash of the receipt") for line in lines]
    if any(len(value) != 32 for value in hashes) or len(hashes) > 63:
        raise Invalid("a hash of the receipt is not 32 bytes, or there are too many")
    notes = read_json(rotations or b"[]", "the receipt's list of keys")
    if not isinstance(notes, list) or not all(isinstance(each, str) for each in notes):
        raise Invalid("the receipt's list of keys is none")
    return leaf, notes, unbase64(token.decode(), "a time stamp"), int(index.group(1)), hashes, note


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
        if open_rotation(rotation)[2] == keys.newest():
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
    say("origin     " + origin)
    say("index      %d of %d leaves" % (index, size))
    say("leaf       " + leaf.decode())
    if time:
        say("stamped    at %s" % time)
        say(UNCHECKED)
    return problems


# ---- the command line ----


def text_of(path):
    with open(path, "rb") as file:
        return file.read().decode()


def usage(text):
    print("verify.py: " + plain(text), file=sys.stderr)
    return 2


def main(arguments):
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")
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
                key = text_of(key)
            elif "+" not in key:
                raise Invalid("%s is neither a public key (NAME+HASH+BASE64) nor a file that holds one" % key)
            key = key.strip(" \t\r\n")
            parse_vkey(key)
        # A file that went through Windows or mail is the same note.
        kept = given["--checkpoint"] and text_of(given["--checkpoint"]).replace("\r", "")
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
    except Exception as fault:  # of whatever cannot be read nothing is valid
        problems = ["malformed: %s: %s" % (type(fault).__name__, fault)]
    for problem in problems:
        say("problem    " + problem)
    print("INVALID" if problems else "VALID")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
