// Calls the service with the official client: node chat.mjs BASE_URL KEY MODEL TEXT
// Prints one JSON object: {"models": [...], "answer": {...}} or {"error": {...}} as the client reports it.
import OpenAI from "openai";

const [baseURL, apiKey, model, text] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 30_000 });

function described(error) {
  const classes = ["AuthenticationError", "BadRequestError", "InternalServerError", "APIError"];
  return {
    class: classes.find((name) => error instanceof OpenAI[name]) ?? error.constructor.name,
    status: error.status,
    type: error.type,
    code: error.code,
    message: error.message,
    request_id: error.requestID,
  };
}

try {
  const listed = await client.models.list();
  const answer = await client.chat.completions.create({
    model,
    messages: [{ role: "user", content: text }],
  });
  console.log(JSON.stringify({ models: listed.data, answer, request_id: answer._request_id }));
} catch (error) {
  console.log(JSON.stringify({ error: described(error) }));
}
