// Google's SDK through the gateway to a scripted upstream: sdk_gemini.mjs BASE_URL
// The model's name chooses what the upstream does. Asserts that a client sees what it would see without the gateway.
import assert from "node:assert/strict";
import { ApiError, GoogleGenAI } from "@google/genai";

const [baseUrl] = process.argv.slice(2);
const ai = new GoogleGenAI({ apiKey: "AIza-canary-of-the-sdk", httpOptions: { baseUrl } });
const contents = "hi";
const config = { temperature: 0, topP: 0.5, seed: 7, maxOutputTokens: 8, stopSequences: ["x"] };
const tell = (name, answer) =>
  console.log(JSON.stringify({ name, record: answer.sdkHttpResponse.headers["x-verbatim-record"] }));

const whole = await ai.models.generateContent({ model: "whole", contents, config });
assert.equal(whole.text, "hello");
assert.equal(whole.candidates[0].finishReason, "STOP");
assert.equal(whole.usageMetadata.promptTokenCount, 3);
assert.equal(whole.modelVersion, "g-001");
tell("whole", whole);

let streamed = "", last = null;
for await (const chunk of await ai.models.generateContentStream({ model: "stream", contents, config })) {
  streamed += chunk.text ?? "";
  last = chunk;
}
assert.equal(streamed, "hello");
assert.equal(last.candidates[0].finishReason, "STOP");
tell("stream", last);

const counted = await ai.models.countTokens({ model: "count", contents });
assert.equal(counted.totalTokens, 31);
tell("count", counted);

const embedded = await ai.models.embedContent({ model: "embed", contents: ["a", "b"] });
assert.deepEqual(embedded.embeddings.map((each) => each.values), [[0.5, -1], [0.25, 2]]);

const fails = async (promise, status) => {
  const error = await promise.then(() => assert.fail("no error"), (e) => e);
  assert.ok(error instanceof ApiError, `${error}`);
  assert.equal(error.status, status);
  return JSON.parse(error.message).error;
};
assert.equal((await fails(ai.models.generateContent({ model: "bad", contents }), 400)).status, "INVALID_ARGUMENT");

// The gateway's own errors are of the same kind, and name their record.
const down = await fails(ai.models.generateContent({ model: "closed", contents }), 502);
assert.equal(down.code, 502);
assert.equal(down.status, "UNAVAILABLE");
console.log(JSON.stringify({ name: "closed", record: down.details.find((each) => each.requestId).requestId }));

// A connection that dies in the middle must be an error, never a short answer.
await assert.rejects(async () => {
  for await (const _ of await ai.models.generateContentStream({ model: "reset", contents }));
});
// An error inside a stream reaches the application as an error.
await assert.rejects(async () => {
  for await (const _ of await ai.models.generateContentStream({ model: "event", contents }));
}, ApiError);
