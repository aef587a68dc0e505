// The stream of a reply, as docs/api.md describes it: server-sent events in the AI SDK's UI message protocol.

// What the page says, in its reader's language. The views say the same of the same failure.
export const words = JSON.parse(document.body.dataset.words || "{}");

function call(path, options = {}) {
  const token = document.querySelector("[name=csrfmiddlewaretoken]").value;
  const headers = { "Content-Type": "application/json", "X-CSRFToken": token };
  return fetch(document.querySelector("[data-stream]").dataset.stream + path, { headers, ...options });
}

// Yields {text} as it comes, {compaction} and at most one {problem}. `resume`: of a reply that is under way already;
// `nothing` if there is none here.
export async function* read({ message, resume }) {
  const id = String(message);
  const asked = { trigger: "regenerate-message", messages: [{ id, role: "user", parts: [] }] };
  const answer = resume
    ? await call(`?questionId=${id}`)
    : await call("", { method: "POST", body: JSON.stringify(asked) });
  if (answer.status === 204) {
    yield { nothing: true };
    return;
  }
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    const seconds = answer.headers.get("Retry-After");
    const wait = told.code === "model" && seconds ? words.wait.replace("{seconds}", seconds) : null;
    yield { problem: words[told.detail] ?? wait ?? words[told.code] ?? words.internal };
    return;
  }
  try {
    for await (const event of events(answer.body)) {
      if (event.type === "text-delta") yield { text: event.delta };
      if (event.type === "data-compaction") yield { compaction: event.data };
      if (event.type === "error") yield { problem: words[event.errorText] ?? words.model };
    }
  } catch {
    yield { problem: words.broken };
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    const lines = (rest + piece.value).split("\n");
    rest = lines.pop();
    for (const line of lines) if (line.startsWith("data: {")) yield JSON.parse(line.slice(6));
  }
}

// A text of a model as the page shows it: the HTML of each paragraph, list or table.
export async function rendered(text) {
  const { render } = document.querySelector("[data-render]").dataset;
  const token = document.querySelector("[name=csrfmiddlewaretoken]").value;
  const answer = await fetch(render, { method: "POST", headers: { "X-CSRFToken": token }, body: new URLSearchParams({ text }) });
  return answer.ok ? answer.json() : null;
}

// What has come is stored as the reply, and the stream ends as any other.
export function stop(message) {
  return call("/stop", { method: "POST", body: JSON.stringify({ questionId: String(message) }) });
}
