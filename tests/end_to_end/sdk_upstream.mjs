// The official SDKs through the gateway to a scripted upstream: sdk_upstream.mjs MODULE BASE_URL
// The model's name chooses what the upstream does. Asserts that a client sees what it would see without the gateway.
import assert from "node:assert/strict";

const [module, baseURL] = process.argv.slice(2);
const { default: SDK } = await import(module);
const anthropic = module.includes("anthropic");
const client = new SDK({ baseURL: anthropic ? baseURL : `${baseURL}/v1`, apiKey: "sk-test", maxRetries: 2, timeout: 20_000 });
const create = (model, more = {}) => {
  const body = { model, max_tokens: 8, messages: [{ role: "user", content: "hi" }], ...more };
  return anthropic ? client.messages.create(body) : client.chat.completions.create(body);
};
const tell = (name, headers) => console.log(JSON.stringify({ name, record: headers.get("x-verbatim-record") }));
const fails = async (name, type, status) => {
  const error = await create(name).then(() => assert.fail(`${name}: no error`), (e) => e);
  assert.ok(error instanceof type, `${name}: ${error}`);
  assert.equal(error.status, status);
  assert.equal(error.requestID, "req_up");
  tell(name, error.headers);
  return error;
};

const whole = await create("whole").withResponse();
assert.equal(whole.data._request_id, "req_up");
assert.equal(anthropic ? whole.data.content[0].text : whole.data.choices[0].message.content, "hello");
tell("whole", whole.response.headers);

const text = async (stream) => {
  let all = "";
  for await (const event of stream) {
    if (!anthropic) all += event.choices[0]?.delta?.content ?? "";
    else if (event.type === "content_block_delta") all += event.delta.text;
  }
  return all;
};
const streamed = await create("stream", { stream: true }).withResponse();
assert.equal(await text(streamed.data), "hello");
tell("stream", streamed.response.headers);

assert.match((await fails("bad", SDK.BadRequestError, 400)).message, /max_tokens is odd/);
await fails("limit", SDK.RateLimitError, 429);
await fails("broken", SDK.InternalServerError, 500);

// Succeeds at the third try: every try is a record of its own.
tell("third", (await create("third").withResponse()).response.headers);

// A connection that dies in the middle must be an error, never a short answer.
const cut = await create("reset", { stream: true }).withResponse();
await assert.rejects(text(cut.data));
tell("reset", cut.response.headers);

// An error event in a stream reaches the application as an error.
const event = await create("event", { stream: true }).withResponse();
await assert.rejects(text(event.data), (e) => e instanceof SDK.APIError);
tell("event", event.response.headers);

// An application that stops reading.
const endless = await create("endless", { stream: true }).withResponse();
for await (const _ of endless.data) break;
tell("endless", endless.response.headers);
