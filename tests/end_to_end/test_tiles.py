"""The log for its monitors over HTTP (C2SP tlog-tiles): what is served is the tree that the checkpoint signs."""
import base64
import hashlib
import http.client
import re
import threading

import support

TOKEN = "the-operators-own-token"
WIDTH = 256


def node(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def root_of(hashes):
    """RFC 6962 section 2.1, of leaf hashes."""
    if len(hashes) == 1:
        return hashes[0]
    split = 1
    while split * 2 < len(hashes):
        split *= 2
    return node(root_of(hashes[:split]), root_of(hashes[split:]))


def number(n):
    path = f"{n % 1000:03}"
    while n := n // 1000:
        path = f"x{n % 1000:03}/{path}"
    return path


def entries(bundle):
    while bundle:
        length = int.from_bytes(bundle[:2], "big")
        yield bundle[2:2 + length]
        bundle = bundle[2 + length:]


class Tiles(support.ProgramTest):

    def serve(self):
        config = self.folder / "verbatim.toml"
        config.write_text(f'[gateway]\nadmin = "127.0.0.1:0"\nadmin_token = "{TOKEN}"\n')
        return self.gateway("--model", f"demo={support.DEMO_MODEL}", "--config", config)

    def ask(self, gateway, path, method="GET", token=TOKEN):
        where = re.search(r"metrics on http://([0-9.]+):(\d+)", gateway.output.read_text())
        connection = http.client.HTTPConnection(where[1], int(where[2]), timeout=60)
        try:
            connection.request(method, path, headers={"authorization": f"Bearer {token}"} if token else {})
            response = connection.getresponse()
            return support.Answer(response.status, response.getheaders(), response.read(), True)
        finally:
            connection.close()

    def fetch(self, gateway, path):
        answer = self.ask(gateway, "/log/" + path)
        self.assertEqual(answer.status, 200, path)
        return answer.body

    def head(self, gateway):
        origin, size, root, *_ = self.fetch(gateway, "checkpoint").decode().split("\n")
        return origin, int(size), base64.b64decode(root)

    def test_a_monitor_rebuilds_the_tree_from_what_is_served(self):
        with self.serve() as gateway:
            for _ in range(140):
                gateway.request("GET", "/v1/models")
            _, size, root = self.head(gateway)
            self.assertGreater(size, WIDTH)
            leaves = []
            for first in range(0, size, WIDTH):
                width = min(WIDTH, size - first)
                suffix = number(first // WIDTH) + (f".p/{width}" if width < WIDTH else "")
                tile = self.fetch(gateway, f"tile/0/{suffix}")
                hashes = [hashlib.sha256(b"\x00" + entry).digest() for entry in entries(self.fetch(gateway, f"tile/entries/{suffix}"))]
                self.assertEqual(tile, b"".join(hashes))
                leaves += hashes
            self.assertEqual((len(leaves), root_of(leaves)), (size, root))
            self.assertEqual(self.fetch(gateway, f"tile/1/000.p/{size // WIDTH}"), root_of(leaves[:WIDTH]))
            self.assertEqual(self.ask(gateway, "/log/checkpoint").header("content-type"), "text/plain; charset=utf-8")
            tile = self.ask(gateway, "/log/tile/0/000")
            self.assertEqual((tile.header("content-type"), tile.header("cache-control")),
                             ("application/octet-stream", "private, max-age=31536000, immutable"))
            for path, length in (("tile/0/000", 32 * WIDTH), ("checkpoint", None)):
                head = self.ask(gateway, f"/log/{path}", "HEAD")
                self.assertEqual((head.status, head.body), (200, b""))
                self.assertEqual(int(head.header("content-length")), length or len(self.fetch(gateway, path)))

    def test_what_is_not_there_is_404_and_without_the_token_nothing_is(self):
        with self.serve() as gateway:
            _, size, _ = self.head(gateway)
            for path in ("", "nonsense", "tile", "tile/0", "tile/0/", "tile/0/000", "tile/0/0", "tile/0/000.p/0", "tile/0/000.p/01", "tile/0/000.p/256",
                         f"tile/0/000.p/{size + 50}", "tile/0/001.p/1", "tile/00/000.p/1", "tile/-1/000.p/1", "tile/8/000.p/1", "tile/63/000.p/1",
                         "tile/entries/000", "tile/entries/x000/000.p/1", "tile/entries/" + "x999/" * 9 + "999", "tile/0/" + "x999/" * 6 + "999.p/1",
                         "tile/0/000.p/99999999999999999999", "tile/99999999999999999999/000", "../log.db", "%2e%2e/log.db", "tile/../checkpoint",
                         "checkpoint/", "Checkpoint"):
                self.assertEqual(self.ask(gateway, f"/log/{path}").status, 404, path)
            self.assertEqual(self.ask(gateway, "/log/tile/0/000.p/1").status, 200)
            for path in ("checkpoint", "tile/0/000.p/1", "tile/entries/000.p/1", "nonsense"):
                self.assertEqual(self.ask(gateway, f"/log/{path}", token=None).status, 401, path)
                self.assertEqual(self.ask(gateway, f"/log/{path}", token=TOKEN + "x").status, 401, path)
                self.assertEqual(self.ask(gateway, f"/log/{path}", "POST").status, 405, path)

    def test_many_ask_while_exchanges_are_recorded(self):
        with self.serve() as gateway:
            wrong = []

            def monitor():
                for _ in range(20):
                    _, size, root = self.head(gateway)
                    hashes = self.fetch(gateway, f"tile/0/000.p/{size}")
                    if root_of([hashes[at:at + 32] for at in range(0, len(hashes), 32)]) != root:
                        wrong.append(size)

            monitors = [threading.Thread(target=monitor) for _ in range(4)]
            for each in monitors:
                each.start()
            for _ in range(60):
                self.assertEqual(gateway.request("GET", "/v1/models").status, 200)
            for each in monitors:
                each.join()
            self.assertEqual(wrong, [])

    def test_leaves_that_were_pruned_are_gone_and_their_hashes_stay(self):
        with self.serve() as gateway:
            for _ in range(140):
                gateway.request("GET", "/v1/models")
            before = self.fetch(gateway, "tile/0/000")
            self.assertEqual(self.ask(gateway, "/log/tile/entries/000").header("cache-control"), "no-store")
            self.run_well("prune", "--before", support.now(), "--reason", "its time is over", "--data", self.data)
            self.assertEqual(self.ask(gateway, "/log/tile/entries/000").status, 410)
            self.assertEqual(self.fetch(gateway, "tile/0/000"), before)
            self.assertEqual(self.ask(gateway, "/log/tile/entries/001.p/1").status, 200)


if __name__ == "__main__":
    support.main()
