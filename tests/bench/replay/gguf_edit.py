"""Changes in the float32 weights of a GGUF v3 file, each of which leaves a file that loads."""
import random
import struct

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of metadata's numbers, by type
STRING, ARRAY, F32 = 8, 9, 0


class Gguf:
    """The bytes of a file, and where its tensors lie."""

    def __init__(self, path):
        self.bytes = bytearray(path.read_bytes())
        magic, version, tensors, pairs = struct.unpack_from("<4sIQQ", self.bytes)
        assert magic == b"GGUF" and version == 3, "not GGUF v3"
        self.at, alignment = 24, 32
        for _ in range(pairs):
            key = self.text()
            value = self.value(self.number("<I"))
            if key == "general.alignment":
                alignment = value
        self.tensors = {}  # name -> (offset behind self.data, element count)
        for _ in range(tensors):
            name, count = self.text(), 1
            for _ in range(self.number("<I")):
                count *= self.number("<Q")
            assert self.number("<I") == F32, f"{name} is not float32"
            self.tensors[name] = (self.number("<Q"), count)
        self.data = (self.at + alignment - 1) // alignment * alignment

    def number(self, form):
        value, = struct.unpack_from(form, self.bytes, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self):
        size = self.number("<Q")
        self.at += size
        return self.bytes[self.at - size:self.at].decode()

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            item = self.number("<I")
            return [self.value(item) for _ in range(self.number("<Q"))]
        self.at += SIZES[kind]
        return int.from_bytes(self.bytes[self.at - SIZES[kind]:self.at], "little")

    def change(self, each, only=""):
        """Every weight of the tensors whose names hold that text, in their order."""
        for name, (offset, count) in sorted(self.tensors.items()):
            if only in name:
                at, form = self.data + offset, f"<{count}f"
                weights = struct.unpack_from(form, self.bytes, at)
                struct.pack_into(form, self.bytes, at, *map(each, weights))
        return self

    def weights(self, name):
        offset, count = self.tensors[name]
        return list(struct.unpack_from(f"<{count}f", self.bytes, self.data + offset))

    def set_weights(self, name, weights):
        offset, count = self.tensors[name]
        struct.pack_into(f"<{count}f", self.bytes, self.data + offset, *weights)

    def perturb(self, sigma, seed=1, only=""):
        """Every weight times 1 + a normal number of that standard deviation."""
        draw = random.Random(seed)
        return self.change(lambda w: w * (1 + draw.gauss(0, sigma)), only)

    def round_to(self, kind):
        """Every weight to the nearest F16 or BF16, ties to even; the file holds them as float32."""
        def bf16(w):
            bits, = struct.unpack("<I", struct.pack("<f", w))
            return struct.unpack("<f", struct.pack("<I", (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))[0]

        return self.change({"BF16": bf16, "F16": lambda w: struct.unpack("<e", struct.pack("<e", w))[0]}[kind])

    def swap_layers(self, one, other):
        """Two layers change places."""
        for name in [n for n in self.tensors if n.startswith(f"blk.{one}.")]:
            partner = name.replace(f"blk.{one}.", f"blk.{other}.", 1)
            (a, count), (b, same) = self.tensors[name], self.tensors[partner]
            assert count == same, f"{name} and {partner} have different shapes"
            first, second = (slice(self.data + at, self.data + at + 4 * count) for at in (a, b))
            self.bytes[first], self.bytes[second] = self.bytes[second], self.bytes[first]
        return self

    def write(self, path):
        path.write_bytes(self.bytes)
        return path
