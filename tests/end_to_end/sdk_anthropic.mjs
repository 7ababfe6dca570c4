// The official Anthropic SDK against the gateway with the demo model: sdk_anthropic.mjs BASE_URL
// Asserts what an application relies on; prints one JSON value a line for the test that started it.
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";

const [baseURL] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey: "sk-ant-test", maxRetries: 0 });
const tell = (name, response, more = {}) =>
  console.log(JSON.stringify({
    name, status: response.status, record: response.headers.get("x-verbatim-record"),
    cache: response.headers.get("x-verbatim-cache"), ...more }));
const ask = { model: "demo", max_tokens: 24, messages: [{ role: "user", content: "Who are you?" }] };

const whole = await client.messages.create({ ...ask, temperature: 0 }).withResponse();
assert.equal(whole.data.type, "message");
assert.equal(whole.data.role, "assistant");
assert.equal(whole.data.content[0].type, "text");
assert.ok(whole.data.content[0].text.length > 5);
assert.ok(["end_turn", "max_tokens"].includes(whole.data.stop_reason));
assert.ok(whole.data.usage.input_tokens > 0 && whole.data.usage.output_tokens > 0);
const text = whole.data.content[0].text;
tell("message", whole.response, { text });

const stream = await client.messages.create({ ...ask, temperature: 0, stream: true }).withResponse();
const kinds = [];
let streamed = "";
for await (const event of stream.data) {
  kinds.push(event.type);
  if (event.type === "content_block_delta") streamed += event.delta.text;
}
assert.equal(streamed, text);
assert.equal(kinds[0], "message_start");
assert.deepEqual(kinds.slice(-3), ["content_block_stop", "message_delta", "message_stop"]);
tell("message stream", stream.response, { text: streamed });

const helper = client.messages.stream({ ...ask, temperature: 0 });
const final = await helper.finalMessage();
assert.equal(final.content[0].text, text);
assert.equal(final.stop_reason, whole.data.stop_reason);

// A system prompt and content blocks.
const blocks = await client.messages.create({
  ...ask, temperature: 0, system: "You are terse.",
  messages: [{ role: "user", content: [{ type: "text", text: "Who are you?" }] }] }).withResponse();
assert.equal(blocks.data.content[0].type, "text");
tell("blocks", blocks.response);

const fails = async (promise, type, status, kind) => {
  const error = await promise.then(() => assert.fail("no error"), (e) => e);
  assert.ok(error instanceof type, `${error}`);
  assert.equal(error.status, status);
  assert.equal(error.error.error.type, kind);
  console.log(JSON.stringify({ name: "error", status, record: error.headers.get("x-verbatim-record") }));
};
await fails(client.messages.create({ ...ask, model: "none" }), Anthropic.NotFoundError, 404, "not_found_error");
await fails(client.messages.create({ ...ask, messages: "x" }), Anthropic.BadRequestError, 400, "invalid_request_error");

const aborted = await client.messages
  .create({ ...ask, max_tokens: 480, temperature: 1, stream: true, ignore_eos: true }).withResponse();
for await (const _ of aborted.data) break;
tell("aborted", aborted.response);
