// A page outside the product: useChat, alone and as the runtime of assistant-ui, over compaction_app.contrib.stream.
import {
  ActionBarPrimitive,
  AssistantRuntimeProvider,
  BranchPickerPrimitive,
  ComposerPrimitive,
  MessagePrimitive,
  ThreadPrimitive,
} from "@assistant-ui/react";
import { useAISDKRuntime } from "@assistant-ui/react-ai-sdk";
import { useState } from "react";
import { createRoot } from "react-dom/client";

import { useReadme } from "./readme.jsx";

const root = document.getElementById("root");
const { session, csrf, kind } = root.dataset;
const address = `/api/v1/sessions/${session}`;
const repository = await (await fetch(`${address}/repository`)).json();

const text = (message) => message.parts.filter((part) => part.type === "text").map((part) => part.text).join("");

/** The branch that was used last. */
function branch({ headId, messages }) {
  const byId = Object.fromEntries(messages.map((one) => [one.message.id, one]));
  const found = [];
  for (let id = headId; id; id = byId[id].parentId) found.unshift(byId[id].message);
  return found;
}

function UseChat() {
  const chat = useReadme(session, csrf, branch(repository));
  const [draft, setDraft] = useState("");
  const summarized = chat.messages.flatMap((one) => one.parts).findLast((part) => part.type === "data-compaction");
  return (
    <main data-status={chat.status}>
      {chat.messages.map((message) => (
        <article key={message.id} data-role={message.role}>
          <p>{text(message)}</p>
          {message.parts.filter((part) => part.toolCallId).map((part, at) => <code key={at}>{part.toolCallId}</code>)}
          {message.role === "user" && (
            <button onClick={() => chat.sendMessage({ text: draft, messageId: message.id })}>Edit</button>
          )}
          {message.role === "assistant" && (
            <button onClick={() => chat.regenerate({ messageId: message.id })}>Again</button>
          )}
        </article>
      ))}
      {summarized && <aside>{summarized.data.summarized} summarized</aside>}
      {chat.error && <footer>{chat.error.message}</footer>}
      <input value={draft} onChange={(event) => setDraft(event.target.value)} />
      <button onClick={() => chat.sendMessage({ text: draft })}>Send</button>
      <button onClick={() => chat.sendMessage({ text: draft }, { body: { hostsTools: true } })}>With tools</button>
      <button
        onClick={() => fetch(`${address}/stream/stop`, { method: "POST", headers: { "X-CSRFToken": csrf } })}
      >
        Stop
      </button>
      <button onClick={() => chat.stop()}>Hang up</button>
    </main>
  );
}

const Branches = () => (
  <BranchPickerPrimitive.Root hideWhenSingleBranch>
    <BranchPickerPrimitive.Previous>Previous</BranchPickerPrimitive.Previous>
    <output>
      <BranchPickerPrimitive.Number />/<BranchPickerPrimitive.Count />
    </output>
    <BranchPickerPrimitive.Next>Next</BranchPickerPrimitive.Next>
  </BranchPickerPrimitive.Root>
);

const components = {
  UserMessage: () => (
    <MessagePrimitive.Root data-role="user">
      <MessagePrimitive.Content />
      <ActionBarPrimitive.Edit>Edit</ActionBarPrimitive.Edit>
      <Branches />
    </MessagePrimitive.Root>
  ),
  EditComposer: () => (
    <ComposerPrimitive.Root>
      <ComposerPrimitive.Input data-edit="" />
      <ComposerPrimitive.Send>Save</ComposerPrimitive.Send>
    </ComposerPrimitive.Root>
  ),
  AssistantMessage: () => (
    <MessagePrimitive.Root data-role="assistant">
      <MessagePrimitive.Content />
      <ActionBarPrimitive.Reload>Again</ActionBarPrimitive.Reload>
      <Branches />
    </MessagePrimitive.Root>
  ),
};

function AssistantUI() {
  const chat = useReadme(session, csrf, []);
  const runtime = useAISDKRuntime(chat, { messageRepository: repository });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <main data-status={chat.status}>
        <ThreadPrimitive.Root>
          <ThreadPrimitive.Messages components={components} />
          <ComposerPrimitive.Root>
            <ComposerPrimitive.Input data-new="" />
            <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
          </ComposerPrimitive.Root>
        </ThreadPrimitive.Root>
      </main>
    </AssistantRuntimeProvider>
  );
}

createRoot(root).render(kind === "use-chat" ? <UseChat /> : <AssistantUI />);
