// OpenAI clients of npm in their own tool loops: `node gateway_clients.mjs '{"client": …}'` prints the answers.
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount, jsonSchema, streamText, tool } from "ai";
import OpenAI from "openai";

const asked = JSON.parse(process.argv[2]);
const { url: baseURL, key: apiKey, headers, model, page, parameters, questions, stream } = asked;
const look = { description: "Read the book.", parameters };

async function openai() {
  const client = new OpenAI({ baseURL, apiKey, defaultHeaders: headers, maxRetries: 0 });
  const tools = [{ type: "function", function: { name: "look", ...look, function: async () => page } }];
  const answers = [];
  let messages = [];
  for (const content of questions) {
    messages = [...messages, { role: "user", content }];
    const run = client.chat.completions.runTools({ model, messages, tools, stream }, { maxChatCompletions: 100 });
    answers.push(await run.finalContent());
    messages = run.messages;
  }
  return answers;
}

async function openaiResponses() {
  const client = new OpenAI({ baseURL, apiKey, defaultHeaders: headers, maxRetries: 0 });
  const how = { model, tools: [{ type: "function", name: "look", strict: false, ...look }] };
  const answers = [];
  const input = [];
  for (const content of questions) {
    input.push({ role: "user", content });
    for (let calls = [null]; calls.length; ) {
      const asked = { ...how, input };
      const made = stream ? await client.responses.stream(asked).finalResponse() : await client.responses.create(asked);
      calls = made.output.filter((one) => one.type === "function_call");
      input.push(...made.output, ...calls.map(({ call_id }) => ({ type: "function_call_output", call_id, output: page })));
      answers[questions.indexOf(content)] = made.output_text;
    }
  }
  return answers;
}

async function ai(makes = createOpenAICompatible) {
  const provider = makes({ name: "house", baseURL, apiKey, headers });
  const tools = { look: tool({ description: look.description, inputSchema: jsonSchema(parameters), execute: () => page }) };
  const answers = [];
  let messages = [];
  for (const content of questions) {
    messages = [...messages, { role: "user", content }];
    const how = { model: provider(model), messages, tools, stopWhen: isStepCount(100), maxRetries: 0 };
    const made = stream ? streamText({ ...how, onError: ({ error }) => { throw error; } }) : await generateText(how);
    answers.push(await made.text);
    messages = [...messages, ...(await made.responseMessages)];
  }
  return answers;
}

console.log(JSON.stringify(await { openai, openaiResponses, ai, aiResponses: () => ai(createOpenAI) }[asked.client]()));
