// Calls /openai/v1 with the official client, in every way that the tests check. The environment has the address
// and the key. Prints one JSON object: what each way returned, or the error as the client reports it.
import OpenAI, { toFile } from "openai";

const client = new OpenAI({ maxRetries: 0, timeout: 30_000 });
const model = "svc-chat";
const ask = (content) => [{ role: "user", content }];
const weather = { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } };
const callWeather = 'fault=tool:{"city":"Oslo"}';
const schema = { name: "place", schema: { type: "object", properties: { city: { type: "string" } } } };

async function collected(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

const ways = {
  models: async () => (await client.models.list()).data.map((each) => each.id),
  chat: async () => {
    const answer = await client.chat.completions.create({ model, messages: ask("hello 世界") });
    return { text: answer.choices[0].message.content, total: answer.usage.total_tokens };
  },
  chatStream: async () => {
    const options = { stream: true, stream_options: { include_usage: true } };
    const chunks = await collected(
      await client.chat.completions.create({ model, messages: ask("hello 世界"), ...options }),
    );
    const text = chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? "").join("");
    return { text, total: chunks.at(-1).usage.total_tokens };
  },
  chatTools: async () => {
    const tool = { type: "function", function: { ...weather, function: () => "It rains.", parse: JSON.parse } };
    const runner = client.chat.completions.runTools({ model, messages: ask(callWeather), tools: [tool], stream: true });
    return runner.finalContent();
  },
  chatFormat: async () => {
    const response_format = { type: "json_schema", json_schema: schema };
    const messages = ask('fault=say:{"city":"Oslo"}');
    return (await client.chat.completions.parse({ model, messages, response_format })).choices[0].message.parsed;
  },
  responses: async () => {
    const answer = await client.responses.create({ model, input: "hello 世界" });
    return { text: answer.output_text, status: answer.status, total: answer.usage.total_tokens };
  },
  responsesStream: async () => {
    const events = client.responses.stream({ model, input: "hello 世界" });
    const deltas = (await collected(events)).filter((event) => event.type === "response.output_text.delta");
    const answer = await events.finalResponse();
    return { text: answer.output_text, deltas: deltas.map((event) => event.delta).join(""), status: answer.status };
  },
  responsesTools: async () => {
    const tools = [{ type: "function", ...weather, strict: false }];
    const input = ask(callWeather);
    const first = await client.responses.create({ model, input, tools });
    const call = first.output.find((item) => item.type === "function_call");
    const output = { type: "function_call_output", call_id: call.call_id, output: "It rains." };
    const second = await client.responses.create({ model, input: [...input, ...first.output, output], tools });
    return { name: call.name, arguments: call.arguments, text: second.output_text };
  },
  responsesFormat: async () => {
    const text = { format: { type: "json_schema", ...schema } };
    return (await client.responses.parse({ model, input: 'fault=say:{"city":"Oslo"}', text })).output_parsed;
  },
  embeddings: async () => (await client.embeddings.create({ model: "vectors", input: "a" })).data[0].embedding,
  speech: async () => {
    const answer = await client.audio.speech.create({ model: "tts-1", voice: "alloy", input: "Hello." });
    const sound = Buffer.from(await answer.arrayBuffer());
    return { type: answer.headers.get("content-type"), sound: sound.toString("base64") };
  },
  speechStream: async () => {
    const wanted = { model: "tts-1", voice: "alloy", input: "Hello.", response_format: "wav" };
    const answer = await client.audio.speech.create(wanted);
    const sound = Buffer.concat(await collected(answer.body));
    return { type: answer.headers.get("content-type"), sound: sound.toString("base64") };
  },
  transcription: async () => {
    const file = await toFile(Buffer.from("RIFF of a recording"), "said.wav", { type: "audio/wav" });
    return (await client.audio.transcriptions.create({ model: "hear-1", file, language: "en" })).text;
  },
  stored: async () => client.responses.create({ model, input: "hello", store: true }),
};

function described(error) {
  return { class: error.constructor.name, status: error.status, param: error.param, message: error.message };
}

const returned = {};
for (const [name, way] of Object.entries(ways)) {
  try {
    returned[name] = await way();
  } catch (error) {
    returned[name] = { error: described(error) };
  }
}
console.log(JSON.stringify(returned));
