"""Byte-level BPE as GPT-2 defined it and Hugging Face's tokenizer.json describes it: training and encoding."""
import collections
import unicodedata

CONTRACTIONS = ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d")
WHITE_SPACE = frozenset("\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000")
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # their ids are 0, 1, 2


def byte_characters():
    """The printable character that stands for each byte in the vocabulary: 33-126, 161-172 and 174-255 stand for themselves."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in own]
    return {**{b: chr(b) for b in own}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


BYTE_CHARACTERS = byte_characters()


def _kind(character):
    if character in WHITE_SPACE:
        return "space"
    category = unicodedata.category(character)[0]
    return "letter" if category == "L" else "number" if category == "N" else "other"


def pieces(text):
    """What the pattern 's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+ finds in `text`."""
    found, i, kinds = [], 0, [_kind(c) for c in text]

    def run(start):
        end = start
        while end < len(text) and kinds[end] == kinds[start]:
            end += 1
        return end

    while i < len(text):
        contraction = next((c for c in CONTRACTIONS if text.startswith(c, i)), None)
        if contraction:
            end = i + len(contraction)
        elif kinds[i] != "space":
            end = run(i)
        elif text[i] == " " and i + 1 < len(text) and kinds[i + 1] != "space":
            end = run(i + 1)
        else:  # white space: all of it at the end of the text, else all but the last character
            end = run(i)
            if end < len(text) and end - i > 1:
                end -= 1
        found.append(text[i:end])
        i = end
    return found


def train(texts, vocab_size):
    """Merges, most frequent pair first (of equals, the alphabetically first). `texts` is a mapping text -> weight."""
    words = collections.Counter()
    for text, weight in texts.items():
        for piece in pieces(text):
            words[tuple(BYTE_CHARACTERS[b] for b in piece.encode())] += weight
    words = [[list(word), count] for word, count in sorted(words.items())]
    merges = []
    while len(SPECIAL) + 256 + len(merges) < vocab_size:
        pairs = collections.Counter()
        for word, count in words:
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        if not pairs:
            raise ValueError("the corpus has too few different words for a vocabulary of this size")
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for entry in words:
            if best[0] in entry[0]:
                entry[0] = _merge(entry[0], best)
    return merges


def _merge(word, pair):
    out, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out


class Tokenizer:
    def __init__(self, merges):
        self.merges = merges
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        names = [*SPECIAL, *(BYTE_CHARACTERS[b] for b in range(256)), *(a + b for a, b in merges)]
        self.vocab = {name: i for i, name in enumerate(names)}
        if len(self.vocab) != len(names):
            raise ValueError("two merges give the same token")
        self.names = names
        self.bytes_of = {c: b for b, c in BYTE_CHARACTERS.items()}
        self.cache = {}

    def encode(self, text):
        """Ids of plain text: the names of special tokens have no meaning here."""
        ids = []
        for piece in pieces(text):
            if piece not in self.cache:
                self.cache[piece] = self._encode_piece(piece)
            ids += self.cache[piece]
        return ids

    def _encode_piece(self, piece):
        word = [BYTE_CHARACTERS[b] for b in piece.encode()]
        while len(word) > 1:
            rank, pair = min((self.ranks.get(pair, len(self.ranks)), pair) for pair in zip(word, word[1:]))
            if rank == len(self.ranks):
                break
            word = _merge(word, pair)
        return [self.vocab[part] for part in word]

    def decode(self, ids):
        """The text, without special tokens."""
        data = b"".join(bytes(self.bytes_of[c] for c in self.names[i]) for i in ids if i >= len(SPECIAL))
        return data.decode(errors="replace")

    def to_json(self):
        """tokenizer.json"""
        added = [dict(id=i, content=name, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
                 for i, name in enumerate(SPECIAL)]
        byte_level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
        return dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None, pre_tokenizer=byte_level,
                    post_processor=None, decoder=byte_level,
                    model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                               fuse_unk=False, byte_fallback=False, ignore_merges=False, vocab=self.vocab,
                               merges=[f"{a} {b}" for a, b in self.merges]))
