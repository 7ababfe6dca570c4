// npm's ws as client and as upstream, with the gateway between them. Prints its upstream's port, reads the gateway's, and
// prints what each of the talks below came to, one JSON value a line.
import { createServer } from "node:http";
import { once } from "node:events";
import WebSocket, { WebSocketServer } from "ws";

const compressing = new WebSocketServer({ noServer: true, perMessageDeflate: true });
const plain = new WebSocketServer({ noServer: true });  // as ws is by default: the client's offer is not taken

/// Says everything again; "close" and "end" are orders.
function echo(socket) {
  let pongs = 0;
  socket.on("pong", () => { pongs += 1; });
  socket.on("message", (data, binary) => {
    if (!binary && String(data) === "close") return socket.close(4001, `after ${pongs} pongs`);
    if (!binary && String(data) === "end") return socket.terminate();
    if (!binary && String(data) === "ping") return socket.ping("from the upstream");
    socket.send(data, { binary });
  });
}

const server = createServer();
server.on("upgrade", (request, socket, head) => {
  const sockets = request.url.includes("compress") ? compressing : plain;
  sockets.handleUpgrade(request, socket, head, echo);
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
console.log(JSON.stringify({ port: server.address().port }));
process.stdin.once("end", () => process.exit(1));
const gateway = String((await once(process.stdin, "data"))[0]).trim();

const text = "x".repeat(5000) + "\u00e4\u{1f600}";
const large = Buffer.alloc(3_000_000, (i) => i & 255).map((_, i) => (i * 7919) >> 8 & 255);

async function talk(name, path, work) {
  const client = new WebSocket(`ws://127.0.0.1:${gateway}${path}`);  // offers permessage-deflate
  const got = [], waiting = [];
  let pongs = 0;
  client.on("pong", () => { pongs += 1; });
  client.on("message", (data, binary) => {
    got.push(binary ? data : String(data));
    waiting.splice(0).forEach((wake) => wake());
  });
  const answers = async (count) => {
    while (got.length < count) await new Promise((wake) => waiting.push(wake));
  };
  const ended = once(client, "close");
  let record;
  client.on("upgrade", (response) => { record = response.headers["x-verbatim-record"]; });
  await once(client, "open");
  const expected = await work(client, answers);
  const [code, reason] = await ended;
  const same = expected.length === got.length && expected.every((one, i) =>
    typeof one === "string" ? one === got[i] : Buffer.compare(one, got[i]) === 0);
  console.log(JSON.stringify({ name, record, extensions: client.extensions, same, pongs, code, reason: String(reason) }));
}

async function everything(client, answers) {
  client.ping("p");
  client.send(text);
  client.send(Buffer.from([0, 1, 2]));
  client.send("frag", { fin: false });
  client.ping("between");
  client.send("ment", { fin: true });
  client.send(large);
  await answers(4);
  client.send(text);  // the second time: what the window holds from the first
  await answers(5);
  return [text, Buffer.from([0, 1, 2]), "fragment", large, text];
}

await talk("client closes", "/v1/realtime?compress", async (client, answers) => {
  const expected = await everything(client, answers);
  client.close(4000, "done");
  return expected;
});
await talk("upstream closes", "/v1/realtime", async (client, answers) => {
  const expected = await everything(client, answers);
  client.send("ping");
  await once(client, "ping");
  client.send("close");
  return expected;
});
await talk("no code", "/v1/realtime", async (client) => { client.close(); return []; });
await talk("client ends", "/v1/realtime", async (client) => { client.terminate(); return []; });
await talk("upstream ends", "/v1/realtime", async (client) => { client.send("end"); return []; });
process.exit(0);
