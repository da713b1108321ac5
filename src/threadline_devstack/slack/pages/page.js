// The chat page: reads the state once, then follows the stream of Slack's own events.

import { element, emoji, markup, renderBlock } from "/pages/markup.js";

const HINTS = {
  "bug-reports": "Write a bug report here: what you did, what you expected, what happened",
  "bug-summaries": "Developers reply in a finding's thread",
  "bug-escalations": "Cases that need a human appear here",
  general: "Mention @threadline and ask something",
  "": "Write to the bot: it answers in a thread",
};
const QUICK = ["eyes", "white_check_mark", "thumbsup", "octagonal_sign"];
const COLOURS = ["#4a6fa5", "#2f855a", "#b7622c", "#7a4fa3", "#a33e5c", "#3a7d8c"];
const state = { users: new Map(), channels: new Map(), statuses: new Map(), views: new Map(), bot: "", me: "", here: "", thread: "", editing: false };
const byId = (id) => document.getElementById(id);
const names = {
  user: (id) => state.users.get(id)?.real_name ?? id,
  channel: (id) => state.channels.get(id)?.name ?? id,
};

async function act(path, body) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(`/control/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const answer = await response.json();
  if (!answer.ok) say(`That did not work: ${answer.error}`);
  return answer;
}

function say(text) {
  const note = element("div", { class: "toast", role: "alert" }, text);
  document.body.append(note);
  setTimeout(() => note.remove(), 5000);
}

// State

async function load() {
  const fresh = await (await fetch("/control/state")).json();
  state.bot = fresh.bot_user;
  state.users = new Map(fresh.users.map((user) => [user.id, user]));
  const unread = new Map([...state.channels].map(([id, channel]) => [id, channel.unread]));
  state.channels = new Map(fresh.channels.map((channel) => [channel.id, {
    ...channel, unread: unread.get(channel.id) ?? 0, messages: new Map(channel.messages.map((m) => [m.ts, m])),
  }]));
  state.views = new Map(fresh.views.map((view) => [view.id, view]));
  state.statuses = new Map();
  fresh.statuses.forEach(working);
  for (const each of fresh.ephemerals) state.channels.get(each.channel)?.messages.set(each.ts, each);
  state.me ||= people().some((user) => user.id === localStorage.person) ? localStorage.person : (people()[0]?.id ?? "");
  if (!state.channels.has(state.here)) state.here = state.channels.keys().next().value ?? "";
  state.drawn = false;
  draw();
}

const people = () => [...state.users.values()].filter((user) => !user.is_bot);
const isReply = (message) => message.thread_ts && message.thread_ts !== message.ts;

const placeOf = (channel, thread) => `${channel}/${thread}`;

// What the bot says it is doing: until it says something else, posts, or has been silent for as long as Slack waits.
function working(event) {
  const place = placeOf(event.channel, event.thread_ts);
  state.statuses.set(place, event);
  setTimeout(() => { if (state.statuses.get(place) === event) { state.statuses.delete(place); schedule(); } }, event.seconds * 1000);
}

function hear(event) {
  if (event.type === "view_opened") return showView({ ...event.view, user: event.user });
  if (event.type === "view_closed") return hideView(event.view.id);
  const channel = state.channels.get(event.channel ?? event.item?.channel);
  if (!channel) return load();
  if (event.type === "message" && event.subtype === "message_changed") channel.messages.set(event.message.ts, event.message);
  else if (event.type === "message" && event.subtype === "message_deleted") channel.messages.delete(event.deleted_ts);
  else if (event.type === "message") {
    channel.messages.set(event.ts, event);
    if (channel.id !== state.here && !event.is_ephemeral) channel.unread += 1;
  } else if (event.type === "status") working(event);
  else if (event.type.startsWith("reaction_")) reacted(channel.messages.get(event.item.ts), event);
  else return load();
  schedule();
}

function reacted(message, event) {
  if (!message) return;
  const others = (message.reactions ?? []).filter((each) => each.name !== event.reaction);
  const before = (message.reactions ?? []).find((each) => each.name === event.reaction)?.users ?? [];
  const users = before.filter((user) => user !== event.user);
  if (event.type === "reaction_added") users.push(event.user);
  message.reactions = users.length ? [...others, { name: event.reaction, users, count: users.length }] : others;
}

// Many events make one drawing, and none while a message is being edited: it would take the half-written text away.
let waiting = false;
function schedule() {
  if (waiting || state.editing) return;
  waiting = true;
  setTimeout(() => { waiting = false; if (!state.editing) draw(); }, 20);
}

// Drawing

function draw() {
  const channel = state.channels.get(state.here);
  if (!channel) return;
  channel.unread = 0;
  byId("person").replaceChildren(...people().map((user) =>
    element("option", { value: user.id, selected: user.id === state.me }, user.real_name)));
  const direct = [...state.channels.values()].find((each) => each.is_im && each.user === state.me);
  byId("channels").replaceChildren(...[...state.channels.values()].filter((each) => each.name).map((each) => entry(each, "#", each.name, () => go(each.id))),
    entry(direct, "@", names.user(state.bot), direct ? () => go(direct.id) : writeDirectly));
  byId("title").textContent = channel.name ? `# ${channel.name}` : `${names.user(channel.user)} and ${names.user(state.bot)}`;
  byId("topic").textContent = channel.is_archived ? "archived" : channel.topic?.value ?? "";
  byId("thread").hidden = !state.thread;
  if (!state.drawn) compose();
  const shown = visible(channel);
  fill(byId("messages"), shown.filter((m) => !isReply(m) || m.subtype === "thread_broadcast").map((m) => row(channel, m, true)),
    `Nothing here yet. ${HINTS[channel.name] ?? ""}`);
  drawThread(channel, shown);
  drawView();
  state.drawn = true;
}

function entry(channel, sign, label, onclick) {
  const here = channel?.id === state.here;
  return element("li", {}, element("button", { type: "button", class: here ? "current" : channel?.unread ? "unread" : "", onclick },
    element("span", { class: "hash" }, sign), label, channel?.unread && !here ? element("b", {}, String(channel.unread)) : null));
}

async function writeDirectly() {
  const answer = await act("channels/direct", { user: state.me });
  if (!answer.ok) return;
  await load();
  go(answer.channel.id);
}

function doing(channel, root) {
  const words = state.statuses.get(placeOf(channel.id, root))?.status;
  return words ? element("div", { class: "doing", role: "status" }, `${names.user(state.bot)} ${words}`) : null;
}

function drawThread(channel, shown) {
  if (!state.thread) return;
  const root = channel.messages.get(state.thread);
  byId("thread-place").textContent = channel.name ? `#${channel.name}` : "direct message";
  const replies = shown.filter((m) => m.thread_ts === state.thread && m.ts !== state.thread);
  const count = replies.length === 1 ? "1 reply" : `${replies.length} replies`;
  fill(byId("replies"), [root && row(channel, root, false), element("div", { class: "count" }, count),
    ...replies.map((m) => row(channel, m, false)), doing(channel, state.thread)].filter(Boolean), "");
}

const visible = (channel) => [...channel.messages.values()]
  .filter((message) => !message.is_ephemeral || message.ephemeral_to === state.me).sort((a, b) => (a.ts < b.ts ? -1 : 1));

function fill(box, rows, empty) {
  const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
  box.replaceChildren(...(rows.length ? rows : [element("p", { class: "empty" }, empty)]));
  if (atEnd || !state.drawn) box.scrollTop = box.scrollHeight;
}

function avatar(user) {
  const bot = user === state.bot;
  const colour = COLOURS[[...user].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % COLOURS.length];
  const picture = element("div", { class: bot ? "avatar bot" : "avatar", "aria-hidden": "true" }, bot ? "⌁" : names.user(user)[0].toUpperCase());
  if (!bot) picture.style.background = colour;
  return picture;
}

function row(channel, message, inChannel) {
  const small = /^channel_(join|leave)$/.test(message.subtype ?? "");
  if (small || message.subtype === "tombstone") {
    return element("div", { class: "row notice" }, small ? markup(message.text, names) : message.text, inChannel ? threadLink(channel, message) : null);
  }
  const when = new Date(Number(message.ts) * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return element("article", { class: message.is_ephemeral ? "row private" : "row" }, avatar(message.user),
    element("div", { class: "body" },
      element("div", { class: "by" }, element("b", {}, message.username ?? names.user(message.user)),
        message.bot_id ? element("span", { class: "tag" }, "APP") : null, element("time", {}, when),
        message.is_ephemeral ? element("span", { class: "faint" }, "only visible to you") : null,
        inChannel && isReply(message) ? element("span", { class: "faint" }, "replied to a thread") : null),
      ...content(channel, message), reactions(channel, message), inChannel ? threadLink(channel, message) : null,
      inChannel && !isReply(message) ? doing(channel, message.ts) : null),
    tools(channel, message, inChannel));
}

function content(channel, message) {
  const click = async (piece, node) => {
    node.disabled = true;
    const answer = await act("clicks", { user: state.me, channel: channel.id, ts: message.ts, action_id: piece.action_id });
    if (answer.ok && !answer.acknowledged) say("The app did not answer the click in time");
    node.disabled = false;
  };
  const own = !message.bot_id && message.blocks?.every((block) => block.type === "rich_text");
  const nodes = message.blocks?.length && !own ? message.blocks.map((block) => renderBlock(block, names, click)) : [markup(message.text, names)];
  for (const attachment of message.attachments ?? []) {
    if (attachment.blocks) nodes.push(...attachment.blocks.map((block) => renderBlock(block, names, click)));
    else nodes.push(element("blockquote", {}, markup(attachment.text ?? attachment.fallback ?? "", names)));
  }
  if (message.edited) nodes.push(element("span", { class: "faint" }, "(edited)"));
  const files = (message.files ?? []).map((file) => {
    if (file.mode === "tombstone") return element("span", { class: "faint" }, "This file was deleted.");
    const address = `/pages/files/${file.id}`;
    const image = /^image\/(png|jpeg|gif|webp)$/.test(file.mimetype);
    return element("a", { class: image ? "image" : "file", href: address, target: "_blank", rel: "noreferrer" },
      image ? element("img", { src: address, alt: file.name }) : `📄 ${file.name}`);
  });
  return [...nodes, ...files];
}

function reactions(channel, message) {
  if (!message.reactions?.length) return null;
  return element("div", { class: "reactions" }, ...message.reactions.map((each) => element("button", {
    type: "button", class: each.users.includes(state.me) ? "mine" : "", title: each.users.map(names.user).join(", "),
    onclick: () => toggle(channel, message, each.name),
  }, `${emoji(each.name)} ${each.users.length}`)));
}

function toggle(channel, message, name) {
  const mine = message.reactions?.find((each) => each.name === name)?.users.includes(state.me);
  return act(mine ? "reactions/remove" : "reactions", { channel: channel.id, ts: message.ts, user: state.me, name });
}

function threadLink(channel, message) {
  const root = isReply(message) ? message.thread_ts : message.ts;
  const replies = [...channel.messages.values()].filter((m) => m.thread_ts === root && m.ts !== root && !m.is_ephemeral);
  if (!replies.length) return null;
  const users = [...new Set(replies.map((reply) => reply.user))].slice(0, 3).map(avatar);
  const label = replies.length === 1 ? "1 reply" : `${replies.length} replies`;
  return element("button", { type: "button", class: "replies", onclick: () => open(root) }, ...users, label);
}

function tools(channel, message, inChannel) {
  if (message.is_ephemeral || message.subtype === "tombstone") return null;
  const one = (label, title, onclick) => element("button", { type: "button", title, "aria-label": title, onclick }, label);
  const target = { channel: channel.id, ts: message.ts, user: state.me };
  const mine = message.user === state.me;
  return element("div", { class: "tools" }, ...QUICK.map((name) => one(emoji(name), `React with ${name}`, () => toggle(channel, message, name))),
    inChannel ? one("💬", "Reply in a thread", () => open(isReply(message) ? message.thread_ts : message.ts)) : null,
    mine ? one("✏️", "Edit", (event) => edit(event.target.closest(".row"), target, message)) : null,
    mine ? one("🗑", "Delete", () => act("messages/delete", target)) : null);
}

function edit(node, target, message) {
  const box = node.querySelector(".body");
  const field = element("textarea", { rows: "3" });
  field.value = readable(message.text);
  const done = () => { state.editing = false; draw(); };
  const form = element("form", { class: "composer", onsubmit: async (event) => {
    event.preventDefault();
    await act("messages/edit", { ...target, text: stored(field.value.trim()) });
    done();
  } }, field, element("div", { class: "bar" }, element("button", { type: "button", class: "plain", onclick: done }, "Cancel"), element("button", { class: "send" }, "Save")));
  state.editing = true;
  box.replaceChildren(form);
  field.focus();
}

// Writing

function stored(text) {
  let escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const known = [...state.users.values()].flatMap((user) => [[user.name, user.id], [user.real_name, user.id]]);
  for (const [name, id] of known.sort((a, b) => b[0].length - a[0].length)) {
    escaped = escaped.replace(new RegExp(`(?<![\\w<])@${name.replace(/[^\w ]/g, "\\$&")}(?![\\w-])`, "gi"), `<@${id}>`);
  }
  return escaped.replace(/(?<!\S)(https?:\/\/[^\s|]+)/g, "<$1>");
}

function readable(text) {
  const shown = text.replace(/<@([A-Z0-9]+)(?:\|[^>]*)?>/g, (_, id) => `@${names.user(id)}`).replace(/<(https?:[^|>]+)(?:\|[^>]*)?>/g, "$1");
  return shown.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

// Modals: the newest of this person's is shown, and a drawing leaves it alone while somebody writes in it.

function showView(view) {
  state.views.set(view.id, view);
  drawView();
}

function hideView(id) {
  state.views.delete(id);
  drawView();
}

function drawView() {
  const view = [...state.views.values()].filter((each) => each.user === state.me).at(-1);
  const shown = document.querySelector("dialog");
  if (shown && shown.dataset.view === view?.id) return;
  shown?.remove();
  if (!view) return;
  const dialog = element("dialog", { class: "modal", "aria-label": view.title.text }, viewForm(view));
  dialog.dataset.view = view.id;
  dialog.addEventListener("cancel", (event) => { event.preventDefault(); act("views/close", { user: state.me, view: view.id }); });
  document.body.append(dialog);
  dialog.showModal();
}

function viewForm(view) {
  const fields = new Map();
  const rows = view.blocks.map((block) => {
    if (block.type !== "input") return renderBlock(block, names, () => {});
    const limit = block.element.max_length ? { maxlength: String(block.element.max_length) } : {};
    const field = element("textarea", { rows: block.element.multiline ? "5" : "1", required: !block.optional, ...limit });
    fields.set(block.element.action_id, field);
    const hint = block.hint ? element("span", { class: "faint" }, block.hint.text) : null;
    return element("label", {}, element("b", {}, block.label.text), field, hint);
  });
  const send = async (event) => {
    event.preventDefault();
    const values = Object.fromEntries([...fields].map(([name, field]) => [name, field.value]));
    const answer = await act("views/submit", { user: view.user, view: view.id, values });
    if (answer.ok && !answer.acknowledged) say("The app did not take the form in time; send it again");
  };
  const cancel = () => act("views/close", { user: view.user, view: view.id });
  return element("form", { onsubmit: send }, element("h1", {}, view.title.text), ...rows, element("div", { class: "bar" },
    element("button", { type: "button", class: "plain", onclick: cancel }, view.close?.text ?? "Cancel"),
    view.submit ? element("button", { class: "send" }, view.submit.text) : null));
}

function compose() {
  composer(byId("composer"), HINTS[state.channels.get(state.here)?.name ?? ""] ?? "Write a message", "");
  composer(byId("replier"), "Reply in the thread", "thread");
}

function composer(form, hint, kind) {
  const field = element("textarea", { rows: "2", placeholder: hint, "aria-label": hint });
  const picker = element("input", { type: "file", hidden: true, multiple: true });
  const chosen = element("span", { class: "faint" });
  picker.onchange = () => { chosen.textContent = [...picker.files].map((file) => file.name).join(", "); };
  const also = element("input", { type: "checkbox" });
  field.onkeydown = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
  };
  form.onsubmit = async (event) => {
    event.preventDefault();
    const text = stored(field.value.trim());
    if (!text && !picker.files.length) return;
    const files = await Promise.all([...picker.files].map(upload));
    const thread = kind ? { thread_ts: state.thread, broadcast: also.checked } : {};
    const answer = await act("messages", { channel: state.here, user: state.me, text, files, ...thread });
    if (!answer.ok) return;
    field.value = ""; picker.value = ""; chosen.textContent = ""; also.checked = false;
    const box = byId(kind ? "replies" : "messages");
    setTimeout(() => { box.scrollTop = box.scrollHeight; }, 60);
  };
  form.replaceChildren(field, element("div", { class: "bar" },
    element("button", { type: "button", class: "plain", title: "Attach files", "aria-label": "Attach files", onclick: () => picker.click() }, "📎"), picker, chosen,
    kind ? element("label", { class: "faint" }, also, " also to the channel") : element("span", { class: "faint" }, "Enter sends, Shift+Enter breaks the line"),
    element("button", { class: "send" }, "Send")));
}

async function upload(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let start = 0; start < bytes.length; start += 32768) binary += String.fromCharCode(...bytes.subarray(start, start + 32768));
  const answer = await act("files", { user: state.me, name: file.name, mimetype: file.type, content_base64: btoa(binary) });
  return answer.file.id;
}

// Moving about

function go(channel, thread = "") {
  state.here = channel;
  state.thread = thread;
  state.drawn = state.editing = false;
  history.replaceState(null, "", `#${channel}${thread ? `/${thread}` : ""}`);
  draw();
}

function open(thread) {
  go(state.here, thread);
  byId("replier").querySelector("textarea").focus();
}

byId("person").onchange = (event) => {
  state.me = localStorage.person = event.target.value;
  const direct = state.channels.get(state.here)?.is_im;  // nobody reads what others write to the bot
  if (direct) go([...state.channels.keys()][0]);
  else draw();
};
byId("close-thread").onclick = () => go(state.here);
[state.here, state.thread = ""] = location.hash.slice(1).split("/");
const source = new EventSource("/stream");
source.onopen = () => { byId("link").textContent = "live"; byId("link").className = "link live"; load(); };
source.onerror = () => { byId("link").textContent = "reconnecting…"; byId("link").className = "link"; };
source.onmessage = (message) => hear(JSON.parse(message.data));
