// The upstream of the stream benchmark: every POST is answered with a chat stream of N events, each written by itself.
// stream_upstream.mjs PORT N
import http from "node:http";

const [port, count] = process.argv.slice(2).map(Number);
const event = (i) => Buffer.from("data: " + JSON.stringify({
  id: "chatcmpl-bench", object: "chat.completion.chunk", created: 1760000000, model: "gpt-bench",
  choices: [{ index: 0, delta: { content: `word${i} ` }, finish_reason: i === count - 1 ? "stop" : null }] }) + "\n\n");
const events = Array.from({ length: count }, (_, i) => event(i));
const done = Buffer.from("data: [DONE]\n\n");

const server = http.createServer((request, response) => {
  request.resume();
  request.on("end", () => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    let at = 0;
    const next = () => {
      if (response.destroyed) return;
      if (at === events.length) {
        response.end(done);
        return;
      }
      response.write(events[at++]);
      setImmediate(next);
    };
    next();
  });
});
server.keepAliveTimeout = 60_000;
server.listen(port, "127.0.0.1");
