// The `openai` package for JavaScript, unmodified, against the server at $BASE_URL. Prints what it saw as JSON.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.env.BASE_URL}/v1`, apiKey: "any" });
const weather = {
  name: "weather",
  description: "The weather of a city.",
  parameters: { type: "object", required: ["city"], properties: { city: { type: "string" } } },
};
const seen = {};

seen.models = (await client.models.list()).data.map((model) => model.id);

const chat = await client.chat.completions.create({ model: "helper", messages: [{ role: "user", content: "hi" }] });
seen.chat = [chat.choices[0].message.content, chat.choices[0].finish_reason, chat.usage.total_tokens];

const stream = client.chat.completions.stream({
  model: "helper",
  messages: [{ role: "user", content: "tell me" }],
  stream_options: { include_usage: true },
});
let streamed = "";
stream.on("content", (delta) => (streamed += delta));
seen.stream = [(await stream.finalChatCompletion()).choices[0].message.content, streamed];

const runner = client.chat.completions.runTools({
  model: "helper",
  messages: [{ role: "user", content: "the weather" }],
  stream: true,
  tools: [{ type: "function", function: { ...weather, parse: JSON.parse, function: ({ city }) => `${city} is fine` } }],
});
seen.tools = await runner.finalContent();

const response = client.responses.stream({ model: "helper", input: "what time is it" });
const numbers = [];
for await (const event of response) numbers.push(event.sequence_number);
const final = await response.finalResponse();
seen.response = [final.status, final.output_text, numbers.every((number, index) => number === index)];

const rest = [];
for await (const event of await client.responses.retrieve(final.id, { stream: true, starting_after: 4 })) {
  rest.push(event.sequence_number);
}
seen.resumed = [rest[0], rest.at(-1) === numbers.at(-1)];

try {
  await client.chat.completions.create({ model: "nobody", messages: [{ role: "user", content: "x" }] });
} catch (error) {
  seen.error = [error.status, error.code, error instanceof OpenAI.NotFoundError];
}

console.log(JSON.stringify(seen));
