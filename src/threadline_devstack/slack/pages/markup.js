// Slack's mrkdwn and Markdown as DOM nodes. Text only ever becomes text nodes, so nothing that is written here runs.

const EMOJI = {
  eyes: "👀", white_check_mark: "✅", heavy_check_mark: "✔️", x: "❌", warning: "⚠️", hourglass: "⌛", tada: "🎉",
  hourglass_flowing_sand: "⏳", rotating_light: "🚨", bug: "🐛", mag: "🔍", thumbsup: "👍", "+1": "👍", "-1": "👎",
  wave: "👋", pray: "🙏", fire: "🔥", question: "❓", bulb: "💡", memo: "📝", bell: "🔔", robot_face: "🤖",
  large_green_circle: "🟢", large_yellow_circle: "🟡", red_circle: "🔴", heart: "❤️", rocket: "🚀", zap: "⚡",
  large_orange_circle: "🟠", large_blue_circle: "🔵", wrench: "🔧", no_entry: "⛔", octagonal_sign: "🛑", link: "🔗",
};
const INLINE = {
  mrkdwn: /`([^`\n]+)`|<([^<>\s][^<>]*)>|(?<![\w*])\*(\S(?:[^*\n]*\S)?)\*(?![\w*])|(?<!\w)_(\S(?:[^_\n]*\S)?)_(?!\w)|(?<![\w~])~(\S(?:[^~\n]*\S)?)~(?![\w~])|:([a-z0-9_+-]+):/g,
  markdown: /`([^`\n]+)`|<([^<>\s][^<>]*)>|\*\*(\S(?:.*?\S)?)\*\*|(?<![\w*])[_*](\S(?:[^_*\n]*\S)?)[_*](?![\w*])|~~(.+?)~~|:([a-z0-9_+-]+):|\[([^\]\n]+)\]\((https?:[^)\s]+)\)/g,
};
const STYLES = { 3: "strong", 4: "em", 5: "s" };

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (value !== false && value !== undefined) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const emoji = (name) => EMOJI[name] ?? `:${name}:`;
export const plain = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

export function anchor(url, ...label) {
  const safe = /^(https?:|mailto:)/i.test(url);
  return safe ? element("a", { href: url, target: "_blank", rel: "noreferrer noopener" }, ...label) : element("span", {}, ...label);
}

function token(inside, names) {
  const [target, label] = inside.split(/\|(.*)/s);
  if (target.startsWith("@")) return element("span", { class: "mention" }, `@${names.user(target.slice(1))}`);
  if (target.startsWith("#")) return element("span", { class: "mention" }, `#${names.channel(target.slice(1))}`);
  if (target.startsWith("!date")) return document.createTextNode(plain(label ?? ""));
  if (target.startsWith("!")) return element("span", { class: "mention" }, plain(label ?? `@${target.slice(1)}`));
  return anchor(plain(target), plain(label ?? target));
}

function inline(text, names, dialect) {
  const nodes = [];
  let position = 0;
  for (const match of text.matchAll(INLINE[dialect])) {
    nodes.push(plain(text.slice(position, match.index)));
    position = match.index + match[0].length;
    const style = [3, 4, 5].find((group) => match[group] !== undefined);
    if (match[1] !== undefined) nodes.push(element("code", {}, plain(match[1])));
    else if (match[2] !== undefined) nodes.push(token(match[2], names));
    else if (style) nodes.push(element(STYLES[style], {}, ...inline(match[style], names, dialect)));
    else if (match[6] !== undefined) nodes.push(emoji(match[6]));
    else nodes.push(anchor(match[8], plain(match[7])));
  }
  nodes.push(plain(text.slice(position)));
  return nodes;
}

function line(text, names, dialect) {
  const heading = dialect === "markdown" && /^(#{1,6})\s+(.*)$/.exec(text);
  if (heading) return element("div", { class: "heading" }, ...inline(heading[2], names, dialect));
  const quote = /^(?:>|&gt;)\s?(.*)$/.exec(text);
  if (quote) return element("blockquote", {}, ...inline(quote[1], names, dialect));
  const item = /^(\s*)(?:[-*•]|(\d+)[.)])\s+(.*)$/.exec(text);
  if (item) {
    const mark = item[2] ? `${item[2]}.` : "•";
    const depth = `depth${Math.min(3, Math.floor(item[1].length / 2))}`;
    return element("div", { class: `item ${depth}` }, element("span", {}, mark), element("div", {}, ...inline(item[3], names, dialect)));
  }
  if (/^\s*(?:-{3,}|\*{3,})\s*$/.test(text)) return element("hr");
  return element("div", { class: text.trim() ? "line" : "gap" }, ...inline(text, names, dialect));
}

// `dialect` is "mrkdwn" (Slack's own) or "markdown" (the `markdown` block).
export function markup(text, names, dialect = "mrkdwn") {
  const box = element("div", { class: "text" });
  text.split(/```(?:[a-z0-9]*\n)?([\s\S]*?)```/g).forEach((part, index) => {
    if (index % 2) box.append(element("pre", {}, plain(part.replace(/\n$/, ""))));
    else if (part.trim()) box.append(...part.replace(/^\n|\n$/g, "").split("\n").map((each) => line(each, names, dialect)));
  });
  return box;
}

function richText(block, names) {
  const box = element("div", { class: "text" });
  for (const part of block.elements ?? []) {
    const nodes = (part.elements ?? []).map((each) => {
      if (each.type === "user") return element("span", { class: "mention" }, `@${names.user(each.user_id)}`);
      if (each.type === "channel") return element("span", { class: "mention" }, `#${names.channel(each.channel_id)}`);
      if (each.type === "link") return anchor(each.url, each.text ?? each.url);
      if (each.type === "emoji") return emoji(each.name);
      if (each.type === "broadcast") return element("span", { class: "mention" }, `@${each.range}`);
      return each.style?.code ? element("code", {}, each.text ?? "") : (each.text ?? "");
    });
    box.append(element(part.type === "rich_text_preformatted" ? "pre" : "div", { class: "line" }, ...nodes));
  }
  return box;
}

function table(block) {
  const cell = (each, column) => {
    const node = element("td", { class: block.column_settings?.[column]?.align ?? "left" });
    const parts = each.type === "rich_text" ? (each.elements ?? []).flatMap((part) => part.elements ?? []) : [each];
    node.append(...parts.map((part) => {
      const inside = part.type === "link" ? anchor(part.url, part.text ?? part.url) : (part.text ?? "");
      return part.style?.bold ? element("strong", {}, inside) : inside;
    }));
    return node;
  };
  return element("table", { class: "block" }, ...block.rows.map((row) => element("tr", {}, ...row.map(cell))));
}

function textOf(object, names) {
  if (!object) return null;
  return object.type === "plain_text" ? element("div", { class: "text" }, object.text) : markup(object.text, names);
}

function button(piece, click) {
  const label = piece.text?.text ?? piece.action_id;
  if (piece.url) return element("span", { class: "button" }, anchor(piece.url, label));
  return element("button", { type: "button", class: `button ${piece.style ?? ""}`, onclick: (event) => click(piece, event.target) }, label);
}

// One block as a node; `click(element, node)` is called when a button of it is pressed.
export function renderBlock(block, names, click) {
  switch (block.type) {
    case "header": return element("div", { class: "block header" }, block.text.text);
    case "divider": return element("hr");
    case "markdown": return markup(block.text, names, "markdown");
    case "rich_text": return richText(block, names);
    case "table": return table(block);
    case "context":
      return element("div", { class: "block context" }, ...block.elements.map((each) => textOf(each.text ? each : null, names)));
    case "actions":
      return element("div", { class: "block actions" }, ...block.elements.map((each) => button(each, click)));
    case "section": {
      const fields = (block.fields ?? []).map((each) => textOf(each, names));
      const more = block.accessory?.type === "button" ? button(block.accessory, click) : null;
      return element("div", { class: "block section" }, element("div", { class: "body" }, textOf(block.text, names),
        fields.length ? element("div", { class: "fields" }, ...fields) : null), more);
    }
    default: return element("div", { class: "block context" }, `[${block.type}]`);
  }
}
