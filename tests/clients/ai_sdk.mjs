// Calls /openai/v1 with Vercel's AI SDK: its default, the Responses API, and chat completions. The environment
// has the address and the key. Prints one JSON object: what each way returned, or the error's message.
import { openai } from "@ai-sdk/openai";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

globalThis.AI_SDK_LOG_WARNINGS = false;
const city = z.object({ city: z.string() });
const tools = {
  weather: tool({ description: "The weather.", inputSchema: city, execute: ({ city }) => `It rains in ${city}.` }),
};
const callWeather = 'fault=tool:{"city":"Oslo"}';
const stateless = { providerOptions: { openai: { store: false } }, maxRetries: 0 };
const fromHello = [{ role: "user", content: "hello" }];

async function streamed(options) {
  const answer = streamText({ ...stateless, ...options });
  let text = "";
  for await (const part of answer.textStream) text += part;
  const usage = await answer.usage;
  return { text, finishReason: await answer.finishReason, steps: (await answer.steps).length, total: usage.totalTokens };
}

const ways = (model) => ({
  text: async () => (await generateText({ ...stateless, model, prompt: "hello 世界" })).text,
  stream: () => streamed({ model, prompt: "hello 世界" }),
  tools: () => streamed({ model, prompt: callWeather, tools, stopWhen: stepCountIs(3) }),
  object: async () =>
    (await generateObject({ ...stateless, model, prompt: 'fault=say:{"city":"Oslo"}', schema: city })).object,
  conversation: async () => {
    const first = await generateText({ ...stateless, model, messages: fromHello });
    const messages = [...fromHello, ...first.response.messages, { role: "user", content: "again" }];
    return (await generateText({ ...stateless, model, messages })).text;
  },
  storedConversation: async () => {
    const first = await generateText({ model, maxRetries: 0, messages: fromHello });
    const messages = [...fromHello, ...first.response.messages, { role: "user", content: "again" }];
    return (await generateText({ model, maxRetries: 0, messages })).text;
  },
});

async function returnedBy(model) {
  const returned = {};
  for (const [name, way] of Object.entries(ways(model))) {
    try {
      returned[name] = await way();
    } catch (error) {
      returned[name] = { error: error.message };
    }
  }
  return returned;
}

const returned = {
  responses: await returnedBy(openai("svc-chat")),
  chat: await returnedBy(openai.chat("svc-chat")),
};
console.log(JSON.stringify(returned));
